"""Dead letters with their history, and what survives a restart."""
import sys
import time
from datetime import timedelta

from rabbitmq_amqp_python_client import symbol
from rabbitmq_amqp_python_client.qpid.proton import Array, Data, timestamp, uint, ulong

from base import VERSION, data, equal, typed, until


def check_entry(entry, queue, reason, count=1, exchange="", keys=None, ttl_ms=None):
    """one map of x-opt-deaths, field by field"""
    names = ["queue", "reason", "count", "first-time", "last-time", "exchange", "routing-keys"]
    names += ["ttl"] if ttl_ms is not None else []
    equal([str(key) for key in entry], names, "keys of the entry")
    for key in entry:
        equal(type(key), symbol, "type of the key " + key)
    typed(entry["queue"], str, queue, "queue")
    typed(entry["reason"], symbol, reason, "reason")
    typed(entry["count"], ulong, count, "count")
    typed(entry["exchange"], str, exchange, "exchange")
    if ttl_ms is not None:
        typed(entry["ttl"], uint, ttl_ms, "ttl")
    for name in ("first-time", "last-time"):
        equal(type(entry[name]), timestamp, name)
        age_ms = time.time() * 1000 - entry[name]
        equal(-5000 < age_ms < 60000, True, name + " is now")
    equal(entry["first-time"] <= entry["last-time"], True, "times in order")
    found = entry["routing-keys"]
    equal((found.type, list(found.elements)), (Data.STRING, keys or [queue]), "routing-keys")


def check_deaths(message, *entries, first=None):
    """the whole history: entries newest first; `first` is (queue, reason) of the first death"""
    annotations = message.annotations
    deaths = annotations["x-opt-deaths"]
    equal((type(deaths), deaths.type, len(deaths.elements)), (Array, Data.MAP, len(entries)), "deaths")
    for entry, expected in zip(deaths.elements, entries):
        check_entry(entry, **expected)
    last = entries[0]
    queue, reason = first or (last["queue"], last["reason"])
    for when, queue, reason in (("first", queue, reason), ("last", last["queue"], last["reason"])):
        for what, value in (("queue", queue), ("reason", reason), ("exchange", "")):
            name = "x-%s-death-%s" % (when, what)
            typed(annotations[name], str, value, name)


def letter(**fields):
    return data("dear", id="letter", subject="greeting", application_properties={"n": 7}, **fields)


def check_unchanged(message):
    equal((message.id, message.subject, message.application_properties, bytes(message.body)),
          ("letter", "greeting", {"n": 7}, b"dear"), "message")


def pair(scene, declare=None, **options):
    """a queue, and one for its dead letters"""
    dead = scene.queue("-dead")
    declare = declare or scene.queue
    return declare(dead_letter_exchange="", dead_letter_routing_key=dead, **options), dead


def discard(context, event, _message):
    context.discard(event)


def rejected(scene):
    last = scene.queue("-last")
    dead = scene.queue("-dead", dead_letter_exchange="", dead_letter_routing_key=last)
    queue = scene.queue(dead_letter_exchange="", dead_letter_routing_key=dead)
    scene.publish(queue, letter(ttl=60))
    scene.take(queue, settle=discard)
    message, = scene.take(dead, settle=discard)
    check_unchanged(message)
    equal(message.ttl, 0, "ttl of the dead letter")
    once = {"queue": queue, "reason": "rejected", "ttl_ms": 60000}
    check_deaths(message, once)
    message, = scene.take(last)
    check_unchanged(message)
    check_deaths(message, {"queue": dead, "reason": "rejected"}, once, first=(queue, "rejected"))


def expired(scene):
    queue, dead = pair(scene, message_ttl=timedelta(milliseconds=100))
    begun = time.monotonic()
    scene.publish(queue, letter())
    until("it does not expire", lambda: scene.count(dead) == 1)
    equal(time.monotonic() - begun < 1, True, "within a second")
    message, = scene.take(dead)
    check_unchanged(message)
    check_deaths(message, {"queue": queue, "reason": "expired"})


def maxlen(scene):
    queue, dead = pair(scene, max_len=1)
    scene.publish(queue, letter(), data("second"))
    message, = scene.take(dead)
    check_unchanged(message)
    check_deaths(message, {"queue": queue, "reason": "maxlen"})
    equal(scene.count(queue), 1, "left in the queue")


def cycle(scene):
    queue = scene.queue("-alone", message_ttl=timedelta(milliseconds=50), dead_letter_exchange="")
    scene.publish(queue, letter())
    until("it still turns", lambda: scene.count(queue) == 0)
    queue = scene.queue("-rejected", dead_letter_exchange="")
    scene.publish(queue, letter())
    scene.take(queue, 2, discard)
    message, = scene.take(queue)
    check_deaths(message, {"queue": queue, "reason": "rejected", "count": 2})


def restart(scene):
    classic, quorum = scene.queue("-classic"), scene.quorum("-quorum")
    queue, dead = pair(scene, scene.quorum)
    scene.publish(queue, letter(durable=True))
    scene.take(queue, settle=discard)
    until("it is not dead-lettered", lambda: scene.count(dead) == 1)
    # What is confirmed now makes all before it safe, the rejection too.
    scene.publish(classic, data("kept", durable=True), data("lost", durable=False))
    scene.publish(quorum, data("quorum", durable=False))
    print("restart", flush=True)
    equal(sys.stdin.readline().strip(), "restarted", "the answer to restart")
    scene.again()
    equal((scene.count(classic), scene.count(quorum), scene.count(dead)), (1, 1, 1), "messages")
    equal(bytes(scene.take(classic)[0].body), b"kept", "in the classic queue")
    equal(bytes(scene.take(quorum)[0].body), b"quorum", "in the quorum queue")
    message, = scene.take(dead)
    check_unchanged(message)
    check_deaths(message, {"queue": queue, "reason": "rejected"})


SCENARIOS = {"rejected": rejected, "expired": expired, "maxlen": maxlen,
             "delivery-limit": VERSION + " sends modified with delivery-failed only together with "
                                         "undeliverable-here, and declares the limit as x-deliver-limit",
             "cycle": cycle, "restart": restart}
