"""A broker, Proton, and claims: for the programs here that go with a message and look at it on its way."""
import os
import subprocess
import sys
import time
import urllib.request

from broker import Broker
from clients import Proton

HOLD_MAX_S = 30


def claim(holds, what, more=""):
    print(("ok " if holds else "WRONG ") + what, flush=True)
    if not holds:
        sys.exit("%s" % (more,))


def under_proton():
    """goes on in the Python that has Proton"""
    try:
        from proton import Message  # noqa: F401 (the folder of this name is a package, too)
    except ImportError:
        if os.environ.get("INTEROP_PROTON"):
            raise
        python = Proton.prepare()[0][0]
        os.execve(python, [python, *sys.argv], {**os.environ, "INTEROP_PROTON": "1"})


class Walk:
    """A durable broker, one Proton connection with its management pair."""

    def __init__(self, binary, folder, *more):
        self.binary, self.data, self.more = binary, os.path.join(folder, "data"), more
        self.ports = {"amqp": "127.0.0.1:0", "http": "127.0.0.1:0"}
        self.start()

    def start(self):
        from base import Management
        self.broker = Broker(self.binary, "--data", self.data, "--http", self.ports["http"],
                             *self.more, amqp=self.ports["amqp"])
        self.ports = {"amqp": "127.0.0.1:%d" % self.broker.port, "http": "127.0.0.1:%d" % self.broker.http_port}
        self.connection = self.connect("walker")
        self.management = Management(self.connection)

    def restart(self):
        # A count may be of what is not durable yet; once this is accepted, all that was done before is.
        self.queue("before-restart")
        self.publish("before-restart", "accepted")
        self.broker.kill()
        self.start()

    def url(self):
        return "amqp://" + self.ports["amqp"]

    def connect(self, name):
        from proton.reactor import Container
        from proton.utils import BlockingConnection
        container = Container()
        container.container_id = name
        return BlockingConnection(self.url(), timeout=10, allowed_mechs="PLAIN", user="guest", password="guest",
                                  container=container)

    def ask(self, method, path, body=None, codes=(200, 201, 204)):
        return self.management.ask(method, path, body, codes)[1]

    def queue(self, name, **arguments):
        arguments = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        self.ask("PUT", "/queues/" + name, {"arguments": arguments})

    def count(self, queue):
        return self.ask("GET", "/queues/" + queue)["message_count"]

    def wait(self, queue, count, what):
        deadline = time.monotonic() + HOLD_MAX_S
        while self.count(queue) != count and time.monotonic() < deadline:
            time.sleep(0.02)
        claim(self.count(queue) == count, what, "%s has %d" % (queue, self.count(queue)))

    def publish(self, queue, *bodies, annotations=None):
        from proton import Message
        sender = self.connection.create_sender("/queues/" + queue)
        for body in bodies:
            sender.send(Message(body=body, durable=True, annotations=annotations))
        sender.close()

    def receiver(self, queue, name=None):
        from evidence import Full
        from proton.reactor import AtLeastOnce
        return self.connection.create_receiver("/queues/" + queue, credit=1, name=name, options=[AtLeastOnce(), Full()])

    def settle(self, queue, state, name=None, **fields):
        """takes one message and settles it"""
        from base import settle
        receiver = self.receiver(queue, name)
        message = receiver.receive()
        settle(receiver, state, **fields)
        receiver.close()
        return message

    def metric(self, name, *labels):
        """the sum of a metric's samples that have these labels"""
        with urllib.request.urlopen("http://%s/metrics" % self.ports["http"], timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines
                   if line.startswith(name + "{") and all(label in line for label in labels))

    def deaths(self, queue):
        command = [self.binary, "deaths", queue, "--url", "http://" + self.ports["http"]]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
