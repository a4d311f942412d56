//! Transfer. [AMQP 2.7.5]
