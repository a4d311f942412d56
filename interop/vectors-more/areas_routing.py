"""Where dead letters and messages go: exchanges, keys, chains, cycles, histories, policies."""

from urllib.parse import quote

from dsl import (array, binary, bind, boolean, capture, change, dead, exchange, failed, info, pairs,
                 poisoned, policy, publish, queue, receive, scenario, source, string, symbol, t,
                 uint, wait, wait_count, words)

KINDS = ("classic", "quorum")


def add():
    exchange_types()
    keys()
    topic_patterns()
    headers_matching()
    headers_values()
    local_random()
    exchange_chains()
    names()
    chains()
    cycles()
    histories()
    copies()
    spoofing()
    outcomes()
    policies()


def exchange_types():
    for kind, exchanges in zip(KINDS, ((("direct", "orig"), ("headers", "")),
                                       (("topic", "orig"), ("fanout", "")))):
        for type_, key in exchanges:
            arguments = {"x-match": "all", "color": "red"} if type_ == "headers" else None
            scenario(
                "routing", f"more-dlx-{type_}-{kind}",
                "published to an exchange with a key, dead-lettered without one of its own",
                [exchange("in", "direct"), exchange("dlx", type_), queue("dlq"),
                 bind("dlx", "dlq", key, arguments), queue("src", dead(), kind),
                 bind("in", "src", "orig")],
                [publish("/exchanges/in/orig", application={"color": "red"}), receive(record=True)],
                [capture("dlq", 1), capture("src")])
            scenario(
                "routing", f"more-dlx-{type_}-key-{kind}",
                "the same with a dead-letter-routing-key",
                [exchange("in", "direct"), exchange("dlx", type_), queue("dlq"),
                 bind("dlx", "dlq", "other" if key else "", arguments),
                 queue("src", dead(key="other"), kind), bind("in", "src", "orig")],
                [publish("/exchanges/in/orig", application={"color": "red"}), receive(record=True)],
                [capture("dlq", 1), capture("src")])
    scenario(
        "routing", "more-predeclared-exchanges",
        "each amq.* exchange as dead-letter exchange",
        [queue("dlq"), bind("amq.direct", "dlq", "k"), bind("amq.topic", "dlq", "k"),
         bind("amq.fanout", "dlq"), bind("amq.headers", "dlq", "", {"x-match": "any", "k": "v"}),
         bind("amq.match", "dlq", "", {"x-match": "any", "k": "v"})]
        + [queue(f"src{i}", dead(name, "k")) for i, name in enumerate(
            ("amq.direct", "amq.topic", "amq.fanout", "amq.headers", "amq.match"))],
        [step for i in range(5) for step in (
            publish(f"/queues/src{i}", f"m{i}", application={"k": "v"}), receive(f"src{i}"))],
        [capture("dlq", 5)])
    scenario(
        "routing", "more-internal-dlx",
        "the dead-letter exchange is internal",
        [exchange("dlx", internal=True), queue("dlq"), bind("dlx", "dlq"), queue("src", dead())],
        [publish(), receive(), publish("/exchanges/dlx/k")], [capture("dlq", 1)])
    scenario(
        "routing", "more-dlx-deleted-between",
        "the dead-letter exchange is deleted before the second death",
        source(),
        [publish(), receive(), change({"delete_exchange": "dlx"}), publish(body="m2"), receive(),
         wait(100), info("src")],
        [capture("dlq", 1), capture("src")])
    scenario(
        "routing", "more-dlq-deleted-between",
        "the dead letter queue is deleted and made again",
        source(),
        [change({"delete_queue": "dlq"}), publish(), receive(), change(queue("dlq")),
         change(bind("dlx", "dlq")), publish(body="m2"), receive()],
        [capture("dlq", 1), capture("src")])


def keys():
    for name, to in (("queue", "/queues/src"), ("exchange", "/exchanges/in/orig"),
                     ("no-key", "/exchanges/all")):
        for key in (None, "", "fixed"):
            label = {None: "absent", "": "empty", "fixed": "set"}[key]
            scenario(
                "routing", f"more-key-{label}-by-{name}",
                "dead-letter-routing-key absent, empty or set, by kind of target address",
                [exchange("in", "direct"), exchange("all"), exchange("dlx", "direct"),
                 queue("dlq")] + [bind("dlx", "dlq", k) for k in ("src", "orig", "", "fixed")]
                + [queue("src", dead(key=key)), bind("in", "src", "orig"), bind("all", "src")],
                [publish(to), receive(record=True)], [capture("dlq", 1)])
    scenario(
        "routing", "more-key-default-exchange-unroutable",
        "default exchange with a key that names no queue",
        [queue("src", dead("", "nowhere"))],
        [publish(), receive(), wait(100), info("src")], [capture("src")])
    scenario(
        "routing", "more-key-default-exchange-chain",
        "default exchange all the way: a to b by expiry, b to c by rejection",
        [queue("c"), queue("b", dead("", "c")), queue("a", dead("", "b", message_ttl=80))],
        [publish("/queues/a"), wait_count("b", 1), receive("b", record=True)],
        [capture("c", 1), capture("a")])
    scenario(
        "routing", "more-key-long",
        "routing key of 255 bytes, kept in the history",
        [exchange("in", "topic"), queue("dlq"), exchange("dlx"), bind("dlx", "dlq"),
         queue("src", dead()), bind("in", "src", "#")],
        [publish("/exchanges/in/" + "k" * 255), receive()], [capture("dlq", 1)])


def topic_patterns():
    patterns = {"hash": "#", "star": "*", "star-star": "*.*", "a-hash": "a.#", "hash-b": "#.b",
                "a-star-b": "a.*.b", "a-hash-b": "a.#.b", "exact": "a.b", "hash-hash": "#.#",
                "star-hash": "*.#", "empty": ""}
    for name, key in (("a", "a"), ("a-b", "a.b"), ("a-x-b", "a.x.b"), ("a-x-y-b", "a.x.y.b"),
                      ("empty", ""), ("dots", "a..b"), ("trailing", "a."), ("lonely-dot", ".")):
        scenario(
            "routing", f"more-topic-{name}",
            "a topic dead-letter exchange with eleven patterns",
            [exchange("dlx", "topic"), queue("src", dead(key=key))]
            + [item for p, pattern in patterns.items()
               for item in (queue(p), bind("dlx", p, pattern))],
            [publish(), receive(), wait(200)] + [info(p) for p in patterns], [])
    scenario(
        "routing", "more-topic-wildcards-in-key",
        "wildcards in the routing key itself are plain characters",
        [exchange("dlx", "topic"), queue("dlq"), queue("dlq2"), bind("dlx", "dlq", "a.#"),
         bind("dlx", "dlq2", "a.b"), queue("src", dead(key="a.*"))],
        [publish(), receive(), wait(100), info("dlq2")], [capture("dlq", 1)])
    scenario(
        "routing", "more-topic-two-patterns-one-queue",
        "two matching patterns of one queue: one copy; unbinding is seen",
        [exchange("dlx", "topic"), queue("dlq"), bind("dlx", "dlq", "a.#"),
         bind("dlx", "dlq", "#.b"), queue("src", dead(key="a.b"))],
        [publish(), receive()], [capture("dlq", 1)])


def headers_matching():
    bindings = {
        "all": {"x-match": "all", "k": "v", "n": 1},
        "any": {"x-match": "any", "k": "v", "n": 1},
        "default": {"k": "v", "n": 1},
        "none": {},
        "all-none": {"x-match": "all"},
        "any-none": {"x-match": "any"},
        "null": {"x-match": "all", "k": t("null")},
        "bool": {"x-match": "any", "flag": True},
        "x-plain": {"x-match": "all", "x-head": "h", "k": "v"},
        "x-any": {"x-match": "any-with-x", "x-head": "h"},
        "x-all": {"x-match": "all-with-x", "x-head": "h", "k": "v"},
        "text-number": {"x-match": "any", "n": "1"},
    }
    messages = {
        "both": {"k": "v", "n": t("long", 1)},
        "one": {"k": "v"},
        "wrong": {"k": "w", "n": t("long", 2)},
        "int-types": {"n": uint(1)},
        "symbol": {"k": symbol("v")},
        "bool": {"flag": boolean(True)},
        "x-head": {"x-head": "h", "k": "v"},
        "double": {"n": t("double", 1.0)},
        "empty": None,
    }
    for name, application in messages.items():
        fields = {"application": application} if application is not None else {}
        scenario(
            "routing", f"more-headers-{name}",
            "a headers dead-letter exchange with twelve bindings",
            [exchange("dlx", "headers"), queue("src", dead())]
            + [item for q, arguments in bindings.items()
               for item in (queue(q), bind("dlx", q, "", arguments))],
            [publish(**fields), receive(), wait(200)] + [info(q) for q in bindings], [])
    scenario(
        "routing", "more-headers-annotations",
        "x-match with-x sees message annotations, plain any does not",
        [exchange("dlx", "headers"), queue("src", dead())]
        + [item for q, arguments in {
            "plain": {"x-match": "any", "x-opt-a": "b"},
            "with": {"x-match": "any-with-x", "x-opt-a": "b"},
            "reason": {"x-match": "all-with-x", "x-last-death-reason": "rejected",
                       "x-first-death-queue": "src", "x-last-death-exchange": ""},
            "routing-key": {"x-match": "any-with-x", "x-routing-key": "src"},
            "exchange": {"x-match": "any-with-x", "x-exchange": "dlx"},
        }.items() for item in (queue(q), bind("dlx", q, "", arguments))],
        [publish(annotations={"x-opt-a": "b"}), receive(), wait(200)]
        + [info(q) for q in ("plain", "with", "reason", "routing-key", "exchange")], [])


def headers_values():
    bound = {
        "long": t("long", 1), "double": t("double", 1.0), "float": t("float", 1.0),
        "bool": boolean(True), "text": string("1"), "binary": binary("1"),
        "timestamp": t("timestamp", 1), "list": t("list", [string("1")]),
        "negative": t("long", -1), "seconds": t("timestamp", 5000), "five": t("long", 5),
        "five-thousand": t("long", 5000), "zero": t("double", 0.0), "void": t("null"),
    }
    sent = {
        "long": t("long", 1), "ubyte": t("ubyte", 1), "double": t("double", 1.0),
        "float": t("float", 1.0), "bool": boolean(True), "text": string("1"),
        "symbol": symbol("1"), "binary": binary("1"), "timestamp": t("timestamp", 1),
        "char": t("char", 1), "null": t("null"), "byte": t("byte", -1),
        "later": t("timestamp", 5000), "five-long": t("long", 5), "a": t("char", 97),
        "minus-zero": t("double", -0.0),
        "uuid": t("uuid", "00112233-4455-6677-8899-aabbccddeeff"),
    }
    for x_match in ("any", "all"):
        scenario(
            "routing", f"more-headers-values-{x_match}",
            "messages with a property of each type, bindings that want it of each type",
            [exchange("in", "headers")]
            + [item for q, wanted in bound.items()
               for item in (queue(q), bind("in", q, "", {"x-match": x_match, "p": wanted}))],
            [publish("/exchanges/in", name, application={"p": given})
             for name, given in sent.items()] + [wait(200)],
            [capture(q) for q in bound])


def local_random():
    scenario(
        "routing", "more-local-random",
        "x-local-random: which bindings it refuses; it looks at no key of a message",
        [exchange("in", "x-local-random"), exchange("fan"), queue("classic"),
         queue("quorum", kind="quorum"), queue("src", dead("in")), queue("dlq"),
         bind("in", "classic", "k"), bind("in", "quorum"), bind("in", "fan", to="exchange"),
         bind("in", "classic"), bind("fan", "in", "k", to="exchange")],
        [publish("/exchanges/in/any.key", "m1"), publish("/exchanges/in", "m2"),
         publish("/exchanges/fan", "m3"), publish(body="m4"), receive()],
        [capture("classic", 4)])
    scenario(
        "routing", "more-local-random-unroutable",
        "x-local-random without bindings: released, or to its alternate exchange",
        [exchange("in", "x-local-random"), exchange("fan"), queue("q"), bind("fan", "q"),
         exchange("other", "x-local-random", arguments={"alternate-exchange": "fan"})],
        [publish("/exchanges/in/k", "m1"), publish("/exchanges/other/k", "m2")],
        [capture("q", 1)])


def exchange_chains():
    scenario(
        "routing", "more-e2e-three-exchanges",
        "dead-letter exchange bound to a topic exchange bound to a headers exchange",
        [exchange("dlx", "direct"), exchange("mid", "topic"), exchange("end", "headers"),
         queue("dlq"), bind("dlx", "mid", "k.a", to="exchange"),
         bind("mid", "end", "k.*", to="exchange"),
         bind("end", "dlq", "", {"x-match": "all", "h": "1"}), queue("src", dead(key="k.a"))],
        [publish(application={"h": "1"}), receive(), publish(body="m2"), receive()],
        [capture("dlq", 1)])
    scenario(
        "routing", "more-e2e-loop",
        "two exchanges bound to each other: one copy",
        [exchange("dlx"), exchange("back"), queue("dlq"), bind("dlx", "back", to="exchange"),
         bind("back", "dlx", to="exchange"), bind("back", "dlq"), bind("dlx", "dlq"),
         queue("src", dead())],
        [publish(), receive(), publish("/exchanges/back", "m2")],
        [capture("dlq", 2)])
    scenario(
        "routing", "more-alternate-chain",
        "the alternate exchange cannot route either, its alternate can",
        [exchange("ae2"), exchange("ae1", "direct", arguments={"alternate-exchange": "ae2"}),
         exchange("dlx", "direct", arguments={"alternate-exchange": "ae1"}), queue("dlq"),
         bind("ae2", "dlq"), queue("src", dead(key="k"))],
        [publish(), receive()], [capture("dlq", 1)])
    scenario(
        "routing", "more-alternate-missing",
        "the alternate exchange does not exist",
        [exchange("dlx", "direct", arguments={"alternate-exchange": "nowhere"}),
         queue("src", dead(key="k"))],
        [publish(), receive(), publish("/exchanges/dlx/k", "m2"), wait(100), info("src")],
        [capture("src")])
    scenario(
        "routing", "more-alternate-behind-e2e",
        "an exchange reached by a binding cannot route: its alternate exchange",
        [exchange("ae"), exchange("mid", "direct", arguments={"alternate-exchange": "ae"}),
         exchange("dlx"), queue("dlq"), bind("dlx", "mid", to="exchange"), bind("ae", "dlq"),
         queue("src", dead(key="k"))],
        [publish(), receive()], [capture("dlq", 1)])
    scenario(
        "routing", "more-alternate-not-needed",
        "the dead-letter exchange routes, so its alternate stays out",
        [exchange("ae"), exchange("dlx", "direct", arguments={"alternate-exchange": "ae"}),
         queue("dlq"), queue("dlq2"), bind("dlx", "dlq", "src"), bind("ae", "dlq2"),
         queue("src", dead())],
        [publish(), receive()], [capture("dlq", 1), capture("dlq2")])
    scenario(
        "routing", "more-alternate-self",
        "an exchange that is its own alternate",
        [exchange("dlx", "direct", arguments={"alternate-exchange": "dlx"}),
         queue("src", dead(key="k"))],
        [publish(), receive(), publish("/exchanges/dlx/k", "m2"), info("src")], [capture("src")])


def names():
    for label, name in (("spaces", "a b  c"), ("percent", "50%25 off"), ("slash", "a/b"),
                        ("question", "a?b=c&d"), ("plus", "a+b"), ("emoji", "q\U0001f480"),
                        ("hash-semicolon", "a#b;c=d"), ("newline", "a\tb"),
                        ("combining", "e\u0301\u4e2d\u6587")):
        q = quote(name, safe="-._~")
        scenario(
            "routing", f"more-names-{label}",
            "queue, exchange and key of unusual characters, percent encoded in addresses",
            [exchange("x" + name, "direct"), exchange("dlx"), queue("dlq"), bind("dlx", "dlq"),
             queue(name, dead()), bind("x" + name, name, "k" + name)],
            [publish(f"/exchanges/x{q}/k{q}"), receive(name, record=True),
             publish("/queues/" + q), receive(name)],
            [capture("dlq", 2)])
    scenario(
        "publish-outcome", "more-bad-addresses",
        "target addresses of wrong forms",
        [queue("q1"), exchange("x1", "direct")],
        [publish(to) for to in (
            "", "/", "q1", "/queues", "/queues/", "/queue/q1", "/queues/q1/", "/queues/q1/x",
            "queues/q1", "/Queues/q1", "/queues/q%3", "/queues/q%zz",
            "/queues/q%31", "/exchanges", "/exchanges/", "/exchanges//k", "/exchanges/x1/",
            "/exchanges/x1/k/l", "/exchanges/x1/k%2Fl", "/exchange/x1/k", "/topic/k",
            "/amq/queue/q1", "/bindings/q1", "/exchanges/amq.default/q1")],
        [capture("q1")])
    raw = list(" \"#&+:;?@[~\u00fc%")
    scenario(
        "publish-outcome", "more-raw-characters-in-addresses",
        "characters that are not percent encoded, in queue and in key",
        [exchange("x1", "direct"), queue("q1"), queue("q+1"), queue("q:1"), queue("q@1")],
        [publish(to) for c in raw for to in (f"/queues/q{c}1", f"/exchanges/x1/k{c}1")], [])
    scenario(
        "publish-outcome", "more-raw-characters-anonymous",
        "the same in the to of the anonymous terminus",
        [exchange("x1", "direct"), queue("q1"), queue("q+1"), queue("q:1"), queue("q@1")],
        [publish(None, properties={"to": string(to)})
         for c in raw for to in (f"/queues/q{c}1", f"/exchanges/x1/k{c}1")], [])
    scenario(
        "publish-outcome", "more-raw-characters-consuming",
        "receivers of addresses that are not well formed are refused",
        [queue("q1")], [receive("missing ü"), receive("")], [])
    scenario(
        "publish-outcome", "more-anonymous-addresses",
        "the anonymous terminus with to of many forms; the link survives",
        [queue("q1"), exchange("x1", "direct"), exchange("int", internal=True),
         bind("x1", "q1", "k"), bind("x1", "q1", ""), bind("x1", "q1", "a/b")],
        [publish(None, f"m{i}", properties={"to": string(to)}) for i, to in enumerate((
            "/queues/q1", "/queues/q%31", "/exchanges/x1/k", "/exchanges/x1", "/exchanges/x1/",
            "/exchanges/x1/a%2Fb", "/exchanges/x1/nokey", "/queues/none", "/exchanges/none/k",
            "", "/", "q1", "/queues/", "/queue/q1", "/queues/q1/x", "/exchanges//k",
            "/queues/q%zz", "/exchanges/amq.default/q1", "/exchanges/int/k"))],
        [capture("q1", 5)])


def chains():
    for length in (3, 6, 10):
        names_ = [f"q{i}" for i in range(length)]
        scenario(
            "chain", f"more-chain-{length}-mixed",
            "a chain whose hops alternate between rejection and expiry, both queue types",
            [queue(names_[-1])]
            + [queue(a, dead("", b, **({"message_ttl": 60} if i % 2 else {})),
                     KINDS[i // 2 % 2])
               for i, (a, b) in reversed(list(enumerate(zip(names_, names_[1:]))))],
            [publish("/queues/q0")]
            + [step for i in range(0, length - 1, 2)
               for step in (wait_count(names_[i], 1), receive(names_[i]))]
            + [wait_count(names_[-1], 1)],
            [capture(names_[-1], 1)])
    scenario(
        "chain", "more-chain-repeats",
        "work and retry three times round, then parked by the consumer's own publish",
        [exchange("work"), exchange("retry"), queue("w", dead("retry")),
         bind("work", "w"), queue("r", dead("work", message_ttl=60)), bind("retry", "r")],
        [publish("/exchanges/work/first")]
        + [step for _ in range(3) for step in (wait_count("w", 1), receive("w"))]
        + [wait_count("w", 1)],
        [capture("w", 1), capture("r")])
    scenario(
        "chain", "more-chain-repeats-quorum",
        "the same with quorum queues and a routing key of the retry queue",
        [exchange("work", "topic"), exchange("retry", "direct"),
         queue("w", dead("retry", "again"), "quorum"), bind("work", "w", "#"),
         queue("r", dead("work", message_ttl=60), "quorum"), bind("retry", "r", "again")],
        [publish("/exchanges/work/first.key")]
        + [step for _ in range(3) for step in (wait_count("w", 1), receive("w"))]
        + [wait_count("w", 1)],
        [capture("w", 1), capture("r")])
    scenario(
        "chain", "more-chain-four-reasons",
        "one message dies of all four reasons in four queues",
        [queue("e"), queue("d", dead("", "e", max_length=0)),
         queue("c", dead("", "d", delivery_limit=0), "quorum"),
         queue("b", dead("", "c", message_ttl=60)), queue("a", dead("", "b"))],
        [publish("/queues/a", ttl=60000), receive("a"), wait_count("c", 1),
         receive("c", failed(annotations={"x-opt-n": "1"})), wait_count("e", 1)],
        [capture("e", 1)])


def cycles():
    def ring(size, ttl_from=0, kind=None):
        """q0 -> q1 -> ... -> q0; queues from `ttl_from` on expire by themselves."""
        names_ = [f"q{i}" for i in range(size)]
        return [queue(a, dead("", b, **({"message_ttl": 70} if i >= ttl_from else {})), kind)
                for i, (a, b) in enumerate(zip(names_, names_[1:] + names_[:1]))]

    for kind in KINDS:
        for size in (2, 4):
            scenario(
                "cycle", f"more-cycle-{size}-automatic-{kind}",
                "a ring in which everything expires: dropped on coming back",
                ring(size, 0, kind), [publish("/queues/q0"), wait(70 * size + 500)],
                [capture(f"q{i}") for i in range(size)])
            scenario(
                "cycle", f"more-cycle-{size}-rejected-first-{kind}",
                "a ring that begins with a rejection in q0, the rest expires, twice round",
                ring(size, 1, kind),
                [publish("/queues/q0"), receive("q0"), wait_count("q0", 1), receive("q0"),
                 wait_count("q0", 1)],
                [capture("q0", 1)])
    for position in range(3):
        names_ = ["q0", "q1", "q2"]
        scenario(
            "cycle", f"more-cycle-rejection-at-{position}",
            f"a ring of three where only q{position} is left by rejection",
            [queue(a, dead("", b, **({} if i == position else {"message_ttl": 70})))
             for i, (a, b) in enumerate(zip(names_, names_[1:] + names_[:1]))],
            [publish("/queues/q0"), wait_count(names_[position], 1), receive(names_[position]),
             wait(400), receive(names_[position], record=True), wait(400)],
            [capture(n) for n in names_])
    scenario(
        "cycle", "more-cycle-rejection-then-own-ring",
        "rejected into a ring of two that expires: the rejection is outside",
        [queue("r", dead("", "a")), queue("a", dead("", "b", message_ttl=60)),
         queue("b", dead("", "a", message_ttl=60))],
        [publish("/queues/r"), receive("r"), wait(600)], [capture("a"), capture("b")])
    scenario(
        "cycle", "more-cycle-maxlen-pair",
        "two queues of length 1 that spill into each other",
        [queue("a", dead("", "b", max_length=1)), queue("b", dead("", "a", max_length=1))],
        [publish("/queues/a", f"m{i}") for i in range(4)] + [wait(200)],
        [capture("a", 1), capture("b", 1)])
    scenario(
        "cycle", "more-cycle-reasons-differ",
        "expired in a, dropped by length in b, back to a",
        [queue("a", dead("", "b", message_ttl=60)), queue("b", dead("", "a", max_length=0))],
        [publish("/queues/a"), wait(400)], [capture("a"), capture("b")])
    scenario(
        "cycle", "more-cycle-self-rejected-then-expired",
        "default exchange to itself: rejected twice, then expires",
        [queue("a", dead("", message_ttl=2000))],
        [publish("/queues/a"), receive("a"), receive("a", record=True), wait(3000)],
        [capture("a")])
    scenario(
        "cycle", "more-cycle-delivery-limit-pair",
        "delivery limit 0 in two queues that lead to each other",
        [queue("a", dead("", "b", delivery_limit=0), "quorum"),
         queue("b", dead("", "a", delivery_limit=0), "quorum")],
        [publish("/queues/a"), receive("a", failed()), receive("b", failed(), record=True),
         wait(200)],
        [capture("a"), capture("b")])
    scenario(
        "cycle", "more-cycle-fanout-both",
        "a fanout leads back to the ring and to two other queues, twice round",
        [exchange("dlx"), queue("a", dead(message_ttl=80)), bind("dlx", "a"),
         queue("o1"), bind("dlx", "o1"), queue("o2", kind="quorum"), bind("dlx", "o2")],
        [publish("/queues/a"), wait(400)], [capture("a"), capture("o1", 1), capture("o2", 1)])
    scenario(
        "cycle", "more-cycle-fanout-rejected",
        "a fanout leads back to the source: rejected, copies count on",
        [exchange("dlx"), queue("a", dead()), bind("dlx", "a"), queue("o"), bind("dlx", "o")],
        [publish("/queues/a"), receive("a"), receive("a"), receive("a", "accepted", record=True)],
        [capture("a"), capture("o", 3)])
    scenario(
        "cycle", "more-cycle-rejected-expired-expired",
        "q0 rejected, q1 and q2 expire, q0 rejected again, then q0 left to expire by ttl",
        [queue("q0", dead("", "q1")), queue("q1", dead("", "q2", message_ttl=60), "quorum"),
         queue("q2", dead("", "q0", message_ttl=60))],
        [publish("/queues/q0")] + [step for _ in range(3)
                                   for step in (receive("q0"), wait_count("q0", 1))],
        [capture("q0", 1)])


def histories():
    scenario(
        "history", "more-history-same-queue-four-reasons",
        "one queue left by rejection, delivery limit and expiry: three entries for one queue",
        [exchange("dlx"), queue("park", dead("", "src")), bind("dlx", "park"),
         queue("src", dead(delivery_limit=0), "quorum")],
        [publish(ttl=5000), receive(), wait_count("park", 1), receive("park"),
         wait_count("src", 1), receive(outcome=failed()), wait_count("park", 1),
         receive("park"), wait_count("src", 1), receive(), wait_count("park", 1)],
        [capture("park", 1)])
    scenario(
        "history", "more-history-count-five",
        "rejected five times from one queue by the default exchange to itself",
        [queue("src", dead(""))],
        [publish(ttl=60000)] + [receive() for _ in range(5)], [capture("src", 1)])
    scenario(
        "history", "more-history-order-of-repeats",
        "a, b, c, then b again, then a again: newest first",
        [queue("a", dead("", "park")), queue("b", dead("", "park")), queue("c", dead("", "park")),
         exchange("go", "direct"), queue("park", dead("go")),
         ] + [bind("go", "b", "park")],
        [publish("/queues/a"), receive("a"), receive("park"), receive("b"), receive("park"),
         receive("b"), receive("park"), receive("b", record=True)],
        [capture("park", 1)])
    scenario(
        "history", "more-history-exchange-and-keys",
        "published to a topic exchange with a dotted key; the next hop has the fixed key",
        [exchange("in", "topic"), exchange("dlx", "topic"), queue("src", dead(key="dead.key")),
         bind("in", "src", "a.*.c"), queue("mid", dead("", "end")), bind("dlx", "mid", "dead.#"),
         queue("end")],
        [publish("/exchanges/in/a.b.c"), receive(), receive("mid", record=True)],
        [capture("end", 1)])
    scenario(
        "history", "more-history-republished-without-annotations",
        "consumed from the dead letter queue and published anew: nothing is remembered",
        source(), [publish(), receive(), receive("dlq", "accepted"), publish(), receive()],
        [capture("dlq", 1)])
    scenario(
        "history", "more-history-ttl-later",
        "the first death has no ttl, what comes after does not invent one",
        [queue("a", dead("", "b")), queue("b", dead("", "a", message_ttl=60))],
        [publish("/queues/a"), receive("a"), wait_count("a", 1), receive("a"),
         wait_count("a", 1)],
        [capture("a", 1)])


def copies():
    scenario(
        "routing", "more-copies-die-apart",
        "fanout into three queues; two copies are rejected, one expires, one source",
        [exchange("in"), exchange("dlx"), queue("dlq"), bind("dlx", "dlq")]
        + [item for n, more in (("s1", {}), ("s2", {}), ("s3", {"message_ttl": 100}))
           for item in (queue(n, dead(**more)), bind("in", n))],
        [publish("/exchanges/in/k"), wait_count("dlq", 1), receive("s1"), receive("s2")],
        [capture("dlq", 3)])
    scenario(
        "routing", "more-copies-change-apart",
        "annotations put on in one queue do not show in the other",
        [exchange("in"), exchange("dlx"), queue("dlq"), bind("dlx", "dlq"),
         queue("s1", dead(), "quorum"), bind("in", "s1"), queue("s2", dead(), "quorum"),
         bind("in", "s2")],
        [publish("/exchanges/in/k"), receive("s1", poisoned(annotations={"x-opt-a": "1"})),
         receive("s2")],
        [capture("dlq", 2)])
    for kind in KINDS:
        scenario(
            "cc", f"more-cc-fanout-{kind}",
            "x-cc with a key that leads to the same and one that leads to another queue",
            [exchange("in", "direct"), exchange("dlx", "direct"), queue("dlq"), queue("dlq2"),
             queue("src", dead(), kind), bind("in", "src", "k1"), bind("in", "src", "k2"),
             bind("dlx", "dlq", "k1"), bind("dlx", "dlq2", "k2"), queue("two"),
             bind("in", "two", "k3")],
            [publish("/exchanges/in/k1", annotations={
                "x-cc": t("list", [string("k2"), string("k3"), string("k1")])}), receive()],
            [capture("dlq", 1), capture("dlq2"), capture("two")])
    for label, typed in (("string", string("k2")), ("list-of-symbols", t("list", [symbol("k2")])),
                         ("array", array("string", [string("k2")])),
                         ("empty", t("list", [])), ("numbers", t("list", [uint(1)])),
                         ("null", t("null"))):
        scenario(
            "cc", f"more-cc-{label}", "x-cc of another type",
            [exchange("in", "direct"), queue("q1"), queue("q2"), bind("in", "q1", "k1"),
             bind("in", "q2", "k2")],
            [publish("/exchanges/in/k1", annotations={"x-cc": typed})],
            [capture("q1"), capture("q2")])


def spoofing():
    deaths = {
        "list-of-maps": t("list", [t("map", pairs({"queue": "fake", "reason": symbol("rejected"),
                                                   "count": t("ulong", 7)}))]),
        "array-of-maps": array("map", [t("map", pairs({
            "queue": "src", "reason": symbol("expired"), "count": t("ulong", 7),
            "first-time": t("timestamp", 1600000000000), "last-time": t("timestamp", 1600000000000),
            "exchange": "e", "routing-keys": array("string", [string("k")])}))]),
        "map": t("map", []), "null": t("null"), "ulong": t("ulong", 1),
    }
    for name, typed in deaths.items():
        scenario(
            "spoofing", f"more-spoof-deaths-{name}",
            "a publisher's x-opt-deaths, then a rejection and an expiry",
            [queue("end"), queue("dlq", dead("", "end", message_ttl=80)), exchange("dlx"),
             bind("dlx", "dlq"), queue("src", dead())],
            [publish(annotations={"x-opt-deaths": typed}), receive(), wait_count("end", 1)],
            [capture("end", 1)])
    scenario(
        "spoofing", "more-spoof-cycle",
        "a forged history cannot make the broker see a cycle",
        [queue("b"), queue("a", dead("", "b", message_ttl=80))],
        [publish("/queues/a", annotations={
            "x-opt-deaths": deaths["array-of-maps"], "x-first-death-queue": "b",
            "x-first-death-reason": "expired", "x-first-death-exchange": "x"}),
         wait_count("b", 1)],
        [capture("b", 1)])
    scenario(
        "spoofing", "more-spoof-exchange-routing-key",
        "a publisher's x-exchange and x-routing-key as strings, delivered and dead-lettered",
        source(),
        [publish(annotations={"x-exchange": "fake", "x-routing-key": "fake",
                              "x-delivery-count": t("long", 9)}), receive(record=True)],
        [capture("dlq", 1)])
    scenario(
        "spoofing", "more-spoof-counts-quorum",
        "a publisher's x-delivery-count and header delivery-count in a quorum queue with limit 1",
        source("quorum", delivery_limit=1),
        [publish(annotations={"x-delivery-count": t("long", 9)},
                 header={"delivery-count": uint(9)}),
         receive(outcome=failed(), record=True), receive(outcome=failed(), record=True)],
        [capture("dlq", 1)])


def outcomes():
    scenario(
        "publish-outcome", "more-outcomes-mixed",
        "routed, unroutable, full and missing in turn",
        [exchange("x", "direct"), queue("q"), bind("x", "q", "k"),
         queue("full", words(max_length=0, overflow="reject-publish")), bind("x", "full", "f"),
         exchange("gone")],
        [publish("/exchanges/x/k"), publish("/exchanges/x/none"), publish("/exchanges/x/f"),
         publish("/exchanges/gone"), publish("/exchanges/missing/k"), publish("/queues/missing"),
         publish("/queues/q", settled=True), publish("/exchanges/x/none", settled=True)],
        [capture("q", 2), capture("full")])
    scenario(
        "publish-outcome", "more-outcome-many",
        "twenty messages in a row, all accepted and in order",
        [queue("q")], [publish("/queues/q", count=20)], [info("q")])
    scenario(
        "publish-outcome", "more-consume-missing-and-bad",
        "receivers of a missing queue and of a queue that was deleted",
        [queue("q")],
        [receive("none"), change({"delete_queue": "q"}), receive("q")], [])
    scenario(
        "publish-outcome", "more-anonymous-dead-letters",
        "published through the anonymous terminus, rejected: to stays, history as for a queue",
        [exchange("in", "topic")] + source() + [bind("in", "src", "a.#")],
        [publish(None, properties={"to": string("/queues/src")}), receive(record=True),
         publish(None, "m2", properties={"to": string("/exchanges/in/a.b")}),
         receive(record=True)],
        [capture("dlq", 2)])


def policies():
    scenario(
        "dlx-config", "more-policy-ttl-and-argument",
        "message-ttl by policy and by argument: the smaller counts",
        [exchange("dlx"), queue("dlq"), bind("dlx", "dlq"),
         queue("src", dead(message_ttl=60000)), policy("p", "^src$", {"message-ttl": 100})],
        [publish(), wait_count("dlq", 1)], [capture("dlq", 1)])
    scenario(
        "dlx-config", "more-policy-replaced",
        "a policy is replaced: the dead-letter exchange of the moment of death counts",
        [exchange("dlx"), exchange("dlx2"), queue("dlq"), queue("dlq2"), bind("dlx", "dlq"),
         bind("dlx2", "dlq2"), queue("src"), policy("p", "^src$", {"dead-letter-exchange": "dlx"})],
        [publish(), publish(body="m2"), receive(),
         change(policy("p", "^src$", {"dead-letter-exchange": "dlx2",
                                      "dead-letter-routing-key": "n"})), receive()],
        [capture("dlq", 1), capture("dlq2", 1)])
