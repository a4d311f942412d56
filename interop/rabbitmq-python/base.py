"""What all scenarios share: connections, queues, publishing, consuming, comparing."""
import signal
import threading

from rabbitmq_amqp_python_client import (AMQPMessagingHandler, AmqpUri, ClassicQueueSpecification, Environment,
                                         Message, QuorumQueueSpecification, RecoveryConfiguration,
                                         ValidationCodeException)

from shared import TIMEOUT_S, equal

VERSION = "rabbitmq-amqp-python-client 1.0.1"
ERRORS = (Exception, ValidationCodeException)   # this one is no Exception


class Done(Exception):
    """leaves a consumer's loop: its own `stop` would leave a connection that cannot even be closed"""


def late(*_):
    raise Done


signal.signal(signal.SIGALRM, late)


class Collector(AMQPMessagingHandler):
    """Takes messages until there are `wanted`; `settle` gets the delivery context, the event, the message."""

    def __init__(self, wanted, settle):
        super().__init__()
        self.wanted, self.settle = wanted, settle
        self.messages, self.condition = [], None

    def on_amqp_message(self, event):
        if len(self.messages) < self.wanted:
            self.messages.append(event.message)
            self.settle(self.delivery_context, event, event.message)
        if len(self.messages) >= self.wanted:
            raise Done

    def on_link_error(self, event):
        self.condition = event.link.remote_condition.name
        raise Done


def accept(context, event, _message):
    context.accept(event)


class Scene:
    """The setting, one connection, and the queues of one scenario."""

    def __init__(self, setting, scenario):
        self.setting = setting
        self.prefix = setting["prefix"] + scenario
        self.queues = []
        self.again()

    def again(self):
        """connects, anew after a restart: closing what the broker has forgotten would wait for ever"""
        self.connections = []
        self.connection = self.connect()
        self.management = self.connection.management()

    def connect(self, vhost="/", password=None):
        return self.dial(amqp_uri=AmqpUri(
            host=self.setting["host"], port=self.setting["amqp"], user=self.setting["user"],
            password=password or self.setting["password"], vhost=vhost))

    def dial(self, **options):
        """without the client's own recovery: a scenario sees what the broker did"""
        environment = Environment(recovery_configuration=RecoveryConfiguration(active_recovery=False), **options)
        connection = environment.connection()
        connection.dial()
        self.connections.append(connection)
        return connection

    def queue(self, suffix="", kind=ClassicQueueSpecification, **options):
        name = self.prefix + suffix
        self.delete(name)
        self.management.declare_queue(kind(name=name, **options))
        self.queues.append(name)
        return name

    def quorum(self, suffix="", **options):
        return self.queue(suffix, QuorumQueueSpecification, **options)

    def delete(self, queue):
        try:
            self.management.delete_queue(queue)
        except ValidationCodeException:     # which may be gone
            pass

    def count(self, queue):
        return self.management.queue_info(queue).message_count

    def publish(self, queue, *messages):
        publisher = self.connection.publisher("/queues/" + queue)
        for message in messages:
            publisher.publish(message)
        publisher.close()

    def take(self, queue, wanted=1, settle=accept, limit_s=TIMEOUT_S, options=None):
        """the next messages of a queue; a consumer that was stopped cannot go on, so each has a connection"""
        collector = self.consume(queue, wanted, settle, limit_s, options)
        equal(len(collector.messages), wanted, "messages that came (%s)" % collector.condition)
        return collector.messages

    def consume(self, queue, wanted, settle=accept, limit_s=TIMEOUT_S, options=None, meanwhile=lambda: None):
        connection = self.connect()
        collector = Collector(wanted, settle)
        consumer = connection.consumer("/queues/" + queue, message_handler=collector, consumer_options=options)
        timer = threading.Timer(0.3, meanwhile)
        timer.start()
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            consumer.run()
        except Done:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            timer.join()
        try:
            connection.close()
        except Exception:   # the broker has detached the link
            pass
        return collector

    def close(self):
        for queue in self.queues:
            self.delete(queue)
        for connection in self.connections:
            try:
                connection.close()
            except Exception:   # it is gone: nothing to close
                pass


def data(text, **fields):
    """a message as this client publishes it: one data section"""
    return Message(body=text.encode(), inferred=True, **fields)


def refused(attempt, condition):
    try:
        attempt()
    except BaseException as e:      # some of this client's are no Exception
        found = str(getattr(e, "condition", e))
        equal(condition in found, True, "%s in %s: %s" % (condition, type(e).__name__, found))
        return
    raise AssertionError("it was not refused")


def raises(kind, attempt):
    try:
        attempt()
    except kind as e:
        return e
    raise AssertionError("no %s" % kind.__name__)
