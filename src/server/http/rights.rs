//! Checks of permissions on the objects of a path, before anything of a body is read: the body of a
//! message may be large, and a client that may not send it must not keep others waiting.

use super::api::Call;
use super::messages;
use super::objects::{destination, exchange_name, source};
use crate::access::Right;
use crate::broker::{Destination, ObjectKind};
use crate::management::Refusal;
use crate::management::http::{Endpoint, Failure};

/// Checks the permissions of a route on the object of its path. Those on objects in the body are
/// checked when the operation is carried out.
pub(super) fn check(endpoint: Endpoint, call: &Call<'_>) -> Result<(), Failure> {
    let configure = Right::Configure;
    match endpoint {
        Endpoint::PutQueue => require(call, configure, ObjectKind::Queue, &call.params.get("name")),
        Endpoint::PutExchange => require(
            call,
            configure,
            ObjectKind::Exchange,
            &exchange_name(call, "name"),
        ),
        Endpoint::Bind => {
            match destination(call)? {
                Destination::Queue(name) => require(call, Right::Write, ObjectKind::Queue, &name)?,
                Destination::Exchange(name) => {
                    require(call, Right::Write, ObjectKind::Exchange, &name)?;
                }
            }
            require(call, Right::Read, ObjectKind::Exchange, &source(call))
        }
        Endpoint::Publish => messages::may_publish(call),
        Endpoint::GetMessages => messages::may_read(call),
        _ => Ok(()),
    }
}

/// Checks a permission on an object in the vhost of the path.
pub(super) fn require(
    call: &Call<'_>,
    right: Right,
    kind: ObjectKind,
    name: &str,
) -> Result<(), Failure> {
    if call.permissions().allow(right, name) {
        return Ok(());
    }
    Err(Refusal::no_right(&call.identity.name, right, kind, name).into())
}
