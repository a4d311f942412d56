//! TLS: certificates from PEM files, reloaded when they change; the user that a client certificate
//! names.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::errors::{Cause, TlsError};
use super::expiry::Ending;
use crate::access::{Peer, TlsPeer};
use crate::base::locks::{RankedMutex, RankedRwLock, rank};
use crate::base::{Name, Timestamp};
use crate::config::{Settings, TlsLoginFrom};

/// Interval at which the files are checked for changes.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);
/// Largest PEM file that is read, in bytes: a bundle of all public authorities has a quarter of it.
const PEM_BYTES_MAX: u64 = 1 << 20;
/// Sessions that can be resumed, over all clients.
const SESSIONS_MAX: usize = 1_024;

/// The files, and their purpose.
#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    client_required: bool,
}

/// The loaded content of the files.
#[derive(Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    ends: Ending,
}

/// Modification times of the files, and their sizes.
type Stamp = Vec<Option<(SystemTime, u64)>>;

/// The TLS side of listeners.
pub(super) struct Tls {
    files: Files,
    login_from: TlsLoginFrom,
    /// Time limit of one handshake.
    timeout: Duration,
    loaded: RankedRwLock<rank::TlsLoaded, Loaded>,
    stamp: RankedMutex<rank::TlsStamp, Stamp>,
}

impl Tls {
    /// Loads the files that the settings name; none if they name none.
    pub(super) fn new(settings: &Settings) -> Result<Option<Arc<Self>>, TlsError> {
        let (Some(certificate), Some(key)) = (&settings.tls_certificate, &settings.tls_key) else {
            return Ok(None);
        };
        let files = Files {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: settings.tls_client_ca.clone(),
            client_required: settings.tls_client_required,
        };
        let stamp = files.stamp();
        let loaded = RankedRwLock::new(files.load()?);
        Ok(Some(Arc::new(Self {
            login_from: settings.tls_login_from,
            timeout: settings.handshake_timeout.duration(),
            loaded,
            stamp: RankedMutex::new(stamp),
            files,
        })))
    }

    /// Reloads the files, for new connections. When they are invalid, the loaded ones stay.
    pub(super) fn reload(&self) -> Result<(), TlsError> {
        *self.stamp.lock() = self.files.stamp();
        let loaded = self.files.load()?;
        *self.loaded.write() = loaded;
        Ok(())
    }

    /// The certificates in the files that expire before this time.
    pub(super) fn ending(&self, before: Timestamp) -> Ending {
        self.loaded.read().ends.before(before)
    }

    /// The files with the broker's certificate, and with the authorities of clients.
    pub(super) fn certificate_files(&self) -> (&Path, Option<&Path>) {
        (&self.files.certificate, self.files.client_ca.as_deref())
    }

    /// Reloads the files whenever they change, until the broker ends.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(WATCH_INTERVAL).await;
            let tls = Arc::clone(&self);
            // Disks may be slow.
            let looked = tokio::task::spawn_blocking(move || tls.reload_if_changed()).await;
            if let Err(error) = looked {
                tracing::error!(%error, "cannot look after the TLS files");
            }
        }
    }

    fn reload_if_changed(&self) {
        if *self.stamp.lock() == self.files.stamp() {
            return;
        }
        match self.reload() {
            Ok(()) => tracing::info!("TLS files changed and were loaded"),
            Err(error) => {
                tracing::error!(%error, "TLS files changed and are bad: the old ones stay in use");
            }
        }
    }

    /// Makes a TLS connection over a new stream; none if the handshake fails.
    pub(super) async fn accept<S>(
        &self,
        stream: S,
        address: SocketAddr,
    ) -> Option<(Peer, TlsStream<S>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.loaded.read().config));
        match tokio::time::timeout(self.timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let tls = self.describe(stream.get_ref().1);
                let tls = Some(tls);
                let peer = Peer {
                    tls,
                    ..Peer::at(address)
                };
                Some((peer, stream))
            }
            Ok(Err(error)) => {
                tracing::info!(%address, %error, "TLS handshake failed");
                None
            }
            Err(_) => {
                tracing::info!(%address, "TLS handshake took too long");
                None
            }
        }
    }

    fn describe(&self, connection: &ServerConnection) -> TlsPeer {
        let version = connection.protocol_version();
        let suite = connection.negotiated_cipher_suite();
        // They are present only if they were verified.
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        TlsPeer {
            version: version
                .and_then(|version| version.as_str())
                .unwrap_or("TLS"),
            cipher: suite
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or("unknown"),
            certificate_user: certificate
                .and_then(|certificate| certificate_user(certificate, self.login_from)),
        }
    }
}

impl Files {
    fn stamp(&self) -> Stamp {
        let files = [
            Some(&self.certificate),
            Some(&self.key),
            self.client_ca.as_ref(),
        ];
        let files = files.into_iter().flatten();
        let stamps = files.map(|file| {
            let metadata = std::fs::metadata(file).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        });
        stamps.collect()
    }

    fn load(&self) -> Result<Loaded, TlsError> {
        let chain = certificates(&self.certificate)?;
        let mut ends = Ending {
            certificate: ends_of(&chain),
            authorities: Vec::new(),
        };
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|error| wrong(&self.key, format!("no private key in PEM: {error}")))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| wrong(&self.certificate, error.to_string()))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                let authorities = certificates(file)?;
                ends.authorities = ends_of(&authorities);
                for certificate in authorities {
                    roots.add(certificate).map_err(|error| wrong(file, error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if self.client_required {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                let verifier = verifier.build().map_err(|error| wrong(file, error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let made = builder.with_single_cert(chain, key);
        let mut config = made.map_err(|error| match error {
            Error::InvalidCertificate(error) => wrong(&self.certificate, error.to_string()),
            Error::InconsistentKeys(_) => {
                let certificate = self.certificate.display();
                wrong(
                    &self.key,
                    format!("is not the key of the first certificate in {certificate}"),
                )
            }
            error => wrong(&self.key, error),
        })?;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
        config.send_tls13_tickets = 1;
        let config = Arc::new(config);
        Ok(Loaded { config, ends })
    }
}

/// The expiry times of all certificates in a file, in its order; one that cannot be read counts as
/// expired.
fn ends_of(certificates: &[CertificateDer<'_>]) -> Vec<Timestamp> {
    let ends = certificates.iter().map(|certificate| {
        let read = x509_cert::Certificate::from_der(certificate).ok()?;
        let end = read.tbs_certificate().validity().not_after;
        i64::try_from(end.to_unix_duration().as_millis()).ok()
    });
    ends.map(|end| Timestamp(end.unwrap_or(0))).collect()
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(file)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err(wrong(
            file,
            "no certificate in PEM (-----BEGIN CERTIFICATE-----)",
        )),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(wrong(file, format!("no PEM: {error}"))),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "certificates are the listener's, and read where it is made"
)]
fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let size_bytes = std::fs::metadata(file)
        .map_err(|error| wrong(file, error))?
        .len();
    if size_bytes > PEM_BYTES_MAX {
        return Err(wrong(
            file,
            format!("{size_bytes} bytes are too many for a PEM file"),
        ));
    }
    std::fs::read(file).map_err(|error| wrong(file, error))
}

fn wrong(file: &Path, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TlsError {
    TlsError {
        file: file.display().to_string(),
        why: Cause::new(why),
    }
}

/// The user that a certificate names.
fn certificate_user(certificate: &[u8], login_from: TlsLoginFrom) -> Option<Name> {
    let certificate = x509_cert::Certificate::from_der(certificate).ok()?;
    let certificate = certificate.tbs_certificate();
    let name = match login_from {
        TlsLoginFrom::CommonName => {
            let common_name = certificate.subject().common_name().ok()??;
            common_name.value().into_owned()
        }
        TlsLoginFrom::SubjectAlternativeName => {
            let (_, SubjectAltName(names)) = certificate.get_extension().ok()??;
            names.iter().find_map(|name| match name {
                GeneralName::DnsName(name)
                | GeneralName::Rfc822Name(name)
                | GeneralName::UniformResourceIdentifier(name) => Some(name.to_string()),
                _ => None,
            })?
        }
    };
    (!name.is_empty()).then(|| Name::from(&*name))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read_and_garbage_has_ended() {
        let mut parameters = CertificateParams::new(vec!["h".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2100, 1, 1);
        let made = parameters
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap();
        let garbage = CertificateDer::from(vec![1, 2, 3]);
        let certificate = ends_of(&[made.der().clone(), garbage]);
        let end = Timestamp(4_102_444_800_000);
        assert_eq!(certificate, [end, Timestamp(0)]);
        let all = Ending {
            certificate,
            authorities: vec![end],
        };
        assert!(all.before(Timestamp(0)).is_empty());
        assert_eq!(all.before(end).certificate, [Timestamp(0)]);
        assert_eq!(all.before(Timestamp(end.0 + 1)), all);
    }
}
