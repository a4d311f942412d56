//! Definitions: everything declared, as one file.

use super::api::Call;
use super::aside::aside;
use super::reply::Reply;
use crate::base::Name;
use crate::management::http::Failure;

/// `GET /api/definitions` and `GET /api/definitions/VHOST`.
pub(super) async fn export(call: &Call<'_>, vhost: Option<Name>) -> Result<Reply, Failure> {
    let admin = call.admin();
    aside(move || {
        let exported = admin.export_definitions(vhost.as_deref());
        Ok(Reply::Written(exported?.to_string()))
    })
    .await
}

/// `POST /api/definitions` and `POST /api/definitions/VHOST`: 204; 200 with a list if something of
/// it is not supported here.
pub(super) async fn import(call: &Call<'_>, vhost: Option<Name>) -> Result<Reply, Failure> {
    let Some(json) = call.take_body() else {
        return Err(Failure::bad_request("not JSON: there is no body"));
    };
    let imported = call.admin().import(json, vhost).await?;
    if imported.left_out.is_empty() {
        return Ok(Reply::Done);
    }
    Ok(Reply::Json(imported.to_json()))
}
