"""What a consumer says when it discards stays with the dead letter. The client sends no error with `rejected` and
sets no properties of links: it says why by annotations, and gets the condition and the description."""
from rabbitmq_amqp_python_client import symbol
from rabbitmq_amqp_python_client.qpid import proton

from base import data
from shared import check_deaths, equal, restart, typed, until


def because(condition, description):
    def settle(context, event, _message):
        context.discard_with_annotations(event, {
            symbol("x-opt-dead-letter-category"): condition, symbol("x-opt-dead-letter-reason"): description})
    return settle


def check_last(message, condition, description):
    typed(message.annotations["x-opt-last-death-condition"], proton.symbol, condition, "condition")
    typed(message.annotations["x-opt-last-death-description"], str, description, "description")


def evidence(scene):
    last = scene.queue("-last")
    dead = scene.queue("-dead", dead_letter_exchange="", dead_letter_routing_key=last)
    queue = scene.queue(dead_letter_exchange="", dead_letter_routing_key=dead)
    scene.publish(queue, data("order", durable=True))
    scene.take(queue, settle=because("app:schema", "no price, gr\u00fc\u00dfe"))
    until("it is not dead-lettered", lambda: scene.count(dead) == 1)
    # What is confirmed now makes all before it safe, the rejection too.
    scene.publish(scene.queue("-safe"), data("safe", durable=True))
    restart(scene)
    message, = scene.take(dead, settle=because("app:again", "once more"))
    check_last(message, "app:schema", "no price, gr\u00fc\u00dfe")
    message, = scene.take(last, settle=lambda context, event, _: context.discard(event))
    check_last(message, "app:again", "once more")
    check_deaths(proton, message, {"queue": dead, "reason": "rejected"}, {"queue": queue, "reason": "rejected"},
                 first=(queue, "rejected"))
    equal(len(message.annotations["x-opt-deaths"].elements), 2, "entries")


SCENARIOS = {"evidence": evidence}
