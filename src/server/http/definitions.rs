//! Routes to definitions: everything declared, as one file.

use serde_json::Value;

use super::answer::Answer;
use super::api::Call;
use super::aside::aside;
use super::reply::Reply;
use crate::base::Name;
use crate::lint::{Report, Severity, Target, Unknown, counted};
use crate::management::http::Failure;
use crate::management::http::json::reading::memory_bytes;
use crate::server::admin::Admin;

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
/// supported, or will probably not do what was meant. 400 with `fail-on`, and nothing is imported, if the
/// linter finds something as bad in what would stand then.
pub(super) async fn import(call: &Call<'_>, vhost: Option<Name>) -> Result<Reply, Failure> {
    let Some(json) = call.take_body() else {
        return Err(Failure::bad_request("not JSON: there is no body"));
    };
    let json = match fail_on(call)? {
        None => json,
        Some(severity) => {
            let (admin, vhost) = (call.admin(), vhost.clone());
            aside(move || check(&admin, json, vhost.as_ref(), severity)).await?
        }
    };
    let imported = call.admin().import(json, vhost).await?;
    if imported.left_out.is_empty() && imported.warnings.is_empty() {
        return Ok(Reply::Done);
    }
    Ok(Reply::Json(imported.to_json()))
}

/// How bad a finding must be for nothing to be imported.
fn fail_on(call: &Call<'_>) -> Result<Option<Severity>, Failure> {
    call.query.refuse_mistyped(&["fail-on"])?;
    let Some(word) = call.query.get("fail-on") else {
        return Ok(None);
    };
    let mut all = Severity::ALL.into_iter();
    let severity = all.find(|severity| severity.as_str() == word);
    let wrong = || Failure::bad_request("the parameter 'fail-on' must be error, warning or info");
    severity.ok_or_else(wrong).map(Some)
}

/// The definitions again, if the linter finds nothing so bad in what would stand after they were imported.
fn check(
    admin: &Admin,
    definitions: Value,
    vhost: Option<&Name>,
    severity: Severity,
) -> Result<Value, Failure> {
    let after = (admin.undeliverable(), Unknown::LeftOut);
    let mut read = admin.topology_after(&definitions, vhost, after)?;
    let report = Report::of(&mut read.topology, Target::Coroner);
    let mut bad = report.as_bad_as(severity);
    let Some((vhost, first)) = bad.next() else {
        drop(bad);
        return Ok(definitions);
    };
    let why = format!(
        "nothing was imported: {} as bad as 'fail-on' says, or worse; the first: {} {} (vhost {vhost}): {}; \
         'coroner import_definitions FILE --fail-on SEVERITY' shows all, and so does POST /api/lint",
        counted(bad.count() as u64 + 1, "finding"),
        first.rule.as_str(),
        first.subject,
        first.says
    );
    Err(Failure::bad_request(why))
}
