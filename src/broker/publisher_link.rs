//! Links of publishers that outlive the broker: the journal keeps what became of the messages on them, so
//! that a publisher which comes back after a restart is told their outcome. [AMQP 2.6.13, 3.5.5]

use super::recovery::{ExpiryPolicy, LinkKey};
use super::{Publish, PublishOutcome};
use crate::base::Name;

/// Such a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublisherLink {
    /// Its number, which no other link has that is kept: one of the same name may come before the end of this
    /// one is known.
    pub number: u64,
    /// What names it on the wire, and whose it is.
    pub key: LinkKey,
    /// When its time begins.
    pub expiry: ExpiryPolicy,
    /// How long it is kept from then on, in seconds.
    pub timeout_s: u32,
}

/// A delivery on such a link: its tag, and its outcome if it is not accepted.
pub type Unsettled = (Box<[u8]>, NotAccepted);

/// The queue that was full and rejected a message, which died there and is a dead letter; none: the message
/// was accepted.
pub type NotAccepted = Option<Name>;

/// A message on such a link, whose outcome is to be known after a restart.
#[derive(Debug)]
pub struct KeptPublish {
    /// What is routed and answered as any other message.
    pub publish: Publish,
    /// The number of its link.
    pub link: u64,
    /// The delivery-tag, by which its publisher resumes it.
    pub tag: Box<[u8]>,
    /// Tags of deliveries of the link that its publisher has settled; this one may have the tag of one of
    /// them.
    pub settled: Vec<Box<[u8]>>,
}

/// What became of a delivery on such a link, and what is not unsettled any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptDelivery {
    /// The number of its link.
    pub link: u64,
    /// The delivery; none: nothing of its message is anywhere, and sent again it is decided again.
    pub delivery: Option<Unsettled>,
    /// Tags of deliveries that are settled; this one may have the tag of one of them.
    pub settled: Vec<Box<[u8]>>,
}

/// A change of such links that the journal keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublisherLinkFact {
    /// A link is kept, and these deliveries on it are unsettled, with those that are known already.
    Kept {
        /// Its number, name and time.
        link: Box<PublisherLink>,
        /// The deliveries; only a checkpoint has any.
        unsettled: Vec<Unsettled>,
    },
    /// A message has its outcome: in the record that inserts it, if any does.
    Decided(Box<KeptDelivery>),
    /// A link is not kept any more.
    Forgotten {
        /// The number that it was kept under.
        link: u64,
    },
}

/// The outcome that is kept as this.
pub fn outcome_of(not_accepted: NotAccepted) -> PublishOutcome {
    match not_accepted {
        None => PublishOutcome::Accepted,
        Some(queue) => PublishOutcome::QueueFull { queue },
    }
}
