"""Compares what a broker sent with a recording, with the placeholders and the differences we list."""
import json
from types import MappingProxyType

PLACEHOLDERS = ("$TEXT", "$NODE", "$CLUSTER-NAME", "$TIME")


def differences(recorded, observed, path="", free=MappingProxyType({})):
    """one line for each difference; placeholders match anything of their type

    free: for a path such as "flow.link-credit" the recorded values for which any value is as good
    """
    if type(recorded) is not type(observed):
        return ["%s: recorded %s, observed %s" % (path, short(recorded), short(observed))]
    if isinstance(recorded, dict):
        return _objects(recorded, observed, path, free)
    if isinstance(recorded, list):
        if len(recorded) != len(observed):
            return ["%s: recorded %s, observed %s" % (path, short(recorded), short(observed))]
        return [line for n, (a, b) in enumerate(zip(recorded, observed))
                for line in differences(a, b, "%s[%d]" % (path, n), free)]
    return [] if recorded == observed else \
        ["%s: recorded %s, observed %s" % (path, short(recorded), short(observed))]


def _objects(recorded, observed, path, free):
    if "t" in recorded and "t" in observed:
        own = recorded.get("v") in free.get(path, ()) or recorded.get("v") in PLACEHOLDERS
        if recorded["t"] == observed["t"] and own:
            return []
    here = recorded.get("p", path) if "p" in recorded and path == "" else path
    out = []
    for key in sorted(set(recorded) | set(observed)):
        below = "%s.%s" % (here, key) if here else key
        if key not in recorded:
            # a text for people is always welcome
            if not (key == "description" and path.endswith("error")):
                out.append("%s: only observed: %s" % (below, short(observed[key])))
        elif key not in observed:
            out.append("%s: only recorded: %s" % (below, short(recorded[key])))
        elif key != "p" or recorded["p"] != observed["p"]:
            out += differences(recorded[key], observed[key], below, free)
    return out


def short(x):
    text = json.dumps(x, sort_keys=True)
    return text if len(text) < 400 else text[:400] + "..."
