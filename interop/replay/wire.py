"""A raw AMQP 1.0 peer: sends any frame, legal or not, and shows every frame that comes back.

Frames have the form of the recordings: {"p": "attach", field: typed value, ...}.  The codec is the
one of the scenario runner beside the vectors.
"""
import os
import select
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.environ.get("CORONER_VECTORS") or os.path.join(HERE, "..", "vectors")
sys.path.insert(0, os.path.join(VECTORS, "runner"))
from amqp10 import (T, _fields_to_list, PERF_BY_NAME, PERF_CODE, amap, binary, boolean, dec,  # noqa: E402
                    described, enc, encode_message, explain, st, sym, uint)

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SHOWN_PAYLOAD_MAX = 100_000


def compose(x):
    """the reverse of explain: {"p": name, ...} at any depth becomes the described composite"""
    if isinstance(x, dict) and "p" in x:
        fields = {k: compose(v) for k, v in x.items() if k != "p"}
        return described(PERF_CODE[x["p"]], _fields_to_list(PERF_BY_NAME[x["p"]], fields))
    if x["t"] in ("list", "array"):
        return dict(x, v=[compose(i) for i in x["v"]])
    if x["t"] == "map":
        return T("map", [[compose(k), compose(v)] for k, v in x["v"]])
    if x["t"] == "described":
        return dict(x, v=compose(x["v"]))
    return x


def frame(name, /, **fields):
    return dict({"p": name}, **{k.replace("_", "-"): v for k, v in fields.items() if v is not None})


def message(text="hello", header=True, to=None):
    """a small message of 17 bytes, or one that says where it goes"""
    m = {"body": [{"section": "data", "value": binary(text.encode())}]}
    if header:
        m["header"] = {"durable": boolean(True)}
    if to is not None:
        m["properties"] = {"to": st(to)}
    return encode_message(m)[0]


class Closed(Exception):
    """the other side ended the TCP connection"""


class Peer:
    def __init__(self, host, port):
        self.sock = socket.create_connection((host, port), timeout=10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.peer_max_frame_size = 512
        self.incoming_id = None
        self.last_flow = None

    # ------------------------------------------------------------ bytes
    def close(self):
        self.sock.close()

    def send_bytes(self, data):
        try:
            self.sock.sendall(data)
        except OSError as e:
            raise Closed from e

    def send(self, performative, payload=b"", channel=0, frame_type=0):
        body = enc(compose(performative)) + payload
        self.send_bytes(struct.pack(">IBBH", len(body) + 8, 2, frame_type, channel) + body)

    def _fill(self, deadline):
        """reads once; False when the deadline passed"""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if not select.select([self.sock], [], [], left)[0]:
            return False
        try:
            data = self.sock.recv(262144)
        except OSError as e:
            raise Closed from e
        if not data:
            raise Closed
        self.buffer += data
        return True

    def header(self, timeout=10):
        """the eight bytes of a protocol header"""
        deadline = time.monotonic() + timeout
        while len(self.buffer) < 8:
            if not self._fill(deadline):
                return None
        data = bytes(self.buffer[:8])
        del self.buffer[:8]
        return data

    def receive(self, timeout):
        """the next frame as {"ch", "frame", "payload"}; None after the time, Closed at the end"""
        deadline = time.monotonic() + timeout
        while True:
            if len(self.buffer) >= 4:
                size = struct.unpack_from(">I", self.buffer)[0]
                if len(self.buffer) >= size:
                    raw = bytes(self.buffer[:size])
                    del self.buffer[:size]
                    body = raw[raw[4] * 4:]
                    if not body:
                        continue            # heartbeat
                    performative, end = dec(body)
                    return self._note({"ch": struct.unpack(">H", raw[6:8])[0],
                                       "frame": explain(performative), "payload": body[end:]})
            if not self._fill(deadline):
                return None

    def _note(self, received):
        f = received["frame"]
        if f["p"] == "open":
            self.peer_max_frame_size = f.get("max-frame-size", uint(4294967295))["v"]
        elif f["p"] == "begin":
            self.incoming_id = f["next-outgoing-id"]["v"]
        elif f["p"] == "flow":
            self.last_flow = f
        return received

    def expect(self, name, timeout=10):
        """the next frame that is this performative; others before it are passed over"""
        deadline = time.monotonic() + timeout
        while True:
            r = self.receive(deadline - time.monotonic())
            if r is None:
                raise AssertionError("no %s within %d s" % (name, timeout))
            if r["frame"]["p"] == name:
                return r["frame"]
            if r["frame"]["p"] in ("detach", "end", "close"):
                raise AssertionError("%s instead of %s" % (r["frame"], name))

    # ------------------------------------------------------------ steps of a connection
    def authenticate(self, user="guest", password="guest"):
        self.send_bytes(SASL_HEADER)
        self.header()
        self.receive(10)
        answer = b"\0" + user.encode() + b"\0" + password.encode()
        self.send(frame("sasl-init", mechanism=sym("PLAIN"), initial_response=binary(answer)),
                  frame_type=1)
        outcome = self.receive(10)
        if outcome is None or outcome["frame"]["code"]["v"] != 0:
            raise AssertionError("not authenticated: %s" % outcome)
        self.send_bytes(AMQP_HEADER)
        self.header()

    def open(self, vhost, user="guest", password="guest"):
        self.authenticate(user, password)
        self.send(frame("open", container_id=st("oracle"), hostname=st("vhost:" + vhost),
                        max_frame_size=uint(65536), channel_max=T("ushort", 100)))
        return self.expect("open")

    def begin(self, vhost, user="guest", password="guest"):
        self.open(vhost, user, password)
        self.send(frame("begin", next_outgoing_id=uint(0), incoming_window=uint(2 ** 31 - 1),
                        outgoing_window=uint(2 ** 31 - 1), handle_max=uint(255)))
        return self.expect("begin")

    def sender(self, address, handle=0, name="l", **fields):
        target = frame("target", address=st(address) if address is not None else None)
        self.send(frame("attach", name=st(name), handle=uint(handle), role=boolean(False),
                        source=frame("source"), target=target, initial_delivery_count=uint(0),
                        **fields))
        self.expect("attach")
        return self.expect("flow")

    def receiver(self, address, handle=0, name="r", **fields):
        self.send(frame("attach", name=st(name), handle=uint(handle), role=boolean(True),
                        source=frame("source", address=st(address)), target=frame("target"),
                        **fields))
        return self.expect("attach")

    def transfer(self, payload, handle=0, delivery_id=0, settled=False):
        """one message in as many frames as the peer's max-frame-size asks for"""
        room = min(self.peer_max_frame_size, 65536) - 64
        first = True
        for start in range(0, max(len(payload), 1), room):
            more = start + room < len(payload)
            fields = dict(delivery_id=uint(delivery_id), delivery_tag=binary(struct.pack(">I", delivery_id)),
                          message_format=uint(0), settled=boolean(settled)) if first else {}
            self.send(frame("transfer", handle=uint(handle), more=boolean(True) if more else None,
                            **fields), payload[start:start + room])
            first = False

    def publish(self, count, handle=0):
        """sends messages one by one and waits for each outcome"""
        for delivery_id in range(count):
            self.transfer(message(), handle, delivery_id)
            self.expect("disposition")

    def credit(self, handle, delivery_count, count, outgoing_id=0):
        self.send(frame("flow", next_incoming_id=uint(self.incoming_id),
                        incoming_window=uint(2 ** 31 - 1), next_outgoing_id=uint(outgoing_id),
                        outgoing_window=uint(2 ** 31 - 1), handle=uint(handle),
                        delivery_count=uint(delivery_count), link_credit=uint(count)))


def paired():
    return amap([(sym("paired"), boolean(True))])
