//! Large messages in parts: taken while they arrive, supplied while they are sent, so that neither
//! end needs them whole in memory.

use bytes::Bytes;

use super::send::admit;
use super::{Connection, LinkContext, Sending, Unsendable};
use crate::base::uncount;
use crate::link::link::QueuedMessage;
use crate::link::{Expected, LinkHandle, Unfinished};
use crate::wire::performative::ResumableTag;

/// Incoming deliveries.
impl Connection {
    /// The link with the largest incomplete delivery.
    pub fn largest_partial(&self) -> Option<LinkHandle> {
        let sessions = self.sessions.iter().flatten();
        let partials = sessions.flat_map(|session| {
            session.handles().filter_map(|(handle, link)| {
                let cost = link.partial.as_ref()?.cost();
                Some((cost, session.link_handle(handle, link)))
            })
        });
        let largest = partials.max_by_key(|(cost, _)| *cost);
        largest.map(|(_, link)| link)
    }

    /// The fragments of the delivery that [`Event::Partial`](crate::link::Event::Partial) reported,
    /// as far as they were not taken.
    pub fn partial(&self, handle: LinkHandle) -> &[Bytes] {
        let partial = self.link(handle).and_then(|link| link.partial.as_ref());
        partial.map_or(&[], |partial| partial.told())
    }

    /// Takes these fragments: [`Event::Delivery`](crate::link::Event::Delivery) brings only the
    /// rest.
    pub fn take_partial(&mut self, handle: LinkHandle) -> Vec<Bytes> {
        let Some(LinkContext {
            session,
            partial_bytes,
            ..
        }) = self.find(handle)
        else {
            return Vec::new();
        };
        let link = session.link_mut(handle.handle);
        let Some(partial) = link.and_then(|link| link.partial.as_mut()) else {
            return Vec::new();
        };
        uncount!(*partial_bytes, partial.cost(), "what had begun was counted");
        partial.take()
    }

    /// Leaves these fragments and all that follow until the delivery is complete.
    pub fn keep_partial(&mut self, handle: LinkHandle) {
        let session = self.find(handle).map(|found| found.session);
        let link = session.and_then(|session| session.link_mut(handle.handle));
        if let Some(partial) = link.and_then(|link| link.partial.as_mut()) {
            partial.keep();
        }
    }
}

/// Deliveries that are resumed in the middle.
impl Connection {
    /// What the peer may resume of all that had begun to arrive, as [`Event::Unfinished`] reports it of a link or
    /// session that ends: for an owner whose connection is gone.
    ///
    /// [`Event::Unfinished`]: crate::link::Event::Unfinished
    pub fn unfinished(&mut self) -> Vec<Unfinished> {
        let mut all = Vec::new();
        for session in self.sessions.iter_mut().flatten() {
            let handles = session.handles();
            let links: Vec<_> = handles
                .map(|(handle, link)| (handle, session.link_handle(handle, link)))
                .collect();
            let unfinished = links
                .into_iter()
                .filter_map(|(handle, link)| session.link_mut(handle)?.take_unfinished(link));
            all.extend(unfinished);
        }
        all
    }

    /// Has a delivery go on that had begun before the link was attached, if the peer resumes it: to be
    /// called before the attach is answered, with its state among the unsettled deliveries of the answer.
    /// [`Event::Continued`](crate::link::Event::Continued) says that it does; what had arrived of it is the
    /// owner's to put in front of the rest. [AMQP 2.6.13]
    pub fn expect_resumed(&mut self, handle: LinkHandle, expected: Expected) {
        let session = self.find(handle).map(|found| found.session);
        if let Some(link) = session.and_then(|session| session.link_mut(handle.handle)) {
            link.expected = Some(Box::new(expected));
        }
    }
}

/// Outgoing deliveries.
impl Connection {
    /// Sends a message whose bare bytes, of this number, are not in memory: [`poll_wanting`] asks
    /// for them under the number `stream`, unique in the connection; [`supply`] adds them.
    /// `sending.bare` is not used.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// [`poll_wanting`]: Self::poll_wanting
    /// [`supply`]: Self::supply
    pub fn send_stream(
        &mut self,
        handle: LinkHandle,
        sending: Sending<'_>,
        (stream, bare_bytes): (u64, u64),
    ) -> Result<(), Unsendable> {
        let bytes = sending.prefix.len() as u64 + bare_bytes;
        self.send_later(handle, &sending, bytes, |settled| {
            QueuedMessage::streamed(&sending, settled, (stream, bare_bytes))
        })
    }

    /// Sends a message whose bare bytes are `sending.bare` and, behind that, `rest`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_parts(
        &mut self,
        handle: LinkHandle,
        sending: Sending<'_>,
        rest: &[Bytes],
    ) -> Result<(), Unsendable> {
        let rest_bytes: usize = rest.iter().map(Bytes::len).sum();
        let bytes = sending.prefix.len() + sending.bare.len() + rest_bytes;
        self.send_later(handle, &sending, bytes as u64, |settled| {
            let front = Bytes::copy_from_slice(sending.bare);
            let bare = std::iter::once(front).chain(rest.iter().cloned());
            QueuedMessage::new(&sending, settled, bare)
        })
    }

    /// Sends the state of a delivery from before the link was attached, settled and without its message.
    /// [AMQP 2.6.13]
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn restate(&mut self, handle: LinkHandle, tag: &ResumableTag) -> Result<(), Unsendable> {
        let sending = Sending {
            token: u64::MAX,
            settled: true,
            message_format: 0,
            prefix: &[],
            bare: &[],
            tag: Some(tag),
        };
        self.send_later(handle, &sending, 0, |_| {
            QueuedMessage::new(&sending, true, [])
        })
    }

    /// Queues a message of this many bytes.
    fn send_later(
        &mut self,
        handle: LinkHandle,
        sending: &Sending<'_>,
        bytes: u64,
        waiting: impl FnOnce(bool) -> QueuedMessage,
    ) -> Result<(), Unsendable> {
        let Some(LinkContext {
            session,
            output,
            ring,
            ..
        }) = self.find(handle)
        else {
            return Err(Unsendable::NotAttached);
        };
        let Some(link) = session.link_mut(handle.handle) else {
            return Err(Unsendable::NotAttached);
        };
        let settled = admit(link, sending, bytes)?;
        link.count_delivery();
        link.sender.taken += 1;
        super::send::wait(session, handle, waiting(settled), ring);
        output.waiting_bytes += bytes;
        Ok(())
    }

    /// A message that cannot be sent on before more of its bytes are supplied; each is returned
    /// once.
    pub fn poll_wanting(&mut self) -> Option<(LinkHandle, u64)> {
        self.wanting.pop_front()
    }

    /// Supplies the next bytes of a message that needs some, at least one.
    pub fn supply(&mut self, handle: LinkHandle, stream: u64, bytes: Bytes) {
        let Some(LinkContext { session, ring, .. }) = self.find(handle) else {
            return;
        };
        let window_open = session.remote_incoming_window > 0;
        let Some(link) = session.link_mut(handle.handle) else {
            return;
        };
        let waiting = link.sender.waiting.front_mut();
        let Some(waiting) = waiting.filter(|waiting| waiting.stream == Some(stream)) else {
            return;
        };
        waiting.supply(bytes);
        let joins = window_open && !link.sender.in_ring;
        link.sender.in_ring |= joins;
        if joins {
            ring.push_back((handle.channel, handle.handle));
        }
    }
}
