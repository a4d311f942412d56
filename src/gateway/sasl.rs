//! Logins by SASL, step by step. [AMQP 5.3]
//!
//! ```text
//!  init PLAIN ------------------> Checking --handle_login--> outcome
//!       PLAIN, no response -> Plain --response--^                ^
//!       SCRAM-* ------------> ScramLast --response---------------|
//!       SCRAM-*, no response -> ScramFirst --response-> ScramLast|
//!       EXTERNAL, ANONYMOUS -------------------------------------'
//! ```
//! A password in clear is checked by the owner, who may take his time: [`Gateway::poll_login`].

use super::Gateway;
use super::handshake::Known;
use crate::access::{
    self, ClientFirst, Credentials, LoginError, LoginWay, Mechanism, ScramExchange, ScramHash,
};
use crate::base::{Name, Now};
use crate::wire::sasl::SaslCode;

/// A refused login is told so after this time, in milliseconds: guessing takes long, and a mistaken
/// client does not come back at once.
const REFUSAL_DELAY_MS: u64 = 500;

/// How far a login is.
#[derive(Debug, Default)]
pub(super) enum Sasl {
    /// The client has to choose a mechanism.
    #[default]
    Init,
    /// PLAIN: user and password are awaited.
    Plain,
    /// PLAIN: our owner checks them.
    Checking,
    /// SCRAM: the client's first message is awaited.
    ScramFirst(ScramHash),
    /// SCRAM: the client's proof is awaited.
    ScramLast(Box<ScramExchange>),
}

impl Gateway {
    pub(super) fn on_sasl_init(&mut self, now: Now, mechanism: &str, response: Option<&[u8]>) {
        let response_or_nothing = response.unwrap_or_default();
        self.mechanism = Name::from(mechanism);
        // The engine lets only those pass that are offered.
        match mechanism.parse() {
            Ok(Mechanism::Plain) => self.begin(now, Sasl::Plain, response),
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

    /// Goes on with the initial response, or has the client send it: it may wait for a challenge
    /// before it answers. [RFC 4422 section 5]
    fn begin(&mut self, now: Now, sasl: Sasl, response: Option<&[u8]>) {
        self.sasl = sasl;
        match response {
            Some(response) => self.on_sasl_response(now, response),
            None => self.link.sasl_challenge(b""),
        }
    }

    pub(super) fn on_sasl_response(&mut self, now: Now, response: &[u8]) {
        match std::mem::take(&mut self.sasl) {
            Sasl::Plain => match access::parse_plain(response) {
                Ok(credentials) => {
                    self.sasl = Sasl::Checking;
                    self.login_due = Some(credentials);
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
            Sasl::Init | Sasl::Checking => {
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

    /// Judges a proof. Whether one more may be judged is asked here, too: any number of exchanges
    /// can be begun before the first of them is finished.
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
            // For the log: the peer is told no more than for any other reason.
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

    /// A user that proved who it is, if it is still there and may come from there.
    fn known(&self, name: &str) -> Result<Known, LoginError> {
        let registry = self.environment.registry();
        let user = registry.user(name).ok_or(LoginError::Credentials)?;
        access::check_place(user, &self.peer)?;
        Ok(Known::new(user))
    }

    /// A password to be checked; the verdict goes to [`Gateway::handle_login`]. Each is handed out
    /// once.
    pub fn poll_login(&mut self) -> Option<Credentials> {
        self.login_due.take()
    }

    /// Where the peer is.
    pub fn peer(&self) -> &access::Peer {
        &self.peer
    }

    /// The verdict about a password, which the owner counted and, if it is a refusal, held back for
    /// a while.
    pub fn handle_login(&mut self, now: Now, verdict: Result<Name, LoginError>) {
        if !matches!(self.sasl, Sasl::Checking) {
            return;
        }
        self.sasl = Sasl::Init;
        match verdict.and_then(|user| self.known(&user)) {
            Ok(known) => {
                self.known = Some(known);
                self.link.sasl_outcome(SaslCode::Ok);
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

    /// Tells a peer that its login was refused; the time for it has come.
    pub(super) fn refuse_login(&mut self) {
        self.refusal_due = None;
        self.link.sasl_outcome(SaslCode::Auth);
    }
}
