//! The consumers of one queue, and whose turn it is.

use std::collections::VecDeque;

use crate::base::ConsumerId;
use crate::base::limits::TURN_MESSAGES_MAX;

/// Consumers in the order they came, and rings of those that have credit, highest priority first.
#[derive(Debug, Default)]
pub struct Consumers {
    all: Vec<Member>,
    /// How many ever came.
    arrivals: u64,
    rings: Vec<Ring>,
    /// One consumer refused company.
    exclusive: bool,
    /// Only the active one is fed.
    single_active: bool,
    active: Option<ConsumerId>,
    draining: Vec<ConsumerId>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    id: ConsumerId,
    priority: i32,
    /// Its number among all that ever came, from 1 on.
    arrival: u64,
}

#[derive(Debug)]
struct Ring {
    priority: i32,
    waiting: VecDeque<ConsumerId>,
    /// Turns left in this round, that of the first included.
    round: usize,
    /// Messages in each turn of this round.
    share: u32,
    /// Messages left in the turn of the first.
    turn: u32,
}

impl Ring {
    fn end_turn(&mut self) {
        self.round = self.round.saturating_sub(1);
        self.turn = self.share;
    }
}

impl Consumers {
    /// None yet.
    pub fn new(single_active: bool) -> Self {
        Self {
            single_active,
            ..Self::default()
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one refused company.
    pub const fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, in the order they came.
    pub fn ids(&self) -> impl Iterator<Item = ConsumerId> {
        self.all.iter().map(|member| member.id)
    }

    /// Those that came behind a number of arrival, with theirs: for listings in pieces.
    pub fn ids_after(&self, arrival: u64) -> impl Iterator<Item = (u64, ConsumerId)> {
        let known = self.all.partition_point(|member| member.arrival <= arrival);
        let behind = self.all.get(known..).unwrap_or_default().iter();
        behind.map(|member| (member.arrival, member.id))
    }

    /// Whether another consumer may come.
    pub fn admits(&self, exclusive: bool) -> bool {
        !self.exclusive && (!exclusive || self.all.is_empty())
    }

    /// Adds one.
    pub fn add(&mut self, id: ConsumerId, priority: i32, exclusive: bool) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.all.push(Member {
            id,
            priority,
            arrival,
        });
        self.exclusive |= exclusive;
        if self.single_active && self.active.is_none() {
            self.active = Some(id);
        }
    }

    /// Removes one. With a single active consumer the next one takes over: the highest priority,
    /// the longest there.
    pub fn remove(&mut self, id: ConsumerId) -> Option<ConsumerId> {
        self.all.retain(|member| member.id != id);
        self.park(id);
        self.draining.retain(|other| *other != id);
        if self.all.is_empty() {
            self.exclusive = false;
        }
        if self.active != Some(id) {
            return None;
        }
        let mut next: Option<Member> = None;
        for member in &self.all {
            if next.is_none_or(|best| member.priority > best.priority) {
                next = Some(*member);
            }
        }
        self.active = next.map(|member| member.id);
        self.active
    }

    /// Whether this one is fed at all.
    pub fn is_fed(&self, id: ConsumerId) -> bool {
        !self.single_active || self.active == Some(id)
    }

    /// Puts one with credit at the end of its ring.
    pub fn wait(&mut self, id: ConsumerId, priority: i32) {
        let at = self.rings.partition_point(|ring| ring.priority > priority);
        if self
            .rings
            .get(at)
            .is_none_or(|ring| ring.priority != priority)
        {
            self.rings.insert(
                at,
                Ring {
                    priority,
                    waiting: VecDeque::new(),
                    round: 0,
                    share: 0,
                    turn: 0,
                },
            );
        }
        if let Some(ring) = self.rings.get_mut(at) {
            ring.waiting.push_back(id);
        }
    }

    /// Takes one out of its ring: it has no credit or no room.
    pub fn park(&mut self, id: ConsumerId) {
        for ring in &mut self.rings {
            if ring.waiting.front() == Some(&id) {
                ring.waiting.pop_front();
                ring.end_turn();
            } else {
                ring.waiting.retain(|other| *other != id);
            }
        }
        self.rings.retain(|ring| !ring.waiting.is_empty());
    }

    /// Whose turn it is.
    pub fn front(&self) -> Option<ConsumerId> {
        self.rings.first()?.waiting.front().copied()
    }

    /// The first got a message while `ready` (this one included) were there: its turn goes on, or
    /// passes to the next. All turns of a round are equally long, and with the last message the
    /// round ends, so that what comes one by one is shared evenly too.
    pub fn served(&mut self, ready: u64) {
        let Some(ring) = self.rings.first_mut() else {
            return;
        };
        if ring.round == 0 {
            ring.round = ring.waiting.len();
            let share = match ring.round {
                0 | 1 => ready,
                consumers => ready / consumers as u64,
            };
            let share = u32::try_from(share).unwrap_or(TURN_MESSAGES_MAX);
            ring.share = share.clamp(1, TURN_MESSAGES_MAX);
            ring.turn = ring.share;
        }
        ring.turn = ring.turn.saturating_sub(1);
        if ring.turn == 0 || ready == 1 {
            if ring.waiting.len() > 1 {
                ring.waiting.rotate_left(1);
            }
            ring.end_turn();
        }
        if ready == 1 {
            ring.round = 0;
        }
    }

    /// Notes that one wants to hear when all was delivered.
    pub fn drain(&mut self, id: ConsumerId) {
        if !self.draining.contains(&id) {
            self.draining.push(id);
        }
    }

    /// Those that want to hear it, taken out.
    pub fn take_draining(&mut self) -> Vec<ConsumerId> {
        std::mem::take(&mut self.draining)
    }

    /// Whether anybody wants to hear it.
    pub fn has_draining(&self) -> bool {
        !self.draining.is_empty()
    }
}
