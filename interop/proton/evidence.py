"""What a consumer says when it rejects stays with the dead letter, to the last type."""
import proton
from proton import (UNDESCRIBED, Array, Condition, Data, Delivery, Described, Message, int32, symbol)
from proton.reactor import AtLeastOnce, LinkOption

from base import settle
from shared import check_by, equal, restart, same, simple, typed, until

COMPOUND = {"list": [1, "two", [3]], "map": {"a": 1, symbol("b"): [None, True]},
            "array": Array(UNDESCRIBED, Data.INT, int32(1), int32(2)),
            "described": Described(symbol("app:thing"), "value")}


class Full(LinkOption):
    """asks for all that is known of each death"""

    def apply(self, link):
        link.properties = {symbol("x-opt-death-evidence"): symbol("full")}


def full(scene, queue):
    return scene.receiver(queue, options=[AtLeastOnce(), Full()])


def check_error(entry, condition, description):
    typed(entry["error-condition"], symbol, condition, "condition")
    typed(entry["error-description"], str, description, "description")


def check_info(entry):
    """every value that was sent, with its type"""
    info = entry["error-info"]
    for key in info:
        equal(type(key), symbol, "type of the key " + key)
    for name, value in simple(proton).items():
        same(info[name], value, name)
    for name, value in COMPOUND.items():
        equal(info[name], value, name)
    equal(info["null"], None, "null")
    equal(len(info), len(simple(proton)) + len(COMPOUND) + 1, "values")


def evidence(scene):
    last = scene.queue("-last")
    dead = scene.queue("-dead", x_dead_letter_exchange="", x_dead_letter_routing_key=last)
    queue = scene.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    scene.publish(queue, Message(body="order", durable=True))
    receiver = scene.receiver(queue, name="first-consumer")
    receiver.receive()
    info = {symbol(name): value for name, value in {**simple(proton), **COMPOUND, "null": None}.items()}
    settle(receiver, Delivery.REJECTED, condition=Condition("app:schema", "no price, gr\u00fc\u00dfe", info))
    until("it is not dead-lettered", lambda: scene.count(dead) == 1)
    first = {"how": "rejected", "container": scene.connection.container.container_id, "link": "first-consumer",
             "user": scene.setting["user"]}
    # What is confirmed now makes all before it safe, the rejection too.
    scene.publish(scene.queue("-safe"), Message(body="safe", durable=True))
    restart(scene)

    receiver = full(scene, dead)
    letter = receiver.receive()
    typed(letter.annotations["x-opt-last-death-condition"], symbol, "app:schema", "condition")
    typed(letter.annotations["x-opt-last-death-description"], str, "no price, gr\u00fc\u00dfe", "description")
    check_by(proton, letter.annotations["x-opt-last-death-by"], first)
    entry, = letter.annotations["x-opt-deaths"].elements
    check_error(entry, "app:schema", "no price, gr\u00fc\u00dfe")
    check_info(entry)
    check_by(proton, entry["by"], first)

    settle(receiver, Delivery.MODIFIED, undeliverable=True, annotations={
        symbol("x-opt-dead-letter-category"): "app:again", symbol("x-opt-dead-letter-reason"): "once more"})
    letter = full(scene, last).receive()
    typed(letter.annotations["x-opt-last-death-condition"], symbol, "app:again", "second condition")
    typed(letter.annotations["x-opt-last-death-description"], str, "once more", "second description")
    again, before = letter.annotations["x-opt-deaths"].elements
    check_error(again, "app:again", "once more")
    equal("error-info" in again, False, "an info of the second death")
    equal(again["by"]["how"], "undeliverable-here", "how it died again")
    check_error(before, "app:schema", "no price, gr\u00fc\u00dfe")
    check_info(before)
    check_by(proton, before["by"], first)


SCENARIOS = {"evidence": evidence}
