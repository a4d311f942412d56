#!/usr/bin/env python3
"""Writes the scenarios of this folder; recordings that exist are kept.

    generate.py            writes every scenario, one line of JSON per file
    generate.py --compact  only rewrites recordings on one line, without what is never compared

Record with `../vectors/runner/runner.py record --port PORT .` against RabbitMQ 4.0.5.
"""
import json
import sys
from pathlib import Path

import areas_queue
import areas_routing
import areas_message
from dsl import SCENARIOS

HERE = Path(__file__).parent


def without_volatile(item):
    if isinstance(item, dict):
        return {k: without_volatile(v) for k, v in item.items() if k != "volatile"}
    if isinstance(item, list):
        return [without_volatile(v) for v in item]
    return item


def write(path, document):
    text = json.dumps(without_volatile(document), ensure_ascii=False, separators=(",", ":"))
    path.write_text(text + "\n")


def main():
    for area in (areas_queue, areas_routing, areas_message):
        area.add()
    names = [scenario["name"] for scenario in SCENARIOS]
    assert len(names) == len(set(names)), "two scenarios of one name"
    if "--compact" not in sys.argv:
        for scenario in SCENARIOS:
            path = HERE / (scenario["name"] + ".json")
            old = json.loads(path.read_text()) if path.exists() else {}
            document = {"scenario": scenario}
            if old.get("scenario") == scenario and "recording" in old:
                document["recording"] = old["recording"]
            write(path, document)
    for path in HERE.glob("more-*.json"):
        if path.stem not in names:
            path.unlink()
        else:
            write(path, json.loads(path.read_text()))


if __name__ == "__main__":
    main()
