//! The public keys of who issues tokens. [RFC 7517, 7518, 8037]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde_json::Value;
use thiserror::Error;

use super::signed::Signed;
use crate::access::TokenError;
use crate::base::limits::{JWKS_BYTES_MAX, JWKS_KEYS_MAX};

/// Bytes of the modulus of an RSA key: from 2,048 to 8,192 bits.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// The first byte of a point of a curve whose coordinates are both given.
const UNCOMPRESSED: u8 = 4;

/// An algorithm by which tokens may be signed: with a public key. `none` and algorithms with a shared
/// secret are not among them. [RFC 7518 3.1]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SignatureAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl SignatureAlgorithm {
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" => Self::EdDsa,
            _ => return None,
        })
    }

    /// The parameters of an algorithm of RSA; none for any other.
    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }
}

/// A set of keys (JWKS) cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// It is longer than is read.
    #[error("the set of keys has more than {JWKS_BYTES_MAX} bytes")]
    TooLong,
    /// It is no JSON object with a list of keys.
    #[error("this is no JSON object with a list of objects as 'keys': {0}")]
    Form(String),
    /// It has more keys than are kept.
    #[error("the set has more than {JWKS_KEYS_MAX} keys for signatures")]
    TooMany,
    /// A key of a known kind lacks something.
    #[error("key {number} of the set: {why}")]
    Key {
        /// The number of the key in the list, from 1 on.
        number: usize,
        /// What is wrong with it.
        why: String,
    },
    /// No key of it is for signatures that are known here.
    #[error(
        "the set has no public key of RSA, of the curves P-256 and P-384 or of Ed25519 for signatures"
    )]
    Empty,
}

/// The public keys of who issues tokens, as of a set of keys (JWKS).
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<SetKey>,
}

#[derive(Debug)]
struct SetKey {
    kid: Option<String>,
    /// The only algorithm that it is for; none: any of its kind.
    algorithm: Option<String>,
    public: PublicKey,
}

#[derive(Debug)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Reads a set of keys. Keys that are not public, not for signatures or of an unknown kind are
    /// left out.
    pub fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        if text.len() > JWKS_BYTES_MAX {
            return Err(KeySetError::TooLong);
        }
        let form = |why: &str| KeySetError::Form(why.to_owned());
        let set: Value = serde_json::from_slice(text).map_err(|error| form(&error.to_string()))?;
        let list = set.get("keys").and_then(Value::as_array);
        let list = list.ok_or_else(|| form("there is no such list"))?;
        let mut keys = Vec::new();
        for (index, jwk) in list.iter().enumerate() {
            let key = SetKey::parse(jwk).map_err(|why| KeySetError::Key {
                number: index + 1,
                why,
            })?;
            keys.extend(key);
            if keys.len() > JWKS_KEYS_MAX {
                return Err(KeySetError::TooMany);
            }
        }
        if keys.is_empty() {
            return Err(KeySetError::Empty);
        }
        Ok(Self { keys })
    }

    /// Number of keys that are used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Checks the signature of a token. A token that names no key is checked with the only one that
    /// fits its algorithm.
    pub(super) fn verify(&self, token: &Signed<'_>) -> Result<(), TokenError> {
        let named = self.keys.iter().filter(|key| match &token.kid {
            Some(kid) => key.kid.as_ref() == Some(kid),
            None => key.fits(token.algorithm),
        });
        let mut named = named.peekable();
        if named.peek().is_none() {
            return Err(TokenError::UnknownKey);
        }
        let mut fitting = named.filter(|key| key.fits(token.algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => key.verify(token),
            (Some(_), Some(_)) => Err(TokenError::SeveralKeys),
            (None, _) => Err(TokenError::Algorithm),
        }
    }
}

impl SetKey {
    /// Reads one key; none: it is not one to check signatures with.
    fn parse(jwk: &Value) -> Result<Option<Self>, String> {
        let word = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| {
            let text = word(name).ok_or_else(|| format!("'{name}' is missing"))?;
            let decoded = URL_SAFE_NO_PAD.decode(text);
            decoded.map_err(|_| format!("'{name}' is not base64url without padding"))
        };
        if word("use").is_some_and(|word| word != "sig") {
            return Ok(None);
        }
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            if x.len() != size || y.len() != size {
                return Err(format!("'x' and 'y' must have {size} bytes each"));
            }
            Ok([&[UNCOMPRESSED], &*x, &*y].concat())
        };
        let public = match (word("kty"), word("crv")) {
            (None, _) => return Err("'kty' is missing".to_owned()),
            (Some("RSA"), _) => {
                let n = bytes("n")?;
                if !RSA_BYTES.contains(&n.len()) {
                    return Err("'n' must have 2048 to 8192 bits".to_owned());
                }
                PublicKey::Rsa { n, e: bytes("e")? }
            }
            (Some("EC"), Some("P-256")) => PublicKey::P256(point(32)?),
            (Some("EC"), Some("P-384")) => PublicKey::P384(point(48)?),
            (Some("OKP"), Some("Ed25519")) => PublicKey::Ed25519(bytes("x")?),
            _ => return Ok(None),
        };
        Ok(Some(Self {
            kid: word("kid").map(str::to_owned),
            algorithm: word("alg").map(str::to_owned),
            public,
        }))
    }

    /// Whether a token with this algorithm may be signed with it: the key says what it is for, the
    /// token does not choose.
    fn fits(&self, algorithm: SignatureAlgorithm) -> bool {
        use SignatureAlgorithm as Is;
        let is_of_kind = match self.public {
            PublicKey::Rsa { .. } => algorithm.rsa().is_some(),
            PublicKey::P256(_) => algorithm == Is::Es256,
            PublicKey::P384(_) => algorithm == Is::Es384,
            PublicKey::Ed25519(_) => algorithm == Is::EdDsa,
        };
        let only = self.algorithm.as_deref();
        // An Ed25519 key may say so by the newer name of its algorithm.
        let only = only.map(|word| if word == "Ed25519" { "EdDSA" } else { word });
        let is_meant = only.is_none_or(|word| Is::from_word(word) == Some(algorithm));
        is_of_kind && is_meant
    }

    fn verify(&self, token: &Signed<'_>) -> Result<(), TokenError> {
        let (message, signature) = (token.message.as_bytes(), &token.signature);
        let verified = match (&self.public, token.algorithm.rsa()) {
            (PublicKey::Rsa { n, e }, Some(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (PublicKey::Rsa { .. }, None) => return Err(TokenError::Algorithm),
            (PublicKey::P256(point), _) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (PublicKey::P384(point), _) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            (PublicKey::Ed25519(key), _) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
        };
        verified.map_err(|_| TokenError::Signature)
    }
}
