//! Matching of headers exchanges.

use crate::message::{Message, Route};
use crate::wire::Value;

/// What a headers exchange looks at in a message.
pub trait Attributes {
    /// An application property. [AMQP 3.2.5]
    fn application_property(&self, key: &str) -> Option<Value>;
    /// A message annotation, the broker's included. [AMQP 3.2.3]
    fn annotation(&self, key: &str) -> Option<Value>;
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub struct OnItsWay<'a> {
    /// What.
    pub message: &'a Message,
    /// The way it takes now.
    pub route: &'a Route,
}

impl Attributes for OnItsWay<'_> {
    fn application_property(&self, key: &str) -> Option<Value> {
        self.message.application_property(key)
    }

    fn annotation(&self, key: &str) -> Option<Value> {
        self.message.annotation(key, self.route)
    }
}
