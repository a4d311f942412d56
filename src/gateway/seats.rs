//! Numbers of open connections by vhost and by user, for their limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::locks::{RankedMutex, rank};
use crate::base::{Name, uncount};

/// The open connections of all vhosts and users.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: RankedMutex<rank::Seats, SeatsTaken>,
}

#[derive(Debug, Default)]
struct SeatsTaken {
    vhosts: BTreeMap<Name, u64>,
    users: BTreeMap<Name, u64>,
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
    user: Name,
}

impl Seats {
    /// Counts a connection of a user in a vhost, if neither limit is reached.
    pub(super) fn take(
        self: &Arc<Self>,
        (vhost, in_vhost_max): (&Name, Option<u64>),
        (user, of_user_max): (&Name, Option<u64>),
    ) -> Result<Seat, NoSeat> {
        let mut taken = self.taken.lock();
        let count = |map: &BTreeMap<Name, u64>, name| map.get(name).copied().unwrap_or(0);
        if let Some(max) = in_vhost_max.filter(|max| count(&taken.vhosts, vhost) >= *max) {
            return Err(NoSeat::Vhost(max));
        }
        if let Some(max) = of_user_max.filter(|max| count(&taken.users, user) >= *max) {
            return Err(NoSeat::User(max));
        }
        *taken.vhosts.entry(vhost.clone()).or_default() += 1;
        *taken.users.entry(user.clone()).or_default() += 1;
        Ok(Seat {
            seats: Arc::clone(self),
            vhost: vhost.clone(),
            user: user.clone(),
        })
    }

    /// Number of open connections in a vhost.
    pub(super) fn in_vhost(&self, vhost: &str) -> u64 {
        let taken = self.taken.lock();
        taken.vhosts.get(vhost).copied().unwrap_or(0)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        let SeatsTaken { vhosts, users } = &mut *taken;
        for (map, name) in [(vhosts, &self.vhost), (users, &self.user)] {
            if let Some(count) = map.get_mut(name) {
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
    fn seats_are_limited_by_vhost_and_by_user_and_come_back() {
        let seats = Arc::new(Seats::default());
        let (v, w) = (Name::from("v"), Name::from("w"));
        let (ada, bob) = (Name::from("ada"), Name::from("bob"));
        let take = |vhost, user| seats.take((vhost, Some(2)), (user, Some(1)));
        let first = take(&v, &ada).unwrap();
        assert_eq!(take(&w, &ada).unwrap_err(), NoSeat::User(1));
        let second = take(&v, &bob).unwrap();
        let carl = Name::from("carl");
        assert_eq!(take(&v, &carl).unwrap_err(), NoSeat::Vhost(2));
        drop(first);
        assert_eq!(seats.in_vhost("v"), 1);
        let third = take(&v, &carl);
        assert!(third.is_ok());
        assert!(seats.take((&v, None), (&bob, None)).is_ok(), "no limits");
        drop((second, third));
        assert_eq!(seats.in_vhost("v"), 0);
    }
}
