//! Whole frames that ask for what nobody may have.

use std::time::{Duration, Instant};

use crate::support::raw::{self, Raw, null, performative, truth, uint};
use crate::under_attack;

/// Ranges of four billion must not be walked: hundreds of them would take hours.
const RANGE_MAX: Duration = Duration::from_mins(1);

fn disposition(receiver: bool, first: u32, last: u32, state: u8) -> [Vec<u8>; 5] {
    let state = performative(state, &[]);
    [truth(receiver), uint(first), uint(last), truth(true), state]
}

/// "first ... last" is clamped to what is unsettled. [AMQP 2.7.6]
#[test]
fn a_disposition_of_everything_settles_what_there_is() {
    under_attack(&[], |broker| {
        Raw::declare(broker.port, "range");
        let mut raw = Raw::begun(broker.port);
        raw.attach_sender(0, "range");
        raw.wait_for(raw::FLOW);
        raw.attach_receiver(1, "range");
        let start = Instant::now();
        for round in 0..20 {
            for state in [0x24, 0x25, 0x26, 0x27] {
                for receiver in [true, false] {
                    let everything = disposition(receiver, 0, u32::MAX, state);
                    raw.perform(raw::DISPOSITION, &everything);
                    let backwards = disposition(receiver, u32::MAX, round, state);
                    raw.perform(raw::DISPOSITION, &backwards);
                }
            }
        }
        raw.publish(0, 0, false, b"after the ranges");
        let outcome = raw.wait_for(raw::DISPOSITION);
        assert!(!outcome.says("amqp:"), "{outcome:x?}");
        raw.credit(1, 0xffff_fffb, 10);
        raw.wait_for(raw::TRANSFER);
        assert!(start.elapsed() < RANGE_MAX, "took {:?}", start.elapsed());
    });
}

/// A frame to send on a begun session, and the answer: a performative that names a condition.
type Refusal = (&'static str, Vec<u8>, u8, &'static str);

fn on(channel: u16, code: u8, fields: &[Vec<u8>]) -> Vec<u8> {
    raw::frame(0, channel, &performative(code, fields))
}

fn attach(handle: u32) -> Vec<Vec<u8>> {
    raw::attach(handle, false, "/queues/canary")
}

fn refusals_of_handles() -> Vec<Refusal> {
    let flow = [null(), uint(1), uint(0), uint(1), uint(9), uint(0), uint(1)];
    let mut another = attach(3);
    another[0] = raw::text("another");
    let twice = [on(0, raw::ATTACH, &attach(3)), on(0, raw::ATTACH, &another)];
    let unattached = "amqp:session:unattached-handle";
    vec![
        (
            "a handle above handle-max",
            on(0, raw::ATTACH, &attach(70_000)),
            raw::END,
            "amqp:connection:framing-error",
        ),
        (
            "a handle in use",
            twice.concat(),
            raw::END,
            "amqp:session:handle-in-use",
        ),
        (
            "a transfer on a handle without a link",
            on(0, raw::TRANSFER, &[uint(9), uint(0)]),
            raw::END,
            unattached,
        ),
        (
            "a flow on a handle without a link",
            on(0, raw::FLOW, &flow),
            raw::END,
            unattached,
        ),
    ]
}

fn refusals_of_channels() -> Vec<Refusal> {
    let begin = [null(), uint(0), uint(9), uint(9)];
    vec![
        (
            "a channel above channel-max",
            on(60_000, raw::BEGIN, &begin),
            raw::CLOSE,
            "amqp:",
        ),
        (
            "a begin on a begun channel",
            on(0, raw::BEGIN, &begin),
            raw::CLOSE,
            "amqp:",
        ),
        (
            "an attach on a channel that was never begun",
            on(7, raw::ATTACH, &attach(0)),
            raw::CLOSE,
            "amqp:",
        ),
        (
            "a second open",
            on(0, raw::OPEN, &[raw::text("again")]),
            raw::CLOSE,
            "amqp:",
        ),
    ]
}

/// Abuse of handles and channels is answered in the narrowest scope. [AMQP 2.5.6, 2.6.2, 2.6.3]
#[test]
fn abuse_of_handles_and_channels_is_answered() {
    under_attack(&[], |broker| {
        for (name, frame, code, condition) in
            [refusals_of_handles(), refusals_of_channels()].concat()
        {
            let mut raw = Raw::begun(broker.port);
            raw.send(&frame);
            let answer = raw.wait_for(code);
            assert!(answer.says(condition), "{name}: {answer:x?}");
        }
    });
}

/// As many sessions and links as are allowed, on many connections, and then gone without a word.
#[test]
fn a_flood_of_links_leaves_nothing_behind() {
    under_attack(&[], |broker| {
        for _ in 0..4 {
            let mut raw = Raw::begun(broker.port);
            for channel in 1..64 {
                raw.begin(channel);
            }
            for handle in 0..256 {
                let mut attach = raw::attach(handle, handle % 2 == 0, "/queues/canary");
                attach[0] = raw::text(&format!("flood-{handle}"));
                raw.perform(raw::ATTACH, &attach);
            }
            for _ in 0..256 {
                raw.wait_for(raw::ATTACH);
            }
        }
    });
}
