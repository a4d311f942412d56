//! Floor 3: a message: the bare bytes as received, an index of its sections, the broker's annotations.
//!
//! Promises: bare bytes are never changed. Never: no routing decision, no clock.
//!
//! CONTRACT (helper A):
//! ```text
//! pub struct Route { pub exchange: Name, pub keys: Vec<Name> }     // keys: first key, then CC
//! pub struct Message { .. }                                        // immutable, shared as Arc<Message>
//! Message::from_transfer(payload: Bytes) -> Result<Message, MessageError>
//!     walks sections (header, DA, MA, properties, AP, body*, footer), checks order and structure,
//!     drops delivery annotations and the broker's annotation names (part 3), keeps other annotation
//!     pairs as raw bytes; copies <= MESSAGE_COPY_BYTES_MAX into its own allocation
//!     (a body-less message is fine; a message with an empty payload or garbage is an error)
//! message.bare() -> &[u8]   message.bare_bytes() -> Bytes  message.bare_len()
//! message.durable() -> bool   message.priority() -> Option<u8>   message.ttl_ms() -> Option<u32>
//! message.to() / user_id() / absolute_expiry_time() / subject()  -> lazily read from properties
//! message.cc() -> Result<Vec<Name>, MessageError>     // x-cc: list of strings, else an error
//! message.application_property(key: &str) -> Option<Value>, message.annotation(key:&str) -> Option<Value>
//!     (annotation() of a headers exchange `any-with-x`/`all-with-x` also sees x-exchange.. and deaths)
//! message.history() -> Option<&Arc<History>>
//! message.died(&self, history: Arc<History>, delivery_count: u32) -> Message  // ttl removed; shares body
//! message.with_annotations(&self, modified: &[u8]) -> Message   // merge of a `modified` map, raw pairs,
//!     broker names ignored; last wins; keeps types
//! message.write_prefix(&DeliveryView, &mut Vec<u8>)  // header + message-annotations sections for one
//!     delivery: header durable, priority, ttl as published; first-acquirer and delivery-count ours;
//!     annotations: publisher's, x-exchange, x-routing-key, x-delivery-count / x-acquired-count (long,
//!     when > 0), deaths by encoding; then the gateway sends bare bytes
//! message.carried_delivery_count() -> u32   // header delivery-count it brought along from deaths
//! message.encode/decode: compact journal form, first byte names the origin format
//! pub struct DeliveryView<'a> { route: &'a Route, first_acquirer: bool, delivery_count: u32,
//!     failures: u32, acquired: u32, encoding: deaths::Encoding }
//! ```
