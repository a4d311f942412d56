"""Qpid Proton (Python) against a broker: declare, publish, consume, reject, read the history.

    client.py PORT

Prints `ok SCENARIO` or `fail SCENARIO REASON` for each scenario.
"""
import sys
import time

from proton import Array, Data, Message, symbol, timestamp, uint, ulong
from proton.reactor import AtMostOnce, LinkOption
from proton.utils import BlockingConnection

TIMEOUT_S = 10
SOURCE, DEAD = "interop-proton", "interop-proton-dead"


class Paired(LinkOption):
    """one half of the management link pair"""

    def __init__(self, address):
        self.address = address

    def apply(self, link):
        link.properties = {symbol("paired"): True}
        own = link.source if link.is_sender else link.target
        own.address = self.address


class Management:
    """requests to /management: a method, a path and a body; the answer is a code and a body"""

    def __init__(self, connection):
        pair = [AtMostOnce(), Paired("me")]
        self.sender = connection.create_sender("/management", name="management", options=pair)
        self.receiver = connection.create_receiver("/management", name="management", credit=1, options=pair)

    def ask(self, method, path, body):
        self.sender.send(Message(id="request", subject=method, address=path, reply_to="$me",
                                 body=body, inferred=False))
        answer = self.receiver.receive(TIMEOUT_S)
        self.receiver.flow(1)
        return int(answer.subject), answer.body


def connect(state):
    state.connection = BlockingConnection(
        "amqp://guest:guest@127.0.0.1:%d" % state.port, timeout=TIMEOUT_S, allowed_mechs="PLAIN")


def declare(state):
    management = Management(state.connection)
    for name, arguments in ((DEAD, {}), (SOURCE, {"x-dead-letter-exchange": "",
                                                  "x-dead-letter-routing-key": DEAD})):
        code, body = management.ask("PUT", "/queues/" + name, {"arguments": arguments})
        equal(code in (200, 201), True, "declared " + name)
        equal(body["name"], name, "name in the answer")


def publish(state):
    sender = state.connection.create_sender("/queues/" + SOURCE)
    for text in ("good", "bad"):
        delivery = sender.send(Message(id=text, durable=True, ttl=60, subject="greeting",
                                       properties={"n": 7}, body={"text": text}))
        equal(delivery.remote_state, delivery.ACCEPTED, "outcome")
    sender.close()


def consume(state):
    state.receiver = state.connection.create_receiver("/queues/" + SOURCE, credit=2)
    message = state.receiver.receive(TIMEOUT_S)
    equal(message.id, "good", "message-id")
    equal(message.properties, {"n": 7}, "application-properties")
    equal(message.body, {"text": "good"}, "body")
    equal(message.durable, True, "durable")
    state.receiver.accept()


def reject(state):
    equal(state.receiver.receive(TIMEOUT_S).id, "bad", "message-id")
    state.receiver.reject()
    state.receiver.close()


def history(state):
    receiver = state.connection.create_receiver("/queues/" + DEAD, credit=1)
    message = receiver.receive(TIMEOUT_S)
    receiver.accept()
    equal(message.id, "bad", "message-id")
    equal(message.body, {"text": "bad"}, "body")
    equal(message.ttl, 0, "ttl of the dead letter")
    annotations = message.annotations
    for when in ("first", "last"):
        for what, value in (("queue", SOURCE), ("reason", "rejected"), ("exchange", "")):
            name = "x-%s-death-%s" % (when, what)
            typed(annotations[name], str, value, name)
    deaths = annotations["x-opt-deaths"]
    equal((type(deaths), deaths.type, len(deaths.elements)), (Array, Data.MAP, 1), "array of one map")
    entry = deaths.elements[0]
    equal({str(key) for key in entry},
          {"queue", "reason", "count", "first-time", "last-time", "exchange", "routing-keys", "ttl"},
          "keys of the entry")
    for key in entry:
        equal(type(key), symbol, "type of the key " + key)
    typed(entry["queue"], str, SOURCE, "queue")
    typed(entry["reason"], symbol, "rejected", "reason")
    typed(entry["count"], ulong, 1, "count")
    typed(entry["exchange"], str, "", "exchange")
    typed(entry["ttl"], uint, 60000, "ttl")
    typed(entry["first-time"], timestamp, entry["last-time"], "first-time")
    age_ms = time.time() * 1000 - entry["last-time"]
    equal(-5000 < age_ms < 60000, True, "last-time is now")
    keys = entry["routing-keys"]
    equal((keys.type, list(keys.elements)), (Data.STRING, [SOURCE]), "routing-keys")
    state.connection.close()


def equal(observed, expected, what):
    if observed != expected:
        raise AssertionError("%s: %r instead of %r" % (what, observed, expected))


def typed(observed, kind, expected, what):
    equal((type(observed).__name__, observed), (kind.__name__, expected), what)


class State:
    port = int(sys.argv[1])


def main():
    state = State()
    for scenario in (connect, declare, publish, consume, reject, history):
        try:
            scenario(state)
        except Exception as e:      # the table shows what failed
            print("fail %s %s: %s" % (scenario.__name__, type(e).__name__, str(e).replace("\n", " ")))
            sys.exit(1)
        print("ok %s" % scenario.__name__, flush=True)


if __name__ == "__main__":
    main()
