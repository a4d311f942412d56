//! The audit log: which user asked for what, from which address, and whether it was granted. Its
//! target is `coroner::audit`.
//!
//! Requests of one user within a second fill [`AUDIT_LINES_MAX`] lines, refused ones as many again;
//! further ones are counted, and logged as a number when the second is over: see
//! [`AuditLog::tell_rest`].

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::access::Peer;
use crate::base::limits::{AUDIT_LINES_MAX, AUDIT_TEXT_CHARS_MAX, AUDIT_USERS_MAX};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Name, Signal};

/// The user in lines about users beyond the number that is told apart.
const OTHERS: &str = "(others)";

/// A request that is logged.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The user that asks.
    pub user: &'a Name,
    /// The address that the request came from.
    pub peer: &'a Peer,
    /// The protocol: `amqp` or `http`.
    pub protocol: &'static str,
    /// The vhost that it concerns; empty: none.
    pub vhost: &'a str,
    /// The action, `declare` for example.
    pub action: &'a str,
    /// The object of the action.
    pub object: &'a str,
}

/// Writes the audit log. Its memory and the number of its lines are bounded.
#[derive(Debug, Default)]
pub struct AuditLog {
    /// Lines of the current second, by user.
    lines: RankedMutex<rank::Audit, BTreeMap<Name, UserLines>>,
    /// Signalled when the first line of a second is written.
    begun: Signal,
}

/// Numbers of lines of one user in the current second, written and left out.
#[derive(Debug, Default)]
struct UserLines {
    granted: Lines,
    refused: Lines,
}

#[derive(Debug, Default)]
struct Lines {
    written: u32,
    unwritten: u64,
}

impl Lines {
    /// Whether one more line may be written; otherwise it is counted as left out.
    const fn admit(&mut self) -> bool {
        if self.written < AUDIT_LINES_MAX {
            self.written += 1;
            return true;
        }
        self.unwritten += 1;
        false
    }
}

impl AuditLog {
    /// Logs a request that was granted; `status` is the status code that HTTP would answer.
    pub fn granted(&self, asked: &Asked<'_>, status: u16) {
        if !self.admit(asked.user, |lines| &mut lines.granted) {
            return;
        }
        let Asked {
            user,
            peer,
            protocol,
            vhost,
            action,
            object,
        } = *asked;
        let (user, address, object) = (&**user, peer.address, cut(object));
        tracing::info!(
            target: "coroner::audit",
            user, %address, protocol, vhost, action, object, status, "granted"
        );
    }

    /// Logs a request that was refused, and why.
    pub fn refused(&self, asked: &Asked<'_>, why: &impl Display) {
        if !self.admit(asked.user, |lines| &mut lines.refused) {
            return;
        }
        let Asked {
            user,
            peer,
            protocol,
            vhost,
            action,
            object,
        } = *asked;
        let why = why.to_string();
        let (user, address, object) = (&**user, peer.address, cut(object));
        let why = cut(&why);
        tracing::warn!(
            target: "coroner::audit",
            user, %address, protocol, vhost, action, object, why, "refused"
        );
    }

    fn admit(&self, user: &Name, kind: impl FnOnce(&mut UserLines) -> &mut Lines) -> bool {
        let mut lines = self.lines.lock();
        let is_first = lines.is_empty();
        let known = lines.len() < AUDIT_USERS_MAX || lines.contains_key(user);
        let user = if known { user } else { &Name::from(OTHERS) };
        let admitted = kind(lines.entry(user.clone()).or_default()).admit();
        drop(lines);
        if is_first {
            self.begun.wake();
        }
        admitted
    }

    /// Begins a second, unless one has begun: see [`AuditLog::begun`].
    pub(super) fn begin(&self) {
        self.begun.wake();
    }

    /// Waits until a second begins, which [`AuditLog::tell_rest`] has to end.
    pub async fn begun(&self) {
        self.begun.woken().await;
    }

    /// Ends a second: logs the number of requests that had no line of their own.
    pub fn tell_rest(&self) {
        let lines = std::mem::take(&mut *self.lines.lock());
        for (user, UserLines { granted, refused }) in lines {
            let (granted, refused) = (granted.unwritten, refused.unwritten);
            if granted + refused > 0 {
                let user = &*user;
                tracing::warn!(
                    target: "coroner::audit",
                    user, granted, refused, "more in the last second"
                );
            }
        }
    }
}

/// The beginning of a text, up to the bound of a log line.
fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(AUDIT_TEXT_CHARS_MAX);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(log: &AuditLog, user: &str) -> bool {
        log.admit(&Name::from(user), |lines| &mut lines.granted)
    }

    #[test]
    fn one_user_does_not_hide_another_nor_what_was_refused() {
        let log = AuditLog::default();
        for _ in 0..AUDIT_LINES_MAX {
            assert!(ask(&log, "ada"));
        }
        assert!(!ask(&log, "ada"));
        assert!(!ask(&log, "ada"));
        assert!(ask(&log, "bob"));
        assert!(log.admit(&Name::from("ada"), |lines| &mut lines.refused));
        let unwritten = log.lines.lock().get("ada").map(|ada| ada.granted.unwritten);
        assert_eq!(unwritten, Some(2));
        log.tell_rest();
        assert!(ask(&log, "ada"), "the next second");
    }

    #[test]
    fn users_are_told_apart_in_bounded_memory() {
        let log = AuditLog::default();
        for user in 0..2 * AUDIT_USERS_MAX {
            ask(&log, &user.to_string());
        }
        let lines = log.lines.lock();
        assert_eq!(lines.len(), AUDIT_USERS_MAX + 1);
        let others = lines.get(OTHERS).map(|others| others.granted.unwritten);
        let written = u64::from(AUDIT_LINES_MAX);
        assert_eq!(others, Some(AUDIT_USERS_MAX as u64 - written));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "\u{e4}".repeat(AUDIT_TEXT_CHARS_MAX + 1);
        assert_eq!(cut(&long).chars().count(), AUDIT_TEXT_CHARS_MAX);
        assert_eq!(cut("short"), "short");
    }
}
