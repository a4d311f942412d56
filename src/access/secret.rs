//! A secret key that exists in the memory of one broker only.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a secret, and of the output of [`Secret::mac`].
pub const SECRET_BYTES: usize = 32;

/// Random bytes, drawn at the start of the broker and never written anywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; SECRET_BYTES]);

impl Secret {
    /// A keyed hash of the parts (HMAC-SHA-256), each with its length, so that two lists of parts
    /// are never the same bytes.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; SECRET_BYTES] {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            unreachable!("HMAC takes a key of any length");
        };
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// A text that cannot be guessed; a different one for each number.
    pub fn nonce(&self, number: u64) -> String {
        BASE64.encode(self.mac(&[b"nonce", &number.to_be_bytes()]))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        let secret = Secret([1; SECRET_BYTES]);
        assert_ne!(secret.mac(&[b"ab", b"c"]), secret.mac(&[b"a", b"bc"]));
        assert_ne!(secret.mac(&[b"a"]), Secret([2; SECRET_BYTES]).mac(&[b"a"]));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
