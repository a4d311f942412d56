//! Password hashes: Argon2id for new passwords, RabbitMQ's salted SHA-256 and SHA-512, so that its
//! exported users work here.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

/// Bytes of salt in front of RabbitMQ's hashes.
pub const RABBIT_SALT_BYTES: usize = 4;
/// Bytes of salt of Argon2id hashes.
pub const SALT_BYTES: usize = 16;
/// Bytes of an Argon2id hash.
pub(super) const ARGON2_BYTES: usize = 32;

/// Alignment of a hash's memory, in bytes. With such a coarse alignment allocators get it from the
/// system and return it at once; otherwise they would keep as much as an idle broker takes. In a
/// library the choice of the allocator is the program's.
#[cfg(feature = "cli")]
const MEMORY_ALIGN: usize = 128 * 1024;

/// The memory of a hash computation.
#[cfg(feature = "cli")]
type Memory = aligned_vec::AVec<Block, aligned_vec::ConstAlign<MEMORY_ALIGN>>;
#[cfg(not(feature = "cli"))]
type Memory = Vec<Block>;

/// The cost of an Argon2id hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Argon2Cost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Number of passes over the memory.
    pub passes: u32,
}

impl Argon2Cost {
    /// The cost of new hashes: 7 MiB, five passes, one lane; about 20 ms.
    ///
    /// Choice: of the settings that OWASP calls equal to each other, the one with the least memory:
    /// two of them at once must fit beside a thousand connections.
    pub const DEFAULT: Self = Self {
        memory_kib: 7 * 1024,
        passes: 5,
    };
    /// The highest cost of a stored hash: 64 MiB and 16 passes.
    pub const MAX: Self = Self {
        memory_kib: 64 * 1024,
        passes: 16,
    };

    /// Whether it can be computed, and is not too high for each login.
    pub(super) fn is_sound(self) -> bool {
        (8..=Self::MAX.memory_kib).contains(&self.memory_kib)
            && (1..=Self::MAX.passes).contains(&self.passes)
    }
}

/// A salted hash of a password.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordHash {
    /// `SHA-256(salt | password)`: RabbitMQ's `rabbit_password_hashing_sha256`.
    RabbitSha256 {
        /// The random salt.
        salt: [u8; RABBIT_SALT_BYTES],
        /// The 32 bytes of the hash.
        digest: [u8; 32],
    },
    /// `SHA-512(salt | password)`: RabbitMQ's `rabbit_password_hashing_sha512`.
    RabbitSha512 {
        /// The random salt.
        salt: [u8; RABBIT_SALT_BYTES],
        /// The 64 bytes of the hash.
        digest: [u8; 64],
    },
    /// Argon2id, version 19, one lane. [RFC 9106]
    Argon2id {
        /// The random salt.
        salt: [u8; SALT_BYTES],
        /// The cost it was computed with.
        cost: Argon2Cost,
        /// The 32 bytes of the hash.
        digest: [u8; ARGON2_BYTES],
    },
}

impl PasswordHash {
    /// A hash of no known password, which costs as much to check as a new one.
    pub const NOBODY: Self = Self::Argon2id {
        salt: [0; SALT_BYTES],
        cost: Argon2Cost::DEFAULT,
        digest: [0; ARGON2_BYTES],
    };

    /// Hashes a password with Argon2id and a random salt from the caller. Takes about 20 ms: not
    /// for a thread that others wait for.
    pub fn argon2id(salt: [u8; SALT_BYTES], password: &[u8]) -> Self {
        let cost = Argon2Cost::DEFAULT;
        Self::Argon2id {
            salt,
            cost,
            digest: argon2(salt, cost, password).unwrap_or_default(),
        }
    }

    /// Hashes a password as RabbitMQ does by default.
    pub fn rabbit_sha256(salt: [u8; RABBIT_SALT_BYTES], password: &[u8]) -> Self {
        let digest = salted::<Sha256>(salt, password).into();
        Self::RabbitSha256 { salt, digest }
    }

    /// Hashes a password as RabbitMQ does when told to use SHA-512.
    pub fn rabbit_sha512(salt: [u8; RABBIT_SALT_BYTES], password: &[u8]) -> Self {
        let digest = salted::<Sha512>(salt, password).into();
        Self::RabbitSha512 { salt, digest }
    }

    /// Whether this is the password; an empty one never is (as RabbitMQ). Compares every byte
    /// whatever the first ones are. Costs as much as making the hash.
    pub fn verify(&self, password: &[u8]) -> bool {
        let same = match self {
            Self::RabbitSha256 { salt, digest } => {
                digest.ct_eq(salted::<Sha256>(*salt, password).as_slice())
            }
            Self::RabbitSha512 { salt, digest } => {
                digest.ct_eq(salted::<Sha512>(*salt, password).as_slice())
            }
            Self::Argon2id { salt, cost, digest } => {
                let Some(given) = argon2(*salt, *cost, password) else {
                    return false;
                };
                digest.ct_eq(&given)
            }
        };
        bool::from(same) && !password.is_empty()
    }

    /// Whether checking it takes almost no time.
    pub fn is_cheap(&self) -> bool {
        !matches!(self, Self::Argon2id { .. })
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::RabbitSha256 { .. } => "RabbitSha256(..)",
            Self::RabbitSha512 { .. } => "RabbitSha512(..)",
            Self::Argon2id { .. } => "Argon2id(..)",
        })
    }
}

fn salted<D: Digest>(salt: [u8; RABBIT_SALT_BYTES], password: &[u8]) -> sha2::digest::Output<D> {
    let mut hasher = D::new();
    hasher.update(salt);
    hasher.update(password);
    hasher.finalize()
}

/// The hash; none: the cost is out of bounds, or there is no memory for it.
fn argon2(salt: [u8; SALT_BYTES], cost: Argon2Cost, password: &[u8]) -> Option<[u8; ARGON2_BYTES]> {
    let params = Params::new(cost.memory_kib, cost.passes, 1, Some(ARGON2_BYTES)).ok()?;
    let mut digest = [0; ARGON2_BYTES];
    #[cfg(feature = "cli")]
    let mut memory = Memory::new(MEMORY_ALIGN);
    #[cfg(not(feature = "cli"))]
    let mut memory = Memory::new();
    memory.try_reserve_exact(params.block_count()).ok()?;
    memory.resize(params.block_count(), Block::new());
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    hasher
        .hash_password_into_with_memory(password, &salt, &mut digest, &mut *memory)
        .ok()?;
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_matches_its_hash() {
        let hashes = [
            PasswordHash::rabbit_sha256([1, 2, 3, 4], b"secret"),
            PasswordHash::rabbit_sha512([1, 2, 3, 4], b"secret"),
            PasswordHash::argon2id([7; SALT_BYTES], b"secret"),
        ];
        for hash in hashes {
            assert!(hash.verify(b"secret"), "{hash:?}");
            assert!(!hash.verify(b"secret "), "{hash:?}");
            assert!(!hash.verify(b""), "{hash:?}");
        }
    }

    #[test]
    fn a_blank_password_never_matches() {
        assert!(!PasswordHash::rabbit_sha256([0; 4], b"").verify(b""));
        assert!(!PasswordHash::argon2id([0; 16], b"").verify(b""));
        assert!(!PasswordHash::NOBODY.verify(b""));
    }

    #[test]
    fn two_salts_make_two_hashes() {
        let hash = |salt| PasswordHash::argon2id([salt; SALT_BYTES], b"secret");
        assert_ne!(hash(1), hash(2));
        assert_eq!(hash(1), hash(1));
    }
}
