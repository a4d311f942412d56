"""What happens before the frames of a recording: connections, links, messages, by the title of the case."""
import time

from setting import LIMITED
from wire import Peer, message
from amqp10 import binary, encode_message


class Case:
    """one connection, with what the preparations leave behind for the frames to come"""

    def __init__(self, setting, admin, case):
        self.setting, self.admin, self.case = setting, admin, case
        self.user = "guest"
        self.payload = message()
        self.channel = 0
        self.after = None           # what happens elsewhere, once everything is prepared
        self.others = []            # connections to close at the end
        self.peer = Peer(setting.host, setting.port)

    def close(self):
        for each in [self.peer] + self.others:
            each.close()

    def sasl(self):
        self.peer.send_bytes(b"AMQP\x03\x01\x00\x00")
        self.peer.header()

    def authenticated(self):
        self.peer.authenticate(self.user, self.user)

    def opened(self):
        self.peer.open(self.setting.vhost, self.user, self.user)

    def begun(self):
        self.peer.begin(self.setting.vhost, self.user, self.user)

    def sending(self, address="/queues/q1", **fields):
        self.begun()
        self.peer.sender(address, name="l", **fields)

    def receiving(self, address):
        self.begun()
        self.peer.receiver(address)

    def one_in_queue(self):
        """a sender on handle 0 has put one message into q1; the recording attaches handle 1"""
        self.sending()
        self.peer.publish(1)

    def two_in_queue(self):
        self.sending()
        self.peer.publish(2)
        self.peer.receiver("/queues/q1", handle=1)

    def delivered(self):
        """one message of q1 is out, unsettled, as delivery 0 of handle 1"""
        self.one_in_queue()
        attach = self.peer.receiver("/queues/q1", handle=1)
        self.peer.credit(1, attach["initial-delivery-count"]["v"], 1, outgoing_id=1)
        self.peer.expect("transfer")

    def second_session(self):
        self.begun()
        self.channel = 64

    def limited(self):
        self.user = LIMITED
        self.begun()

    def limited_anonymous(self):
        self.user = LIMITED
        self.begun()
        self.peer.sender(None)
        self.payload = message(to="/exchanges/x1/k")

    def unroutable(self):
        self.sending("/exchanges/x1/nowhere")

    def exchange_goes(self):
        self.admin.exchange("xdel")
        self.sending("/exchanges/xdel/k")
        self.admin.delete_exchange("xdel")

    def target_goes(self):
        self.admin.queue("qdel")
        self.sending("/queues/qdel")
        self.admin.delete_queue("qdel")

    def source_goes(self):
        self.admin.queue("qdel")
        self.receiving("/queues/qdel")
        self.after = lambda: self.admin.delete_queue("qdel")

    def exclusive_elsewhere(self):
        other = self.setting.management()
        self.others.append(other)
        other.queue("qexcl", exclusive=True)
        self.begun()

    def operator(self):
        self.opened()
        self.after = self._operator_closes

    def _operator_closes(self):
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            mine = self.peer.sock.getsockname()[1]
            for c in self.setting.http("GET", "/connections") or []:
                if c.get("peer_port") == mine:
                    self.setting.http("DELETE", "/connections/" + c["name"].replace(" ", "%20").replace(">", "%3E"))
                    return
            time.sleep(0.3)
        raise AssertionError("the HTTP API does not list the connection")

    def garbage(self):
        self.sending()
        self.payload = b"not AMQP..."[:10]

    def fragment(self):
        self.sending()
        self.payload = encode_message({"body": [{"section": "data", "value": binary(b"f" * 45)}]})[0]


PREPARATION = {
    "connection closed by the operator (HTTP API DELETE of the connection)": Case.operator,
    "two sessions on channels 0 and 64 (above channel-max 63)": Case.second_session,
    "transfer settled on a link with snd-settle-mode unsettled":
        lambda c: c.sending(snd_settle_mode={"t": "ubyte", "v": 0}),
    "released outcome (unroutable)": Case.unroutable,
    "garbage payload that is no AMQP message": Case.garbage,
    "aborted transfer in the middle of a delivery": Case.fragment,
    "exchange deleted while the sender is attached, then publish": Case.exchange_goes,
    "queue deleted while the sender is attached to /queues/qdel, then publish": Case.target_goes,
    "two links with one name in one session": Case.sending,
    "handle that is in use": Case.sending,
    "attach receiver with snd-settle-mode settled, then one message": Case.one_in_queue,
    "attach receiver with max-message-size 10, then a larger message": Case.one_in_queue,
    "delivery: transfer fields": Case.two_in_queue,
    "disposition for a delivery-id that does not exist": Case.begun,
    "drain with an empty queue (classic)": lambda c: c.receiving("/queues/q1"),
    "flow with echo=true (classic)": lambda c: c.receiving("/queues/q1"),
    "drain with an empty queue (quorum)": lambda c: c.receiving("/queues/qq"),
    "flow with echo=true (quorum)": lambda c: c.receiving("/queues/qq"),
    "drain with two messages and credit 5 (classic)": Case.two_in_queue,
    "session flow with echo and no handle": Case.begun,
    "queue deleted while a receiver is attached": Case.source_goes,
    "exclusive queue of another connection: attach receiver": Case.exclusive_elsewhere,
    "exclusive queue of another connection: attach sender and publish": Case.exclusive_elsewhere,
    "management link pair: attach frames": Case.opened,
    "anonymous terminus, to a forbidden exchange": Case.limited_anonymous,
}
BY_FIRST_FRAME = {
    "sasl-init": Case.sasl, "open": Case.authenticated, "begin": Case.opened, "attach": Case.begun,
    "transfer": Case.sending, "disposition": Case.delivered, "detach": Case.sending,
    "end": Case.begun, "flow": Case.begun,
}


def preparation(heading, case):
    if case["title"] in PREPARATION:
        return PREPARATION[case["title"]]
    first = next(f["frame"]["p"] for f in case["frames"] if f["dir"] == "send")
    if heading.startswith("Permissions"):
        return Case.limited if first == "attach" else limited_authenticated
    return BY_FIRST_FRAME[first]


def limited_authenticated(case):
    case.user = LIMITED
    case.authenticated()
