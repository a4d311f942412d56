//! Tokens that take the place of those that connections logged in with.

use thiserror::Error;

use super::Gateway;
use super::links::LinkId;
use super::work::{Request, Work};
use crate::access::{AccessToken, LoginError, Proof, Proven, TokenError};
use crate::base::{Name, Now};
use crate::management::{Prepared, PutToken, Refusal};

/// Why a token does not take the place of another, which stays.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(super) enum RenewalError {
    /// The connection logged in with something else.
    #[error("tokens cannot be renewed: this connection did not log in with one")]
    NoToken,
    /// The token before it is still being checked.
    #[error("another token of this connection is being checked")]
    Busy,
    /// It is refused.
    #[error("{0}")]
    Login(#[from] LoginError),
    /// It is good, and not for this connection; or too late.
    #[error("{0}")]
    Token(TokenError),
    /// It does not open the vhost of the connection.
    #[error("the token does not open vhost '{0}'")]
    Vhost(Name),
}

/// Who waits for the verdict on a token.
#[derive(Debug)]
pub(super) struct Renewal {
    /// The link for the answer.
    to: LinkId,
    /// The request to be answered.
    request: Asked,
}

/// A request with a token.
#[derive(Debug)]
enum Asked {
    /// To `/management`.
    Managing(Box<Prepared>),
    /// To `$cbs`.
    Putting(Box<PutToken>),
}

impl Gateway {
    /// Begins a management request: one with a token waits until that is checked, all others go to
    /// the core.
    pub(super) fn begin_request(&mut self, to: LinkId, mut prepared: Prepared) {
        let has_token = (self.login.as_ref()).is_some_and(super::handshake::Login::has_token);
        // Without a token at login the core's answer is that there is none to renew.
        let Some(text) = prepared.take_token().filter(|_| has_token) else {
            let request = Request { to, prepared };
            return self.batch.push(Work::Manage(Box::new(request)));
        };
        self.begin_renewal(to, Asked::Managing(Box::new(prepared)), text);
    }

    /// Begins to check a token that came to `$cbs`.
    pub(super) fn begin_put_token(&mut self, to: LinkId, request: PutToken, text: String) {
        let asked = Asked::Putting(Box::new(request));
        let has_token = (self.login.as_ref()).is_some_and(super::handshake::Login::has_token);
        if !has_token {
            let error = RenewalError::NoToken;
            return self.answer_renewal(to, asked, Err(error));
        }
        self.begin_renewal(to, asked, text);
    }

    fn begin_renewal(&mut self, to: LinkId, request: Asked, text: String) {
        if self.renewal.is_some() {
            return self.answer_renewal(to, request, Err(RenewalError::Busy));
        }
        self.renewal = Some(Renewal { to, request });
        self.login_due = Some(Proof::Token(AccessToken {
            authorization_id: String::new(),
            text,
        }));
    }

    /// Handles the verdict on a token that is to take the place of another.
    pub(super) fn end_renewal(&mut self, now: Now, verdict: Result<Proven, LoginError>) {
        let Some(Renewal { to, request }) = self.renewal.take() else {
            return; // its connection closed meanwhile
        };
        let renewed = match verdict {
            Ok(proven) => self.renew(now, &proven),
            Err(error) => Err(error.into()),
        };
        self.answer_renewal(to, request, renewed);
    }

    fn answer_renewal(&mut self, to: LinkId, request: Asked, renewed: Result<(), RenewalError>) {
        let renewed = renewed.map_err(|error| error.to_string());
        match request {
            Asked::Managing(request) => {
                let result = renewed.map_err(Refusal::bad_request);
                self.on_managed(to, request.renewed(result));
            }
            Asked::Putting(request) => self.end_put_token(to, &request, renewed),
        }
    }
}
