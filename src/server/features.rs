//! Checks of settings against the features of the build, so that no setting is accepted and
//! ignored.

use super::errors::{Cause, StartError};
use crate::config::{HttpListen, Settings};

/// Refuses settings that need a feature which this build does not have.
pub(super) fn check(settings: &Settings) -> Result<(), StartError> {
    let (http, tls) = (cfg!(feature = "http"), cfg!(feature = "tls"));
    let wants_http = matches!(settings.http, HttpListen::At(_));
    let needs = [
        ("http", wants_http, http, "http"),
        ("https", !settings.https.is_empty(), http, "http"),
        ("websocket", !settings.websocket.is_empty(), http, "http"),
        ("definitions", settings.definitions.is_some(), http, "http"),
        ("event-exchange", settings.event_exchange, http, "http"),
        (
            "tls-certificate",
            settings.tls_certificate.is_some(),
            tls,
            "tls",
        ),
        (
            "oauth2-jwks",
            settings.oauth2_jwks.is_some(),
            cfg!(feature = "oauth2"),
            "oauth2",
        ),
    ];
    let missing = needs
        .into_iter()
        .find(|(_, wanted, here, _)| *wanted && !here);
    let Some((name, _, _, feature)) = missing else {
        return Ok(());
    };
    Err(StartError::Setting {
        name,
        why: Cause::new(format!(
            "this program was built without the feature '{feature}' of coroner"
        )),
    })
}
