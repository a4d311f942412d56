//! The command that hashes passwords locally: nothing is sent to a broker.

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Task, secret};
use crate::access::{Password, PasswordHash, Salts};
use crate::cli::api::Api;
use crate::cli::exit::Failure;
use crate::cli::output::{self, Output};
use crate::server::random;

/// Hashes a password for definitions; asks no broker
///
/// With --format json the name of the algorithm is there, too: it belongs beside the hash unless that is sha256.
#[derive(Args)]
pub(super) struct HashPassword {
    /// The password [default: read from standard input]
    password: Option<String>,
    /// RabbitMQ takes sha256 and sha512; argon2id is dearer to guess, and logs in by SCRAM
    #[arg(long, value_enum, default_value_t = Algorithm::Sha256)]
    algorithm: Algorithm,
}

/// How a password is hashed.
#[derive(Clone, Copy, ValueEnum)]
enum Algorithm {
    /// RabbitMQ's salted SHA-256
    Sha256,
    /// RabbitMQ's salted SHA-512
    Sha512,
    /// Argon2id with keys for SCRAM
    Argon2id,
}

impl Task for HashPassword {
    const NAME: &'static str = "hash_password";
    const EXAMPLES: &'static [&'static str] = &[
        "hash_password < password-file",
        "hash_password --algorithm argon2id --format json < password-file",
    ];

    fn run(self, _: &Api, out: Output) -> Result<(), Failure> {
        let password = secret::given(self.password, "Password: ")?;
        let hashed = match self.algorithm {
            Algorithm::Sha256 => PasswordHash::rabbit_sha256(random(), password.as_bytes()).into(),
            Algorithm::Sha512 => PasswordHash::rabbit_sha512(random(), password.as_bytes()).into(),
            Algorithm::Argon2id => {
                let salts = Salts {
                    hash: random(),
                    scram: random(),
                };
                Password::new(salts, &password)
            }
        };
        let (hash, algorithm) = hashed.to_text();
        if out.is_json() {
            let both = json!({ "password_hash": hash, "hashing_algorithm": algorithm });
            return output::print_json(&both);
        }
        output::print(&format!("{hash}\n"))
    }
}
