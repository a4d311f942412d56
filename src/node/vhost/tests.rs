use std::task::{Context, Waker};

use super::*;
use crate::base::{ConsumerId, Timestamp, invariant};
use crate::broker::{CoreOptions, Effect};
use crate::node::clock::ManualClock;
use crate::node::events::Events;
use crate::node::pager::SpillTarget;
use crate::store::sim_disk::SimDisk;

fn vhost() -> (Vhost<SimDisk>, Arc<Signal>) {
    let failure = Arc::new(Signal::default());
    let notify = Arc::clone(&failure);
    let mut core = Core::new(CoreOptions::new(Name::from("v"), Seed(1)));
    let events = Events::default().ring(&mut core);
    let pager = Arc::new(Pager::new(SpillTarget::Nowhere, 0));
    (
        Vhost::new(
            core,
            (None, pager, events),
            (Seed(1), Arc::new(ManualClock::default()), notify),
        ),
        failure,
    )
}

#[test]
fn panic_in_the_core_fails_the_vhost_and_wakes_everyone() {
    let (vhost, failure) = vhost();
    let outbox = Arc::new(Outbox::default());
    vhost.enter(ConnectionId(7), Arc::clone(&outbox));
    let result = vhost.hold(None, |_, _, _, _| assert_eq!(Timestamp(0), Timestamp(1)));
    assert_eq!(result, Err(Failed));
    assert!(vhost.failed());
    assert_eq!(vhost.tick(), Err(Failed), "nobody gets at the core again");
    let mut context = Context::from_waker(Waker::noop());
    assert!(outbox.poll_ready(&mut context).is_ready());
    assert!(failure.poll_woken(&mut context).is_ready());
}

/// Going on could lose or double a message: nobody is told what the batch did, and nobody gets at the
/// core again. Release builds do the same.
#[test]
fn broken_invariant_that_could_lose_a_message_fails_the_vhost() {
    let (vhost, failure) = vhost();
    let outbox = Arc::new(Outbox::default());
    vhost.enter(ConnectionId(7), Arc::clone(&outbox));
    let before = invariant::broken_total();
    let result: Result<(), _> = vhost.hold(None, |_, _, effects, _| {
        let limit = 0;
        let consumer = ConsumerId(1);
        let drained = Effect::Drained {
            consumer,
            limit,
            available: 0,
        };
        effects.outgoing.push((ConnectionId(7), drained));
        invariant!(fatal, "a message is in one place");
    });
    assert_eq!(result, Err(Failed));
    assert!(invariant::broken_total() > before, "counted");
    assert!(vhost.failed() && vhost.stats().failed);
    assert_eq!(vhost.tick(), Err(Failed));
    let mut context = Context::from_waker(Waker::noop());
    assert!(failure.poll_woken(&mut context).is_ready());
    outbox.drain(|effects| assert!(effects.is_empty(), "{effects:?}"));
}

/// The checkpoint's thread has nobody who catches its panics: it ended, and the vhost went on without
/// checkpoints.
#[test]
fn panic_while_a_checkpoint_is_copied_fails_the_vhost() {
    let (vhost, _) = vhost();
    let state = vhost.lock().unwrap();
    let copy = |_: &mut VhostState| invariant!(fatal, "a copy has all messages");
    let result: Result<(_, ()), _> = vhost.caught(state, copy);
    assert_eq!(result.err(), Some(Failed));
    assert!(vhost.failed());
}

#[test]
fn effects_reach_each_connection_in_order_and_wake_it_once() {
    let (vhost, _) = vhost();
    let outbox = Arc::new(Outbox::default());
    vhost.enter(ConnectionId(7), Arc::clone(&outbox));
    let mut context = Context::from_waker(Waker::noop());
    assert!(outbox.poll_ready(&mut context).is_pending());
    let drained = |consumer| Effect::Drained {
        consumer: ConsumerId(consumer),
        limit: 0,
        available: 0,
    };
    for batch in [[1, 2], [3, 4]] {
        let result = vhost.hold(None, |_, _, effects, _| {
            for consumer in batch {
                effects.outgoing.push((ConnectionId(7), drained(consumer)));
                effects.outgoing.push((ConnectionId(8), drained(consumer)));
            }
        });
        assert_eq!(result, Ok(()));
    }
    let mut seen = Vec::new();
    outbox.drain(|effects| {
        seen.extend(effects.drain(..).map(|effect| match effect {
            Effect::Drained { consumer, .. } => consumer.0,
            other => panic!("{other:?}"),
        }));
    });
    assert_eq!(seen, [1, 2, 3, 4]);
}
