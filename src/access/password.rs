//! A user's password as it is kept: a hash, SCRAM keys where they could be derived; its stored form
//! and its text form, which for RabbitMQ's hashes is RabbitMQ's.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use thiserror::Error;

use super::hash::{ARGON2_BYTES, Argon2Cost, PasswordHash, RABBIT_SALT_BYTES, SALT_BYTES};
use super::scram::ScramKeys;

/// Names of hash algorithms: RabbitMQ's, and Coroner's for its own.
const RABBIT_SHA256: &str = "rabbit_password_hashing_sha256";
const RABBIT_SHA512: &str = "rabbit_password_hashing_sha512";
const ARGON2ID: &str = "coroner_password_hashing_argon2id";

/// First bytes of the stored form, by algorithm.
const CODE_RABBIT_SHA256: u8 = 1;
const CODE_RABBIT_SHA512: u8 = 2;
const CODE_ARGON2ID: u8 = 3;
const CODE_NO_SCRAM: u8 = 0;
const CODE_SCRAM: u8 = 1;

/// Random salts for one password, from the caller.
#[derive(Clone, Copy, Debug)]
pub struct Salts {
    /// The salt of the hash.
    pub hash: [u8; SALT_BYTES],
    /// The salt of the SCRAM keys.
    pub scram: [u8; SALT_BYTES],
}

/// The kept form of a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Password {
    /// The hash, to check a password in clear.
    pub hash: PasswordHash,
    /// The keys, to check a SCRAM proof; none where only a hash was imported.
    pub scram: Option<Box<ScramKeys>>,
}

/// Why a password hash cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// The algorithm is unknown.
    #[error(
        "hashing_algorithm '{algorithm}' is not known: it is {RABBIT_SHA256}, {RABBIT_SHA512} or \
         {ARGON2ID}"
    )]
    Algorithm {
        /// The algorithm's name as given.
        algorithm: String,
    },
    /// It is not base64, or has not the bytes of that algorithm.
    #[error("password_hash is not the base64 text of a hash of {algorithm}")]
    Hash {
        /// The algorithm that was named.
        algorithm: &'static str,
    },
}

impl Password {
    /// Derives hash and keys from a password. Takes about 30 ms: not for a thread that others wait
    /// for.
    pub fn new(salts: Salts, password: &str) -> Self {
        Self {
            hash: PasswordHash::argon2id(salts.hash, password.as_bytes()),
            scram: Some(Box::new(ScramKeys::derive(salts.scram, password))),
        }
    }

    /// Parses the fields of a definitions file or a request: RabbitMQ's `password_hash` and
    /// `hashing_algorithm`, or the output of [`Password::to_text`]. Users with a hash of RabbitMQ's
    /// cannot use SCRAM.
    pub fn from_text(password_hash: &str, algorithm: &str) -> Result<Self, PasswordError> {
        let algorithm = [RABBIT_SHA256, RABBIT_SHA512, ARGON2ID]
            .into_iter()
            .find(|known| *known == algorithm)
            .ok_or_else(|| PasswordError::Algorithm {
                algorithm: algorithm.to_owned(),
            })?;
        let bytes = BASE64.decode(password_hash).ok();
        let password = bytes.and_then(|bytes| match algorithm {
            RABBIT_SHA256 => Self::from_bytes(&[&[CODE_RABBIT_SHA256], &*bytes, &[0]].concat()),
            RABBIT_SHA512 => Self::from_bytes(&[&[CODE_RABBIT_SHA512], &*bytes, &[0]].concat()),
            _ => Self::from_bytes(&bytes)
                .filter(|password| matches!(password.hash, PasswordHash::Argon2id { .. })),
        });
        password.ok_or(PasswordError::Hash { algorithm })
    }

    /// The fields `password_hash` and `hashing_algorithm` for a definitions file. RabbitMQ imports
    /// a user with a hash of Coroner's, but no password logs it in there.
    pub fn to_text(&self) -> (String, &'static str) {
        match &self.hash {
            PasswordHash::RabbitSha256 { salt, digest } => {
                let bytes = [salt.as_slice(), digest].concat();
                (BASE64.encode(bytes), RABBIT_SHA256)
            }
            PasswordHash::RabbitSha512 { salt, digest } => {
                let bytes = [salt.as_slice(), digest].concat();
                (BASE64.encode(bytes), RABBIT_SHA512)
            }
            PasswordHash::Argon2id { .. } => (BASE64.encode(self.to_bytes()), ARGON2ID),
        }
    }

    /// The stored form:
    ///
    /// ```text
    ///  1 | salt 4 | SHA-256 32                              |  0
    ///  2 | salt 4 | SHA-512 64                              |  1 | SCRAM keys
    ///  3 | salt 16 | KiB u32 | passes u32 | Argon2id 32     |
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = match &self.hash {
            PasswordHash::RabbitSha256 { salt, digest } => {
                [&[CODE_RABBIT_SHA256], salt.as_slice(), digest].concat()
            }
            PasswordHash::RabbitSha512 { salt, digest } => {
                [&[CODE_RABBIT_SHA512], salt.as_slice(), digest].concat()
            }
            PasswordHash::Argon2id { salt, cost, digest } => {
                let memory_kib = cost.memory_kib.to_be_bytes();
                let passes = cost.passes.to_be_bytes();
                [
                    &[CODE_ARGON2ID],
                    salt.as_slice(),
                    &memory_kib,
                    &passes,
                    digest,
                ]
                .concat()
            }
        };
        match &self.scram {
            None => bytes.push(CODE_NO_SCRAM),
            Some(keys) => {
                bytes.push(CODE_SCRAM);
                keys.write(&mut bytes);
            }
        }
        bytes
    }

    /// Parses the stored form; none if it is not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&code, rest) = bytes.split_first()?;
        let (hash, rest) = match code {
            CODE_RABBIT_SHA256 => {
                let (salt, rest) = rest.split_first_chunk::<RABBIT_SALT_BYTES>()?;
                let (digest, rest) = rest.split_first_chunk()?;
                let (salt, digest) = (*salt, *digest);
                (PasswordHash::RabbitSha256 { salt, digest }, rest)
            }
            CODE_RABBIT_SHA512 => {
                let (salt, rest) = rest.split_first_chunk::<RABBIT_SALT_BYTES>()?;
                let (digest, rest) = rest.split_first_chunk()?;
                let (salt, digest) = (*salt, *digest);
                (PasswordHash::RabbitSha512 { salt, digest }, rest)
            }
            CODE_ARGON2ID => argon2id(rest)?,
            _ => return None,
        };
        let (&with_scram, rest) = rest.split_first()?;
        let scram = match (with_scram, rest) {
            (CODE_NO_SCRAM, []) => None,
            (CODE_SCRAM, keys) => Some(Box::new(ScramKeys::read(keys)?)),
            _ => return None,
        };
        Some(Self { hash, scram })
    }
}

impl From<PasswordHash> for Password {
    fn from(hash: PasswordHash) -> Self {
        Self { hash, scram: None }
    }
}

fn argon2id(bytes: &[u8]) -> Option<(PasswordHash, &[u8])> {
    let (salt, rest) = bytes.split_first_chunk()?;
    let (memory_kib, rest) = rest.split_first_chunk()?;
    let (passes, rest) = rest.split_first_chunk()?;
    let (digest, rest) = rest.split_first_chunk::<ARGON2_BYTES>()?;
    let cost = Argon2Cost {
        memory_kib: u32::from_be_bytes(*memory_kib),
        passes: u32::from_be_bytes(*passes),
    };
    let hash = PasswordHash::Argon2id {
        salt: *salt,
        cost,
        digest: *digest,
    };
    cost.is_sound().then_some((hash, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALTS: Salts = Salts {
        hash: [1; SALT_BYTES],
        scram: [2; SALT_BYTES],
    };

    #[test]
    fn text_of_rabbitmq_is_read_and_written_unchanged() {
        let check = |text: &str, algorithm: &str, password: &str| {
            let read = Password::from_text(text, algorithm).unwrap();
            assert!(read.hash.verify(password.as_bytes()), "{algorithm}");
            assert!(read.scram.is_none(), "{algorithm}");
            assert_eq!(read.to_text(), (text.to_owned(), algorithm_word(algorithm)));
        };
        // The example of RabbitMQ's documentation.
        let text = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR";
        check(text, RABBIT_SHA256, "test12");
        let hash = PasswordHash::rabbit_sha512([9, 8, 7, 6], b"secret");
        let (text, _) = Password::from(hash).to_text();
        check(&text, RABBIT_SHA512, "secret");
    }

    fn algorithm_word(algorithm: &str) -> &'static str {
        [RABBIT_SHA256, RABBIT_SHA512]
            .into_iter()
            .find(|known| *known == algorithm)
            .unwrap()
    }

    #[test]
    fn a_text_that_is_no_hash_is_refused_by_its_field() {
        let check = |text: &str, algorithm: &str, part: &str| {
            let error = Password::from_text(text, algorithm).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        };
        check("", RABBIT_SHA256, "password_hash");
        check("AAAA", RABBIT_SHA256, "password_hash");
        check("no base64!", RABBIT_SHA512, "password_hash");
        check("AAAA", ARGON2ID, "password_hash");
        check("AAAA", "rabbit_password_hashing_md5", "hashing_algorithm");
        // A hash of RabbitMQ's with the name of one of Coroner's.
        let rabbit = Password::from(PasswordHash::rabbit_sha256([0; 4], b"x"));
        check(&BASE64.encode(rabbit.to_bytes()), ARGON2ID, "password_hash");
    }

    #[test]
    fn stored_form_gives_back_what_was_stored() {
        let own = Password::new(SALTS, "secret");
        let rabbit = [
            PasswordHash::rabbit_sha256([1; 4], b"secret"),
            PasswordHash::rabbit_sha512([1; 4], b"secret"),
        ];
        for password in rabbit.map(Password::from).into_iter().chain([own]) {
            let bytes = password.to_bytes();
            assert_eq!(Password::from_bytes(&bytes).as_ref(), Some(&password));
            let (text, algorithm) = password.to_text();
            assert_eq!(Password::from_text(&text, algorithm), Ok(password));
            for end in 0..bytes.len() {
                assert_eq!(Password::from_bytes(&bytes[..end]), None, "cut at {end}");
            }
            assert_eq!(Password::from_bytes(&[&*bytes, &[0]].concat()), None);
        }
    }

    #[test]
    fn a_stored_hash_cannot_ask_for_more_than_a_login_may_cost() {
        let dear = Password::from(PasswordHash::Argon2id {
            salt: [0; SALT_BYTES],
            cost: Argon2Cost {
                memory_kib: u32::MAX,
                passes: 1,
            },
            digest: [0; ARGON2_BYTES],
        });
        assert_eq!(Password::from_bytes(&dear.to_bytes()), None);
    }
}
