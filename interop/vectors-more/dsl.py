"""Short words for scenarios in the format of ../vectors/README.md."""

SCENARIOS = []


def t(kind, value=None, **more):
    return {"t": kind, "v": value, **more} if value is not None else {"t": kind, **more}


def string(value):
    return t("string", value)


def symbol(value):
    return t("symbol", value)


def uint(value):
    return t("uint", value)


def boolean(value):
    return t("boolean", value)


def binary(text):
    return t("binary", text.encode().hex())


def array(of, values):
    return t("array", values, of=of)


def pairs(entries):
    """A map with symbol keys; texts become strings."""
    return [[symbol(k), string(v) if isinstance(v, str) else v] for k, v in entries.items()]


def described(code, value):
    return {"t": "described", "d": code, "v": value}


def data(text="m1"):
    return {"section": "data", "value": binary(text)}


def value(typed):
    return {"section": "amqp-value", "value": typed}


def sequence(*items):
    return {"section": "amqp-sequence", "value": t("list", list(items))}


def message(body="m1", durable=True, **fields):
    """`body` is the text of one data section or a list of sections; other sections by name."""
    out = {"header": {}}
    if durable is not None:
        out["header"]["durable"] = boolean(durable)
    for name, kind in (("ttl", "uint"), ("priority", "ubyte")):
        if name in fields:
            out["header"][name] = t(kind, fields.pop(name))
    out["header"].update(fields.pop("header", {}))
    if "annotations" in fields:
        annotations = fields.pop("annotations")
        out["message-annotations"] = (pairs(annotations) if isinstance(annotations, dict)
                                      else annotations)
    for name in ("properties", "footer"):
        if name in fields:
            out[name] = fields.pop(name)
    if "application" in fields:
        out["application-properties"] = [
            [string(k), string(v) if isinstance(v, str) else v]
            for k, v in fields.pop("application").items()]
    if "delivery_annotations" in fields:
        out["delivery-annotations"] = pairs(fields.pop("delivery_annotations"))
    assert not fields, fields
    out["body"] = [data(body)] if isinstance(body, str) else body
    return out


# Topology.

def queue(name, arguments=None, kind=None, **more):
    out = {"name": name, **more}
    if kind:
        out["type"] = kind
    if arguments:
        out["arguments"] = arguments
    return {"queue": out}


def exchange(name, kind="fanout", **more):
    return {"exchange": {"name": name, "type": kind, **more}}


def bind(source, destination, key="", arguments=None, to="queue"):
    out = {"source": source, to: destination, "key": key}
    if arguments is not None:
        out["arguments"] = arguments
    return {"bind": out}


def policy(name, pattern, definition, **more):
    return {"policy": {"name": name, "pattern": pattern, "definition": definition, **more}}


def dead(exchange_name="dlx", key=None, **more):
    """Arguments of a queue with a dead-letter exchange; words become `x-` names."""
    out = {"x-dead-letter-exchange": exchange_name}
    if key is not None:
        out["x-dead-letter-routing-key"] = key
    out.update(words(**more))
    return out


def words(**more):
    return {"x-" + k.replace("_", "-"): v for k, v in more.items()}


def source(kind=None, dlq_kind=None, **arguments):
    """`src`, which dead-letters through the fanout `dlx` into `dlq`."""
    return [exchange("dlx"), queue("dlq", kind=dlq_kind), bind("dlx", "dlq"),
            queue("src", dead(**arguments), kind)]


# Steps.

def publish(to="/queues/src", body="m1", count=1, settled=False, **fields):
    out = {"op": "publish", "to": to, "message": message(body, **fields)}
    if count > 1:
        out["count"] = count
    if settled:
        out["settled"] = True
    return out


def settle(outcome, failed=None, here=None, annotations=None, error=None, span=False,
           unsettled=False):
    out = {"outcome": outcome}
    if failed is not None:
        out["delivery-failed"] = failed
    if here is not None:
        out["undeliverable-here"] = here
    if annotations is not None:
        out["annotations"] = pairs(annotations) if isinstance(annotations, dict) else annotations
    if error is not None:
        out["error"] = error
    if span:
        out["range"] = True
    if unsettled:
        out["unsettled"] = True
    return out


def failed(**more):
    return settle("modified", failed=True, **more)


def poisoned(**more):
    return settle("modified", here=True, **more)


def how(outcome):
    return settle(outcome) if isinstance(outcome, str) else outcome


def receive(queue_name="src", outcome="rejected", count=1, record=False, **more):
    out = {"op": "receive", "queue": queue_name, "count": count, **more}
    if outcome:
        out["settle"] = how(outcome)
    if record:
        out["record"] = True
    return out


def opened(name="c", queue_name="src", credit=1, **more):
    return {"op": "consumer_open", "id": name, "queue": queue_name, "credit": credit, **more}


def take(outcome=None, name="c", count=1, **more):
    out = {"op": "consumer_take", "id": name, "count": count, **more}
    if outcome:
        out["settle"] = how(outcome)
    return out


def closed(name="c", leave="detach"):
    return {"op": "consumer_close", "id": name, "how": leave}


def wait(ms):
    return {"op": "wait", "ms": ms}


def wait_count(queue_name, count):
    return {"op": "wait_count", "queue": queue_name, "count": count, "timeout_ms": 3000}


def info(queue_name):
    return {"op": "queue_info", "queue": queue_name}


def change(item):
    return {"op": "topology", "do": item}


def capture(queue_name, count=None, **more):
    return {"queue": queue_name, **({"count": count} if count else {}), **more}


def scenario(area, name, description, topology, steps, captures):
    """Adds a scenario; what it requires follows from its topology."""
    items = topology + [step["do"] for step in steps if step["op"] == "topology"]
    requires = []
    if any("policy" in item for item in items):
        requires.append("policy")
    if any(item.get("queue", {}).get("type") == "quorum" for item in items):
        requires.append("quorum")
    SCENARIOS.append({"name": name, "area": area, "description": description,
                      "requires": requires, "topology": topology, "steps": steps,
                      "capture": captures})
