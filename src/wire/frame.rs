//! Frames and protocol headers. [AMQP 2.2, 2.3]
