#!/usr/bin/env python3
"""Replays recordings/management-recordings.json against a broker, request by request.

    management.py --port 5672 --vhost NAME                                Coroner: the vhost must exist and be empty
    management.py --port 5692 --vhost NAME --rabbitmq http://HOST:15692   RabbitMQ itself: no differences allowed

Every typed field of every answer is compared (the order of map entries is not significant).  The
exchanges build on each other, as they did when they were recorded.  Where Coroner differs on
purpose, known_differences.toml says so under the title.  Exit status 0 = as recorded or as listed.
"""
import json
import os
import sys
import time

from compare import differences
from setting import LIMITED, Setting, Tally, arguments
from wire import VECTORS
from amqp10 import (AmqpError, T, amap, binary, boolean, comp, decode_message, encode_message, plain,
                    st, sym)

OTHER_CONNECTION = "exclusive queue of another connection"
ANSWER_MAX_S = 6


class Pair:
    """the two links of the management node, on a connection of their own"""

    def __init__(self, setting, user="guest", names=("mgmt", "mgmt"), addresses=("me", "me"), both=True):
        self.conn = setting.connect(user)
        self.session = self.conn.session()
        common = dict(wait=False, snd_settle_mode=T("ubyte", 1), rcv_settle_mode=T("ubyte", 0),
                      properties=amap([(sym("paired"), boolean(True))]))
        self.requests = self.session.attach(
            names[0], "sender", target=comp("target", address=st("/management")),
            source=comp("source", address=st(addresses[0])), **common)
        self.answers = self.session.attach(
            names[1], "receiver", source=comp("source", address=st("/management")),
            target=comp("target", address=st(addresses[1])), **common) if both else None

    def usable(self):
        return not (self.session.ended or self.conn.closed or self.requests.detached or
                    (self.answers is not None and self.answers.detached))

    def _broken(self):
        return not self.usable()

    def ask(self, request, settled=True, credit=True):
        """the answer as the recordings write it: {"status", "response", ...} or {"failed", "error"}"""
        try:
            self.conn.pump(lambda: self.requests.credit > 0 or self._broken(), ANSWER_MAX_S)
            self._check()
            if self.answers is not None:
                self.conn.pump(lambda: self.answers.remote_attach or self._broken(), ANSWER_MAX_S)
                self._check()
                if credit:
                    self.answers.flow(1)
            self.session.transfer(self.requests, encode_message(request)[0], settled=settled, wait=0)
            self.conn.pump(lambda: (self.answers is not None and self.answers.inbox) or self._broken(),
                           ANSWER_MAX_S)
            self._check()
            if self.answers is None or not self.answers.inbox:
                raise AmqpError("timeout", None)
        except AmqpError as e:
            return failure(e)
        return answer(self.answers.inbox.pop(0))

    def _check(self):
        self.session.check()
        for link in (self.requests, self.answers):
            if link is not None and link.detached:
                raise AmqpError("detach", link.detached.get("error"))

    def close(self):
        self.conn.close()


def failure(e):
    error = e.err or {}
    out = {"condition": error.get("condition")}
    if error.get("description") is not None:
        out["description"] = st("$TEXT")
    return {"status": None, "failed": e.kind, "error": out}


def answer(delivery):
    m, _ = decode_message(delivery.raw)
    response = {"sections": m["sections"]}
    for section in ("header", "message-annotations", "properties", "application-properties", "body"):
        if m.get(section) is not None:
            response[section] = m[section]
    transfer = {k: delivery.transfer.get(k) for k in ("delivery-tag", "message-format", "settled")}
    return {"status": int(m["properties"]["subject"]["v"]), "response": response,
            "response-transfer": transfer}


# ------------------------------------------------------------ what happens before
def fill(setting, queue, count):
    """count messages in a queue, accepted"""
    conn = setting.connect()
    session = conn.session()
    link = session.attach("fill", "sender", "/queues/" + queue)
    raw, _ = encode_message({"body": [{"section": "data", "value": binary(b"m")}]})
    for _ in range(count):
        session.transfer(link, raw)
    conn.close()


def hold_one(setting, queue):
    """a consumer that holds one message; closing the connection returns it"""
    conn = setting.connect()
    link = conn.session().attach("hold", "receiver", "/queues/" + queue)
    link.flow(1)
    conn.pump(lambda: link.inbox, ANSWER_MAX_S)
    time.sleep(0.1)
    return conn


class Replay:
    def __init__(self, setting):
        self.setting = setting
        self.user = "guest"
        self.pair = None
        self.other = None           # the connection that owns no exclusive queue
        self.holder = None
        self.location = None        # of the binding with arguments, from the list answer

    def close(self):
        for each in (self.pair, self.other, self.holder):
            if each is not None:
                each.close()

    def heading(self, heading):
        self.user = "guest"
        if heading.startswith("Permissions"):
            admin = self.setting.management()
            admin.exchange("mine-x")
            admin.close()
            self.user = LIMITED
            self.renew()

    def renew(self):
        if self.pair is not None:
            self.pair.close()
        self.pair = Pair(self.setting, self.user)

    def before(self, title):
        if title.startswith("get a queue with three messages"):
            fill(self.setting, "q1", 3)
            self.holder = hold_one(self.setting, "q1")
        elif title == "purge: three messages":
            self.holder.close()
            self.holder = None
            time.sleep(0.3)
        elif title.startswith("delete a queue that holds two messages"):
            fill(self.setting, "q1", 2)
        elif title.startswith(OTHER_CONNECTION) and self.other is None:
            self.other = Pair(self.setting)

    def ask(self, case):
        title = case["title"]
        self.before(title)
        if title in VARIANTS:
            pair = Pair(self.setting, **VARIANTS[title])
            got = pair.ask(request("GET", "/queues/q1"))
            pair.close()
            return got
        if title.startswith(OTHER_CONNECTION):
            return self.other.ask(case["request"])
        if self.pair is None or not self.pair.usable():
            self.renew()
        asked = case["request"]
        if "using the location from the list answer" in title and self.location:
            asked = dict(asked, properties=dict(asked["properties"], to=st(self.location)))
        got = self.pair.ask(asked, case.get("settled", True), case.get("credit-given", True))
        if title == "list: with arguments" and got["status"] == 200:
            entries = plain(got["response"]["body"][0]["value"])
            self.location = entries[0]["location"] if entries else None
        return got

    def undo(self, case):
        """what only we accept must not change the cases after it"""
        path = case["request"]["properties"]["to"]["v"]
        method = case["request"]["properties"]["subject"]["v"]
        if method == "PUT":
            self.pair.ask(request("DELETE", path))


VARIANTS = {
    "equal client addresses": dict(addresses=("me", "me")),
    "client addresses differ": dict(addresses=("me-a", "me-b")),
    "link names differ": dict(names=("mgmt-a", "mgmt-b")),
    "only the request half": dict(both=False),
}


def request(method, path):
    return {"properties": {"message-id": st("i"), "to": st(path), "subject": st(method),
                           "reply-to": st("$me")},
            "body": [{"section": "amqp-value", "value": {"t": "null"}}]}


# ------------------------------------------------------------ judging
def canonical(x, vhost):
    """maps sorted by key, the virtual host's name and opaque binding tokens taken out"""
    if isinstance(x, list):
        return [canonical(i, vhost) for i in x]
    if not isinstance(x, dict):
        return x
    if x.get("t") == "map":
        pairs = [[k, canonical(member(k, v, vhost), vhost)] for k, v in x["v"]]
        return {"t": "map", "v": sorted(pairs, key=lambda pair: json.dumps(pair[0]))}
    return {k: canonical(v, vhost) for k, v in x.items()}


def member(key, value, vhost):
    if key.get("v") == "vhost" and value.get("v") in ("oracle-mgmt", vhost):
        return st("(the virtual host)")
    if key.get("v") == "location" and "args=" in value["v"]:
        path, _, token = value["v"].partition("args=")
        return st(path + "args=" + ("(token)" if token else ""))
    return value


def judge(case, got, listed, vhost):
    wanted = {k: case.get(k) for k in ("status", "failed", "error", "response", "response-transfer")}
    seen = {k: got.get(k) for k in wanted}
    if listed is not None:
        return judge_listed(listed, seen)
    if case.get("response-transfer") is None:
        seen["response-transfer"] = None
    if wanted["response"] is not None:
        wanted["response"] = {k: v for k, v in wanted["response"].items() if k != "volatile-fields"}
    return differences(canonical(wanted, vhost), canonical(seen, vhost))


def judge_listed(listed, seen):
    """a listed difference: a status with a text, or the end of a link with a condition"""
    if seen["status"] != listed.get("status"):
        return ["listed %s, observed %s" % (listed, json.dumps(seen)[:500])]
    if "status" in listed:
        body = seen["response"]["body"][0]["value"]
        if listed["status"] >= 400 and (body["t"] != "string" or not body["v"]):
            return ["the body of a refusal is not a text: %s" % body]
        return differences(json.loads(listed["body"]), body) if "body" in listed else []
    condition = (seen["error"] or {}).get("condition") or {}
    if (seen["failed"], condition.get("v")) != (listed["failed"], listed["condition"]):
        return ["listed %s, observed %s" % (listed, json.dumps(seen)[:500])]
    return []


def one(replay, setting, case, listed):
    """what differs in a case; what it did beyond the recording is undone"""
    got = replay.ask(case)
    lines = judge(case, got, listed, setting.vhost)
    if listed and 200 <= (got["status"] or 0) < 300:
        replay.undo(case)
    return lines


def main():
    options = arguments(__doc__).parse_args()
    setting = Setting(options)
    with open(os.path.join(VECTORS, "recordings", "management-recordings.json")) as f:
        recordings = json.load(f)
    replay = Replay(setting)
    tally = Tally()
    for case in recordings:
        if "heading" in case:
            replay.heading(case["heading"])
            continue
        listed = setting.listed.get("management", {}).get(case["title"])
        tally.add(case["title"], lambda case=case, listed=listed: one(replay, setting, case, listed))
    replay.close()
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
