//! Routes to definitions: everything declared, as one file.

use std::collections::BTreeSet;

use serde_json::Value;

use super::answer::Answer;
use super::api::Call;
use super::aside::aside;
use super::reply::Reply;
use crate::base::Name;
use crate::lint::{NotRead, Report, Severity, Target, Unknown, counted};
use crate::management::http::Failure;
use crate::management::http::json::reading::memory_bytes;
use crate::server::admin::Admin;
use crate::server::definitions::Imported;

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
/// linter finds something as bad in what would stand then; a warning for each part that it did not look at.
pub(super) async fn import(call: &Call<'_>, vhost: Option<Name>) -> Result<Reply, Failure> {
    let Some(json) = call.take_body() else {
        return Err(Failure::bad_request("not JSON: there is no body"));
    };
    let (json, not_read) = match fail_on(call)? {
        None => (json, Vec::new()),
        Some(severity) => {
            let (admin, vhost) = (call.admin(), vhost.clone());
            aside(move || check(&admin, json, vhost.as_ref(), severity)).await?
        }
    };
    let mut imported = call.admin().import(json, vhost).await?;
    warn_of(&mut imported, not_read);
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

/// Adds a warning for each part that the linter did not look at, without those that were left out anyway.
fn warn_of(imported: &mut Imported, not_read: Vec<NotRead>) {
    let left_out = imported.left_out.iter().map(|left| left.item.as_str());
    let left_out: BTreeSet<&str> = left_out.collect();
    let not_read = not_read.into_iter();
    let not_read = not_read.filter(|left| !left_out.contains(left.item.as_str()));
    let warnings = not_read.map(|left| format!("not looked at: {}: {}", left.item, left.why));
    imported.warnings.splice(0..0, warnings);
}

/// The definitions again, with what was not looked at, if the linter finds nothing so bad in what would stand
/// after they were imported.
fn check(
    admin: &Admin,
    definitions: Value,
    vhost: Option<&Name>,
    severity: Severity,
) -> Result<(Value, Vec<NotRead>), Failure> {
    let after = (admin.undeliverable(), Unknown::LeftOut);
    let mut read = admin.topology_after(&definitions, vhost, after)?;
    let report = Report::of(&mut read.topology, Target::Coroner);
    let mut bad = report.as_bad_as(severity);
    let Some((vhost, first)) = bad.next() else {
        drop(bad);
        return Ok((definitions, report.not_read));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::definitions::LeftOut;

    #[test]
    fn what_the_linter_did_not_look_at_is_a_warning_unless_it_is_left_out_anyway() {
        let of = |item: &str, why: &str| (item.to_owned(), why.to_owned());
        let (item, why) = of("queue 'q' in vhost '/'", "it is a stream");
        let left_out = vec![LeftOut { item, why }];
        let mut imported = Imported {
            applied: 1,
            left_out,
            warnings: Vec::new(),
        };
        let told = [
            of("queue 'q' in vhost '/'", "it is a stream"),
            of("loops of vhost '/'", "many"),
        ];
        let not_read = told.map(|(item, why)| NotRead { item, why });
        warn_of(&mut imported, not_read.into());
        assert_eq!(
            imported.warnings,
            ["not looked at: loops of vhost '/': many"]
        );
    }
}
