//! Who is logged in to the page: in memory, bounded, for as long as the user stays who it was.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::setup::random;
use crate::access::User;
use crate::base::Millis;
use crate::base::limits::{PAGE_SESSION_IDLE_MS, PAGE_SESSION_MS_MAX, PAGE_SESSIONS_MAX};
use crate::base::locks::{RankedMutex, rank};
use crate::broker::registry::Registry;

/// Bytes of randomness in a cookie and in a token.
const SECRET_BYTES: usize = 32;

/// The hash of a cookie: whoever reads the memory of the broker learns none.
type SessionKey = [u8; 32];

/// The sessions of the page.
#[derive(Debug, Default)]
pub(super) struct PageSessions(RankedMutex<rank::PageSessions, BTreeMap<SessionKey, Kept>>);

#[derive(Debug)]
struct Kept {
    /// The user as it was at login.
    user: User,
    /// Its number, which another user of its name does not have.
    serial: u64,
    token: String,
    begun: Millis,
    seen: Millis,
}

impl Kept {
    /// Whether it lasts, and its user is still who it was.
    fn is_good(&self, now: Millis, registry: &Registry) -> bool {
        let user = registry.user(&self.user.name);
        let serial = registry.user_serial(&self.user.name);
        serial == Some(self.serial)
            && now.since(self.seen) < PAGE_SESSION_IDLE_MS
            && now.since(self.begun) < PAGE_SESSION_MS_MAX
            && user.is_some_and(|user| {
                user.password == self.user.password && user.tags == self.user.tags
            })
    }
}

/// What a new session is known by.
pub(super) struct Begun {
    /// The secret that the browser keeps.
    pub(super) cookie: String,
    /// The secret that every request shows which changes something.
    pub(super) token: String,
}

impl PageSessions {
    /// Begins a session of a user who just logged in.
    pub(super) fn begin(&self, now: Millis, user: &User, registry: &Registry) -> Begun {
        let (cookie, token) = (secret(), secret());
        let mut sessions = self.0.lock();
        if sessions.len() >= PAGE_SESSIONS_MAX {
            let idle = |of_user: bool| {
                let sessions = sessions.iter();
                let meant = sessions.filter(|(_, kept)| !of_user || kept.user.name == user.name);
                let longest = meant.min_by_key(|(_, kept)| kept.seen);
                longest.map(|(key, _)| *key)
            };
            if let Some(key) = idle(true).or_else(|| idle(false)) {
                sessions.remove(&key);
            }
        }
        let kept = Kept {
            user: user.clone(),
            serial: registry.user_serial(&user.name).unwrap_or_default(),
            token: token.clone(),
            begun: now,
            seen: now,
        };
        sessions.insert(key(&cookie), kept);
        Begun { cookie, token }
    }

    /// The user of a session, as it was at login, and its token; none: it is over, or there never
    /// was one.
    pub(super) fn find(
        &self,
        now: Millis,
        cookie: &str,
        registry: &Registry,
    ) -> Option<(User, String)> {
        let key = key(cookie);
        let mut sessions = self.0.lock();
        let kept = sessions.get_mut(&key)?;
        if !kept.is_good(now, registry) {
            sessions.remove(&key);
            return None;
        }
        kept.seen = now;
        Some((kept.user.clone(), kept.token.clone()))
    }

    /// Ends a session.
    pub(super) fn end(&self, cookie: &str) {
        self.0.lock().remove(&key(cookie));
    }
}

fn secret() -> String {
    URL_SAFE_NO_PAD.encode(random::<SECRET_BYTES>())
}

fn key(cookie: &str) -> SessionKey {
    Sha256::digest(cookie).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Tag, UserLimits};
    use crate::base::Name;
    use crate::broker::registry::RegistryFact;

    const MINUTE: u64 = 60_000;

    fn user(name: &str) -> User {
        User {
            name: Name::from(name),
            password: None,
            tags: vec![Tag::Management],
            loopback_only: false,
            limits: UserLimits::default(),
        }
    }

    fn registry(users: &[User]) -> Registry {
        let mut registry = Registry::default();
        for user in users {
            registry.apply(RegistryFact::UserSet(Box::new(user.clone())));
        }
        registry
    }

    #[test]
    fn a_session_ends_when_it_is_idle_or_old() {
        let (sessions, ann) = (PageSessions::default(), user("ann"));
        let registry = registry(std::slice::from_ref(&ann));
        let begun = sessions.begin(Millis(0), &ann, &registry);
        let at = |minutes: u64| {
            let found = sessions.find(Millis(minutes * MINUTE), &begun.cookie, &registry);
            found.map(|(_, token)| token)
        };
        for minutes in (0..720).step_by(29) {
            assert_eq!(at(minutes), Some(begun.token.clone()), "{minutes}");
        }
        assert_eq!(at(720), None, "twelve hours are over");
        let begun = sessions.begin(Millis(0), &ann, &registry);
        let idle = Millis(30 * MINUTE);
        assert!(sessions.find(idle, &begun.cookie, &registry).is_none());
        assert!(
            sessions.find(Millis(1), &begun.cookie, &registry).is_none(),
            "it is gone"
        );
    }

    #[test]
    fn a_session_ends_with_its_user() {
        let (sessions, ann) = (PageSessions::default(), user("ann"));
        let mut other_tags = ann.clone();
        other_tags.tags = vec![Tag::Administrator];
        let before = registry(std::slice::from_ref(&ann));
        let mut anew = before.clone();
        anew.apply(RegistryFact::UserDeleted {
            name: ann.name.clone(),
        });
        anew.apply(RegistryFact::UserSet(Box::new(ann.clone())));
        for changed in [
            registry(&[]),
            registry(&[other_tags]),
            registry(&[user("bob")]),
            anew,
        ] {
            let begun = sessions.begin(Millis(0), &ann, &before);
            assert!(sessions.find(Millis(1), &begun.cookie, &changed).is_none());
        }
    }

    #[test]
    fn there_are_so_many_and_a_user_ends_its_own_first() {
        let (sessions, ann, bob) = (PageSessions::default(), user("ann"), user("bob"));
        let registry = registry(&[ann.clone(), bob.clone()]);
        let of_bob = sessions.begin(Millis(0), &bob, &registry);
        for number in 1..PAGE_SESSIONS_MAX as u64 + 10 {
            sessions.begin(Millis(number), &ann, &registry);
        }
        assert_eq!(sessions.0.lock().len(), PAGE_SESSIONS_MAX);
        assert!(
            sessions
                .find(Millis(9_999), &of_bob.cookie, &registry)
                .is_some()
        );
        assert_ne!(of_bob.cookie, of_bob.token);
        assert_eq!(of_bob.cookie.len(), 43);
        sessions.end(&of_bob.cookie);
        assert!(
            sessions
                .find(Millis(9_999), &of_bob.cookie, &registry)
                .is_none()
        );
    }
}
