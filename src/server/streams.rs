//! What lasts as long as its client takes, streams of events, exports and imports over HTTP: so many
//! at a time, of all users and of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::limits::{
    EVENT_STREAMS_MAX, EVENT_STREAMS_OF_USER_MAX, HTTP_STREAMS_MAX, HTTP_STREAMS_OF_USER_MAX,
};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Name, uncount};

/// The streams of one kind that are open, and how many may be.
#[derive(Clone, Debug)]
pub(super) struct UserStreams {
    open: Arc<RankedMutex<rank::UserStreams, OfUsers>>,
    /// What they are, in words.
    what: &'static str,
    all_max: usize,
    of_user_max: usize,
}

/// How many there are by user, and whether that is known by a token.
type OfUsers = BTreeMap<(Name, bool), usize>;

/// The place of a stream, until it is dropped.
pub(super) struct StreamPlace {
    streams: UserStreams,
    user: (Name, bool),
}

impl UserStreams {
    fn new(what: &'static str, all_max: usize, of_user_max: usize) -> Self {
        Self {
            open: Arc::default(),
            what,
            all_max,
            of_user_max,
        }
    }

    /// Those of events.
    pub(super) fn of_events() -> Self {
        Self::new(
            "streams of events",
            EVENT_STREAMS_MAX,
            EVENT_STREAMS_OF_USER_MAX,
        )
    }

    /// Exports and imports of messages.
    pub(super) fn of_messages() -> Self {
        Self::new(
            "exports and imports",
            HTTP_STREAMS_MAX,
            HTTP_STREAMS_OF_USER_MAX,
        )
    }
}

impl StreamPlace {
    /// A place for a stream of a user; else why there is none.
    pub(super) fn take(
        streams: &UserStreams,
        (user, by_token): (&Name, bool),
    ) -> Result<Self, String> {
        let mut open = streams.open.lock();
        let all: usize = open.values().sum();
        let UserStreams { what, all_max, .. } = streams;
        if all >= *all_max {
            return Err(format!(
                "{all_max} {what} are open, which is as many as may be at a time"
            ));
        }
        let user = (user.clone(), by_token);
        let of_user = open.entry(user.clone()).or_default();
        if *of_user >= streams.of_user_max {
            return Err(format!(
                "the user has {} {what} open, which is as many as one may have at a time",
                streams.of_user_max
            ));
        }
        *of_user += 1;
        drop(open);
        Ok(Self {
            streams: streams.clone(),
            user,
        })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        if let Some(count) = open.get_mut(&self.user) {
            uncount!(*count, 1, "a stream that ends was counted");
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One user could take all places for exports and imports, for as long as it liked.
    #[test]
    fn one_user_leaves_places_for_the_exports_and_imports_of_others() {
        let streams = UserStreams::of_messages();
        let take = |user: &str, by_token| {
            let name = Name::from(user);
            StreamPlace::take(&streams, (&name, by_token))
        };
        let mut of_one: Vec<_> = (0..2).map(|_| take("ann", false).ok().unwrap()).collect();
        let why = take("ann", false).err().unwrap();
        assert!(why.contains("has 2 exports and imports"), "{why}");
        // A name of a token is another one.
        let _by_token = take("ann", true).ok().unwrap();
        let _other = take("bob", false).ok().unwrap();
        let why = take("eve", false).err().unwrap();
        assert!(why.contains("4 exports and imports are open"), "{why}");
        of_one.pop();
        assert!(take("ann", false).is_ok());
    }
}
