//! The route to events: a stream that goes on, or lines of those that are kept. [evidence part 10]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::api::Call;
use super::reply::{Chunks, Reply};
use crate::access::{Permissions, Right};
use crate::base::limits::{
    EVENT_COMMENT_MS, EVENT_LOOK_MS, EVENTS_BEHIND_MAX, EVENTS_OF_SECOND_MAX,
};
use crate::base::{Millis, Name};
use crate::broker::DropCause;
use crate::broker::event::VhostEvent;
use crate::deaths::Reason;
use crate::management::http::json::event::{EventViewer, event, event_id, stream_event, summary};
use crate::management::http::{EventFilter, EventsAsked, Failure, Identity, Since};
use crate::server::events::{EventReader, Start, Told};
use crate::server::shared::Shared;
use crate::server::streams::StreamPlace;

/// The media type of lines.
const LINES: [&str; 2] = ["application/jsonl", "application/x-ndjson"];
/// The header with the id of the last event that a client was told.
const LAST_EVENT_ID: &str = "last-event-id";
/// Bytes that are handed to the connection at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Time after which a client tries again, in milliseconds, for the client to know.
const RETRY_MS: u64 = 2_000;
/// Interval in which vhosts, rights and the user are looked at again, and in which events are summed up
/// that are too many, in milliseconds.
const SECOND_MS: u64 = 1_000;

/// How events are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// `text/event-stream`, as the `EventSource` of browsers reads it.
    Stream,
    /// A JSON object on each line.
    Lines,
}

/// `GET /api/events`: what happens in the vhosts that the user may enter.
pub(super) fn events(call: &Call<'_>, headers: &HeaderMap) -> Result<Reply, Failure> {
    let last = headers.get(LAST_EVENT_ID);
    let last = last.map(|last| String::from_utf8_lossy(last.as_bytes()));
    let asked = EventsAsked::read(&call.query, last.as_deref())?;
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let wants_lines = accepts.is_some_and(|accept| LINES.iter().any(|kind| accept.contains(kind)));
    let form = if wants_lines {
        Form::Lines
    } else {
        Form::Stream
    };
    if let Some(vhost) = &asked.filter.vhost {
        let registry = call.shared.node.environment.registry();
        if registry.vhost(vhost).is_none() {
            return Err(Failure::not_found());
        }
        if !call.identity.is_monitor() {
            let enters = call.identity.enters(&registry, vhost);
            call.identity.may_enter(enters)?;
        }
    }
    let who = (&call.identity.name, call.identity.grant.is_some());
    let place = StreamPlace::take(&call.shared.event_streams, who).map_err(Failure::too_many)?;
    let (chunks, body) = Chunks::of_lines();
    let now = call.shared.clock.now().mono;
    let mut stream = Stream {
        reader: EventReader::new(Arc::clone(call.shared)),
        shared: Arc::clone(call.shared),
        identity: call.identity.clone(),
        filter: asked.filter,
        form,
        chunks,
        rights: BTreeMap::new(),
        buffer: Vec::new(),
        last: 0,
        kept_to: 0,
        second: Second::begun(now),
        commented: now,
        is_limited: form == Form::Stream || asked.follow,
        _place: place,
    };
    stream.begin(asked.since.as_ref());
    call.shared.spawn(stream.run());
    Ok(match form {
        Form::Stream => Reply::Events(body),
        Form::Lines => Reply::Lines(body),
    })
}

/// A stream of events to one client.
struct Stream {
    shared: Arc<Shared>,
    identity: Identity,
    filter: EventFilter,
    reader: EventReader,
    form: Form,
    chunks: mpsc::Sender<Option<Bytes>>,
    /// What the user may do in each vhost that is read.
    rights: BTreeMap<Name, Option<Arc<Permissions>>>,
    buffer: Vec<u8>,
    /// The number of the last event that was passed.
    last: u64,
    /// Events up to this number happened before the stream began: all of them are told.
    kept_to: u64,
    second: Second,
    /// When something was last sent.
    commented: Millis,
    /// Whether it goes on, and tells so many events in a second.
    is_limited: bool,
    _place: StreamPlace,
}

/// What was told in this second, and what was not since it was too much.
#[derive(Debug)]
struct Second {
    begun: Millis,
    told: usize,
    summed: BTreeMap<(&'static str, Option<&'static str>), u64>,
}

impl Second {
    const fn begun(now: Millis) -> Self {
        Self {
            begun: now,
            told: 0,
            summed: BTreeMap::new(),
        }
    }
}

impl Stream {
    /// Finds the place where it begins, and tells if something is missing in front of it.
    fn begin(&mut self, since: Option<&Since>) {
        let events = &self.shared.node.events;
        let (begun, next) = (events.begun(), events.next());
        let origin = format!("{:016x}", events.origin());
        let (start, cause) = match since {
            None if self.form == Form::Lines => (Start::Oldest, None),
            None => (Start::Now, None),
            Some(since) if since.origin.as_ref().is_some_and(|given| *given != origin) => {
                (Start::Oldest, Some("restart"))
            }
            Some(since) if since.number.saturating_add(1) < begun => {
                (Start::Oldest, Some("restart"))
            }
            Some(since) if since.number >= next => (Start::Now, Some("unknown")),
            Some(since) => (Start::Behind(since.number), None),
        };
        self.kept_to = next.saturating_sub(1);
        self.last = match start {
            Start::Now => self.kept_to,
            Start::Oldest => begun.saturating_sub(1),
            Start::Behind(number) => number,
        };
        self.look_at_rights();
        let names = self.vhosts();
        let lacks = self.reader.read_vhosts(&names, start);
        if self.form == Form::Stream {
            let id = event_id(self.shared.node.events.origin(), self.last);
            let begin = format!("retry: {RETRY_MS}\nid: {id}\n\n");
            self.buffer.extend_from_slice(begin.as_bytes());
        }
        if let Some(cause) = cause.or_else(|| lacks.then_some("gone")) {
            self.tell_gap(cause, None);
        }
    }

    async fn run(mut self) {
        loop {
            let horizon = self.shared.node.events.next();
            if !self.look().await {
                return;
            }
            let now = self.shared.clock.now().mono;
            if self.is_limited {
                self.end_second(now);
                if now.since(self.commented) >= EVENT_COMMENT_MS {
                    self.comment();
                }
            }
            if !self.hand_over().await || !self.is_limited || self.shared.is_stopping() {
                return;
            }
            let nap = tokio::time::sleep(Duration::from_millis(EVENT_LOOK_MS));
            tokio::select! {
                () = nap => {}
                () = self.chunks.closed() => return,
            }
            self.reader.look_again(horizon);
        }
    }

    /// Tells all that happened since the last look; false: the client went away.
    async fn look(&mut self) -> bool {
        loop {
            let read = self.reader.read();
            if read.missed > 0 {
                self.tell_gap("gone", Some(read.missed));
            }
            if read.events.is_empty() {
                return true;
            }
            for told in &read.events {
                self.tell(told);
            }
            if self.buffer.len() >= CHUNK_BYTES && !self.hand_over().await {
                return false;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Writes an event, or sums it up if too many were written in this second.
    fn tell(&mut self, (vhost, happened): &Told) {
        self.last = self.last.max(happened.number);
        if !self.filter.is_met(happened) {
            return;
        }
        let counts = self.is_limited && happened.number > self.kept_to;
        if counts && self.second.told >= EVENTS_OF_SECOND_MAX {
            let reason = happened.reason().map(Reason::as_str);
            let word = reason.or_else(|| happened.cause().map(DropCause::as_str));
            let key = (happened.first_type().as_str(), word);
            *self.second.summed.entry(key).or_default() += 1;
            return;
        }
        self.second.told += usize::from(counts);
        let json = self.json(vhost, happened);
        let id = event_id(self.shared.node.events.origin(), happened.number);
        self.write(happened.first_type().as_str(), &id, &json);
    }

    fn json(&self, vhost: &Name, happened: &VhostEvent) -> Value {
        let rights = self.rights.get(vhost).and_then(Option::as_ref);
        let may_read = rights.is_some_and(|rights| rights.allow(Right::Read, &happened.queue));
        let viewer = EventViewer {
            viewer: self.identity.viewer(),
            may_read,
        };
        event(vhost, self.shared.node.events.origin(), happened, viewer)
    }

    /// Writes in place of events how many are missing; none: nobody knows.
    fn tell_gap(&mut self, cause: &str, missed: Option<u64>) {
        self.shared.node.events.count_missed(missed.unwrap_or(1));
        let data = json!({ "cause": cause, "missed": missed });
        self.tell_of_stream("gap", &data);
    }

    fn tell_of_stream(&mut self, word: &str, data: &Value) {
        let id = event_id(self.shared.node.events.origin(), self.last);
        let json = stream_event(word, &id, self.shared.clock.now().wall, data);
        self.write(word, &id, &json);
    }

    fn write(&mut self, word: &str, id: &str, json: &Value) {
        let text = match self.form {
            Form::Stream => format!("id: {id}\nevent: {word}\ndata: {json}\n\n"),
            Form::Lines => format!("{json}\n"),
        };
        self.buffer.extend_from_slice(text.as_bytes());
    }

    fn comment(&mut self) {
        let comment: &[u8] = match self.form {
            Form::Stream => b": nothing new\n\n",
            Form::Lines => b"\n",
        };
        self.buffer.extend_from_slice(comment);
    }

    /// At the end of a second tells what was too much in it, and looks at the user's rights.
    fn end_second(&mut self, now: Millis) {
        if now.since(self.second.begun) < SECOND_MS {
            return;
        }
        let second = std::mem::replace(&mut self.second, Second::begun(now));
        if !second.summed.is_empty() {
            let events: u64 = second.summed.values().sum();
            let counts = summary(second.summed);
            let data = json!({ "events": events, "counts": counts });
            self.tell_of_stream("summary", &data);
        }
        self.look_at_rights();
        let names = self.vhosts();
        self.reader.read_vhosts(&names, Start::Oldest);
    }

    /// Looks up what the user is and may do now.
    fn look_at_rights(&mut self) {
        let registry = self.shared.node.environment.registry();
        let before = std::mem::take(&mut self.rights);
        if let Some(grant) = &self.identity.grant {
            if grant.is_over(self.shared.clock.now().wall) {
                return; // it is told of no vhost any more
            }
        } else if let Some(user) = registry.user(&self.identity.name) {
            self.identity = Identity::new(user);
        } else {
            return; // likewise
        }
        let sees_all = self.identity.is_monitor();
        for (name, _) in registry.vhosts() {
            let wanted = self.filter.vhost.as_ref();
            if wanted.is_some_and(|wanted| **name != **wanted) {
                continue;
            }
            // Those of a token do not change.
            let kept = before.get(name).filter(|_| self.identity.grant.is_some());
            let rights = kept.cloned();
            let rights = rights.unwrap_or_else(|| self.identity.permissions(&registry, name));
            if sees_all || rights.is_some() {
                self.rights.insert(name.clone(), rights);
            }
        }
    }

    fn vhosts(&self) -> Vec<Name> {
        self.rights.keys().cloned().collect()
    }

    /// Hands over what was written; false: the client went away, or took nothing for too long.
    async fn hand_over(&mut self) -> bool {
        if self.buffer.is_empty() {
            return !self.chunks.is_closed();
        }
        let begun = self.shared.clock.now().mono;
        self.commented = begun;
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        match self.chunks.try_send(Some(chunk)) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(chunk)) => {
                // Whoever takes nothing for `HTTP_WRITE_STALL_MS` has no connection any more.
                let sent = self.chunks.send(chunk).await;
                let now = self.shared.clock.now().mono;
                if now.since(begun) >= SECOND_MS {
                    self.catch_up();
                }
                sent.is_ok()
            }
        }
    }

    /// Leaves out what a client is too far behind for that did not take anything for a while.
    fn catch_up(&mut self) {
        let mut unread = Vec::new();
        loop {
            let read = self.reader.read();
            if read.missed > 0 {
                self.tell_gap("gone", Some(read.missed));
            }
            if read.events.is_empty() {
                break;
            }
            let filter = &self.filter;
            let met = read.events.into_iter();
            unread.extend(met.filter(|(_, event)| filter.is_met(event)));
        }
        let is_later = |told: &Told| told.1.number > self.kept_to;
        let kept = unread.iter().filter(|told| !is_later(told)).count();
        let later = unread.len() - kept;
        let missed = later.saturating_sub(EVENTS_BEHIND_MAX);
        for told in unread.drain(..kept) {
            self.tell(&told);
        }
        if missed > 0 {
            let last = unread.get(missed - 1).map(|(_, event)| event.number);
            self.last = last.unwrap_or(self.last);
            unread.drain(..missed);
            self.tell_gap("behind", Some(missed as u64));
        }
        for told in &unread {
            self.tell(told);
        }
    }
}
