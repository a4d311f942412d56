"""Declaring queues, exchanges and bindings at /management, for the programs here that kill a broker.

Each returns the code of the answer. Values of arguments are typed, as in the runner of the vectors.
"""
import broker  # noqa: F401 (it makes the runner of the vectors known)
from amqp10 import amap, boolean, st


def ask(management, method, path, **fields):
    """a request whose body is a map"""
    status, _, _ = management.request(method, path, body=amap([(st(key), value) for key, value in fields.items()]))
    return status


def queue(management, name, arguments=None, durable=True, exclusive=False):
    typed = amap([(st(key), value) for key, value in (arguments or {}).items()])
    return ask(management, "PUT", "/queues/" + name, durable=boolean(durable), exclusive=boolean(exclusive),
               arguments=typed)


def exchange(management, name, kind="fanout"):
    return ask(management, "PUT", "/exchanges/" + name, type=st(kind), durable=boolean(True), arguments=amap([]))


def bind(management, source, destination, key=""):
    """a queue to an exchange"""
    return ask(management, "POST", "/bindings", source=st(source), destination_queue=st(destination),
               binding_key=st(key), arguments=amap([]))
