//! The kinds of facts and the first byte of each. Numbers are never reused; the unused ones are
//! assigned in groups, see `docs/STORE_FORMAT.md`.
//!
//! A new kind is encoded and decoded only by matches that name it: so a fact that is written can be
//! read.

/// Defines a closed enum of kinds with their bytes.
macro_rules! kinds {
    ($(#[$about:meta])* $kinds:ident { $($name:ident = $number:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(super) enum $kinds {
            $($name = $number,)*
        }

        impl $kinds {
            /// The byte for it in a record.
            pub(super) const fn byte(self) -> u8 {
                self as u8
            }

            const fn of_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// Facts about messages.
    OfMessage {
        Inserted = 1,
        Removed = 2,
        Returned = 3,
        Changed = 4,
        Waiting = 5,
        Purged = 6,
        Checkpointed = 7,
        Died = 8,
        VhostDeaths = 9,
        Delayed = 10,
    }
}

kinds! {
    /// Facts about redrives.
    OfRedrive {
        Set = 24,
        Moved = 25,
        Learned = 26,
        Ended = 27,
        Forgotten = 28,
        Numbers = 29,
    }
}

kinds! {
    /// Facts about queues, exchanges, bindings and policies.
    OfTopology {
        QueueDeclared = 32,
        QueueDeleted = 33,
        QueueIds = 34,
        ExchangeDeclared = 35,
        ExchangeDeleted = 36,
        Bound = 37,
        Unbound = 38,
        PolicySet = 39,
        PolicyDeleted = 40,
    }
}

kinds! {
    /// Facts about what is remembered for operators.
    OfMemo {
        Imported = 48,
        ImportForgotten = 49,
        NoteSet = 50,
        NoteCleared = 51,
        EventNumbers = 56,
    }
}

kinds! {
    /// Facts about publishers' links that outlive the broker.
    OfPublisherLink {
        Kept = 57,
        Decided = 58,
        Forgotten = 59,
    }
}

kinds! {
    /// Facts about consumers' links that outlive the broker.
    OfConsumerLink {
        Kept = 60,
        Acquired = 61,
        Unsent = 62,
        Forgotten = 63,
    }
}

kinds! {
    /// Facts about the registry.
    OfRegistry {
        VhostSet = 64,
        VhostDeleted = 65,
        UserSet = 66,
        UserDeleted = 67,
        PermissionsSet = 68,
        PermissionsCleared = 69,
        TopicPermissionsSet = 70,
        TopicPermissionsCleared = 71,
        GlobalParameterSet = 72,
        GlobalParameterCleared = 73,
        ImportPart = 74,
        ImportBegun = 75,
        ImportEnded = 76,
    }
}

/// A kind of any group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FactKind {
    Message(OfMessage),
    Redrive(OfRedrive),
    Memo(OfMemo),
    PublisherLink(OfPublisherLink),
    ConsumerLink(OfConsumerLink),
    Topology(OfTopology),
    Registry(OfRegistry),
}

impl FactKind {
    /// The kind that a byte stands for, if this version knows it.
    pub(super) fn of_byte(byte: u8) -> Option<Self> {
        let message = OfMessage::of_byte(byte).map(Self::Message);
        let redrive = || OfRedrive::of_byte(byte).map(Self::Redrive);
        let memo = || OfMemo::of_byte(byte).map(Self::Memo);
        let publisher_link = || OfPublisherLink::of_byte(byte).map(Self::PublisherLink);
        let consumer_link = || OfConsumerLink::of_byte(byte).map(Self::ConsumerLink);
        let topology = || OfTopology::of_byte(byte).map(Self::Topology);
        let registry = || OfRegistry::of_byte(byte).map(Self::Registry);
        (message.or_else(redrive).or_else(memo))
            .or_else(publisher_link)
            .or_else(consumer_link)
            .or_else(topology)
            .or_else(registry)
    }
}
