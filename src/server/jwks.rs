//! Where the keys of tokens come from: a file, or a server that is asked over HTTPS.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::errors::Cause;
use crate::access::KeySet;
use crate::base::limits::{JWKS_BYTES_MAX, JWKS_FETCH_MS_MAX};
use crate::config::Settings;

/// Largest PEM file of authorities that is read, in bytes.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Where the keys come from.
pub(super) enum JwksSource {
    File(PathBuf),
    Url(String, ureq::Agent),
}

impl fmt::Display for JwksSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Url(url, _) => f.write_str(url),
        }
    }
}

impl JwksSource {
    /// The source that is configured; nothing is loaded from it.
    pub(super) fn new(jwks: &str, settings: &Settings) -> Result<Self, Cause> {
        let is_https = jwks.starts_with("https://");
        if !is_https && !jwks.starts_with("http://") {
            return Ok(Self::File(jwks.into()));
        }
        let mut config = ureq::Agent::config_builder();
        if is_https {
            config = config.tls_config(tls(settings.oauth2_https_ca.as_deref())?);
        }
        let config = config
            .https_only(is_https)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(Duration::from_millis(JWKS_FETCH_MS_MAX)))
            .user_agent(concat!("coroner/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self::Url(jwks.to_owned(), config.new_agent()))
    }

    /// Whether loading takes no other machine.
    pub(super) const fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Loads the keys. Takes up to [`JWKS_FETCH_MS_MAX`]: not for a thread that serves connections.
    pub(super) fn load(&self) -> Result<KeySet, Cause> {
        let text = match self {
            Self::File(file) => read(file, JWKS_BYTES_MAX as u64)?,
            Self::Url(url, agent) => {
                let mut answer = agent.get(url).call().map_err(Cause::new)?;
                let status = answer.status();
                if !status.is_success() {
                    return Err(Cause::new(format!("the answer has status {status}")));
                }
                let body = answer.body_mut().with_config();
                let read = body.limit(JWKS_BYTES_MAX as u64).read_to_vec();
                read.map_err(Cause::new)?
            }
        };
        KeySet::parse(&text).map_err(Cause::new)
    }
}

/// Reads a file; one that is longer than the bound, by one byte more than that.
fn read(file: &Path, bytes_max: u64) -> Result<Vec<u8>, Cause> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the server reads what its settings name"
    )]
    let opened = std::fs::File::open(file).map_err(Cause::new)?;
    let mut text = Vec::new();
    let mut bounded = opened.take(bytes_max + 1);
    bounded.read_to_end(&mut text).map_err(Cause::new)?;
    Ok(text)
}

/// How the server of the keys is verified: by these authorities, or by the system's.
fn tls(authorities: Option<&Path>) -> Result<TlsConfig, Cause> {
    let roots = match authorities {
        None => rustls_native_certs::load_native_certs().certs,
        Some(file) => {
            let bad = |why: &dyn fmt::Display| Cause::new(format!("{}: {why}", file.display()));
            let text = read(file, PEM_BYTES_MAX).map_err(|why| bad(&why))?;
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
            let certificates = certificates.map_err(|why| bad(&why))?;
            if certificates.is_empty() {
                return Err(bad(&"it has no certificate"));
            }
            certificates
        }
    };
    let roots: Vec<_> = roots
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect();
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&roots))
        .build())
}
