"""SASL, TLS, vhosts, frames, management."""
from proton import ConnectionException, Message, SASL

from base import Management, refused
from shared import Skip, equal


def refused_login(scene, **options):
    try:
        scene.connect(**options)
    except ConnectionException as e:
        text = str(e).lower()
        equal("auth" in text or "unauthorized" in text, True, "an authentication failure: " + text)
        return
    raise AssertionError("a wrong password was taken")


def plain(scene):
    refused_login(scene, password="wrong")
    scene.connect()


def anonymous(scene):
    queue = scene.queue()
    connection = scene.connect(allowed_mechs="ANONYMOUS")
    connection.create_sender("/queues/" + queue).send(Message(body="by nobody"))
    equal(scene.receiver(queue).receive().body, "by nobody", "body")


def scram(scene):
    if not SASL.extended():
        raise Skip("this Proton was built without Cyrus SASL: PLAIN, ANONYMOUS and EXTERNAL only")
    who = {"user": scene.setting["user"], "password": scene.setting["password"]}
    try:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            scene.connect(allowed_mechs=mechanism, **who)
    except ConnectionException as e:
        if "mechanism" in str(e).lower():
            raise Skip("Cyrus SASL has no SCRAM plugin here: %s" % e)
        raise
    refused_login(scene, allowed_mechs="SCRAM-SHA-256", user=who["user"], password="wrong")


def tls(scene):
    scene.connect("amqps", ssl_domain=scene.tls())


def external(scene):
    domain = scene.tls()
    domain.set_credentials(scene.setting["certificate"], scene.setting["key"], None)
    scene.connect("amqps", ssl_domain=domain, allowed_mechs="EXTERNAL")


def no_sasl(scene):
    queue = scene.queue()
    connection = scene.connect("bare", sasl_enabled=False, allowed_mechs=None)
    connection.create_sender("/queues/" + queue).send(Message(body="without a layer"))
    equal(scene.receiver(queue).receive().body, "without a layer", "body")


def vhost(scene):
    other = scene.connect(virtual_host="vhost:" + scene.setting["vhost"])
    name = scene.prefix
    management = Management(other)
    management.ask("PUT", "/queues/" + name, {}, (201, 200))
    refused(lambda: scene.receiver(name), "amqp:not-found")
    other.create_receiver("/queues/" + name).close()
    management.ask("DELETE", "/queues/" + name, codes=(200,))
    try:
        scene.connect(virtual_host="vhost:interop-missing")
    except ConnectionException as e:
        equal("amqp:not-found" in str(e), True, "condition in %s" % e)
        return
    raise AssertionError("an unknown vhost was entered")


def frames(scene):
    queue = scene.queue()
    body = bytes(range(250)) * 80
    connection = scene.connect(max_frame_size=512)
    connection.create_sender("/queues/" + queue).send(Message(body=body))
    received = connection.create_receiver("/queues/" + queue).receive()
    equal(bytes(received.body), body, "body")


def declare(scene):
    ask, name = scene.management.ask, scene.prefix
    exchange = name + "-exchange"
    ask("DELETE", "/queues/" + name)
    ask("PUT", "/queues/" + name, {"arguments": {"x-max-length": 5}}, (201,))
    scene.queues.append(name)
    ask("PUT", "/queues/" + name, {"arguments": {"x-max-length": 5}}, (200,))
    ask("PUT", "/queues/" + name, {"arguments": {"x-max-length": 6}}, (409,))
    _, info = ask("GET", "/queues/" + name, None, (200,))
    equal((info["name"], info["type"], info["message_count"]), (name, "classic", 0), "queue")
    ask("PUT", "/exchanges/" + exchange, {"type": "topic"}, (204,))
    binding = {"source": exchange, "destination_queue": name, "binding_key": "a.#", "arguments": {}}
    ask("POST", "/bindings", binding, (204,))
    path = "/bindings?src=%s&dstq=%s&key=a.%%23" % (exchange, name)
    _, found = ask("GET", path, None, (200,))
    equal(len(found), 1, "bindings")
    scene.publish(name, Message(body=1), Message(body=2))
    ask("DELETE", found[0]["location"], None, (204,))
    equal(ask("GET", path, None, (200,))[1], [], "bindings")
    equal(ask("DELETE", "/queues/%s/messages" % name, None, (200,))[1]["message_count"], 2, "purged")
    ask("DELETE", "/exchanges/" + exchange, None, (204,))
    ask("DELETE", "/queues/" + name, None, (200,))
    ask("GET", "/queues/" + name, None, (404,))


SCENARIOS = {"plain": plain, "anonymous": anonymous, "scram": scram, "tls": tls,
             "external": external, "no-sasl": no_sasl, "vhost": vhost, "frames": frames,
             "declare": declare}
