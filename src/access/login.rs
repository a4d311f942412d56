//! Authentication: SASL PLAIN, EXTERNAL and ANONYMOUS, and from where users may log in.

use std::sync::Arc;

use thiserror::Error;

use super::{Grant, Peer, TokenError, User};
use crate::base::Name;

/// Who proved to be who it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proven {
    /// A user of the registry, which says what it may do.
    User(Name),
    /// The bearer of a token, which says what it may do.
    Bearer(Arc<Grant>),
}

/// What somebody shows to log in, to be checked by the owner of the gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proof {
    /// A user and its password.
    Password(Credentials),
    /// An access token.
    Token(AccessToken),
}

/// An access token as it came, not checked yet.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// The user to act as; empty: the token's.
    pub authorization_id: String,
    /// The token's text.
    pub text: String,
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessToken").finish_non_exhaustive()
    }
}

/// The content of a PLAIN response. [RFC 4616]
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user to act as; empty: the one that logs in.
    pub authorization_id: String,
    /// The user that logs in.
    pub user: String,
    /// The user's password, in clear.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            authorization_id,
            user,
            password: _,
        } = self;
        f.debug_struct("Credentials")
            .field("authorization_id", authorization_id)
            .field("user", user)
            .finish_non_exhaustive()
    }
}

/// Why a login was refused. The peer only gets the SASL outcome `auth` (code 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The response is not of the form that its mechanism has.
    #[error("malformed response of the mechanism")]
    Malformed,
    /// There is no such user, the password is wrong, or the user has none.
    #[error("unknown user or wrong password")]
    Credentials,
    /// The user has a hash of RabbitMQ's and no keys that SCRAM could use.
    #[error(
        "the password was imported as a hash of RabbitMQ's, which SCRAM cannot use: log in with \
         PLAIN, or set the password again"
    )]
    NoScramKeys,
    /// The user may log in from this machine only.
    #[error("user may only log in from loopback")]
    LoopbackOnly,
    /// Acting as another user is not offered.
    #[error("authorization id differs from the user")]
    AuthorizationId,
    /// The client insists on binding the login to a TLS channel, which is not offered.
    #[error("binding the login to a TLS channel is not offered")]
    ChannelBinding,
    /// Too many logins of that user or source failed.
    #[error("too many failed logins")]
    TooManyFailures,
    /// Too many passwords wait to be checked.
    #[error("too many passwords wait to be checked")]
    Busy,
    /// The client certificate names no existing user.
    #[error("no user of the client certificate's name")]
    Certificate,
    /// No user is configured for anonymous peers.
    #[error("anonymous login is not configured")]
    NoAnonymous,
    /// It was a token, which is refused.
    #[error("{0}")]
    Token(TokenError),
}

/// Parses a PLAIN response: `[authzid] NUL authcid NUL passwd`. [RFC 4616]
pub fn parse_plain(response: &[u8]) -> Result<Credentials, LoginError> {
    let text = std::str::from_utf8(response).map_err(|_| LoginError::Malformed)?;
    let mut parts = text.split('\0');
    let (Some(authorization_id), Some(user), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(LoginError::Malformed);
    };
    if user.is_empty() {
        return Err(LoginError::Malformed);
    }
    Ok(Credentials {
        authorization_id: authorization_id.to_owned(),
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

/// Parses a response of OAUTHBEARER: a GS2 header such as `n,a=USER,`, then pairs of a key and a
/// value, of which `auth` has the token. [RFC 7628 3.1]
pub fn parse_oauth_bearer(response: &[u8]) -> Result<AccessToken, LoginError> {
    let text = std::str::from_utf8(response).map_err(|_| LoginError::Malformed)?;
    let (header, pairs) = text.split_once(PAIR_END).ok_or(LoginError::Malformed)?;
    let mut parts = header.split(',');
    let (Some(binding), Some(acting_as), Some(""), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(LoginError::Malformed);
    };
    if binding.starts_with("p=") {
        return Err(LoginError::ChannelBinding);
    }
    if !matches!(binding, "n" | "y") {
        return Err(LoginError::Malformed);
    }
    let authorization_id = match acting_as.strip_prefix("a=") {
        Some(name) => name.replace("=2C", ",").replace("=3D", "="),
        None if acting_as.is_empty() => String::new(),
        None => return Err(LoginError::Malformed),
    };
    bearer_of(pairs, authorization_id)
}

/// Parses a response of XOAUTH2: pairs of a key and a value, of which `auth` has the token. The
/// user that it names is not looked at, as with a token in a password: the token says who it is.
pub fn parse_xoauth2(response: &[u8]) -> Result<AccessToken, LoginError> {
    let text = std::str::from_utf8(response).map_err(|_| LoginError::Malformed)?;
    bearer_of(text, String::new())
}

/// The character behind each pair, and behind all of them.
const PAIR_END: char = '\u{1}';

fn bearer_of(pairs: &str, authorization_id: String) -> Result<AccessToken, LoginError> {
    let pairs = pairs
        .strip_suffix("\u{1}\u{1}")
        .ok_or(LoginError::Malformed)?;
    let mut values = pairs
        .split(PAIR_END)
        .filter_map(|pair| pair.strip_prefix("auth="));
    let token = values.next().and_then(bearer_token);
    match (token, values.next()) {
        (Some(text), None) => Ok(AccessToken {
            authorization_id,
            text: text.to_owned(),
        }),
        _ => Err(LoginError::Malformed),
    }
}

/// The token behind the word `Bearer`. [RFC 6750 2.1]
pub fn bearer_token(credentials: &str) -> Option<&str> {
    let (scheme, token) = credentials.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Refuses to act as another user.
pub fn check_authorization(credentials: &Credentials) -> Result<(), LoginError> {
    let acting_as = credentials.authorization_id.as_str();
    if !acting_as.is_empty() && acting_as != credentials.user {
        return Err(LoginError::AuthorizationId);
    }
    Ok(())
}

/// Checks an EXTERNAL login: `user` is the one that the client certificate names, if there is one.
/// [RFC 4422 appendix A]
pub fn external(user: Option<&User>, response: &[u8], peer: &Peer) -> Result<(), LoginError> {
    let user = user.ok_or(LoginError::Certificate)?;
    if !response.is_empty() && response != user.name.as_bytes() {
        return Err(LoginError::AuthorizationId);
    }
    check_place(user, peer)
}

/// Checks an ANONYMOUS login (or a peer without a SASL layer): `user` is the one configured for
/// these.
pub fn anonymous(user: Option<&User>, peer: &Peer) -> Result<(), LoginError> {
    check_place(user.ok_or(LoginError::NoAnonymous)?, peer)
}

/// Refuses a user that may not log in from this address.
pub fn check_place(user: &User, peer: &Peer) -> Result<(), LoginError> {
    if user.loopback_only && !peer.is_loopback() {
        return Err(LoginError::LoopbackOnly);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{PasswordHash, UserLimits};
    use crate::base::Name;

    fn remote() -> Peer {
        Peer::at("192.0.2.1:40000".parse().unwrap())
    }

    fn guest() -> User {
        User {
            name: Name::from("guest"),
            password: Some(PasswordHash::rabbit_sha256([7; 4], b"guest").into()),
            tags: Vec::new(),
            loopback_only: true,
            limits: UserLimits::default(),
        }
    }

    #[test]
    fn plain_names_user_and_password_and_perhaps_itself_again() {
        let check = |response: &str, expect: Result<(&str, &str), LoginError>| {
            let read = parse_plain(response.as_bytes());
            let read = read.and_then(|read| check_authorization(&read).map(|()| read));
            let read = (read.as_ref()).map(|read| (read.user.as_str(), read.password.as_str()));
            assert_eq!(read, expect.as_ref().map(|pair| *pair), "{response:?}");
        };
        check("\0guest\0secret", Ok(("guest", "secret")));
        check("guest\0guest\0secret", Ok(("guest", "secret")));
        check("\0guest\0", Ok(("guest", "")));
        check("root\0guest\0secret", Err(LoginError::AuthorizationId));
        check("guest", Err(LoginError::Malformed));
        check("\0\0guest", Err(LoginError::Malformed));
        check("\0guest\0guest\0", Err(LoginError::Malformed));
        assert!(parse_plain(b"\0guest\0\xff").is_err());
    }

    #[test]
    fn responses_with_tokens_have_them_behind_the_word_bearer() {
        let read = |parsed: Result<AccessToken, LoginError>| {
            parsed.map(|token| (token.authorization_id, token.text))
        };
        let check = |response: &str, expect: Result<(&str, &str), LoginError>| {
            let expect = expect.map(|(user, token)| (user.to_owned(), token.to_owned()));
            let response = response.replace('^', "\u{1}");
            assert_eq!(
                read(parse_oauth_bearer(response.as_bytes())),
                expect,
                "{response:?}"
            );
        };
        check("n,,^auth=Bearer a.b.c^^", Ok(("", "a.b.c")));
        check("y,,^auth=bearer a^^", Ok(("", "a")));
        check(
            "n,a=a=2Cda=3D,^host=h^port=5672^auth=Bearer a^^",
            Ok(("a,da=", "a")),
        );
        check(
            "p=tls-unique,,^auth=Bearer a^^",
            Err(LoginError::ChannelBinding),
        );
        for malformed in [
            "",
            "n,,^^",
            "n,,^auth=Bearer ^^",
            "n,,^auth=Bearer a^",
            "n,,^auth=Basic a^^",
            "n,,^auth=Bearer a^auth=Bearer b^^",
            "n,b=ada,^auth=Bearer a^^",
            "x,,^auth=Bearer a^^",
            "n,,,^auth=Bearer a^^",
            "auth=Bearer a^^",
        ] {
            check(malformed, Err(LoginError::Malformed));
        }
        assert!(parse_oauth_bearer(b"n,,\x01auth=Bearer \xff\x01\x01").is_err());
        let old = read(parse_xoauth2(b"user=ada\x01auth=Bearer a.b\x01\x01"));
        assert_eq!(old, Ok((String::new(), "a.b".to_owned())));
        assert!(parse_xoauth2(b"user=ada\x01\x01").is_err());
    }

    #[test]
    fn no_token_is_in_a_debug_text() {
        let token = parse_xoauth2(b"auth=Bearer secret\x01\x01").unwrap();
        assert!(!format!("{:?}", Proof::Token(token)).contains("secret"));
    }

    #[test]
    fn loopback_users_come_from_this_machine_only() {
        assert_eq!(check_place(&guest(), &Peer::IN_PROCESS), Ok(()));
        assert_eq!(
            check_place(&guest(), &remote()),
            Err(LoginError::LoopbackOnly)
        );
        let anywhere = User {
            loopback_only: false,
            ..guest()
        };
        assert_eq!(check_place(&anywhere, &remote()), Ok(()));
    }

    #[test]
    fn external_lets_in_whom_the_certificate_names_and_as_nobody_else() {
        let check = |user: Option<&User>, response: &[u8], peer: &Peer, expect| {
            assert_eq!(external(user, response, peer), expect, "{response:?}");
        };
        let here = &Peer::IN_PROCESS;
        check(Some(&guest()), b"", here, Ok(()));
        check(Some(&guest()), b"guest", here, Ok(()));
        check(
            Some(&guest()),
            b"ada",
            here,
            Err(LoginError::AuthorizationId),
        );
        check(
            Some(&guest()),
            b"",
            &remote(),
            Err(LoginError::LoopbackOnly),
        );
        check(None, b"", here, Err(LoginError::Certificate));
    }

    #[test]
    fn anonymous_needs_a_configured_user() {
        assert_eq!(
            anonymous(None, &Peer::IN_PROCESS),
            Err(LoginError::NoAnonymous)
        );
        assert_eq!(anonymous(Some(&guest()), &Peer::IN_PROCESS), Ok(()));
        assert_eq!(
            anonymous(Some(&guest()), &remote()),
            Err(LoginError::LoopbackOnly)
        );
    }
}
