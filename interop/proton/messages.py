"""Every type and section goes out and comes back the same."""
import proton
from proton import (UNDESCRIBED, Array, Data, Delivery, Described, Handler, Message, int32, symbol,
                    ulong)

from shared import equal, same, simple

SIMPLE = simple(proton)


def through(scene, message, suffix=""):
    queue = scene.queue(suffix)
    scene.publish(queue, message)
    receiver = scene.receiver(queue)
    received = receiver.receive()
    receiver.accept()
    return received


def sections(scene):
    sent = Message(
        id="id-1", user_id=scene.setting["user"].encode(), address="/somewhere", subject="subject",
        reply_to="/answers", correlation_id=ulong(7), content_type=symbol("text/plain"),
        content_encoding=symbol("gzip"), expiry_time=4102444800, creation_time=1700000000,
        group_id="group", group_sequence=3, reply_to_group_id="answers", durable=True, priority=7,
        ttl=600, body="body")
    sent.annotations = {symbol("x-opt-text"): "note", symbol("x-opt-list"): [1, "two"]}
    sent.properties = {"n": 7, "s": "text"}
    received = through(scene, sent)
    for name in ("id", "user_id", "address", "subject", "reply_to", "correlation_id", "content_type",
                 "content_encoding", "expiry_time", "creation_time", "group_id", "group_sequence",
                 "reply_to_group_id", "durable", "priority", "ttl", "properties", "body"):
        equal(getattr(received, name), getattr(sent, name), name)
    for key, value in sent.annotations.items():
        equal(received.annotations[key], value, key)


def types(scene):
    compound = {"map": {"a": 1, symbol("b"): [None, True]}, "list": [1, "two", [3]],
                "array": Array(UNDESCRIBED, Data.INT, int32(1), int32(2)),
                "described": Described(symbol("app:thing"), "value")}
    sent = Message(body={**SIMPLE, **compound, "null": None}, properties=dict(SIMPLE))
    received = through(scene, sent)
    for name, value in SIMPLE.items():
        same(received.body[name], value, name)
        same(received.properties[name], value, name)
    for name, value in compound.items():
        equal(received.body[name], value, name)
    equal(received.body["null"], None, "null")
    equal(list(received.body), list(sent.body), "order of the keys")


def bodies(scene):
    """Proton writes and reads one body section; more of them are written as it would send them."""
    for at, body in enumerate((b"", b"data", "text", [1, 2], {"k": "v"})):
        received = through(scene, Message(body=body), "-%d" % at)
        equal(received.body, body, "body %r" % body)
    for at, section in enumerate((b"\x00\x53\x75\xa0\x01a", b"\x00\x53\x76\xc0\x03\x01\x54\x07")):
        queue = scene.queue("-raw-%d" % at)
        raw = b"\x00\x53\x73\x45" + section * 3
        link = scene.sender(queue).link
        scene.connection.wait(lambda: link.credit > 0)
        delivery = link.delivery("raw")
        link.stream(raw)
        link.advance()
        scene.connection.wait(lambda: delivery.settled)
        delivered = received_bytes(scene, queue)
        equal(delivered[-len(section) * 3:], section * 3, "body sections")


def received_bytes(scene, queue):
    """the bytes of the next message, undecoded"""
    receiver = scene.receiver(queue, credit=0)
    link, found = receiver.link, []
    link.handler = Raw(found)
    link.flow(1)
    scene.connection.wait(lambda: found)
    return found[0]


class Raw(Handler):
    def __init__(self, found):
        self.found = found

    def on_delivery(self, event):
        delivery = event.delivery
        if delivery.readable and not delivery.partial:
            self.found.append(event.link.recv(delivery.pending))
            event.link.advance()
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()


def large(scene):
    body = bytes(bytearray(range(256))) * 40960
    equal(bytes(through(scene, Message(body=body)).body), body, "body")


SCENARIOS = {"sections": sections, "types": types, "bodies": bodies, "large": large}
