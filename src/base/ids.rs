//! Ids. None is ever reused within the life of a broker, so a stale id finds nothing.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl super::Id for $name {
            fn number(self) -> u64 {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(/** One client connection; assigned when a peer connects. */ ConnectionId);
id!(/** One session of one connection; assigned by the gateway at `begin`. */ SessionId);
id!(/** The holder of a delivery, made from the id of its consumer. */ HolderId);
id!(/** One consuming link (the broker sends); assigned by the gateway at `attach`. */ ConsumerId);
id!(/** One publishing link (the broker receives); assigned by the gateway at `attach`. */ PublisherId);
id!(/** One queue of a vhost, from its declaration to its deletion. */ QueueId);
id!(/** One exchange of a vhost, from its declaration to its deletion. */ ExchangeId);
id!(/** A message's position in its queue, kept for life, also when it is requeued. */ Position);
id!(/** Log sequence number of a journal record; may have gaps. */ Lsn);
