//! TLS of clients, for `https://` and `amqps://` alike: trusted authorities, the client's
//! certificate, and explanations of failures.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::endpoint::Endpoint;
use crate::cli::exit::{Failure, FailureKind};

/// The files for TLS, and whether the broker's certificate is verified.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct TlsFiles {
    /// Authorities to trust instead of the system's.
    pub(super) authorities: Option<PathBuf>,
    /// The client's certificate and those between it and its authority.
    pub(super) certificate: Option<PathBuf>,
    /// The key of the client's certificate.
    pub(super) key: Option<PathBuf>,
    /// Whether any certificate is accepted.
    pub(super) trusts_all: bool,
}

/// The loaded content of the files.
struct Tls {
    /// The trusted authorities; none: any certificate is accepted.
    roots: Option<Vec<CertificateDer<'static>>>,
    /// The client's certificates; none: it shows none.
    chain: Option<Vec<CertificateDer<'static>>>,
    config: ClientConfig,
}

impl TlsFiles {
    /// Whether there is a client certificate.
    pub(in crate::cli) fn has_certificate(&self) -> bool {
        self.certificate.is_some()
    }

    /// The connector for TLS streams.
    pub(in crate::cli) fn connector(&self) -> Result<TlsConnector, Failure> {
        Ok(TlsConnector::from(Arc::new(self.load()?.config)))
    }

    /// The same for the HTTP client, which builds its own from the same parts.
    pub(super) fn for_http(&self) -> Result<ureq::tls::TlsConfig, Failure> {
        use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
        let certificates = |of: &[CertificateDer<'_>]| -> Vec<_> {
            of.iter()
                .map(|der| Certificate::from_der(der).to_owned())
                .collect()
        };
        let tls = self.load()?;
        let identity = match (&tls.chain, &self.key) {
            (Some(chain), Some(file)) => {
                let key = PrivateKey::from_pem(&read(file)?);
                let key = key.map_err(|error| bad(file, &error.to_string()))?;
                Some(ClientCert::new_with_certs(&certificates(chain), key))
            }
            _ => None,
        };
        let roots = tls.roots.unwrap_or_default();
        Ok(TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::clone(tls.config.crypto_provider()))
            .root_certs(RootCerts::new_with_certs(&certificates(&roots)))
            .disable_verification(self.trusts_all)
            .client_cert(identity)
            .build())
    }

    fn load(&self) -> Result<Tls, Failure> {
        let roots = match &self.authorities {
            _ if self.trusts_all => None,
            Some(file) => Some(certificates(file)?),
            None => Some(rustls_native_certs::load_native_certs().certs),
        };
        let identity = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificates(certificate)?, private_key(key)?)),
            _ => {
                return Err(Failure::usage(
                    "a certificate needs its key: --tls-cert-file and --tls-key-file go together",
                ));
            }
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| Failure::new(FailureKind::Software, error.to_string()))?;
        let builder = match &roots {
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(TakesAny::new(&provider))),
            Some(roots) => {
                let mut store = RootCertStore::empty();
                // Old systems trust some certificates that are not valid X.509 today.
                store.add_parsable_certificates(roots.iter().cloned());
                builder.with_root_certificates(store)
            }
        };
        let config = match &identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain.clone(), key.clone_key())
                .map_err(|error| {
                    let what = format!("--tls-cert-file and --tls-key-file do not fit: {error}");
                    Failure::new(FailureKind::Data, what)
                })?,
        };
        Ok(Tls {
            roots,
            chain: identity.map(|(chain, _)| chain),
            config,
        })
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let bytes = read(file)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let read = read.map_err(|error| bad(file, &error.to_string()))?;
    if read.is_empty() {
        return Err(bad(file, "there is no -----BEGIN CERTIFICATE-----"));
    }
    Ok(read)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| bad(file, &error.to_string()))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the command line reads the files it was given"
    )]
    let read = std::fs::read(file);
    read.map_err(|error| {
        let what = format!("cannot read {}: {error}", file.display());
        Failure::new(FailureKind::NotFound, what)
    })
}

fn bad(file: &Path, why: &str) -> Failure {
    let what = format!("{} holds no such thing in PEM: {why}", file.display());
    Failure::new(FailureKind::Data, what)
}

/// Accepts any certificate, because the user asked for it. Signatures are checked all the same.
#[derive(Debug)]
struct TakesAny(WebPkiSupportedAlgorithms);

impl TakesAny {
    fn new(provider: &CryptoProvider) -> Self {
        Self(provider.signature_verification_algorithms)
    }
}

impl ServerCertVerifier for TakesAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// The failure, if TLS caused the error.
pub(in crate::cli) fn failure(endpoint: &Endpoint, error: &io::Error) -> Option<Failure> {
    let error: &Error = error.get_ref()?.downcast_ref()?;
    Some(explain(endpoint, error))
}

/// The failure in words, with advice.
pub(super) fn explain(endpoint: &Endpoint, error: &Error) -> Failure {
    let (what, advice) = match error {
        Error::InvalidCertificate(error) => (
            format!("{endpoint} is not trusted: {}", in_words(endpoint, error)),
            advice(error),
        ),
        Error::AlertReceived(alert) => (
            format!("{endpoint} ended TLS: {alert:?}"),
            "it may want a certificate that it trusts: --tls-cert-file and --tls-key-file show one",
        ),
        Error::InvalidMessage(_) => (
            format!("what listens at {endpoint} does not speak TLS"),
            "without TLS it is http:// or amqp://, at another port",
        ),
        error => (
            format!("no TLS with {endpoint}: {error}"),
            "TLS 1.2 and 1.3 are spoken",
        ),
    };
    Failure::new(FailureKind::Unavailable, what).advise(advice)
}

fn in_words(endpoint: &Endpoint, error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "its certificate is signed by an authority that is not known here".to_owned()
        }
        CertificateError::NotValidForName => {
            format!("its certificate is not for '{}'", endpoint.host)
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names = presented.join(", ");
            format!(
                "its certificate is for {names}, not for '{}'",
                endpoint.host
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        error if is_authority(error) => "its certificate is that of an authority".to_owned(),
        error => error.to_string(),
    }
}

fn advice(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "name the broker as its certificate does; --insecure takes any certificate"
        }
        CertificateError::UnknownIssuer => {
            "--tls-ca-cert-file FILE names the authority; --insecure takes any certificate"
        }
        error if is_authority(error) => {
            "sign one for the broker with it, or make it anew with CA:FALSE; --insecure takes any"
        }
        _ => "the broker needs a new one; --insecure takes any certificate",
    }
}

/// Self-signed certificates often claim to be an authority; this error has no name.
fn is_authority(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity")
}
