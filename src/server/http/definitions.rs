//! Definitions: everything declared, as one file.

use super::api::Call;
use super::listings::aside;
use super::reply::Reply;
use crate::base::Name;
use crate::management::http::Failure;

/// `GET /api/definitions` and `GET /api/definitions/VHOST`.
pub(super) async fn export(call: &Call<'_>, vhost: Option<Name>) -> Result<Reply, Failure> {
    let admin = call.admin();
    aside(move || {
        let exported = admin.export_definitions(vhost.as_deref());
        Ok(Reply::Json(exported?))
    })
    .await
}

/// `POST /api/definitions` and `POST /api/definitions/VHOST`: 204; 200 with a list if something of
/// it is not supported here.
pub(super) async fn import(call: &Call<'_>, vhost: Option<Name>) -> Result<Reply, Failure> {
    let json = serde_json::from_slice(call.body);
    let json = json.map_err(|error| Failure::bad_request(format!("not JSON: {error}")))?;
    let imported = call
        .admin()
        .import_definitions(&json, vhost.as_ref())
        .await?;
    if imported.left_out.is_empty() {
        return Ok(Reply::Done);
    }
    Ok(Reply::Json(imported.to_json()))
}
