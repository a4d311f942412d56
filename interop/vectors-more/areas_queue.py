"""What a queue does: why messages die in it, its limits, settlement, redelivery, priorities."""

from dsl import (bind, capture, change, closed, dead, exchange, failed, info, opened, pairs,
                 poisoned, publish, queue, receive, scenario, settle, source, string, symbol, t,
                 take, uint, wait, wait_count, words)

KINDS = ("classic", "quorum")
# Both kinds were compared when these were written; one is kept where they agree.
CLASSIC, QUORUM = KINDS[:1], KINDS[1:]


def publish_each(*bodies, to="/queues/src", **fields):
    return [publish(to, body, **fields) for body in bodies]


def add():
    rejected()
    expired()
    max_length()
    max_length_bytes()
    delivery_limit()
    settlement()
    modified()
    redelivery()
    priority()
    not_dead_lettered()
    at_least_once()
    queue_kinds()


def rejected():
    for kind in QUORUM:
        scenario(
            "reason-rejected", f"more-rejected-error-fields-{kind}",
            "rejected with an error of condition only, and with a big info map",
            source(kind),
            [publish(), receive(outcome=settle("rejected", error={"condition": "app:bad"})),
             publish(body="m2"),
             receive(outcome=settle("rejected", error={
                 "condition": "amqp:decode-error", "description": "ünïcode \u2620",
                 "info": t("map", pairs({"x-opt-a": uint(1), "list": t("list", [t("null")])}))}))],
            [capture("dlq", 2), capture("src")])
        scenario(
            "reason-rejected", f"more-rejected-unsettled-disposition-{kind}",
            "the consumer leaves its disposition unsettled: each outcome is echoed settled",
            source(kind),
            publish_each("m1", "m2", "m3", "m4") + [
                opened(credit=4), take(settle("rejected", unsettled=True)),
                take(settle("accepted", unsettled=True)),
                take(settle("modified", here=True, annotations={"x-opt-a": "b"}, unsettled=True)),
                take(settle("released", unsettled=True)), closed()],
            [capture("dlq", 2), capture("src", 1)])
    scenario(
        "reason-rejected", "more-rejected-no-dlx-quorum",
        "quorum queue without a dead-letter exchange: rejected and modified{undeliverable-here}",
        [queue("src", kind="quorum")],
        publish_each("m1", "m2") + [receive(), receive(outcome=poisoned()), info("src")],
        [capture("src")])
    scenario(
        "reason-rejected", "more-rejected-auto-delete-source",
        "an auto-delete queue whose consumer rejects and leaves",
        [exchange("dlx"), queue("dlq"), bind("dlx", "dlq"),
         queue("src", dead(), auto_delete=True)],
        publish_each("m1", "m2") + [receive(), wait(200), info("src")],
        [capture("dlq", 1)])
    scenario(
        "reason-rejected", "more-rejected-not-durable-source",
        "a queue that is not durable, messages that are not durable",
        [exchange("dlx", durable=False), queue("dlq", durable=False), bind("dlx", "dlq"),
         queue("src", dead(), durable=False)],
        publish_each("m1", durable=False) + publish_each("m2", durable=None)
        + publish_each("m3") + [receive(count=3, record=True)],
        [capture("dlq", 3)])
    scenario(
        "reason-rejected", "more-rejected-in-dead-letter-queue-twice",
        "rejected in src and rejected again in dlq, whose exchange leads to last",
        [exchange("dlx"), exchange("dlx2", "direct"), queue("last"), bind("dlx2", "last", "k2"),
         queue("dlq", dead("dlx2", "k2")), bind("dlx", "dlq"), queue("src", dead())],
        [publish(), receive(), receive("dlq", record=True)],
        [capture("last", 1), capture("dlq")])
    scenario(
        "reason-rejected", "more-rejected-by-two-consumers",
        "two consumers of one queue hold one message each; both reject",
        source(),
        [opened("a"), opened("b")] + publish_each("m1", "m2")
        + [take("rejected", "a"), take("rejected", "b"), closed("a"), closed("b")],
        [capture("dlq", 2, order="any"), capture("src")])


def expired():
    for kind in QUORUM:
        scenario(
            "reason-expired", f"more-expired-header-ttl-{kind}",
            "three messages of growing ttl expire in their order",
            source(kind),
            [publish(body="m1", ttl=100), publish(body="m2", ttl=200), publish(body="m3", ttl=300),
             wait_count("dlq", 3)],
            [capture("dlq", 3), capture("src")])
        scenario(
            "reason-expired", f"more-expired-both-ttl-{kind}",
            "queue ttl smaller, larger than and equal to the message's",
            source(kind, message_ttl=150),
            [publish(body="m1", ttl=60000), wait_count("dlq", 1), publish(body="m2", ttl=20),
             wait_count("dlq", 2), publish(body="m3", ttl=150), wait_count("dlq", 3)],
            [capture("dlq", 3), capture("src")])
        scenario(
            "reason-expired", f"more-expired-after-released-{kind}",
            "released before its ttl ends, then expires with the original deadline",
            source(kind),
            [publish(ttl=1500), receive(outcome="released"), wait_count("dlq", 1)],
            [capture("dlq", 1), capture("src")])
        scenario(
            "reason-expired", f"more-expired-while-held-then-rejected-{kind}",
            "ttl passes while a consumer holds it, then it is rejected: reason rejected",
            source(kind),
            [publish(body="m1", ttl=1500), publish(body="m2", ttl=60000), opened("a"),
             take(name="a"), opened("b"), wait(2500), take("rejected", "b"), closed("a"),
             closed("b"), wait(150)],
            [capture("dlq", 2), capture("src")])
        scenario(
            "reason-expired", f"more-expired-ttl-not-in-copy-{kind}",
            "the expired copy has no ttl and stays in a dead letter queue read late",
            source(kind, kind),
            [publish(ttl=50, priority=3, durable=False), wait_count("dlq", 1), wait(200)],
            [capture("dlq", 1), capture("src")])
        scenario(
            "reason-expired", f"more-expired-no-dlx-{kind}",
            "expired without a dead-letter exchange: gone",
            [queue("src", words(message_ttl=50), kind)],
            [publish(), wait(300), info("src")], [capture("src")])
        scenario(
            "reason-expired", f"more-expired-ttl-of-dead-letter-queue-{kind}",
            "expires by header ttl, the dead letter queue has a ttl and an exchange of its own",
            [exchange("dlx"), exchange("end"), queue("last"), bind("end", "last"),
             queue("dlq", dead("end", message_ttl=80), kind), bind("dlx", "dlq"),
             queue("src", dead(), kind)],
            [publish(ttl=80), wait_count("last", 1)],
            [capture("last", 1), capture("dlq"), capture("src")])
    scenario(
        "reason-expired", "more-expired-queue-ttl-zero-quorum",
        "x-message-ttl 0 on a quorum queue, nobody consuming",
        source("quorum", message_ttl=0),
        [publish(), wait_count("dlq", 1)], [capture("dlq", 1), capture("src")])
    scenario(
        "reason-expired", "more-expired-queue-ttl-zero-waiting-consumer",
        "x-message-ttl 0 with a consumer of credit 1 and two messages",
        source(message_ttl=0),
        [opened()] + publish_each("m1", "m2")
        + [take("accepted"), closed(), wait_count("dlq", 1)],
        [capture("dlq", 1), capture("src")])
    scenario(
        "reason-expired", "more-expired-in-order-of-queue-ttl",
        "five messages of a queue with ttl keep their order in the dead letter queue",
        source(message_ttl=100),
        publish_each("m1", "m2", "m3", "m4", "m5") + [wait_count("dlq", 5)],
        [capture("dlq", 5), capture("src")])
    for kind in QUORUM:
        scenario(
            "reason-expired", f"more-expired-together-{kind}",
            "five messages of one ttl held by a consumer come back dead, all at once",
            source(kind),
            [publish(body=f"m{i}", ttl=2000) for i in range(5)]
            + [opened(credit=5), take(count=5), wait(3000), closed(), wait_count("dlq", 5)],
            [capture("dlq", 5), capture("src")])
        scenario(
            "delivery-count", f"more-credit-left-over-{kind}",
            "three delivered, one rejected, two go back with the detach",
            source(kind),
            publish_each("m1", "m2", "m3") + [receive(credit=3), wait(100)],
            [capture("dlq", 1), capture("src", 2)])
        scenario(
            "delivery-count", f"more-credit-left-over-abort-{kind}",
            "three delivered, one rejected, two go back with the connection",
            source(kind),
            publish_each("m1", "m2", "m3") + [receive(credit=3, leave="abort"), wait(200)],
            [capture("dlq", 1), capture("src", 2)])
        scenario(
            "settle", f"more-settle-echo-of-modified-{kind}",
            "the settled state that answers a modified with each combination of its fields",
            source(kind),
            publish_each("m1", "m2", "m3", "m4", "m5") + [
                opened(credit=5),
                take(settle("modified", unsettled=True)),
                take(settle("modified", failed=False, here=True, unsettled=True)),
                take(settle("modified", failed=True, here=False, unsettled=True)),
                take(settle("modified", here=True, annotations={"x-opt-l": t("list", [])},
                            unsettled=True)),
                take(settle("rejected", error={"condition": "app:bad", "description": "why"},
                            unsettled=True)), closed()],
            [capture("dlq", 3), capture("src")])
    scenario(
        "reason-expired", "more-expired-big-ttl-kept",
        "header ttl of 4294967295: delivered as it came, recorded when rejected",
        source(), [publish(ttl=4294967295), receive(record=True)], [capture("dlq", 1)])
    scenario(
        "reason-expired", "more-expired-released-after-deadline",
        "two held messages, the deadline of the first passes, both are released",
        source(),
        [publish(body="m1", ttl=1500), publish(body="m2"), opened(credit=2), take(), take(),
         wait(2500), closed(), wait_count("dlq", 1)],
        [capture("dlq", 1), capture("src", 1)])


def max_length():
    for kind in QUORUM:
        scenario(
            "reason-maxlen", f"more-maxlen-two-{kind}",
            "x-max-length 2 (drop-head), five messages: the three oldest die in order",
            source(kind, max_length=2),
            publish_each("m1", "m2", "m3", "m4", "m5") + [wait_count("dlq", 3)],
            [capture("dlq", 3), capture("src", 2)])
        scenario(
            "reason-maxlen", f"more-maxlen-ttl-recorded-{kind}",
            "dropped by length while it has a ttl: reason maxlen and the ttl is recorded",
            source(kind, max_length=1),
            [publish(body="m1", ttl=60000), publish(body="m2"), wait_count("dlq", 1)],
            [capture("dlq", 1), capture("src", 1)])
        scenario(
            "reason-maxlen", f"more-maxlen-held-messages-{kind}",
            "x-max-length 1: two held by a consumer, two more published",
            source(kind, max_length=1),
            [opened(credit=2)] + publish_each("m1", "m2")
            + [take(), take()] + publish_each("m3", "m4") + [wait(200), info("src")],
            [capture("dlq"), ])
        scenario(
            "reason-maxlen", f"more-maxlen-no-dlx-{kind}",
            "x-max-length 1 without a dead-letter exchange",
            [queue("src", words(max_length=1), kind)],
            publish_each("m1", "m2", "m3"), [capture("src", 1)])
        scenario(
            "reason-maxlen", f"more-maxlen-drop-head-named-{kind}",
            "x-overflow drop-head by name, dead-letter-routing-key set",
            [exchange("dlx", "direct"), queue("dlq"), bind("dlx", "dlq", "over"),
             queue("src", dead(key="over", max_length=1, overflow="drop-head"), kind)],
            publish_each("m1", "m2", "m3") + [wait_count("dlq", 2)],
            [capture("dlq", 2), capture("src", 1)])
        scenario(
            "reason-maxlen", f"more-maxlen-then-rejected-{kind}",
            "dropped by length, comes back through the default exchange after a rejection",
            [queue("dlq", dead("", "src")),
             queue("src", dead("", "dlq", max_length=1), kind)],
            publish_each("m1", "m2") + [wait_count("dlq", 1), receive(outcome="accepted"),
                                        receive("dlq"), wait_count("src", 1)],
            [capture("src", 1), capture("dlq")])
        scenario(
            "reason-maxlen", f"more-maxlen-reject-publish-one-{kind}",
            "x-max-length 1 with reject-publish, a consumer takes one, another is accepted",
            source(kind, max_length=1, overflow="reject-publish"),
            publish_each("m1", "m2", "m3") + [receive(outcome="accepted"), publish(body="m4")],
            [capture("dlq"), capture("src")])
    scenario(
        "reason-maxlen", "more-maxlen-zero-classic",
        "x-max-length 0 on a classic queue with nobody consuming",
        source("classic", max_length=0),
        publish_each("m1", "m2") + [wait_count("dlq", 2)], [capture("dlq", 2), capture("src")])
    scenario(
        "reason-maxlen", "more-maxlen-zero-waiting-consumer",
        "x-max-length 0 with a consumer of credit 1 and two messages",
        source("classic", max_length=0),
        [opened()] + publish_each("m1", "m2") + [take("accepted"), closed()],
        [capture("dlq", 1), capture("src")])
    scenario(
        "reason-maxlen", "more-maxlen-zero-reject-publish-classic",
        "x-max-length 0 with reject-publish",
        source("classic", max_length=0, overflow="reject-publish"),
        [publish()], [capture("dlq"), capture("src")])
    scenario(
        "reason-maxlen", "more-maxlen-reject-publish-dlx-several",
        "reject-publish-dlx with length 2: four published",
        source("classic", max_length=2, overflow="reject-publish-dlx"),
        publish_each("m1", "m2", "m3", "m4"), [capture("dlq", 2), capture("src", 2)])
    scenario(
        "reason-maxlen", "more-maxlen-reject-publish-settled",
        "reject-publish with messages sent settled: the excess is lost without a word",
        source("classic", max_length=1, overflow="reject-publish"),
        [publish(body="m1", settled=True), publish(body="m2", settled=True)],
        [capture("dlq"), capture("src", 1)])
    scenario(
        "reason-maxlen", "more-maxlen-dead-letter-queue-full-drop-head",
        "the dead letter queue has length 1 and drops its head into a third queue",
        [exchange("dlx"), exchange("end"), queue("last"), bind("end", "last"),
         queue("dlq", dead("end", max_length=1)), bind("dlx", "dlq"), queue("src", dead())],
        publish_each("m1", "m2") + [receive(count=2, outcome=settle("rejected", span=True)),
                                    wait_count("last", 1)],
        [capture("last", 1), capture("dlq", 1)])
    scenario(
        "reason-maxlen", "more-maxlen-dead-letter-queue-full-reject-publish",
        "the dead letter queue is full and refuses: is the second dead letter kept",
        [exchange("dlx"), queue("dlq", words(max_length=1, overflow="reject-publish")),
         bind("dlx", "dlq"), queue("src", dead())],
        publish_each("m1", "m2") + [receive(count=2), wait(200), info("src")],
        [capture("dlq", 1), capture("src")])


def max_length_bytes():
    for kind in CLASSIC:
        scenario(
            "reason-maxlen", f"more-maxlen-bytes-zero-{kind}",
            "x-max-length-bytes 0", source(kind, max_length_bytes=0),
            publish_each("m1") + [wait_count("dlq", 1)], [capture("dlq", 1), capture("src")])
        scenario(
            "reason-maxlen", f"more-maxlen-bytes-one-big-{kind}",
            "one message larger than the limit pushes everything out",
            source(kind, max_length_bytes=100),
            publish_each("m1", "m2", "x" * 200) + [wait_count("dlq", 3)],
            [capture("dlq", 3), capture("src")])
        scenario(
            "reason-maxlen", f"more-maxlen-bytes-and-count-{kind}",
            "count 2 and bytes 100 together",
            source(kind, max_length=2, max_length_bytes=100),
            publish_each("a" * 40, "b" * 40, "c" * 5, "d" * 90) + [wait_count("dlq", 3)],
            [capture("dlq", 3), capture("src", 1)])
    scenario(
        "reason-maxlen", "more-maxlen-bytes-reject-publish",
        "bytes 100 with reject-publish, bodies of 60 bytes",
        source("classic", max_length_bytes=100, overflow="reject-publish"),
        publish_each("a" * 60, "b" * 60, "c" * 60), [capture("dlq"), capture("src")])
    scenario(
        "reason-maxlen", "more-maxlen-bytes-reject-publish-dlx",
        "bytes 100 with reject-publish-dlx, bodies of 60 bytes",
        source("classic", max_length_bytes=100, overflow="reject-publish-dlx"),
        publish_each("a" * 60, "b" * 60, "c" * 60), [capture("dlq"), capture("src")])


def delivery_limit():
    for limit in (0, 1, 2):
        scenario(
            "reason-delivery-limit", f"more-delivery-limit-{limit}-failed",
            f"x-delivery-limit {limit}, modified{{delivery-failed}} until it is gone",
            source("quorum", delivery_limit=limit),
            [publish()] + [receive(outcome=failed(), record=True) for _ in range(limit + 1)],
            [capture("dlq", 1), capture("src")])
        scenario(
            "reason-delivery-limit", f"more-delivery-limit-{limit}-abort",
            f"x-delivery-limit {limit}, the consumer's socket is cut until it is gone",
            source("quorum", delivery_limit=limit),
            [publish()] + [receive(outcome=None, record=True, leave="abort")
                           for _ in range(limit + 1)] + [wait(200)],
            [capture("dlq", 1), capture("src")])
    scenario(
        "reason-delivery-limit", "more-delivery-limit-rejected-first",
        "failed once below the limit, then rejected: reason rejected",
        source("quorum", delivery_limit=3),
        [publish(), receive(outcome=failed()), receive(record=True)],
        [capture("dlq", 1), capture("src")])
    scenario(
        "reason-delivery-limit", "more-delivery-limit-mixed-leavings",
        "x-delivery-limit 2: end, close, abort without settling",
        source("quorum", delivery_limit=2),
        [publish()] + [receive(outcome=None, record=True, leave=leave)
                       for leave in ("end", "close", "abort")] + [wait(200)],
        [capture("dlq", 1), capture("src")])
    scenario(
        "reason-delivery-limit", "more-delivery-limit-with-annotations",
        "annotations put on by modified{delivery-failed} stay on the dead letter",
        source("quorum", delivery_limit=1),
        [publish(), receive(outcome=failed(annotations={"x-opt-try": "one"})),
         receive(outcome=failed(annotations={"x-opt-try": "two", "x-opt-more": "y"}), record=True)],
        [capture("dlq", 1), capture("src")])
    scenario(
        "reason-delivery-limit", "more-delivery-limit-both-flags",
        "delivery-failed and undeliverable-here together at the limit: which reason",
        source("quorum", delivery_limit=1),
        [publish(), receive(outcome=failed()), receive(outcome=failed(here=True))],
        [capture("dlq", 1), capture("src")])
    scenario(
        "reason-delivery-limit", "more-delivery-limit-range",
        "three messages failed by one disposition, twice, limit 1: order",
        source("quorum", delivery_limit=1),
        publish_each("m1", "m2", "m3")
        + [receive(count=3, outcome=failed(span=True)),
           receive(count=3, outcome=failed(span=True))],
        [capture("dlq", 3), capture("src")])
    scenario(
        "reason-delivery-limit", "more-delivery-limit-then-limited-dlq",
        "limit 0 in src, limit 0 in dlq, each fails once",
        [exchange("dlx"), exchange("end"), queue("last"), bind("end", "last"),
         queue("dlq", dead("end", delivery_limit=0), "quorum"), bind("dlx", "dlq"),
         queue("src", dead(delivery_limit=0), "quorum")],
        [publish(), receive(outcome=failed()), receive("dlq", outcome=failed(), record=True)],
        [capture("last", 1), capture("dlq")])
    scenario(
        "reason-delivery-limit", "more-delivery-limit-ttl-recorded",
        "a message with ttl reaches the delivery limit",
        source("quorum", delivery_limit=0),
        [publish(ttl=60000), receive(outcome=failed())], [capture("dlq", 1)])


def settlement():
    for kind in QUORUM:
        scenario(
            "settle", f"more-settle-mixed-{kind}",
            "five messages: accepted, rejected, released, modified failed, modified undeliverable",
            source(kind),
            publish_each("m1", "m2", "m3", "m4", "m5") + [
                opened(credit=5), take("accepted"), take("rejected"), take("released"),
                take(failed()), take(poisoned()), closed()],
            [capture("dlq", 2), capture("src", 2)])
        scenario(
            "settle", f"more-settle-range-modified-{kind}",
            "one disposition over four deliveries: modified{undeliverable-here} with annotations",
            source(kind),
            publish_each("m1", "m2", "m3", "m4") + [
                receive(count=4, outcome=poisoned(annotations={"x-opt-why": "w"}, span=True))],
            [capture("dlq", 4), capture("src")])
        scenario(
            "settle", f"more-settle-range-released-then-rejected-{kind}",
            "a range is released, comes back in order, and is then rejected as a range",
            source(kind),
            publish_each("m1", "m2", "m3") + [
                receive(count=3, outcome=settle("released", span=True)),
                receive(count=3, outcome=settle("rejected", span=True), record=True)],
            [capture("dlq", 3), capture("src")])
        scenario(
            "settle", f"more-settle-out-of-order-{kind}",
            "three consumers hold one each and reject in the order 2, 3, 1",
            source(kind),
            publish_each("m1", "m2", "m3") + [
                opened("a"), take(name="a"), opened("b"), opened("d"),
                take("rejected", "b"), take("rejected", "d"), closed("a"), wait(100),
                receive()],
            [capture("dlq", 3), capture("src")])
    scenario(
        "settle", "more-settle-range-accepted-and-rest",
        "two of five accepted by a range, three rejected by another",
        source(),
        publish_each("m1", "m2", "m3", "m4", "m5") + [
            opened(credit=5), take(settle("accepted", span=True), count=2),
            take(settle("rejected", span=True), count=3), closed()],
        [capture("dlq", 3), capture("src")])


def modified():
    flags = {"none": {}, "failed": {"failed": True}, "not-failed": {"failed": False},
             "here": {"here": True}, "not-here": {"here": False},
             "failed-here": {"failed": True, "here": True},
             "not-failed-here": {"failed": False, "here": True},
             "failed-not-here": {"failed": True, "here": False}}
    for kind in KINDS:
        for name, flag in flags.items():
            scenario(
                "modified", f"more-modified-{name}-{kind}",
                "modified with this combination of flags and one annotation",
                source(kind),
                [publish(), receive(outcome=settle("modified", annotations={"x-opt-a": "b"},
                                                   **flag), record=True)],
                [capture("dlq"), capture("src")])
    scenario(
        "modified", "more-modified-merge-overwrites-quorum",
        "modified replaces a published annotation and adds another; then rejected",
        source("quorum"),
        [publish(annotations={"x-opt-a": "old", "x-opt-keep": "k"}),
         receive(outcome=settle("modified", annotations={"x-opt-a": "new", "x-opt-b": "b"})),
         receive(outcome=poisoned(annotations={"x-opt-b": "b2"}), record=True)],
        [capture("dlq", 1)])
    scenario(
        "modified", "more-modified-nested-annotations-quorum",
        "list, map and array values, nested, on a dead letter",
        source("quorum"),
        [publish(), receive(outcome=poisoned(annotations={
            "x-opt-list": t("list", [string("a"), t("list", [string("b"), t("boolean", True)])]),
            "x-opt-map": t("map", [[string("k"), t("map", [[string("in"), string("v")]])]]),
            "x-opt-array": t("array", [string("p"), string("q")], of="string"),
            "x-opt-bool": t("boolean", False), "x-opt-long": t("long", 1 << 40)}))],
        [capture("dlq", 1)])
    scenario(
        "modified", "more-modified-death-names-ignored",
        "modified that tries to set the names of the history and of routing, on redelivery",
        source("quorum"),
        [publish(), receive(outcome=settle("modified", annotations={
            "x-opt-deaths": "fake", "x-first-death-queue": "fake",
            "x-last-death-reason": "fake", "x-opt-mine": "kept"})),
         receive(outcome="rejected", record=True)],
        [capture("dlq", 1)])


def redelivery():
    for kind in CLASSIC:
        scenario(
            "delivery-count", f"more-released-twice-then-rejected-{kind}",
            "released twice, then rejected: counts on each delivery and on the dead letter",
            source(kind),
            [publish(), receive(outcome="released", record=True),
             receive(outcome="released", record=True), receive(record=True)],
            [capture("dlq", 1), capture("src")])
        for leave in ("detach", "end", "close", "abort"):
            scenario(
                "delivery-count", f"more-left-by-{leave}-then-rejected-{kind}",
                "the consumer leaves without settling; then rejected",
                source(kind),
                [publish(), receive(outcome=None, leave=leave, record=True), wait(150),
                 receive(record=True)],
                [capture("dlq", 1), capture("src")])
        scenario(
            "delivery-count", f"more-failed-twice-then-undeliverable-{kind}",
            "modified{delivery-failed} twice, then modified{undeliverable-here}",
            source(kind),
            [publish(), receive(outcome=failed()), receive(outcome=failed()),
             receive(outcome=poisoned(), record=True)],
            [capture("dlq", 1), capture("src")])
        scenario(
            "delivery-count", f"more-several-back-in-order-{kind}",
            "four held messages come back by a detach, in their old order",
            source(kind),
            publish_each("m1", "m2", "m3", "m4") + [
                opened(credit=3), take(count=3), closed(), wait(100)],
            [capture("src", 4)])
        scenario(
            "delivery-count", f"more-dead-letter-redelivered-{kind}",
            "a dead letter is released and failed in its dead letter queue",
            source(kind, kind),
            [publish(), receive(), receive("dlq", "released", record=True),
             receive("dlq", failed(), record=True)],
            [capture("dlq", 1)])


def priority():
    scenario(
        "priority", "more-priority-dead-letters-into-priority-queue",
        "rejected messages enter a dead letter queue with priorities",
        [exchange("dlx"), queue("dlq", words(max_priority=10)), bind("dlx", "dlq"),
         queue("src", dead())],
        [publish(body="m1", priority=1), publish(body="m2", priority=9),
         publish(body="m3", priority=200), publish(body="m4"),
         receive(count=4, outcome=settle("rejected", span=True)), wait_count("dlq", 4)],
        [capture("dlq", 4)])
    scenario(
        "priority", "more-priority-above-max",
        "x-max-priority 3: 9 counts as 3, absent as 0",
        [queue("src", words(max_priority=3))],
        [publish(body="m1"), publish(body="m2", priority=3), publish(body="m3", priority=9),
         publish(body="m4", priority=0), publish(body="m5", priority=1)],
        [capture("src", 5)])
    scenario(
        "priority", "more-priority-released",
        "a released message of a priority queue returns to its place",
        [queue("src", words(max_priority=5))],
        [publish(body="m1", priority=5), publish(body="m2", priority=5), publish(body="m3"),
         receive(outcome="released")],
        [capture("src", 3)])
    scenario(
        "priority", "more-priority-queue-ttl",
        "queue ttl in a priority queue: all expire",
        source(max_priority=5, message_ttl=100),
        [publish(body="m1", priority=1), publish(body="m2", priority=5), wait_count("dlq", 2)],
        [capture("dlq", 2, order="any"), capture("src")])
    scenario(
        "priority", "more-priority-rejected-carries-priority",
        "priority and durable are kept on the dead letter",
        source(max_priority=5),
        [publish(priority=4, durable=False), receive(record=True)], [capture("dlq", 1)])
    scenario(
        "priority", "more-priority-quorum-interleaved",
        "quorum queue: six messages in two classes",
        [queue("src", kind="quorum")],
        [publish(body=f"low{i}", priority=1) for i in range(3)]
        + [publish(body=f"high{i}", priority=8) for i in range(3)],
        [capture("src", 6)])


def not_dead_lettered():
    for kind in CLASSIC:
        scenario(
            "not-dead-lettered", f"more-accepted-and-settled-{kind}",
            "accepted one by one and by range, nothing dies",
            source(kind),
            publish_each("m1", "m2", "m3") + [
                receive(outcome="accepted"),
                receive(count=2, outcome=settle("accepted", span=True))],
            [capture("dlq"), capture("src")])
        scenario(
            "not-dead-lettered", f"more-purge-with-held-{kind}",
            "purge while a consumer holds one message; then it is rejected",
            source(kind),
            publish_each("m1", "m2", "m3") + [
                opened(), take(), change({"purge": "src"}), info("src"), closed(),
                wait(150)],
            [capture("dlq"), capture("src", 1)])
        scenario(
            "not-dead-lettered", f"more-delete-with-messages-{kind}",
            "delete of a queue with messages kills nothing",
            source(kind),
            publish_each("m1", "m2") + [change({"delete_queue": "src"}), wait(150)],
            [capture("dlq")])
    scenario(
        "not-dead-lettered", "more-expires-with-messages",
        "x-expires 200 with messages",
        source(expires=200),
        publish_each("m1", "m2") + [wait(900), info("src")], [capture("dlq")])
    scenario(
        "not-dead-lettered", "more-expires-with-consumer",
        "x-expires 300 while a consumer is attached, then it leaves",
        source(expires=300),
        [opened(), publish(), take("rejected"), wait(700), info("src"), closed(), wait(1000),
         info("src")],
        [capture("dlq", 1)])
    scenario(
        "not-dead-lettered", "more-auto-delete-with-messages",
        "an auto-delete queue goes with its last consumer",
        [exchange("dlx"), queue("dlq"), bind("dlx", "dlq"),
         queue("src", dead(), auto_delete=True)],
        publish_each("m1", "m2") + [opened("a"), opened("b"), take(name="a"), closed("a"),
                                    wait(150), info("src"), closed("b"), wait(200), info("src")],
        [capture("dlq")])
    scenario(
        "not-dead-lettered", "more-delete-while-held-then-settle",
        "queue deleted under a consumer that holds two messages; publisher sees released",
        source(),
        publish_each("m1", "m2") + [
            opened(credit=2), take(), change({"delete_queue": "src"}), wait(200),
            take(timeout_ms=300)],
        [capture("dlq")])


def at_least_once():
    def strict(**more):
        return dead(dead_letter_strategy="at-least-once", overflow="reject-publish", **more)

    def topology(**more):
        return [exchange("dlx"), queue("dlq", kind="quorum"), bind("dlx", "dlq"),
                queue("src", strict(**more), "quorum")]

    scenario(
        "at-least-once", "more-at-least-once-rejected",
        "two rejected by one disposition, one accepted",
        topology(),
        publish_each("m1", "m2", "m3") + [
            receive(count=2, outcome=settle("rejected", span=True)), receive(outcome="accepted"),
            wait_count("dlq", 2)],
        [capture("dlq", 2), capture("src")])
    scenario(
        "at-least-once", "more-at-least-once-expired",
        "header ttl and queue ttl", topology(message_ttl=300),
        [publish(body="m1", ttl=100), wait_count("dlq", 1), publish(body="m2"),
         wait_count("dlq", 2)],
        [capture("dlq", 2), capture("src")])
    scenario(
        "at-least-once", "more-at-least-once-delivery-limit",
        "delivery limit 1 and annotations of modified", topology(delivery_limit=1),
        [publish(), receive(outcome=failed()),
         receive(outcome=failed(annotations={"x-opt-a": "b"})), wait_count("dlq", 1)],
        [capture("dlq", 1), capture("src")])
    scenario(
        "at-least-once", "more-at-least-once-modified-annotations",
        "modified{undeliverable-here} with annotations", topology(),
        [publish(annotations={"x-opt-mine": "1"}),
         receive(outcome=poisoned(annotations={"x-opt-a": "b"})), wait_count("dlq", 1)],
        [capture("dlq", 1), capture("src")])
    scenario(
        "at-least-once", "more-at-least-once-routing-key",
        "direct exchange with dead-letter-routing-key, two targets",
        [exchange("dlx", "direct"), queue("dlq", kind="quorum"), queue("dlq2"),
         bind("dlx", "dlq", "k"), bind("dlx", "dlq2", "k"),
         queue("src", strict(x=1) | {"x-dead-letter-routing-key": "k"}, "quorum")],
        [publish(), receive(), wait_count("dlq", 1)],
        [capture("dlq", 1), capture("dlq2", 1), capture("src")])
    scenario(
        "at-least-once", "more-at-least-once-twice",
        "dead-lettered at least once from two queues in turn",
        [exchange("dlx"), exchange("end"), queue("last", kind="quorum"), bind("end", "last"),
         queue("dlq", strict() | {"x-dead-letter-exchange": "end"}, "quorum"), bind("dlx", "dlq"),
         queue("src", strict(), "quorum")],
        [publish(), receive(), wait_count("dlq", 1), receive("dlq", poisoned(), record=True),
         wait_count("last", 1)],
        [capture("last", 1), capture("dlq"), capture("src")])


def queue_kinds():
    for kind in QUORUM:
        scenario(
            "reason-rejected", f"more-single-active-consumer-{kind}",
            "two consumers of a single-active queue: only the first gets and rejects",
            source(kind, single_active_consumer=True),
            [opened("a", credit=2), opened("b", credit=2)] + publish_each("m1", "m2")
            + [take("rejected", "a"), take("rejected", "a"), take(name="b", timeout_ms=300),
               closed("a"), publish(body="m3"), take("rejected", "b"), closed("b")],
            [capture("dlq", 3), capture("src")])
    scenario(
        "reason-rejected", "more-exclusive-source",
        "publishing to an exclusive queue of another connection; consuming is refused",
        [exchange("dlx"), queue("dlq"), bind("dlx", "dlq"),
         queue("src", dead(max_length=1), exclusive=True)],
        publish_each("m1", "m2") + [receive(), wait_count("dlq", 1)],
        [capture("dlq", 1)])
    scenario(
        "dlx-config", "more-arguments-refused",
        "arguments of wrong types and values: status of each declaration",
        [exchange("dlx"), queue("dlq"), bind("dlx", "dlq")],
        [change(queue(f"src{i}", arguments)) for i, arguments in enumerate((
            words(message_ttl=-1), words(message_ttl="x"), words(max_length=-1),
            words(max_length="1"), words(overflow="drop-tail"), words(expires=0),
            words(expires=-1), words(max_priority=0), words(max_priority=256),
            words(queue_type="stack"), words(dead_letter_exchange=True),
            {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": 5},
            words(max_length_bytes=-1), words(single_active_consumer="yes"),
            words(unknown_argument=1), words(queue_version=2), words(queue_mode="lazy"),
            words(delivery_limit=1), words(dead_letter_strategy="at-most-once"),
            words(dead_letter_exchange=t("null")), words(max_length=t("double", 1.0)),
            words(message_ttl=1 << 32), words(expires=1 << 32), words(max_length=1 << 40),
            {"x-dead-letter-exchange": t("list", [])}, words(overflow=True),
            words(dead_letter_strategy=1), words(max_length=t("ulong", 1 << 63))))],
        [])
    scenario(
        "dlx-config", "more-arguments-refused-quorum",
        "what a quorum queue refuses: status of each declaration",
        [exchange("dlx"), queue("dlq"), bind("dlx", "dlq")],
        [change(queue(f"q{i}", arguments, "quorum")) for i, arguments in enumerate((
            words(max_priority=5), words(overflow="reject-publish-dlx"),
            words(dead_letter_strategy="sometimes"),
            words(queue_mode="lazy"), words(message_ttl=-1), words(delivery_limit=-5),
            words(queue_version=1), words(expires=0),
            words(single_active_consumer=True), words(dead_letter_strategy=True),
            words(max_length=-1), words(overflow="drop-tail"), words(message_ttl=1 << 32),
            {"x-dead-letter-exchange": True}, {"x-dead-letter-exchange": 5}))]
        + [change(queue("src2", kind="quorum", durable=False)),
           change(queue("src3", kind="quorum", auto_delete=True)),
           change(queue("src4", kind="quorum", exclusive=True))],
        [])
    scenario(
        "dlx-config", "more-redeclared-differently",
        "a second declaration with other arguments, and with the same",
        [exchange("dlx"), queue("src", dead())],
        [change(queue("src", arguments)) for arguments in (
            None, dead("other"), dead(key="k"), dead(max_length=1), dead(),
            {"x-dead-letter-exchange": symbol("dlx")})]
        + [change(queue("src", dead(), durable=False)),
           change(queue("src", dead(), "quorum")), change(queue("src", dead(), auto_delete=True)),
           change(queue("src", dead(), "classic"))],
        [])
