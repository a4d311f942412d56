"""Dead letters with their history, and what survives a restart."""
import time

import proton
from proton import Delivery, Message

from base import settle
from shared import check_deaths, equal, restart as ask_for_restart, until


def letter(**fields):
    return Message(id="letter", subject="greeting", properties={"n": 7}, body={"text": "dear"}, **fields)


def check_unchanged(message):
    equal((message.id, message.subject, message.properties, message.body),
          ("letter", "greeting", {"n": 7}, {"text": "dear"}), "message")


def pair(scene, **arguments):
    """a queue, and one for its dead letters"""
    dead = scene.queue("-dead")
    return scene.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead, **arguments), dead


def rejected(scene):
    last = scene.queue("-last")
    dead = scene.queue("-dead", x_dead_letter_exchange="", x_dead_letter_routing_key=last)
    queue = scene.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    scene.publish(queue, letter(ttl=60))
    receiver = scene.receiver(queue)
    receiver.receive()
    receiver.reject()
    reader = scene.receiver(dead)
    message = reader.receive()
    check_unchanged(message)
    equal(message.ttl, 0, "ttl of the dead letter")
    once = {"queue": queue, "reason": "rejected", "ttl_ms": 60000}
    check_deaths(proton, message, once)
    reader.reject()
    message = scene.receiver(last).receive()
    check_unchanged(message)
    check_deaths(proton, message, {"queue": dead, "reason": "rejected"}, once, first=(queue, "rejected"))


def expired(scene):
    queue, dead = pair(scene, x_message_ttl=100)
    begun = time.monotonic()
    scene.publish(queue, letter())
    message = scene.receiver(dead).receive()
    equal(time.monotonic() - begun < 5, True, "within 5 s")
    check_unchanged(message)
    check_deaths(proton, message, {"queue": queue, "reason": "expired"})


def maxlen(scene):
    queue, dead = pair(scene, x_max_length=1)
    scene.publish(queue, letter(), Message(id="second"))
    message = scene.receiver(dead).receive()
    check_unchanged(message)
    check_deaths(proton, message, {"queue": queue, "reason": "maxlen"})
    equal(scene.count(queue), 1, "left in the queue")


def delivery_limit(scene):
    queue, dead = pair(scene, x_queue_type="quorum", x_delivery_limit=1)
    scene.publish(queue, letter())
    receiver = scene.receiver(queue, credit=1)
    for count in (0, 1):
        equal(receiver.receive().delivery_count, count, "delivery-count")
        settle(receiver, Delivery.MODIFIED, failed=True)
    message = scene.receiver(dead).receive()
    check_unchanged(message)
    check_deaths(proton, message, {"queue": queue, "reason": "delivery_limit"})


def cycle(scene):
    queue = scene.queue("-alone", x_message_ttl=50, x_dead_letter_exchange="")
    scene.publish(queue, letter())
    until("it still turns", lambda: scene.count(queue) == 0)
    queue = scene.queue("-rejected", x_dead_letter_exchange="")
    scene.publish(queue, letter())
    receiver = scene.receiver(queue, credit=1)
    for _ in range(2):
        receiver.receive()
        receiver.reject()
    message = receiver.receive()
    check_deaths(proton, message, {"queue": queue, "reason": "rejected", "count": 2})


def restart(scene):
    classic, quorum = scene.queue("-classic"), scene.queue("-quorum", x_queue_type="quorum")
    queue, dead = pair(scene, x_queue_type="quorum")
    scene.publish(queue, letter(durable=True))
    receiver = scene.receiver(queue)
    receiver.receive()
    receiver.reject()
    until("it is not dead-lettered", lambda: scene.count(dead) == 1)
    # What is confirmed now makes all before it safe, the rejection too.
    scene.publish(classic, Message(id="kept", durable=True), Message(id="lost", durable=False))
    scene.publish(quorum, Message(id="quorum", durable=False))
    ask_for_restart(scene)
    equal((scene.count(classic), scene.count(quorum), scene.count(dead)), (1, 1, 1), "messages")
    equal(scene.receiver(classic).receive().id, "kept", "in the classic queue")
    equal(scene.receiver(quorum).receive().id, "quorum", "in the quorum queue")
    message = scene.receiver(dead).receive()
    check_unchanged(message)
    check_deaths(proton, message, {"queue": queue, "reason": "rejected"})


SCENARIOS = {"rejected": rejected, "expired": expired, "maxlen": maxlen,
             "delivery-limit": delivery_limit, "cycle": cycle, "restart": restart}
