"""`coroner serve` on a free port, for the programs here that kill it and start it again."""
import os
import queue
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "vectors", "runner"))
from amqp10 import Conn  # noqa: E402

START_MAX_S = 120
STOP_MAX_S = 120
DRAIN_MAX_S = 120


class Broker:
    """One process; `arguments` go behind `serve --amqp ADDRESS`, `vhost` is its only one.

    Errors in its log are shown, unless they are expected.
    """

    def __init__(self, binary, *arguments, vhost="/", amqp="127.0.0.1:0", errors_expected=False):
        self.errors_expected = errors_expected
        self.vhost = vhost
        if vhost != "/":
            arguments += ("--vhost", vhost)
        own = {k: v for k, v in os.environ.items() if not k.startswith("CORONER_")}
        self.process = subprocess.Popen(
            [binary, "serve", "--amqp", amqp, *arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=own)
        self.first_lines = []  # up to where it listens
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        others = ("amqps", "http", "https", "websocket")
        wanted = ["amqp"] + [name for name in others if self._listens(name, arguments)]
        self.ports = ports = self._ports(wanted)
        self.port, self.tls_port, self.http_port = ports["amqp"], ports.get("amqps"), ports.get("http")

    @staticmethod
    def _listens(name, arguments):
        """whether the arguments name an address for it"""
        given = dict(zip(arguments, arguments[1:])).get("--" + name, "off")
        return given != "off"

    def _read(self):
        for line in self.process.stdout:
            if ("ERROR" in line and not self.errors_expected) or "panicked" in line:
                print(line.rstrip(), file=sys.stderr, flush=True)
            self.lines.put(line)

    def _ports(self, wanted):
        """the port of each kind of listener, once all of them were printed"""
        ports, deadline = {}, time.monotonic() + START_MAX_S
        while time.monotonic() < deadline:
            try:
                line = self.lines.get(timeout=0.1)
            except queue.Empty:
                if self.process.poll() is not None:
                    break
                continue
            self.first_lines.append(line)
            found = re.search(r"listening (\w+) \S*:(\d+)", line)
            if found:
                ports[found[1]] = int(found[2])
            if all(name in ports for name in wanted):
                return ports
        self.kill()
        raise RuntimeError("the broker does not say where it listens:\n" + "".join(self.first_lines))

    def connect(self, container):
        return Conn("127.0.0.1", self.port, hostname="vhost:" + self.vhost, container=container)

    def kill(self):
        """kill -9"""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """asks it to stop and waits until it has"""
        self.process.terminate()
        if self.process.wait(timeout=STOP_MAX_S) != 0:
            raise RuntimeError("the broker did not stop in order")


def everything(link, credit, quiet_s):
    """all deliveries that a receiver gets for its credit, those too that are read from disk first

    Comes back once nothing came for `quiet_s` and the broker has said that there is no more.
    """
    conn, begun = link.session.conn, len(link.inbox)

    def came():
        return len(link.inbox) - begun

    link.flow(credit)
    while came() < credit and conn.pump(lambda before=came(): came() > before, quiet_s):
        pass
    if came() < credit:
        link.last_flow = None
        link.flow(credit - came(), drain=True)
        drained = conn.pump(lambda: link.last_flow or came() >= credit or link.detached or conn.closed, DRAIN_MAX_S)
        assert drained, "a drain of %s is not answered" % link.name
    return link.inbox[begun:]


def binary_of(given, *profiles):
    """the binary to start: the one given, else what cargo built, the first profile that there is"""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target"))
    for path in [given] if given else [os.path.join(target, profile, "coroner") for profile in profiles]:
        if os.path.exists(path):
            return path
    sys.exit("no broker to start: `cargo build` first, or name one with --broker")
