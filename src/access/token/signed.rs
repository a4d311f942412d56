//! A token as it came: header, claims and signature. [RFC 7515 7.1]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::keys::SignatureAlgorithm;
use crate::access::TokenError;
use crate::base::limits::{TOKEN_BYTES_MAX, TOKEN_USER_BYTES_MAX};

/// A token that was read and not verified.
pub(super) struct Signed<'a> {
    pub(super) algorithm: SignatureAlgorithm,
    /// The name of the key that it is signed with.
    pub(super) kid: Option<String>,
    pub(super) claims: Value,
    /// What is signed: the text in front of the signature.
    pub(super) message: &'a str,
    pub(super) signature: Vec<u8>,
}

impl<'a> Signed<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, TokenError> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let (message, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(TokenError::Malformed)?;
        let header = object(header)?;
        let word = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(word)) => Ok(Some(word.as_str())),
            Some(_) => Err(TokenError::Malformed),
        };
        let algorithm = word("alg")?.and_then(SignatureAlgorithm::from_word);
        let algorithm = algorithm.ok_or(TokenError::Algorithm)?;
        // What must be understood, and is not. [RFC 7515 4.1.11]
        if header.get("crit").is_some() {
            return Err(TokenError::Malformed);
        }
        Ok(Self {
            algorithm,
            kid: word("kid")?.map(str::to_owned),
            claims: object(claims)?,
            message,
            signature: decoded(signature)?,
        })
    }
}

/// Whether a password is meant as a token: three parts, of which the first is a JSON object with an
/// algorithm. A token that is refused is not tried as a password.
pub fn is_token(password: &str) -> bool {
    let mut parts = password.split('.');
    let (Some(header), Some(_), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    header.len() <= TOKEN_BYTES_MAX
        && object(header).is_ok_and(|header| header.get("alg").is_some())
}

/// The user that a token says it is of, before anything of it is verified: for counting and logging
/// refusals. Empty if it says none.
pub fn claimed_user(text: &str) -> String {
    let claims = text
        .split('.')
        .nth(1)
        .filter(|_| text.len() <= TOKEN_BYTES_MAX);
    let claims = claims.and_then(|claims| object(claims).ok());
    let user = claims
        .as_ref()
        .and_then(|claims| claims.get("sub")?.as_str());
    let user = user.filter(|user| user.len() <= TOKEN_USER_BYTES_MAX);
    user.unwrap_or_default().to_owned()
}

fn object(part: &str) -> Result<Value, TokenError> {
    let read = serde_json::from_slice(&decoded(part)?);
    let read: Value = read.map_err(|_| TokenError::Malformed)?;
    if read.is_object() {
        Ok(read)
    } else {
        Err(TokenError::Malformed)
    }
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenError> {
    let decoded = URL_SAFE_NO_PAD.decode(part);
    decoded.map_err(|_| TokenError::Malformed)
}
