//! The ends of links that may outlive them, and of the connections that had them. [AMQP 2.6.3, 3.5.6]

use super::Resumable;
use crate::base::Millis;
use crate::broker::recovery::LinkEnd;
use crate::broker::{Command, Effect, PublisherCommand};
use crate::gateway::Gateway;
use crate::gateway::connection::AwaitedAnswer;
use crate::gateway::links::{Link, LinkKind};
use crate::gateway::work::Work;
use crate::link::{LinkHandle, SessionHandle};
use crate::wire::performative::{Error, LinkError};

/// Such a link that the connection had attached.
#[derive(Debug)]
pub(in crate::gateway) struct Departed {
    session: SessionHandle,
    /// Its handle, if the broker closed it and the peer did not answer that yet.
    closing: Option<LinkHandle>,
    pub(super) resumable: Box<Resumable>,
}

/// What a detach means for a link that may be attached again: the older end of a stolen one is closed, the
/// link is not.
pub(in crate::gateway) fn end_of_detach(closed: bool, error: Option<&Error>) -> LinkEnd {
    let stolen = LinkError::Stolen.as_str();
    let is_stolen = error.is_some_and(|error| error.condition.as_str() == stolen);
    if closed && !is_stolen {
        LinkEnd::Closed
    } else {
        LinkEnd::Detached
    }
}

impl Gateway {
    /// Handles the end of a link that may outlive it. One that the broker closed is kept until the peer
    /// answers that: a peer whose line is cut before asks for its outcomes as after any cut.
    pub(in crate::gateway) fn leave_resumable(
        &mut self,
        now: Millis,
        link: &mut Link,
        (end, by_peer): (LinkEnd, bool),
    ) {
        let LinkKind::Publisher(publisher) = &mut link.kind else {
            return;
        };
        let Some(mut resumable) = publisher.resumable.take() else {
            return;
        };
        let (end, closing) = if by_peer {
            (end, None)
        } else {
            (LinkEnd::Detached, Some(link.handle))
        };
        match end {
            LinkEnd::Closed => {
                let links = &self.environment.resumable;
                let number = links.forget(&resumable.key, resumable.owner);
                self.forget_link(number);
            }
            LinkEnd::Detached | LinkEnd::SessionEnded | LinkEnd::ConnectionClosed => {
                let begins = resumable.expiry.begins(end).then_some(now);
                resumable.link.suspend(resumable.owner, begins);
                resumable.leave_begun();
            }
        }
        let session = link.session;
        let concerns = |departed: &Departed| {
            let resumable = &departed.resumable;
            departed.closing.is_some() || resumable.link.concerns(resumable.owner)
        };
        self.departed.retain(concerns);
        self.departed.push(Departed {
            session,
            closing,
            resumable,
        });
    }

    /// Forgets a link that the broker closed: its peer knows that now.
    pub(in crate::gateway) fn on_detach_answered(&mut self, handle: LinkHandle) {
        let departed = self.departed.iter_mut();
        let mut closing = departed.filter(|departed| departed.closing == Some(handle));
        if let Some(departed) = closing.next() {
            departed.closing = None;
            let Resumable { key, owner, .. } = &*departed.resumable;
            let number = self.environment.resumable.forget(key, *owner);
            self.forget_link(number);
        }
    }

    /// Tells the core that the journal need not keep a link any more.
    fn forget_link(&mut self, number: Option<u64>) {
        let forget = number.map(|link| PublisherCommand::Forget { link });
        let work = forget.map(|forget| Work::Command(Command::Publisher(forget)));
        if let Some(work) = work {
            self.batch.push(work);
        }
    }

    /// Begins the time of links that ended before their session.
    pub(in crate::gateway) fn end_resumable_of(&mut self, now: Millis, session: SessionHandle) {
        let ended = |departed: &&mut Departed| departed.session == session;
        for departed in self.departed.iter_mut().filter(ended) {
            departed.closing = None; // it is not answered any more
            let resumable = &departed.resumable;
            if resumable.expiry.begins(LinkEnd::SessionEnded) {
                resumable.link.suspend(resumable.owner, Some(now));
            }
        }
    }

    /// Suspends all links that outlive their connection, which is gone.
    pub(in crate::gateway) fn suspend_resumable(&mut self, now: Millis) {
        let links = self.links.iter_mut();
        let attached = links.filter_map(|link| link.kind.resumable());
        let departed = self.departed.iter_mut();
        let departed = departed.map(|departed| &mut *departed.resumable);
        for resumable in attached.chain(departed) {
            resumable.link.suspend(resumable.owner, Some(now));
            resumable.leave_begun();
        }
    }

    /// Notes the outcomes that the publishers of a closed connection were not told, durable or not. To be
    /// called when the core has all that they published.
    pub fn keep_outcomes(&mut self) {
        if self.failed {
            return;
        }
        let answers = std::mem::take(&mut self.waiting);
        let answers = answers.into_iter().filter_map(|(_, answer)| match answer {
            AwaitedAnswer::Effect(effect) => Some(effect),
            AwaitedAnswer::Response(..)
            | AwaitedAnswer::Subscribed(..)
            | AwaitedAnswer::Unsubscribed(_) => None,
        });
        let effects = std::mem::take(&mut self.batch.effects);
        for effect in answers.chain(effects) {
            if let Effect::Published {
                publisher,
                token,
                outcome,
                lsn,
            } = effect
            {
                self.on_resumable_published(publisher, (token, &outcome), lsn);
            }
        }
    }
}
