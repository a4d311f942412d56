//! Who is logged in to the page: in memory, bounded, for as long as the user stays who it was.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::setup::random;
use crate::access::{Grant, User};
use crate::base::limits::{PAGE_SESSION_IDLE_MS, PAGE_SESSION_MS_MAX, PAGE_SESSIONS_MAX};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Charge, Gauge, Millis, Name, Now};
use crate::broker::registry::Registry;

/// Bytes of randomness in a cookie and in a token.
const SECRET_BYTES: usize = 32;

/// The hash of a cookie: whoever reads the memory of the broker learns none.
type SessionKey = [u8; 32];

/// The sessions of the page.
#[derive(Debug, Default)]
pub(super) struct PageSessions(RankedMutex<rank::PageSessions, Vec<(SessionKey, Kept)>>);

/// Who logged in to the page.
#[derive(Clone, Debug)]
pub(super) enum Holder {
    /// A user, as it was at login.
    User(Box<User>),
    /// The bearer of a token.
    Bearer(Arc<Grant>),
}

impl Holder {
    /// Its name, and whether it is the bearer of a token, which is nobody of the registry.
    fn who(&self) -> (&Name, bool) {
        match self {
            Self::User(user) => (&user.name, false),
            Self::Bearer(grant) => (grant.user(), true),
        }
    }
}

#[derive(Debug)]
struct Kept {
    holder: Holder,
    /// The number of a user, which another user of its name does not have.
    serial: u64,
    token: String,
    begun: Millis,
    seen: Millis,
    /// The memory of what a token grants.
    _charge: Charge,
}

impl Kept {
    /// Whether it lasts, and its user is still who it was, or its token has not ended.
    fn is_good(&self, now: Now, registry: &Registry) -> bool {
        if now.mono.since(self.seen) >= PAGE_SESSION_IDLE_MS
            || now.mono.since(self.begun) >= PAGE_SESSION_MS_MAX
        {
            return false;
        }
        let before = match &self.holder {
            Holder::Bearer(grant) => return !grant.is_over(now.wall),
            Holder::User(user) => user,
        };
        let user = registry.user(&before.name);
        let is_same = |user: &User| user.password == before.password && user.tags == before.tags;
        registry.user_serial(&before.name) == Some(self.serial) && user.is_some_and(is_same)
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
    /// Begins a session of somebody who just logged in; what its token grants is charged to the
    /// gauge.
    pub(super) fn begin(
        &self,
        now: Now,
        holder: Holder,
        (registry, kept): (&Registry, &Gauge),
    ) -> Begun {
        let (cookie, token) = (secret(), secret());
        let mut sessions = self.0.lock();
        if sessions.len() >= PAGE_SESSIONS_MAX {
            let idle = |of_user: bool| {
                let sessions = sessions.iter().enumerate();
                let meant =
                    sessions.filter(|(_, (_, kept))| !of_user || kept.holder.who() == holder.who());
                let longest = meant.min_by_key(|(_, (_, kept))| kept.seen);
                longest.map(|(place, _)| place)
            };
            if let Some(place) = idle(true).or_else(|| idle(false)) {
                sessions.swap_remove(place);
            }
        }
        let granted_bytes = match &holder {
            Holder::User(_) => 0,
            Holder::Bearer(grant) => grant.kept_bytes(),
        };
        let kept = Kept {
            _charge: kept.charge(granted_bytes),
            serial: registry.user_serial(holder.who().0).unwrap_or_default(),
            holder,
            token: token.clone(),
            begun: now.mono,
            seen: now.mono,
        };
        sessions.push((key(&cookie), kept));
        Begun { cookie, token }
    }

    /// Who holds a session, and its token; none: it is over, or there never
    /// was one.
    pub(super) fn find(
        &self,
        now: Now,
        cookie: &str,
        registry: &Registry,
    ) -> Option<(Holder, String)> {
        let key = key(cookie);
        let mut sessions = self.0.lock();
        let place = sessions.iter().position(|(known, _)| *known == key)?;
        let (_, kept) = sessions.get_mut(place)?;
        if !kept.is_good(now, registry) {
            sessions.swap_remove(place);
            return None;
        }
        kept.seen = now.mono;
        Some((kept.holder.clone(), kept.token.clone()))
    }

    /// Ends a session.
    pub(super) fn end(&self, cookie: &str) {
        let key = key(cookie);
        self.0.lock().retain(|(known, _)| *known != key);
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
    use crate::base::Timestamp;
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

    fn at(ms: u64) -> Now {
        Now {
            mono: Millis(ms),
            wall: Timestamp(i64::try_from(ms).unwrap()),
        }
    }

    fn holder(user: &User) -> Holder {
        Holder::User(Box::new(user.clone()))
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
        let begun = sessions.begin(at(0), holder(&ann), (&registry, &Gauge::default()));
        let after = |minutes: u64| {
            let found = sessions.find(at(minutes * MINUTE), &begun.cookie, &registry);
            found.map(|(_, token)| token)
        };
        for minutes in (0..720).step_by(29) {
            assert_eq!(after(minutes), Some(begun.token.clone()), "{minutes}");
        }
        assert_eq!(after(720), None, "twelve hours are over");
        let begun = sessions.begin(at(0), holder(&ann), (&registry, &Gauge::default()));
        let idle = at(30 * MINUTE);
        assert!(sessions.find(idle, &begun.cookie, &registry).is_none());
        assert!(
            sessions.find(at(1), &begun.cookie, &registry).is_none(),
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
            let begun = sessions.begin(at(0), holder(&ann), (&before, &Gauge::default()));
            assert!(sessions.find(at(1), &begun.cookie, &changed).is_none());
        }
    }

    #[test]
    fn a_session_of_a_token_ends_with_it() {
        let (sessions, ann) = (PageSessions::default(), user("ann"));
        let expires = Timestamp(5_000);
        let grant = Grant::new(ann.name.clone(), expires, ["tag:management"]).unwrap();
        // What becomes of a user of its name does not matter.
        let registry = registry(&[]);
        let (gauge, grant) = (Gauge::default(), Arc::new(grant));
        let holder = Holder::Bearer(Arc::clone(&grant));
        let begun = sessions.begin(at(0), holder, (&registry, &gauge));
        assert_eq!(gauge.bytes(), grant.kept_bytes());
        let lasts = |ms: u64| sessions.find(at(ms), &begun.cookie, &registry).is_some();
        assert!(lasts(4_999) && !lasts(5_000));
        assert_eq!(gauge.bytes(), 0);
    }

    #[test]
    fn there_are_so_many_and_a_user_ends_its_own_first() {
        let (sessions, ann, bob) = (PageSessions::default(), user("ann"), user("bob"));
        let registry = registry(&[ann.clone(), bob.clone()]);
        let of_bob = sessions.begin(at(0), holder(&bob), (&registry, &Gauge::default()));
        for number in 1..PAGE_SESSIONS_MAX as u64 + 10 {
            sessions.begin(at(number), holder(&ann), (&registry, &Gauge::default()));
        }
        assert_eq!(sessions.0.lock().len(), PAGE_SESSIONS_MAX);
        assert!(
            sessions
                .find(at(9_999), &of_bob.cookie, &registry)
                .is_some()
        );
        assert_ne!(of_bob.cookie, of_bob.token);
        assert_eq!(of_bob.cookie.len(), 43);
        sessions.end(&of_bob.cookie);
        assert!(
            sessions
                .find(at(9_999), &of_bob.cookie, &registry)
                .is_none()
        );
    }
}
