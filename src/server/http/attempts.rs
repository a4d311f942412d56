//! Routes to login attempts.

use serde_json::{Value, json};

use super::api::Call;
use super::reply::Reply;
use crate::access::Tries;
use crate::management::http::Failure;

/// `GET /api/auth/attempts/NODE`.
pub(super) fn by_protocol(call: &Call<'_>) -> Result<Reply, Failure> {
    check_node(call)?;
    let attempts = call.shared.node.environment.attempts.lock();
    let listed = attempts.by_protocol();
    let listed = listed.map(|(protocol, tries)| counted(json!({ "protocol": protocol }), tries));
    Ok(Reply::Json(listed.collect()))
}

/// `GET /api/auth/attempts/NODE/source`.
pub(super) fn by_source(call: &Call<'_>) -> Result<Reply, Failure> {
    check_node(call)?;
    let attempts = call.shared.node.environment.attempts.lock();
    let listed = attempts.by_source().map(|(source, tries)| {
        let source = json!({
            "remote_address": source.address.to_string(),
            "username": &*source.user,
            "protocol": source.protocol,
        });
        counted(source, tries)
    });
    Ok(Reply::Json(listed.collect()))
}

/// `DELETE /api/auth/attempts/NODE`.
pub(super) fn reset_protocols(call: &Call<'_>) -> Result<Reply, Failure> {
    check_node(call)?;
    call.shared
        .node
        .environment
        .attempts
        .lock()
        .reset_protocols();
    Ok(Reply::Done)
}

/// `DELETE /api/auth/attempts/NODE/source`.
pub(super) fn reset_sources(call: &Call<'_>) -> Result<Reply, Failure> {
    check_node(call)?;
    call.shared.node.environment.attempts.lock().reset_sources();
    Ok(Reply::Done)
}

fn check_node(call: &Call<'_>) -> Result<(), Failure> {
    let is_here = *call.params.get("node") == *call.shared.settings.node_name;
    is_here.then_some(()).ok_or_else(Failure::not_found)
}

fn counted(mut of: Value, tries: Tries) -> Value {
    if let Value::Object(fields) = &mut of {
        let Tries { succeeded, failed } = tries;
        fields.insert("auth_attempts".to_owned(), json!(succeeded + failed));
        fields.insert("auth_attempts_failed".to_owned(), json!(failed));
        fields.insert("auth_attempts_succeeded".to_owned(), json!(succeeded));
    }
    of
}
