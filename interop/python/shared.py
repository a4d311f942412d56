"""What the clients in Python share: running scenarios, comparing, the history of a dead letter."""
import json
import sys
import time
import uuid

TIMEOUT_S = 10


class Skip(Exception):
    """this client cannot do that; the text says what is missing"""


def until(what, holds, limit_s=TIMEOUT_S):
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(what)
        time.sleep(0.02)


def equal(observed, expected, what):
    if observed != expected:
        raise AssertionError("%s: %r instead of %r" % (what, observed, expected))


def typed(observed, kind, expected, what):
    equal((type(observed).__name__, observed), (kind.__name__, expected), what)


def simple(proton):
    """a value of every simple type; `proton` is the module with the client's types"""
    return {
        "boolean": True, "ubyte": proton.ubyte(255), "ushort": proton.ushort(65535),
        "uint": proton.uint(4294967295), "ulong": proton.ulong(18446744073709551615),
        "byte": proton.byte(-128), "short": proton.short(-32768), "int": proton.int32(-2147483648),
        "long": -9223372036854775808, "float": proton.float32(1.5), "double": 2.5,
        "decimal32": proton.decimal32(7), "decimal64": proton.decimal64(8),
        "decimal128": proton.decimal128(bytes(range(16))), "char": proton.char("\u20ac"),
        "timestamp": proton.timestamp(1700000000123), "uuid": uuid.UUID(int=77),
        "binary": b"\x00\xff", "string": "gr\u00fc\u00dfe", "symbol": proton.symbol("sym"),
    }


def same(observed, sent, what):
    """it came back with its type; Proton gives a view of what it was given as bytes"""
    typed(bytes(observed) if type(sent) is bytes else observed, type(sent), sent, what)


def check_entry(proton, entry, queue, reason, count=1, exchange="", keys=None, ttl_ms=None):
    """one map of x-opt-deaths, field by field; `proton` is the module with the client's types"""
    names = ["queue", "reason", "count", "first-time", "last-time", "exchange", "routing-keys"]
    names = (["ttl"] if ttl_ms is not None else []) + names
    equal([str(key) for key in entry], names, "keys of the entry")
    for key in entry:
        equal(type(key), proton.symbol, "type of the key " + key)
    typed(entry["queue"], str, queue, "queue")
    typed(entry["reason"], proton.symbol, reason, "reason")
    typed(entry["count"], proton.ulong, count, "count")
    typed(entry["exchange"], str, exchange, "exchange")
    if ttl_ms is not None:
        typed(entry["ttl"], proton.uint, ttl_ms, "ttl")
    for name in ("first-time", "last-time"):
        equal(type(entry[name]), proton.timestamp, name)
        age_ms = time.time() * 1000 - entry[name]
        equal(-5000 < age_ms < 60000, True, name + " is now")
    equal(entry["first-time"] <= entry["last-time"], True, "times in order")
    found = entry["routing-keys"]
    equal((found.type, list(found.elements)), (proton.Data.STRING, keys or [queue]), "routing-keys")


def check_deaths(proton, message, *entries, first=None):
    """the whole history: entries newest first; `first` is (queue, reason) of the first death"""
    annotations = message.annotations
    deaths = annotations["x-opt-deaths"]
    equal((type(deaths), deaths.type), (proton.Array, proton.Data.MAP), "deaths")
    equal(len(deaths.elements), len(entries), "entries")
    for entry, expected in zip(deaths.elements, entries):
        check_entry(proton, entry, **expected)
    last = entries[0]
    queue, reason = first or (last["queue"], last["reason"])
    for when, queue, reason in (("first", queue, reason), ("last", last["queue"], last["reason"])):
        for what, value in (("queue", queue), ("reason", reason), ("exchange", "")):
            name = "x-%s-death-%s" % (when, what)
            typed(annotations[name], str, value, name)


def check_by(proton, by, expected):
    """who caused a death: keys and `how` are symbols; of the address nobody knows the port before"""
    for key, value in by.items():
        equal(type(key), proton.symbol, "type of the key " + key)
        equal(type(value), proton.symbol if key == "how" else str, "type of " + key)
    found = {str(key): value for key, value in by.items()}
    address = found.pop("address")
    equal(address.rsplit(":", 1)[0], "127.0.0.1", "host of the consumer")
    equal({**found, "link": expected.get("link", found["link"])}, {"link": found["link"], **expected}, "by")


def restart(scene):
    """has the broker killed and started again, and connects anew"""
    print("restart", flush=True)
    equal(sys.stdin.readline().strip(), "restarted", "the answer to restart")
    scene.again()


def run(scenarios, open_scene, errors=Exception):
    """calls each scenario that was asked for (a text: why it is skipped); the process's status"""
    with open(sys.argv[1]) as text:
        setting = json.load(text)
    failed = False
    for name in sys.argv[2:] or scenarios:
        scene = None
        try:
            scenario = scenarios.get(name, "not written for this client")
            if isinstance(scenario, str):
                raise Skip(scenario)
            scene = open_scene(setting, name)
            scenario(scene)
            print("ok", name, flush=True)
        except Skip as e:
            print("skip", name, e, flush=True)
        except errors as e:      # the table shows what failed
            failed = True
            print("fail %s %s: %s" % (name, type(e).__name__, str(e).replace("\n", " ")), flush=True)
        finally:
            if scene is not None:
                try:
                    scene.close()
                except errors as e:
                    print("%s: closing: %s" % (name, e), file=sys.stderr)
    return 1 if failed else 0
