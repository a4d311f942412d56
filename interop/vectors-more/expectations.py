#!/usr/bin/env python3
"""Writes what Coroner is expected to do where it differs from the recordings here on purpose.

    expectations.py FOLDER    writes FOLDER/NAME.json, for `runner.py run --ours FOLDER`

`ours.json` holds, by scenario, the rows of the table of differences and the changes against the
recording: a path and what stands there instead, or only a path when nothing does. In a path,
annotations are named like fields.
"""
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAIRS = "message-annotations"  # a list of [key, value], sorted by key


def step(holder, key, name):
    """What stands under `key`; `name` is the key that leads to `holder`."""
    if name == PAIRS:
        return next(pair[1] for pair in holder if pair[0]["v"] == key)
    return holder[key]


def put(holder, key, name, value):
    if name == PAIRS:
        holder[:] = [pair for pair in holder if pair[0]["v"] != key]
        if value:
            holder.append([{"t": "symbol", "v": key}, *value])
            holder.sort(key=lambda pair: str(pair[0]["v"]))
    elif not value:
        del holder[key]
    elif isinstance(holder, list) and key == len(holder):
        holder.append(value[0])
    else:
        holder[key] = value[0]


def changed(recording, changes):
    recording = json.loads(json.dumps(recording))
    for path, *value in changes:
        holder, name = recording, None
        for key in path[:-1]:
            holder, name = step(holder, key, name), key
        put(holder, path[-1], name, value)
    return recording


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, ours in json.loads((HERE / "ours.json").read_text()).items():
        recording = json.loads((HERE / (name + ".json")).read_text())["recording"]
        recording.pop("broker", None)
        expectation = {"name": name, "rows": ours["rows"],
                       "recording": changed(recording, ours["changes"])}
        (folder / (name + ".json")).write_text(json.dumps(expectation))


if __name__ == "__main__":
    main()
