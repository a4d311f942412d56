//! Matching of headers exchanges.

use crate::message::Message;
use crate::wire::Value;

/// What a headers exchange looks at in a message.
pub trait Attributes {
    /// An application property. [AMQP 3.2.5]
    fn application_property(&self, key: &str) -> Option<Value>;
    /// A message annotation, the broker's included. [AMQP 3.2.3]
    fn annotation(&self, key: &str) -> Option<Value>;
}

impl Attributes for Message {
    fn application_property(&self, key: &str) -> Option<Value> {
        self.application_property(key)
    }

    fn annotation(&self, key: &str) -> Option<Value> {
        self.annotation(key)
    }
}
