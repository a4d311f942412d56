"""Many queues over HTTP: declares, lists and deletes them, and tells how long the lock was held.

usage: queues.py declare URL COUNT           one import of definitions: queues many-000000 and so on in /
       queues.py delete URL COUNT
       queues.py list URL SECONDS            pages of 500, in turn by name, by messages, by a regular
                                             expression and as they come; again and again for that
                                             long; needs curl
       queues.py policy URL MILLISECONDS     a policy gives queues named stall- this message-ttl
       queues.py no-policy URL
       queues.py holds URL [FILE]            holds of the lock of / so far; with FILE those since FILE
                                             was written, else only what FILE is written from
       queues.py memory URL                  resident memory of the broker, in bytes
"""

import base64
import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from urllib.parse import quote

LOGIN = {"authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
WAYS = ["", "&sort=name&sort_reverse=true", "&sort=messages&sort_reverse=true",
        "&use_regex=true&name=" + quote("^many-.*7$")]


class Api:
    def __init__(self, url):
        self.url = "http://" + url.removeprefix("http://")
        self.connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=600)

    def ask(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, {**LOGIN, "content-type": "application/json"})
        answer = self.connection.getresponse()
        read = answer.read().decode()
        if answer.status >= 400:
            sys.exit(f"{method} {path}: {answer.status} {read[:300]}")
        return read


def name(number):
    return f"many-{number:06}"


def declare(api, count):
    queues = [{"name": name(number), "vhost": "/", "durable": True, "auto_delete": False,
               "arguments": {"x-queue-type": "classic"}} for number in range(int(count))]
    begun = time.monotonic()
    api.ask("POST", "/api/definitions", {"queues": queues})
    took = time.monotonic() - begun
    print(f"{count} queues declared in {took:.2f} s, {took * 1e6 / len(queues):.0f} us each")


def delete(api, count):
    for number in range(int(count)):
        api.ask("DELETE", "/api/queues/%2F/" + name(number))


def list_pages(api, seconds):
    """by curl, which takes next to nothing of the processors that the brokers are measured on"""
    end = time.monotonic() + float(seconds)
    times, passes = [], 0
    while time.monotonic() < end:
        for way in WAYS:
            path = "/api/queues/%2F?page={}&page_size=500" + way
            last = json.loads(api.ask("GET", path.format(1)))["page_count"]
            curl = subprocess.Popen(
                ["curl", "-fsS", "-u", "guest:guest", "-o", "/dev/null", "-w", "%{time_total}\\n",
                 api.url + path.format(f"[1-{last}]")], stdout=subprocess.PIPE, text=True)
            try:
                told, _ = curl.communicate(timeout=max(end - time.monotonic(), 0.1))
                passes += curl.returncode == 0
            except subprocess.TimeoutExpired:
                curl.kill()
                told, _ = curl.communicate()
            times += [float(line) for line in told.split()]
            if time.monotonic() >= end:
                break
    if not times:
        sys.exit("no page came in time")
    print(f"{len(times)} pages of 500, {passes} times all of them; "
          f"a page took {statistics.median(times) * 1e3:.0f} ms, the slowest {max(times) * 1e3:.0f} ms")


def policy(api, ttl_ms):
    api.ask("PUT", "/api/policies/%2F/stall", {
        "pattern": "^stall-", "apply-to": "queues", "definition": {"message-ttl": int(ttl_ms)}})


def holds(api, file=None):
    """counts by upper bound in seconds, none of them in a lower one"""
    pattern = r'coroner_lock_hold_seconds_bucket\{vhost="/",le="([^"]+)"\} (\d+)'
    found = [(float(bound), int(count)) for bound, count in re.findall(pattern, api.ask("GET", "/metrics"))]
    below, now = 0, {}
    for bound, count in found:
        now[str(bound)] = count - below
        below = count
    try:
        with open(file) as kept:
            before = json.load(kept)
    except FileNotFoundError:
        with open(file, "w") as out:
            json.dump(now, out)
        return
    since = {float(bound): count - before.get(bound, 0) for bound, count in now.items()}
    total, seen, told = sum(since.values()), 0, []
    shares = [0.5, 0.99, 0.999, 0.9999, 1.0]
    for bound, count in sorted(since.items()):
        seen += count
        while shares and total and seen >= shares[0] * total:
            told.append(f"p{shares.pop(0) * 100:g} < {bound * 1e6:.0f} us")
    print(f"{total} holds of the lock: " + ", ".join(told))


def memory(api):
    print(re.search(r"^process_resident_memory_bytes (\d+)", api.ask("GET", "/metrics"), re.M)[1])


COMMANDS = {"declare": declare, "delete": delete, "list": list_pages, "policy": policy,
            "no-policy": lambda api: api.ask("DELETE", "/api/policies/%2F/stall"),
            "holds": holds, "memory": memory}

if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](Api(sys.argv[2]), *sys.argv[3:])
