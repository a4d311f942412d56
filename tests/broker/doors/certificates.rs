//! Certificates of one test, in a directory that goes with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use coroner::Settings;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An authority, and the files of a broker that it signed.
pub struct Authority {
    certificate: rcgen::Certificate,
    key: KeyPair,
    pub directory: PathBuf,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Identity {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl Authority {
    pub fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("coroner-doors-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let authority = Self {
            certificate,
            key,
            directory,
        };
        authority.write("ca.pem", &pem("CERTIFICATE", authority.certificate.der()));
        authority.renew();
        authority
    }

    /// Writes a new certificate and key for the broker; returns the certificate.
    pub fn renew(&self) -> Vec<u8> {
        self.renew_with(|_| {})
    }

    /// The same with a change to the certificate.
    pub fn renew_with(&self, change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut parameters = parameters("broker", "localhost");
        change(&mut parameters);
        let identity = self.sign_these(&parameters);
        self.write_broker(&identity);
        identity.certificate
    }

    /// Writes a certificate of an authority for the broker, signed by nobody else.
    pub fn renew_by_itself(&self) {
        let mut parameters = parameters("broker", "localhost");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        self.write_broker(&Identity {
            certificate: certificate.der().to_vec(),
            key: key.serialize_der(),
        });
    }

    fn write_broker(&self, identity: &Identity) {
        self.write("cert.pem", &pem("CERTIFICATE", &identity.certificate));
        self.write("key.pem", &pem("PRIVATE KEY", &identity.key));
    }

    /// A certificate with this common name and DNS name.
    pub fn sign(&self, common_name: &str, dns_name: &str) -> Identity {
        self.sign_these(&parameters(common_name, dns_name))
    }

    fn sign_these(&self, parameters: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let signed = parameters
            .clone()
            .signed_by(&key, &self.certificate, &self.key);
        Identity {
            certificate: signed.unwrap().der().to_vec(),
            key: key.serialize_der(),
        }
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.join(name), text).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Settings with these files; clients may show certificates.
    pub fn settings(&self) -> Settings {
        Settings {
            amqps: vec!["127.0.0.1:0".parse().unwrap()],
            tls_certificate: Some(self.file("cert.pem")),
            tls_key: Some(self.file("key.pem")),
            tls_client_ca: Some(self.file("ca.pem")),
            ..super::settings()
        }
    }

    /// A client that trusts this authority, and shows a certificate if it has one.
    pub fn connector(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(versions).unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = vec![CertificateDer::from(identity.certificate.clone())];
                let key = PrivateKeyDer::Pkcs8(identity.key.clone().into());
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

fn parameters(common_name: &str, dns_name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new(vec![dns_name.to_owned()]).unwrap();
    let name = &mut parameters.distinguished_name;
    name.push(DnType::CommonName, common_name);
    parameters
}

pub fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines: Vec<_> = text
        .as_bytes()
        .chunks(64)
        .map(String::from_utf8_lossy)
        .collect();
    let body = lines.join("\n");
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}
