//! Messages in the middle of which their link ended: what has arrived of one is kept with the link, named in
//! the answer to its next attach, and goes on when its publisher resumes it. [AMQP 2.6.13, 3.4.1]
//!
//! ```text
//!  link ends --> Begun, with the link --next attach--> offered, in the map --resume--> the rest arrives
//!     ^                                                    |                              |
//!     '----------------- ends again ----------------------'------------------------------'
//! ```
//!
//! What is small is kept in memory; a durable message with a large body is in the journal, as far as it
//! has arrived. Over a restart of the broker neither is kept: the message begins anew.

use bytes::Bytes;

use super::link::Share;
use super::{Gateway, Resumable};
use crate::base::limits::{
    MESSAGE_JOIN_BYTES_MAX, RESUMABLE_PARTIAL_BYTES_MAX, RESUMABLE_SECTIONS_MAX,
};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Charge, invariant};
use crate::gateway::links::{Link, LinkKind};
use crate::gateway::publisher::Publisher;
use crate::gateway::streaming_body::StreamingBody;
use crate::link::{Expected, LinkHandle, Payload, Unfinished};
use crate::store::PIECE_BYTES_MAX;
use crate::wire::performative::{DeliveryState, DeliveryTag, ResumePoint, UnsettledDelivery};
use crate::wire::resume_point;

/// Bytes by which it is seen that a publisher sends a message from its beginning.
const BEGINNING_BYTES: usize = 64;

/// A message of which a part has arrived.
#[derive(Debug)]
pub(in crate::gateway) struct Begun {
    tag: DeliveryTag,
    point: ResumePoint,
    held: Held,
    /// Its share of what its user may have of such messages.
    _share: Share,
    /// Counts what it takes in memory; a body in the journal counts its own.
    _charge: Charge,
}

/// What has arrived.
#[derive(Debug)]
enum Held {
    Memory(Bytes),
    Journal(Box<StreamingBody>),
}

impl Begun {
    pub(super) const fn tag(&self) -> &DeliveryTag {
        &self.tag
    }

    /// How the map of an attach names it.
    pub(super) const fn unsettled(&self) -> UnsettledDelivery {
        (self.tag, Some(DeliveryState::Received(self.point)))
    }

    /// What the engine is to know of it.
    pub(super) fn expected(&self) -> Expected {
        let (bytes, beginning) = match &self.held {
            Held::Memory(bytes) => (bytes.len() as u64, bytes),
            Held::Journal(body) => (body.bytes(), body.head()),
        };
        Expected {
            tag: self.tag,
            bytes,
            point: self.point,
            beginning: beginning.slice(..beginning.len().min(BEGINNING_BYTES)),
        }
    }
}

impl Held {
    fn in_memory(front: Option<&Bytes>, rest: &[Bytes]) -> (ResumePoint, Self) {
        let mut bytes = Vec::new();
        for part in front.into_iter().chain(rest) {
            let room = RESUMABLE_PARTIAL_BYTES_MAX - bytes.len();
            bytes.extend_from_slice(part.get(..room).unwrap_or(part));
        }
        let (point, length) = resume_point(&bytes, RESUMABLE_SECTIONS_MAX);
        bytes.truncate(length);
        (point, Self::Memory(bytes.into_boxed_slice().into()))
    }

    /// What it takes, in memory and in all.
    fn costs(&self) -> (u64, u64) {
        match self {
            Self::Memory(bytes) => (bytes.len() as u64, bytes.len() as u64),
            Self::Journal(body) => (0, body.bytes() + PIECE_BYTES_MAX as u64),
        }
    }
}

impl Resumable {
    /// The bytes in memory of the message that goes on, if there are any.
    pub(in crate::gateway) fn front(&self) -> Option<&Bytes> {
        match &self.front.as_deref()?.held {
            Held::Memory(bytes) => Some(bytes),
            Held::Journal(_) => None,
        }
    }

    /// Forgets what had arrived of the message that goes on: it is whole, or is given up.
    pub(in crate::gateway) fn forget_front(&mut self) {
        self.front = None;
    }

    /// Leaves with the link what the publisher may resume, if the link is still its owner's.
    pub(super) fn leave_begun(&mut self) {
        let begun = self.offered.take();
        // What is not kept is dropped with no lock held: it may release a body.
        drop(begun.and_then(|begun| self.link.keep_begun(self.owner, begun)));
    }

    /// A message with what had arrived of it before.
    pub(super) fn with_front(&mut self, payload: Payload) -> Payload {
        let Some(front) = self.front().cloned() else {
            return payload;
        };
        self.front = None;
        #[cfg(test)]
        if is_planted(Plant::FrontForgotten) {
            return payload;
        }
        let parts = match payload {
            Payload::Whole(rest) => vec![front, rest],
            Payload::Parts(rest) => std::iter::once(front).chain(rest).collect(),
        };
        let whole = Payload::Parts(parts);
        if whole.len() <= MESSAGE_JOIN_BYTES_MAX {
            return Payload::Whole(whole.joined());
        }
        whole
    }
}

impl Gateway {
    /// Keeps what has arrived of a message whose link is about to end.
    #[cold]
    pub(in crate::gateway) fn on_unfinished(&mut self, unfinished: &Unfinished) {
        let is_alarm = self.alarm;
        let gauge = self.environment.kept().clone();
        let Some(Link {
            kind: LinkKind::Publisher(publisher),
            ..
        }) = self.links.by_handle(unfinished.link)
        else {
            return;
        };
        let streaming = publisher.streaming.take();
        let Some(resumable) = publisher.resumable.as_deref_mut() else {
            return;
        };
        let (point, held) = match streaming {
            None => Held::in_memory(resumable.front(), &unfinished.rest),
            Some(mut body) => {
                let mut written = Vec::new();
                let pushed = body.push_all(&unfinished.rest, &mut written);
                self.unwritten.extend(written);
                if pushed.is_err() {
                    return; // as it would be refused
                }
                body.set_counted(false);
                (body.resume_point(), Held::Journal(body))
            }
        };
        resumable.front = None;
        let (memory_bytes, bytes) = held.costs();
        let share = Some(bytes).filter(|bytes| *bytes > 0 && !is_alarm);
        let share = share.and_then(|bytes| resumable.link.share(bytes));
        resumable.offered = share.map(|share| {
            Box::new(Begun {
                tag: unfinished.tag,
                point,
                held,
                _share: share,
                _charge: gauge.charge(memory_bytes),
            })
        });
    }

    /// Handles that a message goes on of which a part had arrived, or that it begins anew.
    #[cold]
    pub(in crate::gateway) fn on_continued(&mut self, handle: LinkHandle, is_resumed: bool) {
        let Some(LinkKind::Publisher(publisher)) =
            self.links.by_handle(handle).map(|link| &mut link.kind)
        else {
            return;
        };
        let Publisher {
            resumable: Some(resumable),
            streaming,
            ..
        } = &mut **publisher
        else {
            return;
        };
        let Some(begun) = resumable.offered.take() else {
            return invariant!(broken, "a message that goes on was offered");
        };
        if !is_resumed {
            return;
        }
        match begun.held {
            Held::Journal(mut body) => {
                body.set_counted(true);
                *streaming = Some(body);
            }
            Held::Memory(_) => resumable.front = Some(begun),
        }
    }
}
