//! Floor 6: typed management operations and the AMQP management node.
//!
//! CONTRACT (until the core lands):
//! ```text
//! pub struct Caller<'a> { user: &'a Name, permissions: &'a Permissions, connection: ConnectionId,
//!                         vhost: &'a Name, node: &'a str }
//! handle(now, &Caller, &mut Core, &mut Effects, bare_request: &[u8]) -> Result<Answer, RequestError>
//! pub struct Answer { bare: Vec<u8>, lsn: Lsn }   // send settled, once lsn is durable (0: at once)
//! RequestError: a request that cannot be answered because it says not to whom or is no message:
//!     end the session with its condition (detach the pair): `condition()`, Display for the text
//! ```
