//! Message groups, as operators see them. [AMQP 3.2.4 group-id]

use std::time::Instant;

use serde_json::Value;

use crate::api::Api;
use crate::support::RunningBroker;
use crate::support::raw::{
    self, ANSWER_MAX, FLOW, Raw, TRANSFER, binary, described, frame, null, text,
};

/// A broker with a queue from which a consumer has got a message of a group: what the API says of it.
fn queue_with_a_group(arguments: &[&str]) -> Value {
    let broker = RunningBroker::start(arguments);
    let api = Api { broker: &broker };
    Raw::declare(broker.port, "grouped");
    let mut raw = Raw::begun(broker.port);
    raw.attach_sender(0, "grouped");
    raw.wait_for(FLOW);
    raw.attach_receiver(1, "grouped");
    raw.credit(1, 0, 5);
    let mut fields = vec![null(); 10];
    fields.push(text("a"));
    let properties = raw::performative(0x73, &fields);
    let body = described(0x75, &binary(b"one"));
    let transfer = raw::transfer(0, 0, false, false);
    raw.send(&frame(0, 0, &[transfer, properties, body].concat()));
    raw.wait_for(TRANSFER);
    let start = Instant::now();
    loop {
        let queue = api.get("/api/queues/%2F/grouped");
        if queue["messages_unacknowledged"] == 1 || start.elapsed() > ANSWER_MAX {
            return queue;
        }
    }
}

#[test]
fn the_number_of_message_groups_that_consumers_have_is_shown() {
    let queue = queue_with_a_group(&[]);
    assert_eq!(queue["messages_unacknowledged"], 1);
    assert_eq!(queue["message_groups"], 1);
}

/// RabbitMQ 4.0.5 ignores group-id.
#[test]
fn a_strict_broker_has_no_message_groups() {
    let queue = queue_with_a_group(&["--strict"]);
    assert_eq!(queue["messages_unacknowledged"], 1);
    assert_eq!(queue["message_groups"], Value::Null);
}
