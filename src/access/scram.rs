//! SCRAM-SHA-256 and SCRAM-SHA-512, the server's side, as pure steps. [RFC 5802, RFC 7677]
//!
//! ```text
//!  client                                          server
//!    n,,n=user,r=CNONCE                   ------>  ClientFirst::parse, ScramExchange::begin
//!    <------  r=CNONCE+SNONCE,s=SALT,i=4096
//!    c=biws,r=CNONCE+SNONCE,p=PROOF       ------>  ScramExchange::finish
//!    <------  v=SIGNATURE
//! Channel binding is not offered: a client that asks for it (`p=`) is refused; one that supports
//! it and believes that the server does not (`y`) goes on.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

use super::hash::SALT_BYTES;
use super::login::LoginError;
use super::secret::Secret;

/// Rounds of PBKDF2 of new keys: the minimum of RFC 7677. Clients compute them at each login.
const ROUNDS: u32 = 4_096;
/// The highest number of rounds that stored keys may ask of clients.
const ROUNDS_MAX: u32 = 1_000_000;
/// Longest nonce of a client, in bytes: it is sent back.
const CLIENT_NONCE_BYTES_MAX: usize = 256;

/// The hash of a SCRAM mechanism.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ScramHash {
    /// SCRAM-SHA-256. [RFC 7677]
    Sha256,
    /// SCRAM-SHA-512, which no RFC defines.
    Sha512,
}

/// The keys that a server keeps of a password for SCRAM. The password cannot be computed from them,
/// nor do they suffice for a login without having seen one.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    salt: [u8; SALT_BYTES],
    rounds: u32,
    sha256: KeyPair<32>,
    sha512: KeyPair<64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct KeyPair<const BYTES: usize> {
    stored: [u8; BYTES],
    server: [u8; BYTES],
}

impl ScramKeys {
    /// Derives the keys of both mechanisms. Takes some milliseconds.
    pub fn derive(salt: [u8; SALT_BYTES], password: &str) -> Self {
        // "SASLprep"; a password that it prohibits is used as it is, as most servers do.
        let prepared = stringprep::saslprep(password);
        let password = prepared.as_deref().unwrap_or(password).as_bytes();
        let pair = |hash| {
            let salted = hash_password(hash, password, &salt, ROUNDS);
            let client = mac(hash, &salted, &[b"Client Key"]);
            (digest(hash, &client), mac(hash, &salted, &[b"Server Key"]))
        };
        let (sha256, sha512) = (pair(ScramHash::Sha256), pair(ScramHash::Sha512));
        Self {
            salt,
            rounds: ROUNDS,
            sha256: KeyPair {
                stored: fixed(&sha256.0),
                server: fixed(&sha256.1),
            },
            sha512: KeyPair {
                stored: fixed(&sha512.0),
                server: fixed(&sha512.1),
            },
        }
    }

    /// Keys for a user without any: the same salt for a name each time, so that an answer does not
    /// tell which users exist.
    fn nobody(user: &str, secret: &Secret) -> Self {
        Self {
            salt: fixed(&secret.mac(&[b"scram salt", user.as_bytes()])),
            rounds: ROUNDS,
            sha256: KeyPair {
                stored: [0; 32],
                server: [0; 32],
            },
            sha512: KeyPair {
                stored: [0; 64],
                server: [0; 64],
            },
        }
    }

    /// Writes the stored form: `rounds u32 | salt 16 | stored 32 | server 32 | stored 64 | server 64`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.rounds.to_be_bytes());
        out.extend(self.salt);
        out.extend(self.sha256.stored);
        out.extend(self.sha256.server);
        out.extend(self.sha512.stored);
        out.extend(self.sha512.server);
    }

    /// Reads the stored form, which must be all of `bytes`.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (rounds, rest) = bytes.split_first_chunk()?;
        let (salt, rest) = rest.split_first_chunk()?;
        let (stored_256, rest) = rest.split_first_chunk()?;
        let (server_256, rest) = rest.split_first_chunk()?;
        let (stored_512, rest) = rest.split_first_chunk()?;
        let (server_512, rest) = rest.split_first_chunk()?;
        let keys = Self {
            rounds: u32::from_be_bytes(*rounds),
            salt: *salt,
            sha256: KeyPair {
                stored: *stored_256,
                server: *server_256,
            },
            sha512: KeyPair {
                stored: *stored_512,
                server: *server_512,
            },
        };
        let sound = rest.is_empty() && (ROUNDS..=ROUNDS_MAX).contains(&keys.rounds);
        sound.then_some(keys)
    }

    fn pair(&self, hash: ScramHash) -> (&[u8], &[u8]) {
        match hash {
            ScramHash::Sha256 => (&self.sha256.stored, &self.sha256.server),
            ScramHash::Sha512 => (&self.sha512.stored, &self.sha512.server),
        }
    }
}

impl std::fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScramKeys(..)")
    }
}

/// The first message of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientFirst {
    /// The user that logs in.
    pub user: String,
    nonce: String,
    /// The header of the message, in base64: the client repeats it.
    header: String,
    /// The message without its header.
    bare: String,
}

impl ClientFirst {
    /// Reads `n,,n=user,r=nonce`, with an optional authorization id.
    pub fn parse(message: &[u8]) -> Result<Self, LoginError> {
        let text = std::str::from_utf8(message).map_err(|_| LoginError::Malformed)?;
        let (binding, rest) = text.split_once(',').ok_or(LoginError::Malformed)?;
        if !matches!(binding, "n" | "y") {
            return Err(LoginError::ChannelBinding);
        }
        let (authorization_id, bare) = rest.split_once(',').ok_or(LoginError::Malformed)?;
        let mut parts = bare.split(',');
        let user = parts.next().and_then(|part| part.strip_prefix("n="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let (Some(user), Some(nonce)) = (user.and_then(unescape), nonce) else {
            return Err(LoginError::Malformed);
        };
        let printable = nonce.bytes().all(|byte| byte.is_ascii_graphic());
        if user.is_empty() || !(1..=CLIENT_NONCE_BYTES_MAX).contains(&nonce.len()) || !printable {
            return Err(LoginError::Malformed);
        }
        if !authorization_id.is_empty() {
            let named = authorization_id.strip_prefix("a=").and_then(unescape);
            if named.ok_or(LoginError::Malformed)? != user {
                return Err(LoginError::AuthorizationId);
            }
        }
        Ok(Self {
            header: BASE64.encode(format!("{binding},{authorization_id},")),
            nonce: nonce.to_owned(),
            bare: bare.to_owned(),
            user,
        })
    }
}

/// An exchange after its first message.
#[derive(Clone, Debug)]
pub struct ScramExchange {
    hash: ScramHash,
    keys: ScramKeys,
    /// Whether the keys are those of an existing user.
    is_known: bool,
    user: String,
    nonce: String,
    header: String,
    /// `client-first-message-bare , server-first-message ,`
    so_far: String,
}

impl ScramExchange {
    /// Begins; `keys` are those of the user, if it has any. Also returns the first answer. The
    /// nonce must never have been used.
    pub fn begin(
        hash: ScramHash,
        first: ClientFirst,
        keys: Option<&ScramKeys>,
        nonce: &str,
        secret: &Secret,
    ) -> (Self, String) {
        let is_known = keys.is_some();
        // Done for every user, so that the time does not tell which users exist.
        let nobody = ScramKeys::nobody(&first.user, secret);
        let keys = keys.cloned().unwrap_or(nobody);
        let nonce = format!("{}{nonce}", first.nonce);
        let salt = BASE64.encode(keys.salt);
        let answer = format!("r={nonce},s={salt},i={}", keys.rounds);
        let so_far = format!("{},{answer},", first.bare);
        let exchange = Self {
            hash,
            keys,
            is_known,
            user: first.user,
            nonce,
            header: first.header,
            so_far,
        };
        (exchange, answer)
    }

    /// The user name that the client gave.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Checks the client's proof; returns the server's.
    pub fn finish(&self, message: &[u8]) -> Result<String, LoginError> {
        let text = std::str::from_utf8(message).map_err(|_| LoginError::Malformed)?;
        let (unproven, proof) = text.rsplit_once(",p=").ok_or(LoginError::Malformed)?;
        let proof = BASE64.decode(proof).map_err(|_| LoginError::Malformed)?;
        let mut parts = unproven.split(',');
        let header = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        if header != Some(&*self.header) || nonce != Some(&*self.nonce) {
            return Err(LoginError::Malformed);
        }
        let (stored, server) = self.keys.pair(self.hash);
        let signed: [&[u8]; 2] = [self.so_far.as_bytes(), unproven.as_bytes()];
        let signature = mac(self.hash, stored, &signed);
        if proof.len() != signature.len() {
            return Err(LoginError::Malformed);
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let same = bool::from(digest(self.hash, &client_key).as_slice().ct_eq(stored));
        if !same || !self.is_known {
            return Err(LoginError::Credentials);
        }
        Ok(format!(
            "v={}",
            BASE64.encode(mac(self.hash, server, &signed))
        ))
    }
}

/// Decodes a name in which `,` and `=` are written `=2C` and `=3D`.
fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (character, rest) = match part.split_at_checked(2)? {
            ("2C", rest) => (',', rest),
            ("3D", rest) => ('=', rest),
            _ => return None,
        };
        plain.push(character);
        plain.push_str(rest);
    }
    Some(plain)
}

fn hash_password(hash: ScramHash, password: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
    let (mut salted, done);
    match hash {
        ScramHash::Sha256 => {
            salted = vec![0; 32];
            done = pbkdf2::pbkdf2::<Hmac<Sha256>>(password, salt, rounds, &mut salted);
        }
        ScramHash::Sha512 => {
            salted = vec![0; 64];
            done = pbkdf2::pbkdf2::<Hmac<Sha512>>(password, salt, rounds, &mut salted);
        }
    }
    assert!(done.is_ok(), "HMAC takes a key of any length");
    salted
}

fn digest(hash: ScramHash, bytes: &[u8]) -> Vec<u8> {
    match hash {
        ScramHash::Sha256 => Sha256::digest(bytes).to_vec(),
        ScramHash::Sha512 => Sha512::digest(bytes).to_vec(),
    }
}

fn mac(hash: ScramHash, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    match hash {
        ScramHash::Sha256 => mac_with::<Hmac<Sha256>>(key, parts),
        ScramHash::Sha512 => mac_with::<Hmac<Sha512>>(key, parts),
    }
}

fn mac_with<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
        // HMAC takes a key of any length; an empty result equals no proof.
        return Vec::new();
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// The first bytes as an array.
fn fixed<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    bytes.first_chunk().copied().unwrap_or([0; BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret = Secret([5; 32]);

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_exchange_of_rfc_7677_is_reproduced() {
        let salt: [u8; 16] = fixed(&BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap());
        let keys = ScramKeys::derive(salt, "pencil");
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        assert_eq!(first.user, "user");
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (exchange, answer) =
            ScramExchange::begin(ScramHash::Sha256, first, Some(&keys), nonce, &SECRET);
        assert_eq!(
            answer,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(
            exchange.finish(last.as_bytes()).as_deref(),
            Ok("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
        );
        // The same with one bit of the proof turned.
        assert_eq!(
            exchange.finish(last.replace("p=dH", "p=dX").as_bytes()),
            Err(LoginError::Credentials)
        );
    }

    #[test]
    fn a_first_message_says_who_and_asks_for_no_binding() {
        let check = |message: &str, user: Result<&str, LoginError>| {
            let first = ClientFirst::parse(message.as_bytes());
            assert_eq!(
                first.map(|first| first.user).as_deref(),
                user.as_ref().map(|u| *u),
                "{message}"
            );
        };
        check("n,,n=ada,r=x", Ok("ada"));
        check("y,,n=ada,r=x,ext=1", Ok("ada"));
        check("n,a=ada,n=ada,r=x", Ok("ada"));
        check("n,,n=a=2Cb=3Dc,r=x", Ok("a,b=c"));
        check("n,a=bob,n=ada,r=x", Err(LoginError::AuthorizationId));
        check("p=tls-exporter,,n=ada,r=x", Err(LoginError::ChannelBinding));
        for malformed in [
            "",
            "n",
            "n,",
            "n,,",
            "n,,n=ada",
            "n,,n=,r=x",
            "n,,n=ada,r=",
            "n,,r=x,n=ada",
            "n,,m=1,n=ada,r=x",
            "n,,n=a=2D,r=x",
            "n,,n=a=,r=x",
            "n,b=ada,n=ada,r=x",
            "n,,n=ada,r=\u{e4}",
        ] {
            check(malformed, Err(LoginError::Malformed));
        }
        let long = format!("n,,n=ada,r={}", "x".repeat(CLIENT_NONCE_BYTES_MAX + 1));
        check(&long, Err(LoginError::Malformed));
    }

    #[test]
    fn nobody_gets_the_same_salt_each_time_and_never_in() {
        let begin = |secret: &Secret| {
            let first = ClientFirst::parse(b"n,,n=ghost,r=x").unwrap();
            ScramExchange::begin(ScramHash::Sha512, first, None, "y", secret)
        };
        let (exchange, answer) = begin(&SECRET);
        assert_eq!(answer, begin(&SECRET).1);
        assert_ne!(
            answer,
            begin(&Secret([6; 32])).1,
            "another broker, another salt"
        );
        let proof = BASE64.encode([0; 64]);
        let last = format!("c=biws,r=xy,p={proof}");
        assert_eq!(
            exchange.finish(last.as_bytes()),
            Err(LoginError::Credentials)
        );
    }

    #[test]
    fn a_last_message_that_does_not_go_on_from_the_first_is_refused() {
        let keys = ScramKeys::derive([1; SALT_BYTES], "pencil");
        let first = ClientFirst::parse(b"n,,n=ada,r=x").unwrap();
        let (exchange, _) =
            ScramExchange::begin(ScramHash::Sha256, first, Some(&keys), "y", &SECRET);
        for malformed in [
            "",
            "c=biws,r=xy",
            "c=biws,r=x,p=AAAA",
            "c=eSws,r=xy,p=AAAA",
            "c=biws,r=xy,p=!",
            "c=biws,r=xy,p=AAAA",
            "r=xy,c=biws,p=AAAA",
        ] {
            let result = exchange.finish(malformed.as_bytes());
            assert_eq!(result, Err(LoginError::Malformed), "{malformed}");
        }
    }

    #[test]
    fn passwords_are_prepared_as_clients_prepare_theirs() {
        let keys = |password| ScramKeys::derive([1; SALT_BYTES], password);
        // "I <soft hyphen> X" is "IX", a ligature its letters. [RFC 4013 section 3]
        assert_eq!(keys("I\u{ad}X"), keys("IX"));
        assert_eq!(keys("\u{fb01}n"), keys("fin"));
        assert_ne!(keys("\u{7}"), keys(""), "prohibited, taken as it is");
    }
}
