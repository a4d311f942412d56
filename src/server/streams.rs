//! Streams of events over HTTP: so many at a time, of all users and of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::limits::{EVENT_STREAMS_MAX, EVENT_STREAMS_OF_USER_MAX};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Name, uncount};

/// The streams of events that are open.
#[derive(Clone, Debug, Default)]
pub(super) struct EventStreams(Arc<RankedMutex<rank::EventStreams, OfUsers>>);

/// How many there are by user, and whether that is known by a token.
type OfUsers = BTreeMap<(Name, bool), usize>;

/// The place of a stream, until it is dropped.
pub(super) struct StreamPlace {
    streams: EventStreams,
    user: (Name, bool),
}

impl StreamPlace {
    /// A place for a stream of a user; else why there is none.
    pub(super) fn take(
        streams: &EventStreams,
        (user, by_token): (&Name, bool),
    ) -> Result<Self, String> {
        let mut open = streams.0.lock();
        let all: usize = open.values().sum();
        if all >= EVENT_STREAMS_MAX {
            return Err(format!("{EVENT_STREAMS_MAX} streams of events are open"));
        }
        let user = (user.clone(), by_token);
        let of_user = open.entry(user.clone()).or_default();
        if *of_user >= EVENT_STREAMS_OF_USER_MAX {
            return Err(format!(
                "the user has {EVENT_STREAMS_OF_USER_MAX} streams of events open"
            ));
        }
        *of_user += 1;
        Ok(Self {
            streams: streams.clone(),
            user,
        })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.streams.0.lock();
        if let Some(count) = open.get_mut(&self.user) {
            uncount!(*count, 1, "a stream that ends was counted");
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}
