//! Logins by SASL, step by step. [AMQP 5.3]
//!
//! ```text
//!  init PLAIN ------------------> Checking --handle_login--> outcome
//!       OAUTHBEARER, XOAUTH2 --^                                 ^
//!       PLAIN and these, no response -> Awaited --response--^    |
//!       SCRAM-* ------------> ScramLast --response---------------|
//!       SCRAM-*, no response -> ScramFirst --response-> ScramLast|
//!       EXTERNAL, ANONYMOUS -------------------------------------'
//! ```
//! A password in clear, or a token, is checked by the owner of the gateway, which may take its time:
//! [`Gateway::poll_login`].

use super::Gateway;
use super::handshake::Known;
use crate::access::{
    self, ClientFirst, LoginError, LoginWay, Mechanism, Proof, Proven, ScramExchange, ScramHash,
};
use crate::base::{Name, Now};
use crate::wire::sasl::SaslCode;

/// Delay of the answer to a refused login, in milliseconds: guessing takes long, and a
/// misconfigured client does not reconnect at once.
const REFUSAL_DELAY_MS: u64 = 500;

/// What a client is told whose token is refused. [RFC 7628 3.2.2]
const BEARER_REFUSED: &[u8] = br#"{"status":"invalid_token"}"#;

fn parse_proof(mechanism: Mechanism, response: &[u8]) -> Result<Proof, LoginError> {
    match mechanism {
        Mechanism::OAuthBearer => access::parse_oauth_bearer(response).map(Proof::Token),
        Mechanism::XOAuth2 => access::parse_xoauth2(response).map(Proof::Token),
        Mechanism::Plain => access::parse_plain(response).map(Proof::Password),
        Mechanism::External | Mechanism::Scram(_) | Mechanism::Anonymous => {
            Err(LoginError::Malformed)
        }
    }
}

/// The state of a login.
#[derive(Debug, Default)]
pub(super) enum Sasl {
    /// The client has to choose a mechanism.
    #[default]
    Init,
    /// PLAIN, OAUTHBEARER, XOAUTH2: the response with a password or a token is awaited.
    Awaited(Mechanism),
    /// The owner of the gateway checks the password or token of this mechanism.
    Checking(Mechanism),
    /// OAUTHBEARER: the client is told why, and has to answer before the outcome.
    BearerRefused,
    /// SCRAM: the client's first message is awaited.
    ScramFirst(ScramHash),
    /// SCRAM: the client's proof is awaited.
    ScramLast(Box<ScramExchange>),
}

impl Gateway {
    pub(super) fn on_sasl_init(&mut self, now: Now, mechanism: &str, response: Option<&[u8]>) {
        let response_or_nothing = response.unwrap_or_default();
        self.mechanism = Name::from(mechanism);
        // The engine passes only mechanisms that were offered.
        match mechanism.parse() {
            Ok(shown @ (Mechanism::Plain | Mechanism::OAuthBearer | Mechanism::XOAuth2)) => {
                self.begin(now, Sasl::Awaited(shown), response);
            }
            Ok(Mechanism::Scram(hash)) => self.begin(now, Sasl::ScramFirst(hash), response),
            Ok(Mechanism::External) => {
                let result = self.external(response_or_nothing);
                self.answer_login(now, result, b"");
            }
            Ok(Mechanism::Anonymous) => {
                let result = self.anonymous();
                self.answer_login(now, result, b"");
            }
            Err(_) => self.answer_login(now, Err(LoginError::Malformed), b""),
        }
    }

    /// Continues with the initial response, or with an empty challenge if there is none: the client
    /// may wait for one before it answers. [RFC 4422 section 5]
    fn begin(&mut self, now: Now, sasl: Sasl, response: Option<&[u8]>) {
        self.sasl = sasl;
        match response {
            Some(response) => self.on_sasl_response(now, response),
            None => self.link.sasl_challenge(b""),
        }
    }

    pub(super) fn on_sasl_response(&mut self, now: Now, response: &[u8]) {
        match std::mem::take(&mut self.sasl) {
            Sasl::Awaited(mechanism) => match parse_proof(mechanism, response) {
                Ok(proof) => {
                    self.sasl = Sasl::Checking(mechanism);
                    self.login_due = Some(proof);
                }
                Err(error) => self.answer_login(now, Err(error), b""),
            },
            Sasl::ScramFirst(hash) => match self.begin_scram(now, hash, response) {
                Ok((exchange, challenge)) => {
                    self.sasl = Sasl::ScramLast(Box::new(exchange));
                    self.link.sasl_challenge(challenge.as_bytes());
                }
                Err(error) => self.answer_login(now, Err(error), b""),
            },
            Sasl::ScramLast(exchange) => {
                self.sasl_user = Name::from(exchange.user());
                match self.finish_scram(now, &exchange, response) {
                    Ok((known, proof)) => self.answer_login(now, Ok(known), proof.as_bytes()),
                    Err(error) => self.answer_login(now, Err(error), b""),
                }
            }
            // Whatever it answers. [RFC 7628 3.2.3]
            Sasl::BearerRefused => self.link.sasl_outcome(SaslCode::Auth),
            Sasl::Init | Sasl::Checking(_) => {
                self.answer_login(now, Err(LoginError::Malformed), b"");
            }
        }
    }

    fn begin_scram(
        &mut self,
        now: Now,
        hash: ScramHash,
        response: &[u8],
    ) -> Result<(ScramExchange, String), LoginError> {
        let first = ClientFirst::parse(response)?;
        self.sasl_user = Name::from(&*first.user);
        let environment = &self.environment;
        let guard = environment.guard.lock();
        guard.admit(now.mono, self.peer.address.ip(), &first.user)?;
        let registry = environment.registry();
        let password = registry
            .user(&first.user)
            .and_then(|user| user.password.as_ref());
        let keys = password.and_then(|password| password.scram.as_deref());
        let nonce = guard.secret().nonce(environment.next_id());
        Ok(ScramExchange::begin(
            hash,
            first,
            keys,
            &nonce,
            guard.secret(),
        ))
    }

    /// Checks a SCRAM proof. The limit on failed logins is checked here, too: any number of
    /// exchanges can be begun before the first of them ends.
    fn finish_scram(
        &self,
        now: Now,
        exchange: &ScramExchange,
        response: &[u8],
    ) -> Result<(Known, String), LoginError> {
        let source = self.peer.address.ip();
        let mut guard = self.environment.guard.lock();
        guard.charge(now.mono, source, exchange.user())?;
        let judged = exchange.finish(response);
        if !matches!(judged, Err(LoginError::Credentials)) {
            guard.forgive(source, exchange.user());
        }
        drop(guard);
        let proof = judged.map_err(|error| {
            // Only for the log: the peer is not told this reason.
            let registry = self.environment.registry();
            let user = registry.user(exchange.user());
            let password = user.and_then(|user| user.password.as_ref());
            let no_keys = password.is_some_and(|password| password.scram.is_none());
            match error {
                LoginError::Credentials if no_keys => LoginError::NoScramKeys,
                error => error,
            }
        })?;
        let known = self.known(exchange.user())?;
        Ok((known, proof))
    }

    fn external(&mut self, response: &[u8]) -> Result<Known, LoginError> {
        let name = self.peer.certificate_user().cloned();
        self.sasl_user = name.clone().unwrap_or_default();
        let registry = self.environment.registry();
        let user = name.and_then(|name| registry.user(&name));
        access::external(user, response, &self.peer)?;
        user.map(Known::new).ok_or(LoginError::Certificate)
    }

    pub(super) fn anonymous(&self) -> Result<Known, LoginError> {
        let registry = self.environment.registry();
        let name = self.environment.options.anonymous_user.as_ref();
        let user = name.and_then(|name| registry.user(name));
        access::anonymous(user, &self.peer)?;
        user.map(Known::new).ok_or(LoginError::NoAnonymous)
    }

    /// The user of a proven name, if it still exists and may log in from this address.
    fn known(&self, name: &str) -> Result<Known, LoginError> {
        let registry = self.environment.registry();
        let user = registry.user(name).ok_or(LoginError::Credentials)?;
        access::check_place(user, &self.peer)?;
        Ok(Known::new(user))
    }

    /// A password or a token to be checked; the verdict goes to [`Gateway::handle_login`]. Each is returned
    /// once.
    pub fn poll_login(&mut self) -> Option<Proof> {
        self.login_due.take()
    }

    /// The way of the login that is being checked, or that a token is to renew.
    pub fn login_way(&self) -> LoginWay {
        LoginWay::of_mechanism(&self.mechanism)
    }

    /// The peer's address and how it is connected.
    pub fn peer(&self) -> &access::Peer {
        &self.peer
    }

    /// Handles the verdict on a password or a token. The owner has counted it and, if it is a
    /// refusal, delayed it.
    pub fn handle_login(&mut self, now: Now, verdict: Result<Proven, LoginError>) {
        let Sasl::Checking(mechanism) = self.sasl else {
            self.end_renewal(now, verdict);
            return self.handle_events(now);
        };
        self.sasl = Sasl::Init;
        let known = verdict.and_then(|proven| match proven {
            Proven::User(user) => self.known(&user),
            Proven::Bearer(grant) => Ok(Known::bearer(&grant)),
        });
        match known {
            Ok(known) => {
                self.known = Some(known);
                self.link.sasl_outcome(SaslCode::Ok);
            }
            Err(_) if mechanism == Mechanism::OAuthBearer => {
                self.sasl = Sasl::BearerRefused;
                self.link.sasl_challenge(BEARER_REFUSED);
            }
            Err(_) => self.link.sasl_outcome(SaslCode::Auth),
        }
        self.handle_events(now);
    }

    fn answer_login(&mut self, now: Now, result: Result<Known, LoginError>, last_step: &[u8]) {
        let verdict = result.as_ref().map(|_| ()).map_err(|error| *error);
        let environment = &self.environment;
        let way = LoginWay::of_mechanism(&self.mechanism);
        environment.note_login(now.mono, &self.peer, (way, &self.sasl_user), verdict);
        match result {
            Ok(known) => {
                self.known = Some(known);
                if last_step.is_empty() {
                    self.link.sasl_outcome(SaslCode::Ok);
                } else {
                    self.link.sasl_success(last_step);
                }
            }
            Err(_) => self.refusal_due = Some(now.mono.plus(REFUSAL_DELAY_MS)),
        }
    }

    /// Tells a peer that its login was refused, when the delay is over.
    pub(super) fn refuse_login(&mut self) {
        self.refusal_due = None;
        self.link.sasl_outcome(SaslCode::Auth);
    }
}
