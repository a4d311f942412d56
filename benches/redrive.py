#!/usr/bin/env python3
"""A redrive beside a client that consumes and publishes: how fast dead letters go back.

    benches/redrive.py                      three rounds of 100,000 dead letters, target/dist/coroner
    benches/redrive.py --rounds 1 --messages 20000 --broker PATH

In each round the same durable dead letters are brought back to the durable queue where they failed, first by a
client, as a script does it: it consumes, publishes, and accepts once the publish is accepted, 1,000 in flight, with
what the interop runner is made of (Python). Then by a redrive. Told are messages a second, their ratio, and how much
processor time of the broker a message took, in which the client has no part. Standard library only.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))
import declare  # noqa: E402
import http_api  # noqa: E402
from broker import Broker, binary_of  # noqa: E402
from amqp10 import Management, boolean, comp, encode_message, st  # noqa: E402

ACCEPTED, REJECTED = comp("accepted"), comp("rejected")
IN_FLIGHT = 1_000
WAIT_MAX_S = 120
BODY_BYTES = 1_024


def wait(conn, until, what):
    conn.pump(until, WAIT_MAX_S)
    assert until(), "in vain: " + what


def processor_s(broker):
    with open("/proc/%d/stat" % broker.process.pid) as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def publish(session, link, bodies):
    """sends these and waits until all are accepted"""
    waiting = set()
    for body in bodies:
        wait(session.conn, lambda: session.may_send(link), "credit")
        waiting.add(session.transfer(link, body, wait=0))
    wait(session.conn, lambda: all(did in session.dispositions for did in waiting), "outcomes")
    refused = [did for did in waiting if session.dispositions.pop(did)["state"]["p"] != "accepted"]
    assert not refused, "%d were not accepted" % len(refused)


def take(session, link, count):
    """so many deliveries at once"""
    link.flow(count)
    wait(session.conn, lambda: len(link.inbox) >= count, "deliveries")
    taken, link.inbox[:] = link.inbox[:], []
    return taken


def settle(session, taken, state):
    """settles a range and waits until that is confirmed"""
    last = taken[-1].id
    session.disposition(taken[0].id, last, state, settled=False)
    wait(session.conn, lambda: last in session.sender_settles, "settlement")
    session.sender_settles.clear()


def each(messages):
    return [min(IN_FLIGHT, messages - done) for done in range(0, messages, IN_FLIGHT)]


def fill(broker, messages):
    """so many dead letters in `dead`, rejected in `work`"""
    conn = broker.connect("fill")
    session = conn.session()
    body = encode_message({"header": {"durable": boolean(True)},
                           "body": [{"section": "amqp-value", "value": st("x" * BODY_BYTES)}]})[0]
    sender, receiver = session.attach("to", "sender", "/queues/work"), session.attach("from", "receiver", "/queues/work")
    for count in each(messages):
        publish(session, sender, [body] * count)
        settle(session, take(session, receiver, count), REJECTED)
    conn.close()


def by_client(broker, messages):
    conn = broker.connect("shovel")
    session = conn.session()
    sender, receiver = session.attach("to", "sender", "/queues/work"), session.attach("from", "receiver", "/queues/dead")
    begun = time.monotonic()
    for count in each(messages):
        taken = take(session, receiver, count)
        publish(session, sender, [delivery.raw for delivery in taken])
        settle(session, taken, ACCEPTED)
    took = time.monotonic() - begun
    conn.close()
    return took


def by_redrive(broker, messages, number):
    url = "http://127.0.0.1:%d" % broker.http_port
    path = "redrives/%2F/round-" + str(number)
    status, text = http_api.ask(url, "PUT", path, {"queue": "dead", "ramp": False})
    assert status == 201, text
    deadline = time.monotonic() + WAIT_MAX_S
    while time.monotonic() < deadline:
        job = json.loads(http_api.ask(url, "GET", path)[1])
        if job["ended_at"] is not None:
            assert job["counts"]["moved"] == messages, job
            return max(job["ended_at"] - job["created_at"], 1) / 1000
        time.sleep(0.02)
    raise AssertionError("the redrive does not end")


def empty(broker, name):
    url = "http://127.0.0.1:%d" % broker.http_port
    assert http_api.ask(url, "DELETE", "queues/%2F/" + name + "/contents")[0] == 204


def measured(broker, messages, way):
    before = processor_s(broker)
    took = way()
    return messages / took, (processor_s(broker) - before) / messages * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", metavar="PATH")
    options = parser.parse_args()
    binary = binary_of(options.broker, "dist", "release", "profiling")
    data = tempfile.mkdtemp(prefix="coroner-redrive-")
    broker = Broker(binary, "--data", data, "--http", "127.0.0.1:0", "--log", "error")
    conn = broker.connect("declare")
    management = Management(conn)
    to_dead = {"x-dead-letter-exchange": st(""), "x-dead-letter-routing-key": st("dead")}
    declare.queue(management, "dead")
    declare.queue(management, "work", to_dead)
    conn.close()
    print(subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip())
    rounds = []
    for number in range(options.rounds):
        found = []
        for way in (lambda: by_client(broker, options.messages),
                    lambda: by_redrive(broker, options.messages, number)):
            fill(broker, options.messages)
            found.append(measured(broker, options.messages, way))
            empty(broker, "work")
        (client, client_us), (redrive, redrive_us) = found
        rounds.append((client, client_us, redrive, redrive_us))
        print("round %d: client %d/s, %.1f us of the broker; redrive %d/s, %.1f us; %.1f times" % (
            number + 1, client, client_us, redrive, redrive_us, redrive / client))
    medians = [statistics.median(column) for column in zip(*rounds)]
    print("medians: client %d/s, %.1f us; redrive %d/s, %.1f us; %.1f times the rate, %.1f times less processor" % (
        *medians, medians[2] / medians[0], medians[1] / medians[3]))
    broker.kill()
    shutil.rmtree(data)


if __name__ == "__main__":
    main()
