//! As many consumers of one queue as a connection may have.

use crate::slow::fill;
use crate::support::raw::{self, Raw, null, truth, uint};
use crate::under_attack;

/// Sessions and links a session that a connection may have by default.
const SESSIONS: u16 = 64;
const LINKS: u32 = 256;

/// How each of them asks for messages.
struct Wish {
    /// What its session has room for.
    window: u32,
    drain: bool,
}

/// Attaches as many consumers as a connection may have, each with a priority of its own and credit for one message.
fn crowd(port: u16, wish: &Wish) -> Raw {
    let mut raw = Raw::begun(port);
    for channel in 0..SESSIONS {
        if channel > 0 {
            raw.begin(channel);
            raw.wait_for(raw::BEGIN);
        }
        let mut frames = Vec::new();
        for handle in 0..LINKS {
            let priority = i32::from(channel) * 256 + i32::try_from(handle).expect("few links");
            let mut attach = raw::attach(handle, true, "/queues/hostile-0");
            attach.extend(std::iter::repeat_n(null(), 13 - attach.len()));
            let priority = [&[0x71][..], &priority.to_be_bytes()].concat();
            attach.push(raw::map(&[raw::symbol("rabbitmq:priority"), priority]));
            let attach = raw::performative(raw::ATTACH, &attach);
            frames.extend(raw::frame(0, channel, &attach));
            let flow = [
                uint(0xffff_fffc),
                uint(wish.window),
                uint(0),
                uint(0x7fff_ffff),
                uint(handle),
                uint(0xffff_fffb),
                uint(1),
                null(),
                truth(wish.drain),
            ];
            let flow = raw::performative(raw::FLOW, &flow);
            frames.extend(raw::frame(0, channel, &flow));
        }
        raw.send(&frames);
        for _ in 0..LINKS {
            raw.wait_for(raw::ATTACH);
        }
    }
    raw
}

/// Publishes messages to the queue of the crowd, one by one.
fn publish(port: u16, count: u32) {
    let mut publisher = Raw::begun(port);
    publisher.attach_sender(0, "hostile-0");
    publisher.wait_for(raw::FLOW);
    for id in 0..count {
        publisher.publish(0, id, false, b"m");
        publisher.wait_for(raw::DISPOSITION);
    }
}

/// Each priority had its place in an array of all, and each that drains and has no room was looked at whenever its
/// queue was served: 0.1 to 0.5 s for every message, for everybody.
#[test]
fn draining_consumers_of_16384_priorities_without_room() {
    let cost = under_attack(&[], |broker| {
        fill(broker.port, 1, "16");
        let wish = Wish {
            window: 0,
            drain: true,
        };
        let raw = crowd(broker.port, &wish);
        publish(broker.port, 300);
        drop(raw);
        publish(broker.port, 10);
    });
    cost.check_counted_within(70);
}

/// The same with room: each message goes to the one whose priority is highest, which then leaves its ring.
#[test]
fn waiting_consumers_of_16384_priorities() {
    let cost = under_attack(&[], |broker| {
        Raw::declare(broker.port, "hostile-0");
        let wish = Wish {
            window: 0x7fff_ffff,
            drain: false,
        };
        let mut raw = crowd(broker.port, &wish);
        publish(broker.port, 300);
        for _ in 0..300 {
            raw.wait_for(raw::TRANSFER);
        }
        drop(raw);
        publish(broker.port, 10);
    });
    cost.check_counted_within(70);
}
