//! A publisher whose line is cut at any time, and whose old connections learn late what became of its
//! messages.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::support::message;
use super::world::{World, kept, transfer, unsettled};
use crate::base::Lsn;
use crate::wire::performative::{DeliveryState, Performative, Transfer};

/// What a random publisher does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    /// The sender settles what it was told.
    Settle,
    /// The line is cut, this many bytes of what was written behind it are lost.
    Cut,
    /// So much becomes durable.
    Durable,
    /// The old connections have their turns.
    Late,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Send),
        2 => Just(Step::Settle),
        2 => Just(Step::Cut),
        1 => Just(Step::Durable),
        1 => Just(Step::Late),
    ]
}

/// A publisher on a line that is cut: what it has not settled, and what it was told.
struct Publisher {
    world: World,
    line: usize,
    next_id: u32,
    next_tag: u32,
    /// Tags that are not settled, with the delivery-id on the present line.
    open: BTreeMap<u32, Option<u32>>,
    told: Vec<u32>,
}

impl Publisher {
    fn new() -> Self {
        let mut world = World::new();
        world.durable = Lsn(0);
        let line = world.line("c");
        world.attach(line, &kept(&[]));
        Self {
            world,
            line,
            next_id: 0,
            next_tag: 0,
            open: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    fn take(&mut self) {
        for (id, state) in self.world.outcomes(self.line) {
            assert_eq!(state, DeliveryState::Accepted);
            let told = self.open.iter().find(|(_, here)| **here == Some(id));
            let (tag, _) = told.expect("it was sent on this line and is not settled");
            if !self.told.contains(tag) {
                self.told.push(*tag);
            }
        }
    }

    fn write(&mut self, tag: u32, resume: bool) {
        let id = self.next_id;
        self.next_id += 1;
        self.open.insert(tag, Some(id));
        let frame = Transfer {
            resume,
            ..transfer(id, &tag.to_be_bytes())
        };
        let payload = if resume {
            Vec::new()
        } else {
            message(&tag.to_be_bytes())
        };
        let frame = Performative::Transfer(frame);
        self.world.write(self.line, 0, &frame, &payload);
    }

    fn cut(&mut self, reads: bool) {
        let (now, line) = (self.world.scene.now, &mut self.world.lines[self.line]);
        if reads {
            line.gateway.handle_bytes(now, &mut line.input);
        }
        self.world.cut(self.line);
        self.world.lines[self.line].is_stalled = true;
        self.line = self.world.line("c");
        self.next_id = 0;
        let tags: Vec<[u8; 4]> = self.open.keys().map(|tag| tag.to_be_bytes()).collect();
        let tags: Vec<&[u8]> = tags.iter().map(|tag| &tag[..]).collect();
        let answer = self.world.attach(self.line, &kept(&tags));
        let theirs = unsettled(&answer);
        for tag in self.open.keys().copied().collect::<Vec<_>>() {
            let is_theirs = theirs.contains_key(&tag.to_be_bytes()[..]);
            self.write(tag, is_theirs);
        }
        self.world.drive();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send if self.open.len() < 40 => {
                let tag = self.next_tag;
                self.next_tag += 1;
                self.write(tag, false);
                if tag.is_multiple_of(3) {
                    self.world.drive();
                }
            }
            Step::Send | Step::Settle => {
                self.world.drive();
                self.take();
                for tag in std::mem::take(&mut self.told) {
                    if let Some(Some(id)) = self.open.remove(&tag) {
                        self.world.settle(self.line, id);
                    }
                }
            }
            Step::Cut => {
                self.take();
                self.told.clear(); // what it was told it forgets again
                self.cut(self.next_tag.is_multiple_of(2));
            }
            Step::Durable => self.world.durable = Lsn(self.world.durable.0 + 3),
            Step::Late => {
                for line in &mut self.world.lines {
                    line.is_stalled = false;
                }
                self.world.drive();
            }
        }
    }

    /// Nothing is in the way any more: all is told and settled.
    fn finish(&mut self) {
        self.world.durable = Lsn(u64::MAX);
        self.step(Step::Late);
        for _ in 0..3 {
            self.step(Step::Settle);
        }
        assert_eq!(self.open, BTreeMap::new(), "all was told");
        assert_eq!(self.world.ready(), u64::from(self.next_tag), "once each");
        assert_eq!(self.world.detached(self.line), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn publisher_whose_line_is_cut_at_any_time_publishes_exactly_once(steps in prop::collection::vec(step(), 1..80)) {
        let mut publisher = Publisher::new();
        for step in steps {
            publisher.step(step);
        }
        publisher.finish();
    }
}
