"""Dead letters with their history, and what survives a restart."""
import time
from datetime import timedelta

from rabbitmq_amqp_python_client.qpid import proton

from base import VERSION, data
from shared import check_deaths, equal, restart as ask_for_restart, until


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
    check_deaths(proton, message, once)
    message, = scene.take(last)
    check_unchanged(message)
    check_deaths(proton, message, {"queue": dead, "reason": "rejected"}, once, first=(queue, "rejected"))


def expired(scene):
    queue, dead = pair(scene, message_ttl=timedelta(milliseconds=100))
    begun = time.monotonic()
    scene.publish(queue, letter())
    until("it does not expire", lambda: scene.count(dead) == 1)
    equal(time.monotonic() - begun < 5, True, "within 5 s")
    message, = scene.take(dead)
    check_unchanged(message)
    check_deaths(proton, message, {"queue": queue, "reason": "expired"})


def maxlen(scene):
    queue, dead = pair(scene, max_len=1)
    scene.publish(queue, letter(), data("second"))
    message, = scene.take(dead)
    check_unchanged(message)
    check_deaths(proton, message, {"queue": queue, "reason": "maxlen"})
    equal(scene.count(queue), 1, "left in the queue")


def cycle(scene):
    queue = scene.queue("-alone", message_ttl=timedelta(milliseconds=50), dead_letter_exchange="")
    scene.publish(queue, letter())
    until("it still turns", lambda: scene.count(queue) == 0)
    queue = scene.queue("-rejected", dead_letter_exchange="")
    scene.publish(queue, letter())
    scene.take(queue, 2, discard)
    message, = scene.take(queue)
    check_deaths(proton, message, {"queue": queue, "reason": "rejected", "count": 2})


def restart(scene):
    classic, quorum = scene.queue("-classic"), scene.quorum("-quorum")
    queue, dead = pair(scene, scene.quorum)
    scene.publish(queue, letter(durable=True))
    scene.take(queue, settle=discard)
    until("it is not dead-lettered", lambda: scene.count(dead) == 1)
    # What is confirmed now makes all before it safe, the rejection too.
    scene.publish(classic, data("kept", durable=True), data("lost", durable=False))
    scene.publish(quorum, data("quorum", durable=False))
    ask_for_restart(scene)
    equal((scene.count(classic), scene.count(quorum), scene.count(dead)), (1, 1, 1), "messages")
    equal(bytes(scene.take(classic)[0].body), b"kept", "in the classic queue")
    equal(bytes(scene.take(quorum)[0].body), b"quorum", "in the quorum queue")
    message, = scene.take(dead)
    check_unchanged(message)
    check_deaths(proton, message, {"queue": queue, "reason": "rejected"})


SCENARIOS = {"rejected": rejected, "expired": expired, "maxlen": maxlen,
             "delivery-limit": VERSION + " sends modified with delivery-failed only together with "
                                         "undeliverable-here, and declares the limit as x-deliver-limit",
             "cycle": cycle, "restart": restart}
