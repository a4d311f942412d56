"""Types and sections go out and come back the same. This client publishes bytes, in one data section."""
from rabbitmq_amqp_python_client import Message, symbol
from rabbitmq_amqp_python_client.qpid import proton

from shared import equal, same, simple

SIMPLE = simple(proton)


def through(scene, message, suffix=""):
    queue = scene.queue(suffix)
    scene.publish(queue, message)
    return scene.take(queue)[0]


def sections(scene):
    sent = Message(
        id="id-1", user_id=scene.setting["user"].encode(), subject="subject", reply_to="/answers",
        correlation_id=proton.ulong(7), content_type=symbol("text/plain"), content_encoding=symbol("gzip"),
        expiry_time=4102444800, creation_time=1700000000, group_id="group", group_sequence=3,
        reply_to_group_id="answers", durable=True, priority=7, ttl=600, body=b"body", inferred=True)
    sent.annotations = {symbol("x-opt-text"): "note", symbol("x-opt-list"): [1, "two"]}
    sent.application_properties = {"n": 7, "s": "text"}
    received = through(scene, sent)
    for name in ("id", "user_id", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
                 "expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
                 "durable", "priority", "ttl", "application_properties", "body"):
        equal(getattr(received, name), getattr(sent, name), name)
    for key, value in sent.annotations.items():
        equal(received.annotations[key], value, key)


def types(scene):
    """in application properties and annotations, as the body is bytes"""
    compound = {"list": [1, "two", [3]], "map": {"a": 1, symbol("b"): [None, True]}}
    sent = Message(body=b"", inferred=True, application_properties=dict(SIMPLE))
    sent.annotations = {symbol("x-opt-" + name): value for name, value in {**SIMPLE, **compound}.items()}
    received = through(scene, sent)
    for name, value in SIMPLE.items():
        same(received.application_properties[name], value, name)
        same(received.annotations[symbol("x-opt-" + name)], value, name)
    for name, value in compound.items():
        equal(received.annotations[symbol("x-opt-" + name)], value, name)


def bodies(scene):
    for at, body in enumerate((b"", b"data")):
        equal(bytes(through(scene, Message(body=body, inferred=True), "-%d" % at).body), body, "body")


def large(scene):
    body = bytes(bytearray(range(256))) * 40960
    equal(bytes(through(scene, Message(body=body, inferred=True)).body) == body, True, "body")


SCENARIOS = {"sections": sections, "types": types, "bodies": bodies, "large": large}
