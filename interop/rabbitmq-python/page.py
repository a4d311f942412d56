"""The snippets of docs/clients/rabbitmq-python.md."""
import signal

from shared import TIMEOUT_S, equal, until
from rabbitmq_amqp_python_client import (AMQPMessagingHandler, ClassicQueueSpecification, Environment,
                                         Message, QuorumQueueSpecification)


def connect(uri):
    connection = Environment(uri=uri).connection()
    connection.dial()
    return connection


def declare(connection, queue, dead):
    management = connection.management()
    management.declare_queue(QuorumQueueSpecification(name=dead))
    management.declare_queue(ClassicQueueSpecification(
        name=queue, dead_letter_exchange="", dead_letter_routing_key=dead))
    management.close()


def publish(connection, queue):
    publisher = connection.publisher("/queues/" + queue)
    publisher.publish(Message(body=b"order"))
    publisher.close()


class Done(Exception):
    """leaves run(): after the client's own stop() the connection cannot be closed"""


class Rejecting(AMQPMessagingHandler):
    def on_amqp_message(self, event):
        self.delivery_context.discard(event)    # or accept, requeue, discard_with_annotations
        raise Done


class Reading(AMQPMessagingHandler):
    def on_amqp_message(self, event):
        self.history = [(death["queue"], death["reason"], death["count"])
                        for death in event.message.annotations["x-opt-deaths"].elements]
        self.delivery_context.accept(event)
        raise Done


def consume(uri, queue, handler):
    connection = connect(uri)
    consumer = connection.consumer("/queues/" + queue, message_handler=handler)
    try:
        consumer.run()
    except Done:
        connection.close()


def page(scene):
    uri = "amqp://guest:guest@%s:%d/" % (scene.setting["host"], scene.setting["amqp"])
    queue, dead = scene.prefix, scene.prefix + "-dead"
    scene.queues += [queue, dead]
    connection = connect(uri)
    scene.connections.append(connection)
    declare(connection, queue, dead)
    publish(connection, queue)
    reading = Reading()
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S)
    try:
        consume(uri, queue, Rejecting())
        until("it is not dead-lettered", lambda: scene.count(dead) == 1)
        consume(uri, dead, reading)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    equal(reading.history, [(queue, "rejected", 1)], "history")


SCENARIOS = {"page": page}
