"""What all scenarios share: connections, management, comparing."""

from proton import Data, Delivery, Message, SSLDomain, Timeout, symbol
from proton.reactor import AtLeastOnce, AtMostOnce, LinkOption
from proton.utils import BlockingConnection, LinkDetached  # noqa: F401 (LinkDetached for scenarios)

from shared import TIMEOUT_S, equal


class Null:
    """a body section with null in it: a body of None would be no section at all"""


Data.put_mappings[Null] = lambda data, _: data.put_null()


class Paired(LinkOption):
    """one half of the management link pair"""

    def apply(self, link):
        link.properties = {symbol("paired"): True}
        own = link.source if link.is_sender else link.target
        own.address = "me"


class Management:
    """requests to /management: a method, a path and a body; the answer is a code and a body"""

    def __init__(self, connection):
        pair = [AtMostOnce(), Paired()]
        self.sender = connection.create_sender("/management", name="management", options=pair)
        self.receiver = connection.create_receiver("/management", name="management", credit=1, options=pair)

    def ask(self, method, path, body=None, codes=()):
        self.sender.send(Message(id="request", subject=method, address=path, reply_to="$me",
                                 body=Null() if body is None else body, inferred=False))
        answer = self.receiver.receive(TIMEOUT_S)
        self.receiver.flow(1)
        code = int(answer.subject)
        if codes and code not in codes:
            raise AssertionError("%s %s: %d %r" % (method, path, code, answer.body))
        return code, answer.body


class Scene:
    """The setting, one connection with its management pair, and the queues of one scenario."""

    def __init__(self, setting, scenario):
        self.setting = setting
        self.prefix = setting["prefix"] + scenario
        self.queues = []
        self.connections = []
        self.connection = self.connect()
        self.management = Management(self.connection)

    def connect(self, port="amqp", **options):
        options.setdefault("allowed_mechs", "PLAIN")
        if options.get("allowed_mechs") == "PLAIN":
            options.setdefault("user", self.setting["user"])
            options.setdefault("password", self.setting["password"])
        scheme = "amqps" if port == "amqps" else "amqp"
        host = "localhost" if port == "amqps" else self.setting["host"]
        connection = BlockingConnection("%s://%s:%d" % (scheme, host, self.setting[port]),
                                        timeout=TIMEOUT_S, **options)
        self.connections.append(connection)
        return connection

    def tls(self):
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(self.setting["ca"])
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        return domain

    def queue(self, suffix="", **arguments):
        """declares a queue; arguments as x_max_length=1"""
        name = self.prefix + suffix
        arguments = {"x-" + key[2:].replace("_", "-"): value for key, value in arguments.items()}
        self.management.ask("DELETE", "/queues/" + name)
        self.management.ask("PUT", "/queues/" + name, {"arguments": arguments}, (201,))
        self.queues.append(name)
        return name

    def count(self, queue):
        return self.management.ask("GET", "/queues/" + queue, codes=(200,))[1]["message_count"]

    def sender(self, queue, **options):
        return self.connection.create_sender("/queues/" + queue, **options)

    def receiver(self, queue, credit=10, **options):
        options.setdefault("options", AtLeastOnce())
        return self.connection.create_receiver("/queues/" + queue, credit=credit, **options)

    def publish(self, queue, *messages):
        sender = self.sender(queue)
        for message in messages:
            outcome(sender.send(message), Delivery.ACCEPTED)
        sender.close()

    def again(self):
        """connects anew, after a restart"""
        self.connection = self.connect()
        self.management = Management(self.connection)

    def close(self):
        try:
            for queue in self.queues:
                self.management.ask("DELETE", "/queues/" + queue)
        finally:
            for connection in self.connections:
                try:
                    connection.close()
                except Exception:   # it is gone: nothing to close
                    pass


def settle(receiver, state, **fields):
    """settles the oldest delivery: Delivery.REJECTED with condition, .MODIFIED with its fields"""
    delivery = receiver.fetcher.unsettled[0]
    for name, value in fields.items():
        setattr(delivery.local, name, value)
    receiver.settle(state)


def take(receiver):
    """the next message, without giving credit as `receive` does"""
    receiver.connection.wait(lambda: receiver.fetcher.has_message, timeout=TIMEOUT_S)
    return receiver.fetcher.pop()


def empty(receiver, wait_s=0.3):
    """nothing comes for the credit there is"""
    try:
        receiver.connection.wait(lambda: receiver.fetcher.has_message, timeout=wait_s)
    except Timeout:
        return
    raise AssertionError("unexpected message %r" % receiver.fetcher.pop())


def refused(attempt, condition):
    """the broker detaches a link with a condition; the session lives on"""
    try:
        attempt()
    except LinkDetached as e:
        equal(str(e.condition), condition, "condition")
        return
    raise AssertionError("the link was not detached")


def outcome(delivery, expected):
    equal(delivery.remote_state, expected, "outcome")
