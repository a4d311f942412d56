//! Numbers of open connections by vhost and by user, for their limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::limits::{TRANSACTIONS_BYTES_MAX, TRANSACTIONS_USER_BYTES_MAX};
use crate::base::locks::{RankedMutex, rank};
use crate::base::{Name, Payer, uncount};

/// The open connections of all vhosts and users.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: RankedMutex<rank::Seats, SeatsTaken>,
}

#[derive(Debug, Default)]
struct SeatsTaken {
    vhosts: BTreeMap<Name, u64>,
    users: BTreeMap<Name, u64>,
    /// The connections with a client id, by vhost and client id.
    clients: BTreeMap<(Name, Name), Holders>,
    /// Bytes of transactions that are not committed, by user, and of all.
    transactions: BTreeMap<Payer, u64>,
    transactions_bytes: u64,
}

/// The connections of one client id in a vhost.
#[derive(Debug, Default)]
struct Holders {
    connections: u64,
    /// One of them asked to be the only one.
    is_sole: bool,
}

/// A connection's claim on its client id; dropping it frees the id, if it was the last.
#[derive(Debug)]
pub(super) struct ClientId {
    seats: Arc<Seats>,
    id: (Name, Name),
}

/// Bytes of a user's transaction that is not committed; dropping it subtracts them.
#[derive(Debug)]
pub(super) struct HeldBytes {
    seats: Arc<Seats>,
    user: Payer,
    bytes: u64,
}

/// The limit that leaves no room for another connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoSeat {
    /// The limit of the vhost, in connections.
    Vhost(u64),
    /// The limit of the user, in connections.
    User(u64),
}

/// An open connection of a user in a vhost; dropping it subtracts the connection.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    vhost: Name,
    /// None: the connection counts for no user.
    user: Option<Name>,
}

impl Seats {
    /// Counts a connection in a vhost, and as one of a user of the registry if it is that, if neither limit is
    /// reached.
    pub(super) fn take(
        self: &Arc<Self>,
        (vhost, in_vhost_max): (&Name, Option<u64>),
        user: Option<(&Name, Option<u64>)>,
    ) -> Result<Seat, NoSeat> {
        let mut taken = self.taken.lock();
        let count = |map: &BTreeMap<Name, u64>, name| map.get(name).copied().unwrap_or(0);
        if let Some(max) = in_vhost_max.filter(|max| count(&taken.vhosts, vhost) >= *max) {
            return Err(NoSeat::Vhost(max));
        }
        if let Some((user, Some(max))) = user
            && count(&taken.users, user) >= max
        {
            return Err(NoSeat::User(max));
        }
        *taken.vhosts.entry(vhost.clone()).or_default() += 1;
        let user = user.map(|(user, _)| user.clone());
        if let Some(user) = &user {
            *taken.users.entry(user.clone()).or_default() += 1;
        }
        Ok(Seat {
            seats: Arc::clone(self),
            vhost: vhost.clone(),
            user,
        })
    }

    /// Claims a client id in a vhost; none if another connection has it and one of both is to be the
    /// only one.
    pub(super) fn claim(
        self: &Arc<Self>,
        (vhost, client): (&Name, &Name),
        is_sole: bool,
    ) -> Option<ClientId> {
        let id = (vhost.clone(), client.clone());
        let mut taken = self.taken.lock();
        let holders = taken.clients.entry(id.clone()).or_default();
        if holders.connections > 0 && (is_sole || holders.is_sole) {
            return None;
        }
        holders.connections += 1;
        holders.is_sole = is_sole;
        let seats = Arc::clone(self);
        Some(ClientId { seats, id })
    }

    /// The bytes of a new transaction of a user, none so far.
    pub(super) fn hold(self: &Arc<Self>, user: Payer) -> HeldBytes {
        let seats = Arc::clone(self);
        HeldBytes {
            seats,
            user,
            bytes: 0,
        }
    }

    /// Number of open connections in a vhost.
    pub(super) fn in_vhost(&self, vhost: &str) -> u64 {
        let taken = self.taken.lock();
        taken.vhosts.get(vhost).copied().unwrap_or(0)
    }
}

impl HeldBytes {
    /// Number of bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts more of them; false if those of the user's transactions, or of all, would be too many.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let mut taken = self.seats.taken.lock();
        let of_user = taken.transactions.get(&self.user).copied().unwrap_or(0) + bytes;
        let of_all = taken.transactions_bytes + bytes;
        if of_all > TRANSACTIONS_BYTES_MAX || of_user > TRANSACTIONS_USER_BYTES_MAX {
            return false;
        }
        taken.transactions.insert(self.user.clone(), of_user);
        taken.transactions_bytes = of_all;
        self.bytes += bytes;
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.seats.taken.lock();
        let SeatsTaken {
            transactions,
            transactions_bytes,
            ..
        } = &mut *taken;
        uncount!(
            *transactions_bytes,
            self.bytes,
            "bytes of a transaction were counted"
        );
        if let Some(of_user) = transactions.get_mut(&self.user) {
            uncount!(
                *of_user,
                self.bytes,
                "bytes of a user's transaction were counted"
            );
            if *of_user == 0 {
                transactions.remove(&self.user);
            }
        }
    }
}

impl Drop for ClientId {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        if let Some(holders) = taken.clients.get_mut(&self.id) {
            uncount!(
                holders.connections,
                1,
                "a client id that is freed was claimed"
            );
            if holders.connections == 0 {
                taken.clients.remove(&self.id);
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        let SeatsTaken { vhosts, users, .. } = &mut *taken;
        for (map, name) in [(vhosts, Some(&self.vhost)), (users, self.user.as_ref())] {
            if let Some(name) = name
                && let Some(count) = map.get_mut(name)
            {
                uncount!(*count, 1, "a seat that is left was counted");
                if *count == 0 {
                    map.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_is_of_one_connection_if_the_first_or_the_second_asks_for_that() {
        let seats = Arc::new(Seats::default());
        let (v, w, id) = (Name::from("v"), Name::from("w"), Name::from("id"));
        let first = seats.claim((&v, &id), false);
        let second = seats.claim((&v, &id), false);
        assert!(first.is_some() && second.is_some(), "nobody asked");
        assert!(seats.claim((&v, &id), true).is_none());
        drop((first, second));
        let sole = seats.claim((&v, &id), true);
        assert!(sole.is_some(), "it is free again");
        assert!(seats.claim((&v, &id), false).is_none());
        assert!(seats.claim((&w, &id), true).is_some(), "another vhost");
        drop(sole);
        assert!(seats.claim((&v, &id), false).is_some());
        assert!(seats.taken.lock().clients.is_empty(), "nothing is kept");
    }

    /// They used up what a user of the registry with their name may have.
    #[test]
    fn transactions_of_the_bearer_of_a_token_are_its_own() {
        let seats = Arc::new(Seats::default());
        let login = |by_token| (Name::from("ada"), by_token);
        let mut bearer = seats.hold(login(true));
        assert!(bearer.grow(TRANSACTIONS_USER_BYTES_MAX) && !bearer.grow(1));
        assert!(seats.hold(login(false)).grow(1));
    }

    #[test]
    fn seats_are_limited_by_vhost_and_by_user_and_come_back() {
        let seats = Arc::new(Seats::default());
        let (v, w) = (Name::from("v"), Name::from("w"));
        let (ada, bob) = (Name::from("ada"), Name::from("bob"));
        let take = |vhost, user| seats.take((vhost, Some(2)), Some((user, Some(1))));
        let first = take(&v, &ada).unwrap();
        assert_eq!(take(&w, &ada).unwrap_err(), NoSeat::User(1));
        let second = take(&v, &bob).unwrap();
        let carl = Name::from("carl");
        assert_eq!(take(&v, &carl).unwrap_err(), NoSeat::Vhost(2));
        drop(first);
        assert_eq!(seats.in_vhost("v"), 1);
        let third = take(&v, &carl);
        assert!(third.is_ok());
        assert!(
            seats.take((&v, None), Some((&bob, None))).is_ok(),
            "no limits"
        );
        let bearer = seats.take((&w, None), None);
        assert!(bearer.is_ok());
        assert!(
            take(&w, &ada).is_ok(),
            "a bearer of a token counts for no user"
        );
        drop((second, third));
        assert_eq!(seats.in_vhost("v"), 0);
    }
}
