//! Who a peer is: decisions on SASL PLAIN and ANONYMOUS.

use thiserror::Error;

use super::{PasswordHash, Peer, User};

/// What a PLAIN response says. [RFC 4616]
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user to act as; empty: the one that logs in.
    pub authorization_id: String,
    /// The user that logs in.
    pub user: String,
    /// Its password.
    pub password: String,
}

/// Why a login was refused. The peer is told no more than SASL outcome `auth` (code 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The response is not `[authzid] NUL authcid NUL passwd`.
    #[error("malformed PLAIN response")]
    Malformed,
    /// No user of that name, or another password, or a user without one.
    #[error("unknown user or wrong password")]
    Credentials,
    /// The user may come from this machine only.
    #[error("user may only log in from loopback")]
    LoopbackOnly,
    /// Acting as another user is not offered.
    #[error("authorization id differs from the user")]
    AuthorizationId,
    /// The client insists on binding the login to a TLS channel, which is not offered.
    #[error("SCRAM with channel binding is not offered")]
    ChannelBinding,
    /// No user is configured for anonymous peers.
    #[error("anonymous login is not configured")]
    NoAnonymous,
}

/// Reads a PLAIN response: `[authzid] NUL authcid NUL passwd`. [RFC 4616]
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

/// Decides on PLAIN: `user` is the one named by the credentials, if there is one.
pub fn plain(
    user: Option<&User>,
    credentials: &Credentials,
    peer: &Peer,
) -> Result<(), LoginError> {
    // An unknown user costs as much time as a wrong password, so that time tells nobody who exists.
    let hash = user.and_then(|user| user.password.as_ref());
    let hash = hash.map(|password| &password.hash);
    let matches = (hash.unwrap_or(&PasswordHash::NOBODY)).verify(credentials.password.as_bytes());
    let user = user.filter(|user| matches && user.name == credentials.user.as_str());
    let user = user.ok_or(LoginError::Credentials)?;
    let acting_as = credentials.authorization_id.as_str();
    if !acting_as.is_empty() && acting_as != credentials.user {
        return Err(LoginError::AuthorizationId);
    }
    from_allowed_place(user, peer)
}

/// Decides on ANONYMOUS (and on peers without a SASL layer): `user` is the one configured for them.
pub fn anonymous(user: Option<&User>, peer: &Peer) -> Result<(), LoginError> {
    from_allowed_place(user.ok_or(LoginError::NoAnonymous)?, peer)
}

fn from_allowed_place(user: &User, peer: &Peer) -> Result<(), LoginError> {
    if user.loopback_only && !peer.is_loopback() {
        return Err(LoginError::LoopbackOnly);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::UserLimits;
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

    fn login(response: &[u8], peer: &Peer) -> Result<(), LoginError> {
        let credentials = parse_plain(response)?;
        plain(Some(&guest()), &credentials, peer)
    }

    #[test]
    fn plain_takes_the_right_password_from_the_right_place_only() {
        let check = |response: &str, peer: &Peer, expect| {
            assert_eq!(
                login(response.as_bytes(), peer),
                expect,
                "{response:?} {peer:?}"
            );
        };
        check("\0guest\0guest", &Peer::IN_PROCESS, Ok(()));
        check("guest\0guest\0guest", &Peer::IN_PROCESS, Ok(()));
        check("\0guest\0guest", &remote(), Err(LoginError::LoopbackOnly));
        check("\0guest\0wrong", &remote(), Err(LoginError::Credentials));
        check(
            "\0other\0guest",
            &Peer::IN_PROCESS,
            Err(LoginError::Credentials),
        );
        check(
            "root\0guest\0guest",
            &Peer::IN_PROCESS,
            Err(LoginError::AuthorizationId),
        );
        check("guest", &Peer::IN_PROCESS, Err(LoginError::Malformed));
        check("\0\0guest", &Peer::IN_PROCESS, Err(LoginError::Malformed));
        check(
            "\0guest\0guest\0",
            &Peer::IN_PROCESS,
            Err(LoginError::Malformed),
        );
        assert_eq!(
            login(b"\0guest\0\xff", &Peer::IN_PROCESS),
            Err(LoginError::Malformed)
        );
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

    #[test]
    fn a_user_without_password_cannot_log_in() {
        let user = User {
            password: None,
            ..guest()
        };
        let credentials = parse_plain(b"\0guest\0guest").unwrap();
        assert_eq!(
            plain(Some(&user), &credentials, &Peer::IN_PROCESS),
            Err(LoginError::Credentials)
        );
    }
}
