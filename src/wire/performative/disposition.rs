//! Disposition. [AMQP 2.7.6]
