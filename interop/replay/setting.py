"""The setting of a replay: which broker, its virtual hosts, its users, its queues and exchanges."""
import argparse
import json
import os
import sys
import tomllib
import urllib.parse

from wire import HERE
from amqp10 import AmqpError, Conn, Management, amap, boolean, st

sys.path.insert(0, os.path.join(HERE, ".."))
import http_api  # noqa: E402

LIMITED = "limited"     # a user who may touch only names that begin with "mine"


def arguments(description):
    """the command line both replays share"""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5672)
    parser.add_argument("--vhost", required=True)
    parser.add_argument("--rabbitmq", metavar="URL",
                        help="the broker is a RabbitMQ with this HTTP API: set up by it, no differences allowed")
    parser.add_argument("--http", metavar="URL", help="the broker's HTTP API, where a case needs it")
    parser.add_argument("--differences", default=os.path.join(HERE, "..", "known_differences.toml"))
    return parser


class Setting:
    def __init__(self, options):
        self.options = options
        self.host, self.port, self.vhost = options.host, options.port, options.vhost
        self.rabbitmq = options.rabbitmq
        self.api = options.rabbitmq or options.http
        self.listed = {}
        if not self.rabbitmq:
            with open(options.differences, "rb") as f:
                self.listed = tomllib.load(f)
        if self.rabbitmq:
            self._set_up_rabbitmq()

    def _set_up_rabbitmq(self):
        vhost = urllib.parse.quote(self.vhost, safe="")
        self.http("DELETE", "/vhosts/" + vhost)
        self.http("PUT", "/vhosts/" + vhost, {"default_queue_type": "classic"})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.http("PUT", "/permissions/%s/guest" % vhost, everything)
        self.http("PUT", "/users/" + LIMITED, {"password": LIMITED, "tags": ""})
        own = {"configure": "^mine", "write": "^mine", "read": "^mine"}
        self.http("PUT", "/permissions/%s/%s" % (vhost, LIMITED), own)

    def http(self, method, path, body=None):
        status, text = http_api.ask(self.api, method, path, body)
        if status >= 400 and status != 404:
            raise RuntimeError("%s %s: %d %s" % (method, path, status, text))
        return json.loads(text) if text and status < 400 else None

    def connect(self, user="guest"):
        return Conn(self.host, self.port, user=user, password=user, hostname="vhost:" + self.vhost,
                    container="setting")

    def management(self, user="guest"):
        return Administrator(self.connect(user))


class Tally:
    """prints a line for each case, and what differs in it"""

    def __init__(self):
        self.passed = self.failed = 0

    def add(self, title, judge):
        """`judge` gives what differs, one line each"""
        try:
            lines = judge()
        except Exception as e:      # one case must not hide the others
            lines = ["%s: %s" % (type(e).__name__, e)]
        self.failed += bool(lines)
        self.passed += not lines
        print("%s  %s" % ("FAIL" if lines else "PASS", title))
        for line in lines:
            print("        " + line)
        sys.stdout.flush()

    def end(self):
        """the process's status"""
        print(json.dumps({"pass": self.passed, "fail": self.failed}))
        return 1 if self.failed or not self.passed else 0


class Administrator:
    """declares and deletes through /management"""

    def __init__(self, conn):
        self.conn = conn
        self.pair = Management(conn)

    def queue(self, name, kind="classic", exclusive=False):
        return self._ask("PUT", "/queues/" + quote(name), amap([
            (st("exclusive"), boolean(exclusive)),
            (st("arguments"), amap([(st("x-queue-type"), st(kind))]))]))

    def exchange(self, name, kind="direct", internal=False):
        return self._ask("PUT", "/exchanges/" + quote(name), amap([
            (st("type"), st(kind)), (st("internal"), boolean(internal))]))

    def delete_queue(self, name):
        return self._ask("DELETE", "/queues/" + quote(name))

    def delete_exchange(self, name):
        return self._ask("DELETE", "/exchanges/" + quote(name))

    def purge(self, name):
        return self._ask("DELETE", "/queues/%s/messages" % quote(name))

    def close(self):
        self.conn.close()

    def _ask(self, method, path, body=None):
        status, answer, _ = self.pair.request(method, path, body)
        if not 200 <= status < 300:
            raise AmqpError("%s %s: %d" % (method, path, status), answer)
        return status


def quote(name):
    return urllib.parse.quote(name, safe="-._~")
