//! Floor 6: typed management operations and the AMQP management node.
