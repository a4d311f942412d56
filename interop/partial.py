"""What a scenario that passes does not show of its row in SCENARIOS.md, because the client cannot.

By client and scenario; the table marks these cells with a star and gives the reasons below it.
"""

_RABBITMQ_GO = {
    "declare": "hides the codes of answers, and cannot list bindings: what is unbound is no longer routed to",
    "types": "has no char, decimals or described values",
    "outcomes": "sends modified with delivery-failed only together with undeliverable-here: the count stays 0",
    "credit": "cannot give a consumer no credit",
    "presettled": "publishes unsettled only",
    "anonymous-terminus": "refuses a message without an address itself",
    "attach-refused": "writes all addresses itself, and cannot ask for an exclusive consumer",
}
_RABBITMQ_GO["evidence"] = "sets no properties of links: sees condition and description, not who"
_RABBITMQ_PYTHON = {
    "declare": _RABBITMQ_GO["declare"],
    "sections": "writes no footer, and `to` only where it publishes to any address",
    "types": "publishes bytes only: the types go as application properties and annotations",
    "bodies": "publishes one data section only",
    "outcomes": _RABBITMQ_GO["outcomes"] + "; rejects without an error",
    "refusals": "does not show the error of `rejected`",
    "presettled": _RABBITMQ_GO["presettled"],
    "anonymous-terminus": _RABBITMQ_GO["anonymous-terminus"],
    "attach-refused": _RABBITMQ_GO["attach-refused"],
    "evidence": "says why by annotations, for it rejects without an error; " + _RABBITMQ_GO["evidence"],
}
_RABBITMQ_JAVA = {
    "declare": "hides the codes of answers that are no errors, and cannot list bindings",
    "types": "publishes bytes only: the types go as application properties and annotations",
    "bodies": "publishes one data section only",
    "outcomes": "rejects without an error",
    "refusals": "shows only the description of the error of `rejected`",
    "presettled": _RABBITMQ_GO["presettled"],
    "attach-refused": _RABBITMQ_GO["attach-refused"],
    "evidence": _RABBITMQ_PYTHON["evidence"],
}
_QPID_JMS = {
    "sections": "has no content-encoding, and no footer",
    "types": "writes no arrays or described values",
    "bodies": "writes one body section",
    "outcomes": "has neither annotations for modified nor an error for rejected",
    "refusals": "does not show the info of an error",
    "anonymous-terminus": "sends no message without `to`",
    "attach-refused": "has no exclusive consumers of queues",
    "evidence": "cannot say why it rejects; who it was is read by ProtonJ2",
}
_AMQPNETLITE = {
    "bodies": "writes and reads one sequence section",
}
_PROTON_CPP = {
    "bodies": "writes one body section",
    "outcomes": "has no fields for modified and rejected",
    "refusals": "does not show the error of an outcome",
    "delivery-limit": "cannot say that a delivery failed: a lost connection does",
    "evidence": "rejects without an error: a dead letter tells who, not why",
}

PARTIAL = {
    "proton-cpp": ("Qpid Proton C++ 0.37", _PROTON_CPP),
    "go-amqp": ("go-amqp 1.7.0", {"types": _RABBITMQ_GO["types"]}),
    "rabbitmq-go": ("rabbitmq-amqp-go-client 1.0.0", _RABBITMQ_GO),
    "rabbitmq-python": ("rabbitmq-amqp-python-client 1.0.1", _RABBITMQ_PYTHON),
    "rabbitmq-java": ("RabbitMQ AMQP 1.0 Java Client 1.5.0", _RABBITMQ_JAVA),
    "amqpnetlite": ("AMQPNetLite 2.4.11", _AMQPNETLITE),
    "qpid-jms": ("Qpid JMS 2.10.0", _QPID_JMS),
}


# Scenarios that only some clients have; the table shows `-` for the others.
ONLY = {"browse": ("proton", "qpid-jms"), "transactions": ("proton", "protonj2", "qpid-jms"),
        "references": ("proton",), "topics": ("qpid-jms",), "sql": ("proton",)}


def has(client, scenario):
    """whether a client has the scenario at all"""
    return client in ONLY.get(scenario, (client,))


def partial(client, scenario):
    """why a scenario of a client shows less than its row says; None if it shows all of it"""
    version, reasons = PARTIAL.get(client, ("", {}))
    return "%s %s" % (version, reasons[scenario]) if scenario in reasons else None
