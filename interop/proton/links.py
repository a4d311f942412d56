"""Outcomes, credit, drain, termini, filters."""
from proton import Condition, Delivery, Described, Message, symbol
from proton.handlers import TransactionHandler
from proton.reactor import AtMostOnce, Copy, Filter, LinkOption, Selector

from base import empty, outcome, refused, settle, take
from shared import TIMEOUT_S, equal, until


def outcomes(scene):
    dead = scene.queue("-dead")
    queue = scene.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    scene.publish(queue, *[Message(id=name, body=name) for name in
                           ("accepted", "released", "modified", "rejected", "undeliverable")])
    receiver = scene.receiver(queue, credit=0)

    def comes(name, count, first):
        receiver.flow(1)
        message = take(receiver)
        equal((message.id, message.delivery_count, message.first_acquirer), (name, count, first), "message")
        return message

    comes("accepted", 0, True)
    receiver.accept()
    comes("released", 0, True)
    settle(receiver, Delivery.RELEASED)
    scene.count(queue)      # Proton writes credit in front of outcomes that wait: this lets them go
    comes("released", 0, False)
    receiver.accept()
    comes("modified", 0, True)
    settle(receiver, Delivery.MODIFIED, failed=True, annotations={symbol("x-opt-note"): "seen"})
    scene.count(queue)
    equal(comes("modified", 1, False).annotations[symbol("x-opt-note")], "seen", "annotation")
    receiver.accept()
    comes("rejected", 0, True)
    settle(receiver, Delivery.REJECTED, condition=Condition("app:bad", "cannot be read"))
    comes("undeliverable", 0, True)
    settle(receiver, Delivery.MODIFIED, undeliverable=True)
    reader = scene.receiver(dead)
    first, second = reader.receive(), reader.receive()
    equal([first.id, second.id], ["rejected", "undeliverable"], "dead letters")
    condition = first.annotations[symbol("x-opt-last-death-condition")]
    equal((condition, type(condition)), (symbol("app:bad"), symbol), "condition of the death")
    equal(first.annotations[symbol("x-opt-last-death-description")], "cannot be read", "description")
    equal(symbol("x-opt-last-death-condition") in second.annotations, False, "nothing is invented")
    equal(scene.count(queue), 0, "left in the queue")


def refusals(scene):
    exchange = scene.prefix + "-exchange"
    scene.management.ask("PUT", "/exchanges/" + exchange, {"type": "direct"}, (204,))
    sender = scene.connection.create_sender("/exchanges/%s/nowhere" % exchange)
    delivery = sender.link.send(Message(body=1))
    scene.connection.wait(lambda: delivery.settled)
    outcome(delivery, Delivery.RELEASED)
    scene.management.ask("DELETE", "/exchanges/" + exchange, None, (204,))
    queue = scene.queue(x_max_length=1, x_overflow="reject-publish")
    scene.publish(queue, Message(body=1))
    sender = scene.sender(queue)
    delivery = sender.link.send(Message(body=2))
    scene.connection.wait(lambda: delivery.settled)
    outcome(delivery, Delivery.REJECTED)
    condition = delivery.remote.condition
    equal(condition.name, "amqp:resource-limit-exceeded", "condition")
    equal({str(k): str(v) for k, v in condition.info.items()}, {"queue": queue, "reason": "maxlen"}, "info")


def credit(scene):
    queue = scene.queue()
    scene.publish(queue, *[Message(body=n) for n in range(5)])
    receiver = scene.receiver(queue, credit=0)
    empty(receiver)
    receiver.flow(2)
    got = [take(receiver).body, take(receiver).body]
    empty(receiver)
    receiver.accept()
    receiver.accept()
    receiver.flow(3)
    got += [take(receiver).body for _ in range(3)]
    equal(got, [0, 1, 2, 3, 4], "messages")
    for _ in range(3):
        receiver.accept()
    scene.publish(queue, Message(body=5))
    empty(receiver)


def drain(scene):
    queue = scene.queue()
    scene.publish(queue, *[Message(body=n) for n in range(3)])
    receiver = scene.receiver(queue, credit=0)
    receiver.link.drain(10)
    scene.connection.wait(lambda: receiver.link.credit == 0, timeout=TIMEOUT_S)
    equal(len(receiver.fetcher.incoming), 3, "messages that came")
    for _ in range(3):
        take(receiver)
        receiver.accept()


def presettled(scene):
    queue = scene.queue()
    sender = scene.sender(queue, options=AtMostOnce())
    sender.send(Message(body="settled"))
    until("it did not arrive", lambda: scene.count(queue) == 1)
    receiver = scene.receiver(queue, options=AtMostOnce())
    equal(receiver.receive().body, "settled", "body")
    equal(receiver.link.remote_snd_settle_mode, receiver.link.SND_SETTLED, "snd-settle-mode")
    receiver.close()
    equal(scene.count(queue), 0, "left in the queue")


def anonymous_terminus(scene):
    one, two, bound = scene.queue("-one"), scene.queue("-two"), scene.queue("-bound")
    exchange = scene.prefix + "-exchange"
    scene.management.ask("PUT", "/exchanges/" + exchange, {"type": "fanout"}, (204,))
    scene.management.ask("POST", "/bindings", {"source": exchange, "destination_queue": bound,
                                               "binding_key": "", "arguments": {}}, (204,))
    sender = scene.connection.create_sender(None)
    for address in ("/queues/" + one, "/queues/" + two, "/exchanges/" + exchange):
        outcome(sender.send(Message(address=address, body=address)), Delivery.ACCEPTED)
    for queue in (one, two, bound):
        equal(scene.count(queue), 1, queue)
    delivery = sender.link.send(Message(body="to nobody"))
    scene.connection.wait(lambda: delivery.settled)
    outcome(delivery, Delivery.REJECTED)
    scene.management.ask("DELETE", "/exchanges/" + exchange, None, (204,))


class Exclusive(LinkOption):
    def apply(self, link):
        link.properties = {symbol("exclusive"): True}


def attach_refused(scene):
    refused(lambda: scene.receiver(scene.prefix + "-missing"), "amqp:not-found")
    refused(lambda: scene.sender(scene.prefix + "-missing"), "amqp:not-found")
    refused(lambda: scene.connection.create_receiver("/nonsense/x"), "amqp:invalid-field")
    queue = scene.queue()
    alone = scene.receiver(queue, options=Exclusive())
    refused(lambda: scene.receiver(queue, name="second"), "amqp:resource-locked")
    alone.close()
    scene.publish(queue, Message(body="the session lives"))
    equal(scene.receiver(queue).receive().body, "the session lives", "body")


def deleted(scene):
    queue = scene.queue()
    receiver = scene.receiver(queue)

    def delete():
        scene.management.ask("DELETE", "/queues/" + queue, None, (200,))
        receiver.receive(TIMEOUT_S)

    refused(delete, "amqp:resource-deleted")


def dynamic(scene):
    receiver = scene.connection.create_receiver(None, dynamic=True, credit=10)
    address = receiver.link.remote_source.address
    other = scene.connect()
    sender = other.create_sender(address)
    outcome(sender.send(Message(body="answer")), Delivery.ACCEPTED)
    equal(receiver.receive().body, "answer", "body")
    sender.close()
    receiver.close()
    refused(lambda: other.create_sender(address), "amqp:not-found")


def selector(scene):
    queue = scene.queue()
    colours = ["red", "blue", "red", "green", "red", "blue"]
    scene.publish(queue, *[Message(id=n, properties={"colour": colour}, body=colour)
                           for n, colour in enumerate(colours)])
    red = scene.receiver(queue, options=Selector("colour = 'red'"))
    equal([red.receive().id for _ in range(3)], [0, 2, 4], "red ones")
    empty(red)
    for _ in range(3):
        red.accept()
    rest = scene.receiver(queue, name="rest")
    equal([rest.receive().body for _ in range(3)], ["blue", "green", "blue"], "the rest")


def references(scene):
    def of(kind, **wanted):
        return {symbol(kind): Described(symbol(kind), wanted)}

    def filters(attached):
        data = attached.link.remote_source.filter
        data.rewind()
        return sorted(data.get_dict()) if data.next() else []

    fields, further = "amqp:properties-filter", "amqp:application-properties-filter"
    queue = scene.queue()
    for n, (subject, colour) in enumerate([("invoice", "red"), ("order", "red"), ("invoice", "blue"),
                                           ("invoice", "dark red")]):
        scene.publish(queue, Message(id=n, subject=subject, properties={"colour": colour, "n": n}, body=n))
    both = scene.receiver(queue, options=Filter({**of(fields, subject="&p:inv"), **of(further, colour="&s:red")}))
    equal(filters(both), [further, fields], "filters of the answer")
    equal([both.receive().id for _ in range(2)], [0, 3], "what both filters want")
    empty(both)
    for _ in range(2):
        both.accept()
    number = scene.receiver(queue, name="number", options=Filter({**of(further, n=2), **of("app:unknown", n=1)}))
    equal(filters(number), [further], "without the unknown one")
    equal(number.receive().id, 2, "the number")
    number.accept()
    refused(lambda: scene.receiver(queue, name="wrong", options=Filter(of(fields, colour="red"))),
            "amqp:invalid-field")
    equal(scene.count(queue), 1, "left in the queue")


def sql(scene):
    def of(text):
        return Filter({symbol("sql-filter"): Described(symbol("amqp:sql-filter"), text)})

    queue = scene.queue()
    for n, (subject, price) in enumerate([("order.created", 150.5), ("order.created", 20.0), ("order.paid", 150.5),
                                          ("order.created", 99.99)]):
        scene.publish(queue, Message(id=n, subject=subject, priority=5, properties={"price": price, "n": n}, body=n))
    dear = scene.receiver(queue, options=of("p.subject = 'order.created' AND price >= 99.99 AND h.priority > 4"))
    equal([dear.receive().id for _ in range(2)], [0, 3], "what the filter wants")
    empty(dear)
    for _ in range(2):
        dear.accept()
    second = scene.receiver(queue, name="second", options=of("n % 2 = 0 AND UTC() > 0 AND subject IS NULL"))
    equal(second.receive().id, 2, "the even one")
    second.accept()
    refused(lambda: scene.receiver(queue, name="wrong", options=of("price >")), "amqp:invalid-field")
    equal(scene.count(queue), 1, "left in the queue")


def browse(scene):
    queue = scene.queue()
    scene.publish(queue, *[Message(id=n, properties={"even": n % 2 == 0}, body=n) for n in range(4)])
    browser = scene.receiver(queue, name="browser", credit=0, options=Copy())
    equal(browser.link.remote_source.distribution_mode, browser.link.source.DIST_MODE_COPY, "mode of the answer")
    browser.link.drain(10)
    scene.connection.wait(lambda: browser.link.credit == 0, timeout=TIMEOUT_S)
    equal([take(browser).body for _ in range(4)], [0, 1, 2, 3], "what is there")
    for said in (Delivery.ACCEPTED, Delivery.RELEASED, Delivery.REJECTED):
        settle(browser, said)
    settle(browser, Delivery.MODIFIED, failed=True, undeliverable=True)
    scene.publish(queue, Message(id=4, body=4))
    browser.flow(1)
    equal(take(browser).body, 4, "what arrives")
    even = scene.receiver(queue, name="even", options=[Copy(), Selector("even = TRUE")])
    equal([take(even).id for _ in range(2)], [0, 2], "what the selector wants")
    empty(even)
    equal(scene.count(queue), 5, "left in the queue")
    receiver = scene.receiver(queue)
    first = receiver.receive()
    equal((first.body, first.first_acquirer, first.delivery_count), (0, True, 0), "untouched")
    browser.close()
    even.close()


class Heard(TransactionHandler):
    """what became of a transaction"""

    def __init__(self):
        super().__init__()
        self.said = None

    def on_transaction_committed(self, event):
        self.said = "committed"

    def on_transaction_aborted(self, event):
        self.said = "aborted"

    def on_transaction_commit_failed(self, event):
        self.said = event.delivery.remote.condition.name


def declare(scene, settle_before_discharge=True):
    heard = Heard()
    context = scene.connection.conn
    made = scene.connection.container.declare_transaction(context, heard, settle_before_discharge)
    scene.connection.wait(lambda: made.id is not None, timeout=TIMEOUT_S)
    return made, heard


def discharge(scene, transaction, said):
    made, heard = transaction
    heard.said = None
    made.abort() if said == "aborted" else made.commit()
    scene.connection.wait(lambda: heard.said, timeout=TIMEOUT_S)
    equal(heard.said, said, "discharge")


def posts(scene, sender, transaction, *bodies):
    for body in bodies:
        delivery = transaction[0].send(sender.link, Message(body=body))
        scene.connection.wait(lambda: delivery.settled, timeout=TIMEOUT_S)
        equal(int(delivery.remote_state), 0x34, "state of a post")


def accepts(receiver, transaction):
    receiver.flow(1)
    message = take(receiver)
    transaction[0].accept(receiver.fetcher.unsettled.popleft())
    return message.body, message.delivery_count


def transactions(scene):
    queue = scene.queue()
    sender = scene.sender(queue)
    kept, dropped = declare(scene), declare(scene)
    posts(scene, sender, kept, 1, 2)
    posts(scene, sender, dropped, 3)
    equal(scene.count(queue), 0, "before the commit")
    discharge(scene, dropped, "aborted")
    discharge(scene, kept, "committed")
    equal(scene.count(queue), 2, "after the commit")
    receiver = scene.receiver(queue, credit=0)
    dropped = declare(scene)
    equal(accepts(receiver, dropped), (1, 0), "first")
    discharge(scene, dropped, "aborted")
    moved = declare(scene)
    equal(accepts(receiver, moved), (1, 1), "again, after the rollback")
    posts(scene, sender, moved, 4)
    discharge(scene, moved, "committed")
    # What Proton has not settled is its own after a rollback, and it releases that.
    held = declare(scene, settle_before_discharge=False)
    equal(accepts(receiver, held), (2, 0), "second")
    discharge(scene, held, "aborted")
    last = declare(scene, settle_before_discharge=False)
    equal(accepts(receiver, last), (2, 0), "again, after it was released")
    discharge(scene, last, "committed")
    receiver.flow(1)
    equal(take(receiver).body, 4, "what was sent in the transaction that took the first")
    receiver.accept()
    discharge(scene, last, "amqp:transaction:unknown-id")
    receiver.close()
    equal(scene.count(queue), 0, "left in the queue")


SCENARIOS = {"outcomes": outcomes, "refusals": refusals, "credit": credit, "drain": drain,
             "presettled": presettled, "anonymous-terminus": anonymous_terminus,
             "attach-refused": attach_refused, "deleted": deleted, "dynamic": dynamic,
             "selector": selector, "references": references, "sql": sql, "browse": browse, "transactions": transactions}
