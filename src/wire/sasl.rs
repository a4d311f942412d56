//! SASL performatives. [AMQP 5.3.3]

pub use fe2o3_amqp_types::sasl::SaslCode;
