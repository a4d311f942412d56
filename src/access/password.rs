//! Password hashes: RabbitMQ's salted SHA-256, so that its exported users work here.

use sha2::{Digest, Sha256};

/// Bytes of salt in front of the hash.
pub const SALT_BYTES: usize = 4;
const DIGEST_BYTES: usize = 32;

/// A salted hash: `salt (4 bytes) | SHA-256(salt | password)`.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    salt: [u8; SALT_BYTES],
    digest: [u8; DIGEST_BYTES],
}

impl PasswordHash {
    /// The hash of no known password.
    pub(super) const NOBODY: Self = Self {
        salt: [0; SALT_BYTES],
        digest: [0; DIGEST_BYTES],
    };

    /// Hashes a password with a salt that the caller drew at random.
    pub fn new(salt: [u8; SALT_BYTES], password: &[u8]) -> Self {
        Self {
            salt,
            digest: digest(salt, password),
        }
    }

    /// Reads the stored form: salt and digest in one (the bytes behind RabbitMQ's base64
    /// `password_hash`). `None` unless it has exactly 36 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (salt, digest) = bytes.split_first_chunk::<SALT_BYTES>()?;
        Some(Self {
            salt: *salt,
            digest: digest.try_into().ok()?,
        })
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.salt.as_slice(), &self.digest].concat()
    }

    /// Whether this is the password. Looks at every byte whatever the first ones say, so that time
    /// tells nothing. An empty password never matches (as RabbitMQ).
    pub fn verify(&self, password: &[u8]) -> bool {
        let given = digest(self.salt, password);
        let difference = (self.digest.iter().zip(&given)).fold(0, |all, (a, b)| all | (a ^ b));
        difference == 0 && !password.is_empty()
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

fn digest(salt: [u8; SALT_BYTES], password: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut hasher = Sha256::new();
    hasher.update(salt);
    hasher.update(password);
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_matches_its_hash() {
        let hash = PasswordHash::new([1, 2, 3, 4], b"secret");
        assert!(hash.verify(b"secret"));
        assert!(!hash.verify(b"secret "));
        assert!(!hash.verify(b""));
        assert!(
            !PasswordHash::new([0; 4], b"").verify(b""),
            "blank password"
        );
    }

    #[test]
    fn stored_form_is_salt_and_digest() {
        let hash = PasswordHash::new([0x90, 0x8d, 0xc6, 0x0a], b"test12");
        let bytes = hash.to_bytes();
        // The example of RabbitMQ's documentation, in base64 there:
        // kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR
        let documented = [
            0x90, 0x8d, 0xc6, 0x0a, 0xa5, 0xb9, 0x24, 0xb3, 0x09, 0x6b, 0x88, 0x97, 0xd6, 0x5a,
            0x3b, 0x5f, 0x80, 0xfa, 0x5d, 0xb6, 0x2a, 0x94, 0xb8, 0x31, 0x22, 0xcd, 0xf4, 0xf8,
            0xfe, 0xad, 0x10, 0xd5, 0x15, 0xd8, 0xf3, 0x91,
        ];
        assert_eq!(bytes, documented);
        assert_eq!(PasswordHash::from_bytes(&bytes), Some(hash));
        assert_eq!(PasswordHash::from_bytes(&bytes[1..]), None);
    }
}
