"""What a message carries: header, annotations, properties, bodies, footers; all through a death."""

from dsl import (array, binary, bind, boolean, capture, data, dead, described, exchange, pairs,
                 poisoned, publish, queue, receive, scenario, sequence, settle, source, string,
                 symbol, t, uint, value, wait_count)

KINDS = ("classic", "quorum")
# Both kinds were compared when these were written; one is kept where they agree.
CLASSIC, QUORUM = KINDS[:1], KINDS[1:]

PRIMITIVES = {
    "null": t("null"), "true": boolean(True), "false": boolean(False), "ubyte": t("ubyte", 255),
    "ushort": t("ushort", 65535), "uint0": uint(0), "uint": uint(4294967295),
    "ulong0": t("ulong", 0), "ulong": t("ulong", 18446744073709551615), "byte": t("byte", -128),
    "short": t("short", -32768), "int": t("int", -2147483648), "int-small": t("int", -1),
    "long": t("long", -9223372036854775808), "long-small": t("long", 127),
    "float": t("float", 0.5), "double": t("double", -2.25), "char": t("char", 128128),
    "timestamp": t("timestamp", -1000), "uuid": t("uuid", "00112233-4455-6677-8899-aabbccddeeff"),
    "binary": t("binary", "00ff10"), "string": string("ü\U0001f480"), "symbol": symbol("sym"),
    "empty-string": string(""), "empty-binary": t("binary", ""), "empty-list": t("list", []),
    "empty-map": t("map", []), "list": t("list", [uint(1), t("list", [string("in")])]),
    "map": t("map", [[string("k"), t("list", [boolean(True)])], [uint(1), symbol("s")]]),
    "array-uint": array("uint", [uint(1), uint(300)]),
    "array-symbol": array("symbol", [symbol("a"), symbol("b")]),
    "array-list": array("list", [t("list", [uint(1)]), t("list", [string("x"), uint(2)])]),
    "decimal64": t("decimal64", "0011223344556677"),
    "decimal128": t("decimal128", "00112233445566778899aabbccddeeff"),
    "described": described(symbol("app:type"), t("list", [uint(1)])),
    "described-ulong": described(t("ulong", 1 << 40), string("v")),
}
# RabbitMQ closes the connection of every reader for these as annotations.
POISON = ("null", "decimal64", "decimal128", "described", "described-ulong")


def add():
    bodies()
    properties()
    annotations()
    headers()


def through_death(area, name, description, messages, kind=None, record=False):
    """Every message is published, rejected in one range, and read from the dead letter queue."""
    publishes = [publish(body=m.pop("body", f"m{i}"), **m) for i, m in enumerate(messages)]
    n = len(publishes)
    scenario(area, name, description, source(kind),
             publishes + [receive(count=n, outcome=settle("rejected", span=True), record=record)],
             [capture("dlq", n)])


def bodies():
    through_death(
        "body", "more-body-kinds-quorum", "data, sequences and values, several sections",
        [{"body": [data("a"), data(""), data("c")]}, {"body": [data("")]},
         {"body": [sequence(uint(1), string("x"))]}, {"body": [sequence()]},
         {"body": [sequence(uint(1)), sequence(t("list", [symbol("s")]), t("null"))]},
         {"body": [value(t("list", []))]}, {"body": [value(t("map", []))]},
         {"body": [value(t("null"))]}], "quorum")
    through_death(
        "body", "more-body-values-classic", "amqp-value of every primitive and composite type",
        [{"body": [value(typed)]} for name, typed in PRIMITIVES.items()
         if name not in ("null", "true", "false", "ubyte", "ushort", "byte", "short", "float",
                         "double", "uuid", "binary", "symbol", "list", "char", "uint0")], "classic")
    for size in (255, 256, 65535, 65536, 131072, 400000):
        scenario(
            "body", f"more-body-of-{size}-bytes", "a body about the size of a frame",
            source(), [publish(body=[{"section": "data", "value": {
                "t": "binary", "repeat": "61", "times": size}}]), receive()],
            [capture("dlq", 1)])
    scenario(
        "body", "more-body-several-megabytes", "a body of 3 MB, expired",
        source(), [publish(body=[{"section": "data", "value": {
            "t": "binary", "repeat": "6162", "times": 1500000}}], ttl=100), wait_count("dlq", 1)],
        [capture("dlq", 1, timeout_ms=8000)])
    through_death(
        "body", "more-footers", "footers of several types, after data, sequence and value",
        [{"footer": pairs({"x-foot": "f"})}, {"footer": [], "body": [value(uint(1))]},
         {"footer": pairs({"x-opt-crc": t("ulong", 5), "x-opt-list": t("list", [uint(1)])}),
          "body": [sequence(uint(1))]}])


def properties():
    full = {
        "message-id": string("id"), "user-id": binary("guest"), "to": string("/queues/else"),
        "subject": string("s"), "reply-to": string("/queues/back"),
        "correlation-id": string("c"), "content-type": symbol("text/plain"),
        "content-encoding": symbol("gzip"), "absolute-expiry-time": t("timestamp", 4102444800000),
        "creation-time": t("timestamp", 1600000000000), "group-id": string("g"),
        "group-sequence": uint(7), "reply-to-group-id": string("rg"),
    }
    for kind in CLASSIC:
        through_death(
            "body", f"more-properties-{kind}", "all properties; ids of each type",
            [{"properties": full}]
            + [{"properties": {"message-id": typed, "correlation-id": typed}} for typed in (
                t("ulong", 0), t("ulong", 1 << 63), PRIMITIVES["uuid"],
                t("binary", "00ff"), string(""), string("i" * 300))]
            + [{"properties": {}}, {"properties": {"group-sequence": uint(0)}}], kind, True)
        through_death(
            "body", f"more-application-properties-{kind}",
            "application properties of every primitive type",
            [{"application": {k: typed for k, typed in PRIMITIVES.items()
                              if typed["t"] not in ("list", "map", "array", "described")}},
             {"application": {}}, {"application": {"": "empty key", "x-death": "mine",
                                                   "ü": "utf-8"}}], kind)


def annotations():
    plain = {f"x-opt-{k}": typed for k, typed in PRIMITIVES.items() if k not in POISON}
    for kind in KINDS:
        through_death(
            "annotations", f"more-annotation-values-{kind}",
            "annotations of every type that RabbitMQ can deliver", [{"annotations": plain}], kind,
            True)
        scenario(
            "annotations", f"more-annotation-values-expired-{kind}",
            "annotations of many types through an expiry and a rejection",
            [queue("end"), exchange("dlx"), queue("dlq", dead("", "end"), kind),
             bind("dlx", "dlq"), queue("src", dead(message_ttl=80), kind)],
            [publish(annotations=plain), wait_count("dlq", 1), receive("dlq", poisoned())],
            [capture("end", 1)])
    for name in POISON:
        scenario(
            "annotations", f"more-annotation-{name}",
            "an annotation of a type that RabbitMQ cannot deliver",
            source(), [publish(annotations={"x-opt-p": PRIMITIVES[name]})], [capture("src", 1)])
    scenario(
        "annotations", "more-annotation-nested-deep",
        "lists and maps ten deep",
        source(),
        [publish(annotations={"x-opt-deep": nested(10)}), receive(record=True)],
        [capture("dlq", 1)])
    scenario(
        "annotations", "more-annotation-many",
        "sixty annotations", source(),
        [publish(annotations={f"x-opt-{i:03}": f"v{i}" for i in range(60)}), receive()],
        [capture("dlq", 1)])
    scenario(
        "annotations", "more-annotation-key-kinds",
        "keys: x- only, upper case, long, string key, int key",
        source(),
        [publish(body="m1", annotations=[[symbol("x-"), string("a")]]),
         publish(body="m2", annotations=[[symbol("X-Upper"), string("a")]]),
         publish(body="m3", annotations=[[symbol("x-" + "l" * 200), string("a")]]),
         publish(body="m4", annotations=[[string("x-string"), string("a")]]),
         publish(body="m5", annotations=[[uint(5), string("a")]])],
        [capture("src", 2)])
    scenario(
        "annotations", "more-annotation-duplicate-key",
        "the same key twice", source(),
        [publish(annotations=[[symbol("x-opt-a"), string("1")], [symbol("x-opt-a"), string("2")]]),
         receive(record=True)],
        [capture("dlq", 1)])


def nested(depth):
    typed = uint(1)
    for level in range(depth):
        typed = t("list", [typed]) if level % 2 else t("map", [[string("k"), typed]])
    return typed


def headers():
    for kind in QUORUM:
        through_death(
            "header", f"more-headers-{kind}", "combinations of durable, priority and ttl",
            [{"durable": durable, **priority, **ttl}
             for durable in (True, False)
             for priority, ttl in (({}, {"ttl": 60000}), ({"priority": 0}, {}),
                                   ({"priority": 255}, {}))], kind, True)
        through_death(
            "header", f"more-header-first-acquirer-{kind}",
            "first-acquirer and delivery-count sent by the publisher",
            [{"header": {"first-acquirer": boolean(v), "delivery-count": uint(n)}}
             for v in (True, False) for n in (0, 1, 4294967295)], kind, True)
    scenario(
        "header", "more-delivery-annotations-several",
        "delivery annotations and message annotations together",
        source(),
        [publish(delivery_annotations={"x-opt-d": "1"}, annotations={"x-opt-m": "2"}),
         receive(record=True)],
        [capture("dlq", 1)])
