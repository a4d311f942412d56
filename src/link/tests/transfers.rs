//! Transfers: fragments, limits, settle modes.

use bytes::Bytes;

use super::support::{
    Pair, Raw, Seen, attach_performative, credit_performative, message, names, options, receiver,
    send, sender, transfer,
};
use crate::base::Serial;
use crate::link::{Event, LinkOptions, Unsendable};
use crate::wire::performative::{Performative, SenderSettleMode, Transfer};

fn delivered(raw: &mut Raw) -> Vec<Bytes> {
    let mut events = std::mem::take(&mut raw.events);
    let deliveries = Pair::deliveries(&mut events);
    deliveries
        .into_iter()
        .map(|(_, _, payload)| payload)
        .collect()
}

pub(super) fn transfers(raw: &mut Raw, all: &[(Transfer, &[u8])]) -> Vec<String> {
    for (transfer, payload) in all {
        raw.payload(0, &Performative::Transfer(transfer.clone()), payload);
    }
    names(&raw.take())
}

// [AMQP 2.7.5] "aborted messages SHOULD be discarded by the recipient"
#[test]
fn aborted_deliveries_are_discarded_and_use_up_their_credit() {
    let (mut raw, link) = Raw::sending(3);
    let more = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    let abort = Transfer {
        handle: 0,
        aborted: true,
        ..Transfer::default()
    };
    assert!(transfers(&mut raw, &[(more, b"half"), (abort, b"ignored")]).is_empty());
    assert_eq!(raw.server.credit(link), 2);
    assert_eq!(raw.server.partial_bytes(), 0);
    assert!(
        raw.events
            .iter()
            .any(|event| matches!(event, Event::Aborted { .. }))
    );
    assert!(transfers(&mut raw, &[(transfer(0, 1), b"whole")]).is_empty());
    assert_eq!(delivered(&mut raw), ["whole"]);
}

#[test]
fn fragments_are_joined_whatever_they_repeat() {
    let (mut raw, _) = Raw::sending(3);
    let first = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    let repeats = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    let bare = Transfer {
        handle: 0,
        ..Transfer::default()
    };
    let big = vec![7; 5000];
    transfers(&mut raw, &[(first, b"a"), (repeats, &big), (bare, b"c")]);
    let whole = [b"a", &big[..], b"c"].concat();
    assert_eq!(delivered(&mut raw), [whole]);
}

#[test]
fn deliveries_of_two_links_may_be_interleaved() {
    let (mut raw, _) = Raw::sending(3);
    raw.frame(0, &attach_performative(sender("two"), 1));
    let two = raw.attached();
    raw.server.set_credit(two, 3);
    raw.take();
    let more = |handle, id| Transfer {
        more: true,
        ..transfer(handle, id)
    };
    let last = |handle| Transfer {
        handle,
        ..Transfer::default()
    };
    transfers(
        &mut raw,
        &[
            (more(0, 0), b"a"),
            (more(1, 1), b"x"),
            (last(0), b"b"),
            (last(1), b"y"),
        ],
    );
    assert_eq!(delivered(&mut raw), ["ab", "xy"]);
}

// [AMQP 2.7.5] [AMQP 2.8.7] A tag is the link's affair, an id the session's.
#[test]
fn delivery_tags_must_be_there_and_have_at_most_32_bytes() {
    let tagged = |id, tag_bytes| Transfer {
        tag_bytes,
        ..transfer(0, id)
    };
    for good in [Some(0), Some(1), Some(32)] {
        let (mut raw, _) = Raw::sending(9);
        assert!(transfers(&mut raw, &[(tagged(0, good), b"x")]).is_empty());
        assert_eq!(delivered(&mut raw), ["x"]);
    }
    for bad in [None, Some(33), Some(256)] {
        let (mut raw, _) = Raw::sending(9);
        let seen = transfers(&mut raw, &[(tagged(0, bad), b"x"), (tagged(1, bad), b"y")]);
        assert_eq!(seen, ["detach amqp:invalid-field"], "{bad:?}");
        assert!(delivered(&mut raw).is_empty());
    }
    let (mut raw, _) = Raw::sending(9);
    let more = Transfer {
        more: true,
        ..tagged(0, Some(4))
    };
    let last = Transfer {
        delivery_id: None,
        ..tagged(0, None)
    };
    assert!(transfers(&mut raw, &[(more, b"a"), (last, b"b")]).is_empty());
    assert_eq!(delivered(&mut raw), ["ab"], "no tag in the middle");
}

// [AMQP 2.7.5] "The receiver MUST ignore resumed deliveries that are not in its local unsettled map."
// They were stored again: twice, for a client that had not heard of the first time.
#[test]
fn resumed_delivery_that_nobody_keeps_is_ignored_and_uses_up_its_credit() {
    let (mut raw, link) = Raw::sending(4);
    let resumed = |id, more| Transfer {
        resume: true,
        more,
        ..transfer(0, id)
    };
    let rest = Transfer {
        delivery_id: None,
        tag_bytes: None,
        ..transfer(0, 1)
    };
    let frames = [
        (resumed(0, false), &b"whole"[..]),
        (resumed(1, true), b"in "),
        (rest, b"parts"),
        (transfer(0, 2), b"new"),
    ];
    assert!(transfers(&mut raw, &frames).is_empty());
    let ignored = |event: &&Event| matches!(event, Event::Aborted { .. });
    assert_eq!(raw.events.iter().filter(ignored).count(), 2);
    assert_eq!(delivered(&mut raw), ["new"]);
    assert_eq!(
        (raw.server.credit(link), raw.server.partial_bytes()),
        (1, 0)
    );
}

#[test]
fn delivery_ids_must_be_there_and_rise() {
    let missing = Transfer {
        delivery_id: None,
        ..transfer(0, 0)
    };
    let invalid = ["end amqp:invalid-field"];
    let (mut raw, _) = Raw::sending(9);
    assert_eq!(transfers(&mut raw, &[(missing, b"x")]), invalid);
    let (mut raw, _) = Raw::sending(9);
    assert_eq!(
        transfers(&mut raw, &[(transfer(0, 5), b"x"), (transfer(0, 5), b"y")]),
        invalid
    );
    let (mut raw, _) = Raw::sending(9);
    let more = Transfer {
        more: true,
        ..transfer(0, 5)
    };
    assert_eq!(
        transfers(&mut raw, &[(more, b"x"), (transfer(0, 6), b"y")]),
        invalid
    );
    // Engine rule 3: RFC 1982 arithmetic.
    let (mut raw, _) = Raw::sending(9);
    let wrapping = [(transfer(0, u32::MAX), &b"x"[..]), (transfer(0, 0), b"y")];
    assert!(transfers(&mut raw, &wrapping).is_empty());
}

// [AMQP 2.8.18] "transfer-limit-exceeded: the peer sent more message transfers than currently allowed"
#[test]
fn a_transfer_without_credit_detaches_the_link_only() {
    let (mut raw, _) = Raw::sending(1);
    let all = [
        (transfer(0, 0), &b"x"[..]),
        (transfer(0, 1), b"y"),
        (transfer(0, 2), b"z"),
    ];
    assert_eq!(
        transfers(&mut raw, &all),
        ["detach amqp:link:transfer-limit-exceeded"]
    );
    assert_eq!(delivered(&mut raw), ["x"]);
}

// [AMQP 2.6.7] A sender may have used credit before it reads that it was taken back. An alarm did so,
// and publishers with transfers on their way were detached.
#[test]
fn transfers_under_credit_that_was_taken_back_are_taken() {
    let mut raw = Raw::begun();
    raw.frame(0, &attach_performative(sender("l"), 0));
    let link = raw.attached();
    raw.server.set_credit(link, 2);
    raw.server.set_credit(link, 0);
    raw.take();
    let sent = |id| [(transfer(0, id), &b"x"[..])];
    assert!(transfers(&mut raw, &sent(0)).is_empty());
    assert!(transfers(&mut raw, &sent(1)).is_empty());
    assert_eq!(
        transfers(&mut raw, &sent(2)),
        ["detach amqp:link:transfer-limit-exceeded"],
        "no more than was given"
    );
}

// [AMQP 2.8.17] "window-violation: the peer violated incoming window for the session"
#[test]
fn transfers_beyond_the_window_end_the_session() {
    let (mut raw, _) = Raw::sending(1000);
    for id in 0..400 {
        raw.payload(0, &Performative::Transfer(transfer(0, id)), b"x");
    }
    assert_eq!(
        names(&raw.take()),
        ["flow"],
        "the window is opened again in time"
    );
    for id in 400..801 {
        raw.payload(0, &Performative::Transfer(transfer(0, id)), b"x");
    }
    let end = names(&raw.take());
    assert_eq!(
        end.last().map(String::as_str),
        Some("end amqp:session:window-violation")
    );
}

#[test]
fn messages_beyond_the_maximum_detach_the_link_and_the_largest_passes() {
    for (size, expect) in [
        (1000, &[][..]),
        (1001, &["detach amqp:link:message-size-exceeded"]),
    ] {
        let mut raw = Raw::begun();
        raw.message_bytes_max = Some(1000);
        raw.frame(0, &attach_performative(sender("l"), 0));
        let link = raw.attached();
        raw.server.set_credit(link, 5);
        raw.take();
        let more = Transfer {
            more: true,
            ..transfer(0, 0)
        };
        let last = Transfer {
            handle: 0,
            ..Transfer::default()
        };
        let rest = vec![0; size - 500];
        assert_eq!(
            transfers(&mut raw, &[(more, &[0; 500]), (last, &rest)]),
            expect,
            "{size}"
        );
        assert_eq!(raw.server.partial_bytes(), 0);
    }
}

#[test]
fn a_message_too_large_for_the_receiver_is_given_back() {
    let mut raw = Raw::begun();
    let mut attach = receiver("l");
    attach.max_message_size = Some(10);
    raw.frame(0, &attach_performative(attach, 0));
    let link = raw.attached();
    raw.frame(0, &credit_performative(0, 5));
    let too_large = raw.server.send(link, message(1, &[0; 11]), Bytes::new);
    assert_eq!(too_large, Err(Unsendable::TooLarge { max_bytes: 10 }));
    send(&mut raw.server, link, 2, &[0; 10]);
    assert_eq!(raw.server.credit(link), 4);
}

// [AMQP 2.8.2] "settled: the sender will send all deliveries initially settled"
#[test]
fn settle_modes_are_kept() {
    let cases = [
        (SenderSettleMode::Settled, Some(true), true),
        (SenderSettleMode::Settled, Some(false), false),
        (SenderSettleMode::Unsettled, Some(true), false),
        (SenderSettleMode::Unsettled, None, true),
        (SenderSettleMode::Mixed, Some(true), true),
        (SenderSettleMode::Mixed, Some(false), true),
    ];
    for (mode, settled, fine) in cases {
        let mut raw = Raw::begun();
        let mut attach = sender("l");
        attach.snd_settle_mode = mode.clone();
        raw.frame(0, &attach_performative(attach, 0));
        let link = raw.attached();
        raw.server.set_credit(link, 5);
        raw.take();
        let seen = transfers(
            &mut raw,
            &[(
                Transfer {
                    settled,
                    ..transfer(0, 0)
                },
                b"x",
            )],
        );
        let expect: &[&str] = if fine {
            &[]
        } else {
            &["detach amqp:invalid-field"]
        };
        assert_eq!(seen, expect, "{mode:?} {settled:?}");
    }
}

#[test]
fn a_receiver_that_wants_settled_deliveries_gets_them_without_tag() {
    let mut pair = Pair::open();
    let (session, _) = pair.begin();
    let mut attach = receiver("l");
    attach.snd_settle_mode = SenderSettleMode::Settled;
    let (client, server) = pair.attach(session, attach);
    pair.client.set_credit(client, 5);
    pair.drive();
    send(&mut pair.server, server, 1, b"x");
    pair.drive();
    let got = Pair::deliveries(&mut pair.client_events);
    assert_eq!(got, [(Serial(0), true, Bytes::from_static(b"x"))]);
}

#[test]
fn large_messages_of_two_links_take_turns() {
    let mut pair = Pair::open_with(
        LinkOptions {
            max_frame_size: 4096,
            ..options("client")
        },
        options("server"),
    );
    let (session, _) = pair.begin();
    let mut links = Vec::new();
    for name in ["a", "b"] {
        let (client, server) = pair.attach(session, receiver(name));
        pair.client.set_credit(client, 5);
        pair.drive();
        links.push(server);
    }
    let big = vec![0; 40_000];
    send(&mut pair.server, links[0], 1, &big);
    send(&mut pair.server, links[1], 2, &big);
    let out = super::support::written(&mut pair.server, pair.now);
    let handles: Vec<u32> = super::support::seen(&out)
        .iter()
        .filter_map(|seen| match seen {
            Seen::Frame(_, Performative::Transfer(transfer), _) => Some(transfer.handle),
            _ => None,
        })
        .collect();
    assert_eq!(handles[..6], [0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_slow_socket_costs_no_memory_beyond_what_was_sent() {
    let (mut raw, link) = Raw::receiving(10);
    let body = Bytes::from(vec![0; 8 * 1024 * 1024]);
    let sending = message(1, &body);
    raw.server.send(link, sending, || body.clone()).unwrap();
    let mut out = Vec::new();
    raw.server.poll_transmit(raw.now, &mut out);
    assert!(out.len() < 400 * 1024, "{}", out.len());
    assert!(out.capacity() < 400 * 1024, "made at once, not doubled");
    assert!(raw.server.bytes_pending() > 7 * 1024 * 1024);
}
