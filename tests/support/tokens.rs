//! Who issues access tokens, for tests: a key of Ed25519, its JWKS, and a file for that.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The name of the broker in tokens.
pub const RESOURCE: &str = "rabbitmq";

/// An issuer with one key.
pub struct Issuer {
    key: Ed25519KeyPair,
    kid: String,
}

impl Issuer {
    /// An issuer whose key has this name.
    pub fn new(kid: &str) -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("random bytes");
        let key = Ed25519KeyPair::from_pkcs8(made.as_ref()).expect("it was made just now");
        Self {
            key,
            kid: kid.to_owned(),
        }
    }

    /// Its set of keys.
    pub fn jwks(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        let key = json!({
            "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": self.kid, "x": x,
        });
        json!({ "keys": [key] }).to_string()
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": self.kid });
        let message = format!("{}.{}", part(&header), part(claims));
        let signature = self.key.sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// A token of a user for so many seconds, with these scopes, to which the prefix is added.
    pub fn token(&self, user: &str, seconds: f64, scopes: &[&str]) -> String {
        self.sign(&claims(user, seconds, scopes))
    }
}

/// The claims of a token of a user for so many seconds.
pub fn claims(user: &str, seconds: f64, scopes: &[&str]) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let end_s = now.expect("it is after 1970").as_secs_f64() + seconds;
    let scopes: Vec<String> = scopes
        .iter()
        .map(|scope| format!("{RESOURCE}.{scope}"))
        .collect();
    json!({ "sub": user, "aud": RESOURCE, "exp": end_s, "scope": scopes })
}

/// A file with a JWKS, which goes with it.
pub struct JwksFile(pub PathBuf);

impl JwksFile {
    /// A file with the keys of an issuer.
    pub fn of(issuer: &Issuer) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("coroner-jwks-{}-{number}.json", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        file.write(&issuer.jwks());
        file
    }

    /// Replaces what is in it.
    pub fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("a file");
    }

    /// The arguments of a broker that takes tokens of these keys.
    pub fn arguments(&self) -> [String; 2] {
        [
            format!("--oauth2-jwks={}", self.0.display()),
            format!("--oauth2-resource-server-id={RESOURCE}"),
        ]
    }
}

impl Drop for JwksFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}
