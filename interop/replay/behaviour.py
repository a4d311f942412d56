#!/usr/bin/env python3
"""Replays recordings/amqp-behaviour-recordings.json against a broker, frame by frame.

    behaviour.py --port 5672 --vhost NAME                                Coroner: the vhost must exist and be empty
    behaviour.py --port 5692 --vhost NAME --rabbitmq http://HOST:15692   RabbitMQ itself: no differences allowed

A recording names the frames that matter; what has to happen before (an attach, a delivery) is in
preparation.py.  Where Coroner differs on purpose, known_differences.toml says so under the title of
the case.  Exit status 0 = everything as recorded or as listed.
"""
import itertools
import json
import os
import sys
import time

from compare import differences
from preparation import PREPARATION, Case, preparation
from setting import Setting, Tally, arguments
from wire import VECTORS, Closed, message
from amqp10 import boolean, st, uint

ANSWER_MAX_S = 6.0      # RabbitMQ drops a refused connection after three seconds
QUIET_S = 0.15          # nothing more may come within this time


# ------------------------------------------------------------ playing a case
def play(case, frames, until_closed):
    """sends what the recording sends and returns the frames that came back, and whether TCP ended"""
    received, ended = [], False
    try:
        if case.after:
            case.after()
        for direction, group in itertools.groupby(frames, key=lambda f: f["dir"]):
            if direction == "recv":
                collect(case.peer, received, len(received) + len(list(group)))
                continue
            if any(r["frame"]["p"] == "close" for r in received):
                break                   # the recorder answered a close by itself
            for f in group:
                send(case, f)
        quiet = ANSWER_MAX_S if until_closed else QUIET_S
        while (extra := case.peer.receive(quiet)) is not None:
            received.append(extra)
    except Closed:
        ended = True
    return received, ended


def collect(peer, received, wanted):
    deadline = time.monotonic() + ANSWER_MAX_S
    while len(received) < wanted and time.monotonic() < deadline:
        r = peer.receive(deadline - time.monotonic())
        if r is None:
            return
        received.append(r)
        if r["frame"]["p"] == "sasl-outcome" and r["frame"]["code"]["v"] == 0:
            peer.send_bytes(b"AMQP\x00\x01\x00\x00")
            peer.header()


def send(case, f):
    performative = f["frame"]
    kind = 1 if performative["p"].startswith("sasl") else 0
    if performative["p"] == "open" or performative["p"] == "sasl-init":
        performative = here(performative, case.setting.vhost)
    payload = case.payload if f.get("payload-bytes") else b""
    if performative["p"] == "transfer":
        channel = 0
    else:
        channel = case.channel
    case.peer.send(performative, payload, channel, kind)


def here(performative, vhost):
    """the recording's virtual host is ours"""
    host = performative.get("hostname")
    if host is None or host["v"] not in ("vhost:oracle-wire", "vhost:oracle"):
        return performative
    forbidden = host["v"] == "vhost:oracle"
    return dict(performative, hostname=st("vhost:" + ("oracle-forbidden" if forbidden else vhost)))


def play_bytes(case, setting):
    """the cases that send raw bytes: everything that comes back within three seconds"""
    peer = case.peer
    received, ended = [], False
    try:
        for data in case.case["sent-hex"]:
            if "..." in data:       # shortened in the recording: a frame header and zeros
                raw = bytes.fromhex(data.split("...")[0])
                raw += bytes(int(data.split("(")[1].split()[0]) - len(raw))
            else:
                raw = bytes.fromhex(data)
            peer.send_bytes(raw.replace(b"\xa1\x11vhost:oracle-wire", here_bytes(setting.vhost)))
            first = True
            while True:
                if peer.buffer[:4] == b"AMQP" or (first and not received):
                    header = peer.header(1)
                    if header is not None:
                        received.append({"protocol-header": header.hex()})
                        first = False
                        continue
                r = peer.receive(0.3)
                if r is None:
                    break
                first = False
                received.append({"frame": r["frame"]})
        peer.receive(3)
    except Closed:
        ended = True
    return received, ended


def here_bytes(vhost):
    """the open of the raw cases names a virtual host of 17 letters; ours must fit in its place"""
    name = b"vhost:" + vhost.encode()
    assert len(name) == 17, "the virtual host's name must have 11 letters: " + vhost
    return b"\xa1\x11" + name


# ------------------------------------------------------------ judging
def with_size(f, size):
    """a received attach with our max-message-size in place of the recorded one, if another is listed"""
    if size is None or f["dir"] != "recv" or "max-message-size" not in f["frame"]:
        return f
    return dict(f, frame=dict(f["frame"], **{"max-message-size": {"t": "ulong", "v": size}}))


def expected_frames(case, listed):
    """the recorded frames, or what known_differences.toml puts in their place"""
    frames = case["frames"]
    if listed is None:
        return frames
    if "order" in listed:
        return [with_size(f, listed.get("max-message-size")) for f in frames]
    sent = [f for f in frames if f["dir"] == "send" and f["frame"]["p"] != "close"]
    last = sent[-1]["frame"] if sent else None
    kept = frames[:frames.index(sent[-1]) + 1] if sent else []
    if "then" in listed:
        return kept + [{"dir": "recv", "frame": f} for f in json.loads(listed["then"])]
    error = next((f["frame"].get("error") for f in frames if f["frame"]["p"] in ("end", "close")), None)
    if "condition" in listed:
        error = {"p": "error", "condition": {"t": "symbol", "v": listed["condition"]}}
    if error is not None:
        error = dict(error, description=st("$TEXT"))
    answer = {"refused": refused, "detached": detached, "ended": ended, "closed": closed,
              "opened and closed": opened_and_closed}[listed["instead"]](last, error)
    return kept + [{"dir": "recv", "frame": f} for f in answer]


def refused(attach, error):
    """[AMQP 2.6.3]: the attach is answered with a null terminus, then detached with the error"""
    terminus = "source" if attach["role"]["v"] else "target"
    answer = {"p": "attach", "name": attach["name"], "handle": attach["handle"],
              "role": boolean(not attach["role"]["v"]), "$without": terminus}
    return [answer, detached(attach, error)[0]]


def detached(sent, error):
    handle = sent.get("handle", uint(0)) if sent else uint(0)
    return [{"p": "detach", "handle": handle, "closed": boolean(True),
             "error": error}]


def ended(_sent, error):
    return [{"p": "end", "error": error}]


def closed(_sent, error):
    return [{"p": "close", "error": error}]


def opened_and_closed(_sent, error):
    return [{"p": "open", "$any": True}, {"p": "close", "error": error}]


def without_credit(wanted, observed):
    """the frames without flows that only give a publisher more credit: they may come at any time"""
    out = []
    for f in observed:
        due = wanted[len(out)]["p"] if len(out) < len(wanted) else None
        if f["p"] != "flow" or "handle" not in f or "available" in f or due == "flow":
            out.append(f)
    return out


def judge(wanted, observed, free, in_order=True):
    """the differences between two lists of frames"""
    if free and in_order:
        observed = without_credit(wanted, observed)
    if not in_order:
        wanted, observed = (sorted(frames, key=kind_and_handle) for frames in (wanted, observed))
    names = [[f["p"] for f in frames] for frames in (wanted, observed)]
    if names[0] != names[1]:
        return ["recorded %s, observed %s: %s" % (names[0], names[1], json.dumps(observed)[:600])]
    out = []
    for want, seen in zip(wanted, observed):
        want, seen = dict(want), dict(seen)
        if want.pop("$any", False):
            continue
        missing = want.pop("$without", None)
        if missing is not None:
            if missing in seen:
                out.append("the refusing attach has a %s" % missing)
            seen = {k: seen[k] for k in want if k in seen}
        if want["p"] == "disposition":          # an absent `last` is `first` [AMQP 2.7.6]
            want.setdefault("last", want["first"])
            seen.setdefault("last", seen.get("first"))
        if want["p"] == "transfer":             # opaque, and counted up by RabbitMQ across cases
            same_length = len(want["delivery-tag"]["v"]) == len(seen["delivery-tag"]["v"])
            if same_length or free:
                want["delivery-tag"] = seen["delivery-tag"]
        if want["p"] == "open" and free:
            out += own_identity(want.pop("properties"), seen.pop("properties", None))
        if want["p"] == "sasl-mechanisms" and free:
            out += own_mechanisms(seen)
            continue
        out += differences(want, seen, "", free)
    return out


def kind_and_handle(f):
    return f["p"], f.get("handle", uint(0))["v"]


def own_identity(recorded, observed):
    """the product is ours; everything else is there, under a symbol and as a string"""
    if observed is None:
        return ["open has no properties"]
    pairs = {key["v"]: value for key, value in observed["v"]}
    wrong = [key for key, value in observed["v"] if (key["t"], value["t"]) != ("symbol", "string")]
    missing = [k["v"] for k, _ in recorded["v"] if k["v"] in ("product", "version") and k["v"] not in pairs]
    return ["open.properties: %s" % each for each in wrong + missing]


OFFERED = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS"]


def own_mechanisms(observed):
    """AMQPLAIN is RabbitMQ's own, SCRAM is ours"""
    offered = [each["v"] for each in observed["sasl-server-mechanisms"]["v"]]
    return [] if offered == OFFERED else ["mechanisms: %s" % offered]


def received_frames(received):
    return [r["frame"] for r in received]


def run(setting, admin, heading, case):
    """the differences of one case"""
    listed = setting.listed.get("behaviour", {}).get(case["title"])
    free = {path: own["recorded"] for path, own in setting.listed.get("free_values", {}).items()}
    admin.purge("q1")
    c = Case(setting, admin, case)
    try:
        if "sent-hex" in case:
            return judge_bytes(setting, c, listed, free)
        if "message-bytes" in case:
            return large_message(c, case, listed, free)
        if "initial-credit" in case:
            return credit_is_renewed(c, case, free)
        no_frames_sent = not any(f["dir"] == "send" for f in case["frames"])
        if not no_frames_sent or case["title"] in PREPARATION:
            preparation(heading, case)(c)
        frames = expected_frames(case, listed)
        until_closed = "tcp" in case and listed is None
        received, tcp_ended = play(c, frames, until_closed)
        wanted = [f["frame"] for f in frames if f["dir"] == "recv"]
        in_order = listed is None or "order" not in listed
        out = judge(wanted, received_frames(received), free, in_order)
        if until_closed and not tcp_ended:
            out.append("the TCP connection is still open")
        return out
    finally:
        c.close()


def judge_bytes(setting, c, listed, free):
    case = c.case
    received, tcp_ended = play_bytes(c, setting)
    wanted = case["received"]
    if listed is not None:
        wanted = wanted[:listed["keep"]] + [{"frame": f} for f in json.loads(listed["then"])]
    heads = [[r.get("protocol-header") for r in frames] for frames in (wanted, received)]
    if heads[0] != heads[1]:
        return ["recorded %s, observed %s" % (json.dumps(wanted)[:500], json.dumps(received)[:500])]
    out = judge([r["frame"] for r in wanted if "frame" in r],
                [r["frame"] for r in received if "frame" in r], free)
    # After a close of ours the connection waits for the peer's; "still open" is RabbitMQ's slowness.
    if case["tcp"].startswith("closed") and listed is None and not tcp_ended:
        out.append("the TCP connection is still open")
    return out


def large_message(c, case, listed, free):
    """a message by its size alone; flow frames of the session are not listed"""
    c.sending()
    overhead = 8                            # a data section with a 32-bit length
    body = b"\x00\x53\x75\xb0" + (case["message-bytes"] - overhead).to_bytes(4, "big")
    payload = body + bytes(case["message-bytes"] - overhead)
    wanted = [f["frame"] for f in expected_frames(case, listed) if f["dir"] == "recv"]
    received = []
    try:
        c.peer.transfer(payload)
    except Closed:
        pass
    try:
        while len(received) < len(wanted):
            r = c.peer.receive(ANSWER_MAX_S)
            if r is None:
                break
            if r["frame"]["p"] != "flow":
                received.append(r)
    except Closed:
        pass
    return judge(wanted, received_frames(received), free)


def credit_is_renewed(c, case, free):
    """200 messages one after the other never run out of credit"""
    c.begun()
    flow = c.peer.sender("/queues/q1")
    granted = flow["delivery-count"]["v"] + flow["link-credit"]["v"]
    out = []
    if not free and flow["link-credit"]["v"] != case["initial-credit"]:
        out.append("initial credit %d, recorded %d" % (flow["link-credit"]["v"], case["initial-credit"]))
    for delivery_id in range(200):
        if delivery_id >= granted:
            out.append("no credit for message %d" % delivery_id)
            break
        c.peer.transfer(message(), 0, delivery_id)
        while c.peer.receive(5)["frame"]["p"] != "disposition":
            flow = c.peer.last_flow
            if "handle" not in flow:
                continue
            granted = flow["delivery-count"]["v"] + flow["link-credit"]["v"]
    return out


# ------------------------------------------------------------ all of them
def prepare(setting, admin):
    for name, kind in (("q1", "classic"), ("q2", "classic"), ("qq", "quorum"), ("mine-q", "classic")):
        admin.queue(name, kind)
    for name in ("x1", "mine-x"):
        admin.exchange(name)
    admin.exchange("xi", internal=True)


def skipped(setting, case):
    reason = setting.listed.get("skipped_behaviour", {}).get(case["title"])
    return None if setting.rabbitmq else reason


def main():
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="part of a title")
    options = parser.parse_args()
    setting = Setting(options)
    admin = setting.management()
    prepare(setting, admin)
    with open(os.path.join(VECTORS, "recordings", "amqp-behaviour-recordings.json")) as f:
        recordings = json.load(f)
    heading, tally = "", Tally()
    for case in recordings:
        if "heading" in case:
            heading = case["heading"]
            continue
        if options.only not in case["title"]:
            continue
        reason = skipped(setting, case)
        if reason:
            print("SKIP  %s (%s)" % (case["title"], reason))
            continue
        tally.add(case["title"], lambda case=case, heading=heading: run(setting, admin, heading, case))
    admin.close()
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
