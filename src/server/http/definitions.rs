//! Routes to definitions: everything declared, as one file.

use super::answer::Answer;
use super::api::Call;
use super::aside::aside;
use super::reply::Reply;
use crate::base::Name;
use crate::management::http::Failure;
use crate::management::http::json::reading::memory_bytes;

/// `GET /api/definitions` and `GET /api/definitions/VHOST`.
pub(super) async fn export(call: &Call<'_>, vhost: Option<Name>) -> Result<Reply, Failure> {
    let (admin, kept) = (call.admin(), call.kept());
    aside(move || {
        let exported = admin.export_definitions(vhost.as_deref())?;
        let _counted = kept.charge(memory_bytes(&exported));
        Ok(Reply::Roomy(Answer::written(exported.to_string(), &kept)))
    })
    .await
}

/// `POST /api/definitions` and `POST /api/definitions/VHOST`: 204; 200 with lists if items are not
/// supported, or will probably not do what was meant.
pub(super) async fn import(call: &Call<'_>, vhost: Option<Name>) -> Result<Reply, Failure> {
    let Some(json) = call.take_body() else {
        return Err(Failure::bad_request("not JSON: there is no body"));
    };
    let imported = call.admin().import(json, vhost).await?;
    if imported.left_out.is_empty() && imported.warnings.is_empty() {
        return Ok(Reply::Done);
    }
    Ok(Reply::Json(imported.to_json()))
}
