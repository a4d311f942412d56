"""The snippets of docs/clients/proton-python.md."""
from base import Management
from shared import equal, until
from proton import Message
from proton.reactor import AtLeastOnce
from proton.utils import BlockingConnection


def connect(url):
    return BlockingConnection(url, user="guest", password="guest", timeout=10, allowed_mechs="PLAIN")


def declare(connection, queue, dead):
    management = Management(connection)
    management.ask("PUT", "/queues/" + dead, {}, codes=(200, 201))
    management.ask("PUT", "/queues/" + queue, {"arguments": {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}}, codes=(200, 201))


def publish(connection, queue):
    sender = connection.create_sender("/queues/" + queue)
    sender.send(Message(body="order", durable=True))    # SendException: rejected or released
    sender.close()


def reject(connection, queue):
    receiver = connection.create_receiver("/queues/" + queue, credit=1, options=AtLeastOnce())
    order = receiver.receive()
    receiver.reject()       # or accept(), release()
    receiver.close()
    return order.body


def history(connection, dead):
    receiver = connection.create_receiver("/queues/" + dead, credit=1, options=AtLeastOnce())
    letter = receiver.receive()
    receiver.accept()
    receiver.close()
    return [(death["queue"], death["reason"], death["count"])     # also first-time, last-time, ...
            for death in letter.annotations["x-opt-deaths"].elements]


def page(scene):
    dead = scene.queue("-dead")
    queue = scene.queue()
    scene.management.ask("DELETE", "/queues/" + queue)
    connection = connect("amqp://%s:%d" % (scene.setting["host"], scene.setting["amqp"]))
    scene.connections.append(connection)
    declare(connection, queue, dead)
    publish(connection, queue)
    equal(reject(connection, queue), "order", "body")
    until("it is not dead-lettered", lambda: scene.count(dead) == 1)
    equal(history(connection, dead), [(queue, "rejected", 1)], "history")


SCENARIOS = {"page": page}
