//! Sessions and links: begin, attach, detach, end.

use rstest::rstest;

use super::support::{
    Pair, Raw, Seen, attach_performative, begin_performative, condition, credit_performative,
    names, open_performative, options, receiver, send, sender, transfer,
};
use crate::base::{Serial, limits};
use crate::link::output::write_frame;
use crate::link::{Event, Fates, LinkOptions};
use crate::wire::frame::{FrameKind, Protocol};
use crate::wire::performative::{
    AmqpError, Attach, AttachAnswer, Detach, End, Handle, MaxFrameSize, Performative,
    ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype, Value,
    encode, error, fields,
};

fn detach_performative(handle: u32, closed: bool) -> Performative {
    let handle = Handle(handle);
    Performative::Detach(Box::new(Detach {
        handle,
        closed,
        error: None,
    }))
}

fn end_performative() -> Performative {
    Performative::End(Box::new(End { error: None }))
}

fn attach_of(seen: &[Seen]) -> &Attach {
    let attach = seen.iter().find_map(|seen| match seen {
        Seen::Frame(_, Performative::Attach(attach, _), _) => Some(attach),
        _ => None,
    });
    attach.unwrap()
}

// [AMQP 2.5.1] "the partner responds with a begin whose remote-channel is the channel it answers"
#[test]
fn begin_is_answered_close_to_the_wrap() {
    let mut raw = Raw::open();
    raw.frame(5, &begin_performative());
    let seen = raw.take();
    let [Seen::Frame(5, Performative::Begin(begin), _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(begin.remote_channel, Some(5));
    assert_eq!(begin.next_outgoing_id, 0xffff_fffc);
    assert_eq!((begin.incoming_window, begin.handle_max.0), (400, 255));
}

#[test]
fn channels_are_used_once_at_a_time_and_again_after_the_end() {
    let mut raw = Raw::begun();
    for _ in 0..600 {
        raw.frame(0, &end_performative());
        raw.frame(0, &begin_performative());
        assert_eq!(names(&raw.take()), ["end", "begin"]);
    }
    raw.frame(0, &begin_performative());
    assert_eq!(names(&raw.take()), ["close amqp:illegal-state"]);
    let mut raw = Raw::open();
    raw.frame(3, &attach_performative(sender("l"), 0));
    assert_eq!(names(&raw.take()), ["close amqp:illegal-state"]);
}

// [AMQP 2.5.7] "after sending the end frame ... MUST discard any incoming frames"
#[test]
fn after_our_end_the_session_discards_until_the_peers_end() {
    let (mut raw, link) = Raw::sending(10);
    let session = crate::link::SessionHandle {
        channel: 0,
        generation: 1,
    };
    raw.server
        .end(session, Some(error(AmqpError::InternalError, "enough")));
    assert_eq!(names(&raw.take()), ["end amqp:internal-error"]);
    raw.payload(0, &Performative::Transfer(transfer(0, 0)), b"x");
    raw.frame(0, &attach_performative(sender("other"), 1));
    raw.server.set_credit(link, 5);
    assert!(raw.take().is_empty());
    raw.frame(0, &end_performative());
    raw.frame(0, &begin_performative());
    assert_eq!(names(&raw.take()), ["begin"]);
}

#[test]
fn a_sender_is_answered_as_recorded() {
    let mut raw = Raw::begun();
    let mut asked = sender("l");
    asked.initial_delivery_count = Some(7);
    raw.frame(0, &attach_performative(asked, 0));
    let link = raw.attached();
    raw.server.set_credit(link, 170);
    let seen = raw.take();
    assert_eq!(names(&seen), ["attach", "flow"]);
    let attach = attach_of(&seen);
    assert_eq!(attach.role, Role::Receiver);
    assert_eq!(attach.initial_delivery_count, None);
    let Seen::Frame(_, Performative::Flow(flow), _) = &seen[1] else {
        panic!("{seen:?}")
    };
    let link = flow.link.as_ref().unwrap();
    assert_eq!(
        (link.delivery_count, link.link_credit),
        (Some(Serial(7)), Some(170))
    );
    assert_eq!((link.available, link.drain), (None, false));
    assert_eq!(
        (flow.next_incoming_id, flow.incoming_window),
        (Some(Serial(0)), 400)
    );
}

#[test]
fn a_receiver_is_answered_as_recorded() {
    let cases = [
        (SenderSettleMode::Mixed, SenderSettleMode::Unsettled),
        (SenderSettleMode::Unsettled, SenderSettleMode::Unsettled),
        (SenderSettleMode::Settled, SenderSettleMode::Settled),
    ];
    for (asked, answered) in cases {
        let mut raw = Raw::begun();
        let mut attach = receiver("l");
        attach.snd_settle_mode = asked;
        attach.max_message_size = Some(10);
        raw.frame(0, &attach_performative(attach, 0));
        let seen = raw.take();
        let attach = attach_of(&seen);
        assert_eq!(attach.role, Role::Sender);
        assert_eq!(attach.snd_settle_mode, answered);
        assert_eq!(attach.initial_delivery_count, Some(0xffff_fffb));
        assert_eq!(attach.max_message_size, Some(10));
        assert_eq!(attach.target, None);
        let outcomes = attach.source.as_ref().unwrap().outcomes.as_ref().unwrap();
        assert_eq!(outcomes.len(), 4);
    }
}

// Engine rule 7: a link is keyed by name and role. [AMQP 2.6.1]
#[test]
fn a_link_is_keyed_by_name_and_role() {
    let mut raw = Raw::begun();
    raw.frame(0, &attach_performative(sender("mgmt"), 0));
    raw.frame(0, &attach_performative(receiver("mgmt"), 1));
    assert_eq!(names(&raw.take()), ["attach", "attach"]);
}

// [AMQP 2.6.1] "the link endpoint that was attached before is detached with amqp:link:stolen"
#[test]
fn a_link_attached_again_is_stolen_from_its_old_handle() {
    let mut raw = Raw::begun();
    raw.frame(0, &attach_performative(sender("l"), 0));
    let old = raw.attached();
    raw.take();
    raw.frame(0, &attach_performative(sender("l"), 1));
    assert_eq!(names(&raw.take()), ["detach amqp:link:stolen", "attach"]);
    let lost = raw.events.iter().any(|event| match event {
        Event::Detached { link, .. } => *link == old,
        _ => false,
    });
    assert!(lost);
    raw.frame(0, &detach_performative(0, true));
    assert!(raw.take().is_empty());
}

/// A session of a peer whose frames are too small for the name of its link, after it sent these in one read.
fn with_frames_too_small_for_a_name(performatives: &[Performative]) -> Raw {
    let mut open = open_performative();
    if let Performative::Open(open) = &mut open {
        open.max_frame_size = MaxFrameSize(512);
    }
    let mut raw = Raw::new(LinkOptions {
        allow_plain_amqp: true,
        ..options("server")
    });
    raw.bytes(&Protocol::Amqp.header());
    raw.frame(0, &open);
    let mut raw = raw.begin();
    let mut bytes = Vec::new();
    for performative in performatives {
        write_frame(&mut bytes, FrameKind::Amqp, 0, |out| {
            encode(out, performative);
        });
    }
    raw.events.clear();
    raw.input.extend_from_slice(&bytes);
    raw.server.handle_bytes(raw.now, &mut raw.input);
    raw.events
        .extend(std::iter::from_fn(|| raw.server.poll_event()));
    raw
}

/// The link behind the stolen one was told as attached in a session that had ended. [AMQP 2.6.1]
#[test]
fn a_link_whose_session_ends_with_the_one_it_steals_is_not_told_of() {
    let name = "n".repeat(600);
    let attaches = [0, 1].map(|handle| attach_performative(sender(&name), handle));
    let mut raw = with_frames_too_small_for_a_name(&attaches);
    let ended = |event: &Event| matches!(event, Event::SessionEnded { .. });
    let ended = raw.events.iter().position(ended).unwrap();
    let attached = |event: &Event| matches!(event, Event::Attached { .. });
    assert!(
        !raw.events[ended..].iter().any(attached),
        "{:?}",
        raw.events
    );
    assert_eq!(names(&raw.take()), ["end amqp:frame-size-too-small"]);
}

/// It got a detach of a handle that nobody had attached. [AMQP 2.6.3]
#[test]
fn a_detach_before_an_answer_that_does_not_fit_ends_the_session() {
    let attach = attach_performative(sender(&"n".repeat(600)), 0);
    let mut raw = with_frames_too_small_for_a_name(&[attach, detach_performative(0, true)]);
    assert_eq!(names(&raw.take()), ["end amqp:frame-size-too-small"]);
}

// RabbitMQ ignores them, too. fe2o3-amqp 0.18 answers a refused attach twice.
#[rstest]
#[case::never_attached(9)]
#[case::detached_before(0)]
fn a_detach_too_many_is_ignored(#[case] handle: u32) {
    let (mut raw, _) = Raw::sending(10);
    raw.frame(0, &detach_performative(0, true));
    assert_eq!(names(&raw.take()), ["detach"]);
    raw.frame(0, &detach_performative(handle, true));
    assert!(raw.take().is_empty());
    raw.frame(0, &attach_performative(sender("next"), 0));
    assert_eq!(names(&raw.take()), ["attach"]);
}

// [AMQP 2.8.17] "handle-in-use: an attach was received using a handle that is already in use"
#[test]
fn errors_with_handles_end_the_session() {
    let (mut raw, _) = Raw::sending(10);
    raw.frame(0, &attach_performative(sender("other"), 0));
    assert_eq!(names(&raw.take()), ["end amqp:session:handle-in-use"]);
    let (mut raw, _) = Raw::sending(10);
    raw.payload(0, &Performative::Transfer(transfer(9, 0)), b"x");
    assert_eq!(names(&raw.take()), ["end amqp:session:unattached-handle"]);
    let (mut raw, _) = Raw::sending(10);
    raw.frame(0, &credit_performative(9, 1));
    assert_eq!(names(&raw.take()), ["end amqp:session:unattached-handle"]);
    // The connection lives on.
    raw.frame(1, &begin_performative());
    assert_eq!(names(&raw.take()), ["begin"]);
}

// [AMQP 2.6.3] "the attach is answered with a null terminus, and a detach follows"
#[test]
fn a_refused_link_is_ignored_until_its_detach_and_the_session_lives_on() {
    let mut pair = Pair::open();
    pair.accept = None;
    let (session, _) = pair.begin();
    let (client, server) = pair.attach(session, sender("l"));
    pair.server
        .refuse_attach(server, error(AmqpError::NotFound, "no queue q"));
    pair.drive();
    let answered = pair.take_client(|event| matches!(event, Event::AttachAnswered { .. }));
    let Some(Event::AttachAnswered { attach, .. }) = answered else {
        panic!("{answered:?}")
    };
    assert_eq!(attach.target, None);
    let lost = pair.take_client(|event| matches!(event, Event::Detached { .. }));
    let Some(Event::Detached {
        link,
        error: Some(error),
        ..
    }) = lost
    else {
        panic!("{lost:?}")
    };
    assert_eq!(
        (link, condition(&error).as_str()),
        (client, "amqp:not-found")
    );
    assert!(
        pair.take_client(|event| matches!(event, Event::SessionEnded { .. }))
            .is_none()
    );

    // A peer that does not wait for the answer.
    let mut raw = Raw::begun();
    let mut attach = sender("l");
    attach.initial_delivery_count = None;
    raw.frame(0, &attach_performative(attach, 0));
    assert_eq!(names(&raw.take()), ["attach", "detach amqp:invalid-field"]);
    raw.payload(0, &Performative::Transfer(transfer(0, 0)), b"x");
    raw.frame(0, &credit_performative(0, 5));
    assert!(raw.take().is_empty());
    raw.frame(0, &detach_performative(0, true));
    raw.frame(0, &attach_performative(sender("l"), 0));
    assert_eq!(names(&raw.take()), ["attach"]);
}

#[test]
fn a_flow_that_comes_before_the_answer_is_kept() {
    let mut raw = Raw::begun();
    // No answer is given: the events are left in the engine.
    let mut out = Vec::new();
    for performative in [
        attach_performative(receiver("l"), 0),
        credit_performative(0, 7),
    ] {
        write_frame(&mut out, FrameKind::Amqp, 0, |out| {
            encode(out, &performative);
        });
    }
    raw.input.extend_from_slice(&out);
    raw.server.handle_bytes(raw.now, &mut raw.input);
    let events: Vec<_> = std::iter::from_fn(|| raw.server.poll_event()).collect();
    let [Event::Attached { link, .. }, ..] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::LinkFlow { .. }))
    );
    raw.server.accept_attach(*link, AttachAnswer::default());
    let flow = std::iter::from_fn(|| raw.server.poll_event()).next();
    assert!(
        matches!(
            flow,
            Some(Event::LinkFlow {
                limit: 7,
                drain: false,
                ..
            })
        ),
        "{flow:?}"
    );
}

#[test]
fn detach_repeats_closed_and_tells_what_became_of_deliveries() {
    for closed in [true, false] {
        let (mut raw, link) = Raw::receiving(10);
        send(&mut raw.server, link, 1, b"one");
        send(&mut raw.server, link, 2, b"two");
        raw.take();
        raw.frame(0, &detach_performative(0, closed));
        let seen = raw.take();
        let [Seen::Frame(_, Performative::Detach(detach), _)] = &seen[..] else {
            panic!("{seen:?}")
        };
        assert_eq!(detach.closed, closed);
        let lost = raw.events.iter().find_map(|event| match event {
            Event::Detached { fates, .. } => Some(fates.clone()),
            _ => None,
        });
        let expect = Fates {
            unsettled: vec![1, 2],
            unsent: vec![],
        };
        assert_eq!(lost, Some(expect));
        assert!(raw.server.credit(link) == 0);
    }
}

#[test]
fn messages_that_were_not_begun_are_reported_as_unsent() {
    let (mut raw, link) = Raw::receiving(10);
    let big = vec![0; 300_000];
    send(&mut raw.server, link, 1, &big);
    send(&mut raw.server, link, 2, b"behind it");
    assert_eq!(raw.server.unsent(link).collect::<Vec<_>>(), [1, 2]);
    // One turn takes about 256 KiB: the first is begun, the second waits.
    let mut out = Vec::new();
    raw.server.poll_transmit(raw.now, &mut out);
    assert_eq!(raw.server.unsent(link).collect::<Vec<_>>(), [2]);
    raw.server
        .detach(link, true, Some(error(AmqpError::ResourceDeleted, "gone")));
    let event = std::iter::from_fn(|| raw.server.poll_event()).last();
    let Some(Event::Detached { fates, .. }) = event else {
        panic!("{event:?}")
    };
    assert_eq!(
        fates,
        Fates {
            unsettled: vec![1],
            unsent: vec![2]
        }
    );
    assert_eq!(names(&raw.take()), ["detach amqp:resource-deleted"]);
    assert_eq!(raw.server.bytes_pending(), 0);
}

#[test]
fn stale_handles_find_nothing() {
    let (mut raw, link) = Raw::sending(10);
    raw.frame(0, &detach_performative(0, true));
    raw.frame(0, &attach_performative(sender("new"), 0));
    raw.take();
    raw.server.set_credit(link, 99);
    raw.server.detach(link, true, None);
    raw.server.settle_received(
        link,
        Serial(0),
        &crate::wire::performative::DeliveryState::Accepted,
    );
    assert!(raw.take().is_empty());
    assert_eq!(raw.server.credit(link), 0);
}

#[test]
fn a_peer_that_takes_few_handles_gets_no_higher_ones() {
    let mut raw = Raw::open();
    let Performative::Begin(mut begin) = begin_performative() else {
        panic!("a begin")
    };
    begin.handle_max = Handle(0);
    raw.frame(0, &Performative::Begin(begin));
    raw.frame(0, &attach_performative(sender("a"), 200));
    let seen = raw.take();
    assert_eq!(attach_of(&seen).handle.0, 0);
    raw.frame(0, &attach_performative(sender("b"), 3));
    assert_eq!(names(&raw.take()), ["end amqp:connection:framing-error"]);
}

#[test]
fn errors_are_cut_to_the_peers_frame_size() {
    let (mut raw, link) = Raw::sending(1);
    raw.server.detach(
        link,
        true,
        Some(error(AmqpError::InternalError, "x".repeat(70_000))),
    );
    let seen = raw.take();
    assert_eq!(names(&seen), ["detach amqp:internal-error"]);
    let Seen::Frame(_, Performative::Detach(detach), _) = &seen[0] else {
        panic!("{seen:?}")
    };
    assert_eq!(detach.error.as_ref().unwrap().description, None);
}

#[test]
fn second_settle_mode_is_agreed() {
    let mut raw = Raw::begun();
    let mut attach = receiver("l");
    attach.rcv_settle_mode = ReceiverSettleMode::Second;
    raw.frame(0, &attach_performative(attach, 0));
    assert_eq!(
        attach_of(&raw.take()).rcv_settle_mode,
        ReceiverSettleMode::Second
    );
}

// 1,500 links with names as long as a frame took 315 MB.
#[test]
fn name_of_a_link_has_at_most_1_kib_and_the_error_says_so() {
    for (bytes, expect) in [(1024, None), (1025, Some("end amqp:invalid-field"))] {
        let mut raw = Raw::begun();
        raw.frame(0, &attach_performative(sender(&"n".repeat(bytes)), 0));
        let ended = raw.take();
        let told = names(&ended)
            .into_iter()
            .find(|name| name.starts_with("end"));
        assert_eq!(told.as_deref(), expect, "{bytes} bytes");
        assert!(expect.is_none() || format!("{ended:?}").contains("1024"));
    }
}

#[test]
fn termini_and_properties_of_a_link_have_bounds_and_the_error_says_so() {
    let long = |bytes: usize| "x".repeat(bytes);
    let source = |bytes| Attach {
        source: Some(Box::new(Source {
            address: Some(long(bytes)),
            ..Source::default()
        })),
        ..receiver("l")
    };
    let target = |bytes| Attach {
        target: Some(Box::new(TargetArchetype::Target(Target {
            address: Some(long(bytes)),
            ..Target::default()
        }))),
        ..sender("l")
    };
    let properties = |bytes| Attach {
        properties: Some(fields([("x", Value::String(long(bytes)))])),
        ..sender("l")
    };
    for (attach, bound) in [
        (source(limits::TERMINUS_BYTES_MAX), "32768"),
        (target(limits::TERMINUS_BYTES_MAX), "32768"),
        (properties(limits::LINK_PROPERTIES_BYTES_MAX), "4096"),
    ] {
        let mut raw = Raw::begun();
        raw.frame(0, &attach_performative(attach, 0));
        let seen = raw.take();
        assert_eq!(names(&seen), ["attach", "detach amqp:invalid-field"]);
        assert!(format!("{seen:?}").contains(bound), "{seen:?}");
    }
    for attach in [source(30_000), target(30_000), properties(4_000)] {
        let mut raw = Raw::begun();
        raw.frame(0, &attach_performative(attach, 0));
        assert_eq!(names(&raw.take()), ["attach"]);
    }
}

#[test]
fn long_capabilities_of_an_attach_are_not_read() {
    let mut raw = Raw::begun();
    raw.events.clear();
    let capability = Symbol::from("x".repeat(100));
    let attach = Attach {
        offered_capabilities: Some(vec![capability; 100]),
        ..sender("l")
    };
    raw.frame(0, &attach_performative(attach, 0));
    let read = raw.events.iter().find_map(|event| match event {
        Event::Attached { attach, .. } => Some(attach),
        _ => None,
    });
    let read = read.unwrap();
    assert_eq!(read.offered_capabilities, None);
    assert_eq!(names(&raw.take()), ["attach"]);
}

/// They closed the connection, with all its other sessions: clients send them when links and their session
/// end at once.
#[test]
fn frames_behind_the_end_of_their_session_are_ignored() {
    let (mut raw, _) = Raw::sending(5);
    raw.frame(0, &end_performative());
    assert_eq!(names(&raw.take()).last().map(String::as_str), Some("end"));
    raw.frame(0, &detach_performative(0, true));
    raw.frame(0, &credit_performative(0, 5));
    raw.payload(0, &Performative::Transfer(transfer(0, 0)), b"x");
    raw.frame(0, &end_performative());
    assert!(raw.take().is_empty());
    raw.frame(0, &begin_performative());
    assert_eq!(names(&raw.take()), ["begin"]);
}

/// It ended the session: the peer had freed its handle, and the engine's was in use until the owner's answer.
#[test]
fn an_attach_waits_for_the_handle_of_a_link_whose_end_is_not_answered() {
    let mut raw = Raw::open();
    let Performative::Begin(mut begin) = begin_performative() else {
        panic!("a begin")
    };
    begin.handle_max = Handle(0);
    raw.frame(0, &Performative::Begin(begin));
    raw.frame(0, &attach_performative(receiver("first"), 0));
    let first = raw.attached();
    raw.server.hold_close(first);
    raw.take();
    raw.frame(0, &detach_performative(0, true));
    raw.frame(0, &attach_performative(receiver("second"), 0));
    raw.frame(0, &credit_performative(0, 5));
    assert!(raw.take().is_empty());
    assert!(!raw.server.wants_input(), "nothing more is read meanwhile");
    raw.server.answer_close(first);
    assert!(raw.server.wants_input());
    raw.bytes(&[]);
    let seen = raw.take();
    assert_eq!(names(&seen), ["detach", "attach"]);
    assert_eq!(raw.server.credit(raw.attached()), 5);
}
