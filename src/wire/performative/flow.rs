//! Flow. [AMQP 2.7.4]
