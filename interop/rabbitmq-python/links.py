"""Outcomes, settlement, the anonymous terminus, refusals."""
from rabbitmq_amqp_python_client import (AmqpMessageRejectedException, ConsumerOptions, ConsumerSettleStrategy,
                                         ExchangeSpecification, ExchangeToQueueBindingSpecification, ExchangeType,
                                         ValidationCodeException, symbol)
from rabbitmq_amqp_python_client.qpid.proton.utils import SendException

from base import VERSION, data, raises, refused
from shared import equal, until


def outcomes(scene):
    """this client requeues with annotations by modified without delivery-failed: the count stays 0"""
    dead = scene.queue("-dead")
    queue = scene.queue(dead_letter_exchange="", dead_letter_routing_key=dead)
    names = ["accepted", "released", "modified", "rejected", "undeliverable"]
    scene.publish(queue, *[data(name, id=name) for name in names])
    seen = []

    def settle(context, event, message):
        again = message.id in [name for name, _ in seen]
        seen.append((message.id, (message.delivery_count, message.first_acquirer)))
        if again or message.id == "accepted":
            context.accept(event)
        elif message.id == "released":
            context.requeue(event)
        elif message.id == "modified":
            context.requeue_with_annotations(event, {symbol("x-opt-note"): "seen"})
        elif message.id == "rejected":
            context.discard(event)
        else:
            context.discard_with_annotations(event, {symbol("x-opt-note"): "bad"})

    messages = scene.take(queue, 7, settle)
    equal(sorted(seen), sorted([(name, (0, True)) for name in names] +
                               [("released", (0, False)), ("modified", (0, False))]), "deliveries")
    notes = [message.annotations.get("x-opt-note") for message in messages if message.id == "modified"]
    equal(notes, [None, "seen"], "annotation")
    letters = scene.take(dead, 2)
    equal([letter.id for letter in letters], ["rejected", "undeliverable"], "dead letters")
    equal(letters[1].annotations["x-opt-note"], "bad", "annotation")
    equal(scene.count(queue), 0, "left in the queue")


def refusals(scene):
    exchange = scene.prefix + "-exchange"
    scene.management.declare_exchange(ExchangeSpecification(name=exchange, exchange_type=ExchangeType.direct))
    publisher = scene.connection.publisher("/exchanges/%s/nowhere" % exchange)
    raises(SendException, lambda: publisher.publish(data("released")))
    scene.management.delete_exchange(exchange)
    queue = scene.queue(max_len=1, overflow_behaviour="reject-publish")
    scene.publish(queue, data("fits"))
    raises(AmqpMessageRejectedException, lambda: scene.publish(queue, data("does not")))
    equal(scene.count(queue), 1, "in the queue")


def presettled(scene):
    queue = scene.queue()
    scene.publish(queue, data("settled"))
    options = ConsumerOptions(settle_strategy=ConsumerSettleStrategy.PreSettled)
    message, = scene.take(queue, settle=lambda *_: None, options=options)
    equal(bytes(message.body), b"settled", "body")
    equal(scene.count(queue), 0, "left in the queue")


def anonymous_terminus(scene):
    """that a message without an address is refused is this client's own doing"""
    one, two, bound = scene.queue("-one"), scene.queue("-two"), scene.queue("-bound")
    exchange = scene.prefix + "-exchange"
    scene.management.declare_exchange(ExchangeSpecification(name=exchange, exchange_type=ExchangeType.fanout))
    scene.management.bind(ExchangeToQueueBindingSpecification(source_exchange=exchange, destination_queue=bound))
    publisher = scene.connection.publisher()
    for address in ("/queues/" + one, "/queues/" + two, "/exchanges/" + exchange):
        publisher.publish(data(address, address=address))
    for queue in (one, two, bound):
        equal(scene.count(queue), 1, queue)
    raises(ValidationCodeException, lambda: publisher.publish(data("to nobody")))
    scene.management.delete_exchange(exchange)


def attach_refused(scene):
    """other addresses are refused by the client itself, and it cannot ask to be exclusive"""
    missing = "/queues/" + scene.prefix + "-missing"
    refused(lambda: scene.connection.consumer(missing), "amqp:not-found")
    refused(lambda: scene.connection.publisher(missing), "amqp:not-found")
    queue = scene.queue()
    scene.publish(queue, data("the session lives"))
    equal(bytes(scene.take(queue)[0].body), b"the session lives", "body")


def deleted(scene):
    queue = scene.queue()
    collector = scene.consume(queue, 1, meanwhile=lambda: scene.management.delete_queue(queue))
    until("the link was not detached", lambda: collector.condition is not None, 0)
    equal(collector.condition, "amqp:resource-deleted", "condition")


SCENARIOS = {"outcomes": outcomes, "refusals": refusals,
             "credit": VERSION + " gives a consumer with a handler credit for 10, whatever it was asked for",
             "drain": VERSION + " has no drain", "presettled": presettled,
             "anonymous-terminus": anonymous_terminus, "attach-refused": attach_refused, "deleted": deleted,
             "dynamic": VERSION + " makes dynamic sources for direct reply-to only, and for RabbitMQ 4.2 or later",
             "selector": VERSION + " gives filters to consumers of streams only"}
