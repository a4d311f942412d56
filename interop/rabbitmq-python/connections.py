"""SASL, TLS, vhosts, management."""
from rabbitmq_amqp_python_client import (ExchangeSpecification, ExchangeToQueueBindingSpecification, ExchangeType,
                                         ClassicQueueSpecification, PosixClientCert, PosixSslConfigurationContext,
                                         QueueType, ValidationCodeException)
from rabbitmq_amqp_python_client.qpid.proton.utils import SendException

from base import VERSION, data, raises, refused
from shared import equal


def plain(scene):
    refused(lambda: scene.connect(password="wrong"), "uthentication")
    scene.connect()


def anonymous(scene):
    queue = scene.queue()
    connection = scene.dial(uri="amqp://%s:%d/" % (scene.setting["host"], scene.setting["amqp"]))
    connection.publisher("/queues/" + queue).publish(data("by nobody"))
    equal(bytes(scene.take(queue)[0].body), b"by nobody", "body")


def over_tls(scene, login, certificate=None):
    return scene.dial(uri="amqps://%slocalhost:%d/" % (login, scene.setting["amqps"]),
                      ssl_context=PosixSslConfigurationContext(scene.setting["ca"], certificate))


def tls(scene):
    over_tls(scene, "%s:%s@" % (scene.setting["user"], scene.setting["password"]))


def external(scene):
    """that a user-id is taken shows who has logged in"""
    queue, setting = scene.queue(), scene.setting
    connection = over_tls(scene, "", PosixClientCert(setting["certificate"], setting["key"]))
    user = setting["client_user"].encode()
    connection.publisher("/queues/" + queue).publish(data("by certificate", user_id=user))
    equal(bytes(scene.take(queue)[0].user_id), user, "user-id")


def vhost(scene):
    other, name = scene.connect(vhost=scene.setting["vhost"]), scene.prefix
    other.management().declare_queue(ClassicQueueSpecification(name=name))
    refused(lambda: scene.connection.consumer("/queues/" + name), "amqp:not-found")
    other.consumer("/queues/" + name).close()
    other.management().delete_queue(name)
    refused(lambda: scene.connect(vhost="interop-missing"), "amqp:not-found")


def declare(scene):
    manage, name, exchange = scene.management, scene.prefix, scene.prefix + "-exchange"
    scene.queue(max_len=5)
    manage.declare_queue(ClassicQueueSpecification(name=name, max_len=5))
    other = ClassicQueueSpecification(name=name, max_len=6)
    refused(lambda: manage.declare_queue(other), "ErrPreconditionFailed")
    info = manage.queue_info(name)
    equal((info.name, info.queue_type, info.message_count), (name, QueueType.classic, 0), "queue")
    manage.declare_exchange(ExchangeSpecification(name=exchange, exchange_type=ExchangeType.topic))
    path = manage.bind(ExchangeToQueueBindingSpecification(
        source_exchange=exchange, destination_queue=name, binding_key="a.#"))
    publisher = scene.connection.publisher("/exchanges/%s/a.b" % exchange)
    publisher.publish(data("one"))
    publisher.publish(data("two"))
    manage.unbind(path)
    raises(SendException, lambda: publisher.publish(data("unbound")))
    equal(manage.purge_queue(name), 2, "purged")
    manage.delete_exchange(exchange)
    manage.delete_queue(name)
    raises(ValidationCodeException, lambda: manage.queue_info(name))


SCENARIOS = {"plain": plain, "anonymous": anonymous,
             "scram": VERSION + " cannot choose a mechanism, and its Proton may be built without Cyrus SASL",
             "tls": tls, "external": external, "no-sasl": VERSION + " always begins with SASL",
             "vhost": vhost, "frames": VERSION + " cannot set max-frame-size", "declare": declare}
