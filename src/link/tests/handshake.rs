//! Headers, SASL, open, close, time.

use super::support::{
    Pair, Raw, Seen, at, begin_performative, condition, names, open_performative, options,
};
use crate::link::{Event, LinkOptions};
use crate::wire::frame::Protocol;
use crate::wire::performative::{
    AmqpError, ChannelMax, Close, MaxFrameSize, Open, Performative, Symbol, Value, error, fields,
};
use crate::wire::sasl::{SaslCode, SaslFrame};

fn sasl_init(mechanism: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let init = SaslFrame::Init {
        mechanism: mechanism.to_owned(),
        response: None,
        hostname: None,
    };
    super::super::output::write_frame(&mut out, crate::wire::frame::FrameKind::Sasl, 0, |out| {
        init.encode(out);
    });
    out
}

fn outcome(code: SaslCode) -> SaslFrame {
    SaslFrame::Outcome {
        code,
        additional_data: None,
    }
}

fn opened_with(change: impl FnOnce(&mut Open)) -> (Raw, Vec<String>) {
    let (raw, seen) = opened_and_seen(change);
    let seen = names(&seen);
    (raw, seen)
}

fn opened_and_seen(change: impl FnOnce(&mut Open)) -> (Raw, Vec<Seen>) {
    let mut raw = Raw::new(LinkOptions {
        allow_plain_amqp: true,
        ..options("server")
    });
    raw.bytes(&Protocol::Amqp.header());
    raw.take();
    let Performative::Open(mut open) = open_performative() else {
        panic!("an open")
    };
    change(&mut open);
    raw.frame(0, &Performative::Open(open));
    let seen = raw.take();
    (raw, seen)
}

// [AMQP 5.3] "a server ... sends the SASL header, then its mechanisms"
#[test]
fn the_handshake_goes_step_by_step_or_all_at_once() {
    let mut raw = Raw::new(options("server"));
    raw.bytes(&Protocol::Sasl.header());
    let seen = raw.take();
    let mechanisms = SaslFrame::Mechanisms(vec!["PLAIN".to_owned(), "ANONYMOUS".to_owned()]);
    assert_eq!(seen, [Seen::Header(Protocol::Sasl), Seen::Sasl(mechanisms)]);
    raw.bytes(&sasl_init("PLAIN"));
    raw.bytes(&Protocol::Amqp.header());
    raw.frame(0, &open_performative());
    assert_eq!(names(&raw.take()), ["sasl", "header Amqp", "open"]);

    // Everything in one write, as clients that do not wait for answers do.
    let mut raw = Raw::new(options("server"));
    let mut all = Protocol::Sasl.header().to_vec();
    all.extend_from_slice(&sasl_init("ANONYMOUS"));
    all.extend_from_slice(&Protocol::Amqp.header());
    raw.input.extend_from_slice(&all);
    raw.frame(0, &open_performative());
    raw.frame(0, &begin_performative());
    let expect = [
        "header Sasl",
        "sasl",
        "sasl",
        "header Amqp",
        "open",
        "begin",
    ];
    assert_eq!(names(&raw.take()), expect);
}

// [AMQP 2.2] "the server MUST send a protocol header with a supported protocol version and then close"
#[test]
fn a_wrong_header_is_answered_with_ours() {
    let cases: [(&[u8], &[&str]); 4] = [
        (b"AMQP\x00\x01\x00\x00", &["header Sasl"]),
        (b"AMQP\x09\x01\x00\x00", &["header Sasl"]),
        (b"AMQP\x00\x02\x00\x00", &["header Sasl"]),
        (b"AMQP\x02\x01\x00\x00", &["header Sasl"]),
    ];
    for (header, expect) in cases {
        let mut raw = Raw::new(options("server"));
        raw.bytes(header);
        assert_eq!(names(&raw.take()), expect);
        assert!(raw.server.is_closed());
    }
    let mut raw = Raw::new(options("server"));
    raw.bytes(b"AMQP");
    assert!(
        raw.take().is_empty() && raw.server.wants_input(),
        "the rest may still come"
    );
}

#[test]
fn plain_amqp_is_served_only_when_it_is_allowed() {
    let (raw, seen) = opened_with(|_| {});
    assert_eq!(seen, ["open"]);
    assert!(!raw.server.is_closed());
}

// [AMQP 5.3.3.6] "1: Connection authentication failed due to an unspecified problem with the supplied
// credentials."
#[test]
fn a_mechanism_that_was_not_offered_and_a_refusal_end_with_code_1() {
    let mut raw = Raw::new(options("server"));
    raw.bytes(&Protocol::Sasl.header());
    raw.take();
    raw.bytes(&sasl_init("NOSUCH"));
    assert_eq!(raw.take(), [Seen::Sasl(outcome(SaslCode::Auth))]);
    assert!(raw.server.is_closed());
}

// [AMQP 5.3.3.1] "It is invalid for this list to be null or empty."
#[test]
fn a_peer_to_which_nothing_can_be_offered_gets_the_header_and_no_list() {
    let mut raw = Raw::new(LinkOptions {
        mechanisms: Vec::new(),
        ..options("server")
    });
    raw.bytes(&Protocol::Sasl.header());
    assert_eq!(raw.take(), [Seen::Header(Protocol::Sasl)]);
    assert!(raw.server.is_closed());
}

// [AMQP 5.2.1] "the TLS protocol header": TLS is spoken from the first byte on a port of its own.
#[test]
fn the_header_of_tls_within_the_connection_is_answered_with_what_is_spoken() {
    let mut raw = Raw::new(options("server"));
    raw.bytes(b"AMQP\x02\x01\x00\x00");
    assert_eq!(raw.take(), [Seen::Header(Protocol::Sasl)]);
    assert!(raw.server.is_closed());
}

#[test]
fn a_mechanism_of_many_steps_goes_by_challenges() {
    let mut raw = Raw::new(options("server"));
    raw.bytes(&Protocol::Sasl.header());
    raw.take();
    raw.input.extend_from_slice(&sasl_init("PLAIN"));
    raw.server.handle_bytes(raw.now, &mut raw.input);
    assert!(
        !raw.server.wants_input(),
        "nothing is read until the owner answered"
    );
    raw.server.sasl_challenge(b"who?");
    assert_eq!(
        raw.take(),
        [Seen::Sasl(SaslFrame::Challenge(bytes::Bytes::from_static(
            b"who?"
        )))]
    );
    let mut out = Vec::new();
    let response = SaslFrame::Response(bytes::Bytes::from_static(b"me"));
    super::super::output::write_frame(&mut out, crate::wire::frame::FrameKind::Sasl, 0, |out| {
        response.encode(out);
    });
    raw.input.extend_from_slice(&out);
    raw.server.handle_bytes(raw.now, &mut raw.input);
    let answered = std::iter::from_fn(|| raw.server.poll_event())
        .any(|event| matches!(event, Event::SaslResponse { response } if response == "me"));
    assert!(answered);
    raw.server.sasl_success(b"proof");
    let success = SaslFrame::Outcome {
        code: SaslCode::Ok,
        additional_data: Some(bytes::Bytes::from_static(b"proof")),
    };
    assert_eq!(raw.take(), [Seen::Sasl(success)]);
}

// [AMQP 2.4.1] "the channel-max ... a peer MUST NOT use channel numbers above"
#[test]
fn open_announces_limits_and_the_lower_channel_max() {
    let mut raw = Raw::new(LinkOptions {
        allow_plain_amqp: true,
        ..options("server")
    });
    raw.bytes(&Protocol::Amqp.header());
    raw.take();
    let Performative::Open(mut open) = open_performative() else {
        panic!("an open")
    };
    open.channel_max = ChannelMax(7);
    raw.frame(0, &Performative::Open(open));
    let seen = raw.take();
    let [Seen::Frame(0, Performative::Open(answer), _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(answer.max_frame_size, MaxFrameSize(131_072));
    assert_eq!(answer.channel_max, ChannelMax(7));
    assert_eq!(answer.idle_time_out, Some(30_000));
    raw.frame(8, &begin_performative());
    assert_eq!(names(&raw.take()), ["close amqp:connection:framing-error"]);
}

// [AMQP 2.7.1] "desired-capabilities": what others do not ask for, they are not told of.
#[test]
fn some_capabilities_are_offered_to_those_that_desire_them_only() {
    let [always, asked_for] = ["ALWAYS", "ASKED-FOR"].map(Symbol::from);
    for desires in [None, Some(vec![asked_for.clone(), Symbol::from("OTHER")])] {
        let mut server = options("server");
        server.identity.offered_capabilities = vec![always.clone()];
        server.identity.offered_if_desired = vec![asked_for.clone()];
        let mut raw = Raw::new(LinkOptions {
            allow_plain_amqp: true,
            ..server
        });
        raw.bytes(&Protocol::Amqp.header());
        raw.take();
        let Performative::Open(mut open) = open_performative() else {
            panic!("an open")
        };
        let is_desired = desires.is_some();
        open.desired_capabilities = desires;
        raw.frame(0, &Performative::Open(open));
        let seen = raw.take();
        let [Seen::Frame(0, Performative::Open(answer), _)] = &seen[..] else {
            panic!("{seen:?}")
        };
        let offered = answer.offered_capabilities.clone().unwrap_or_default();
        assert!(offered.contains(&always), "{offered:?}");
        assert_eq!(offered.contains(&asked_for), is_desired, "{offered:?}");
    }
}

#[test]
fn a_bad_open_is_answered_by_open_then_close_with_a_condition() {
    let (_, seen) = opened_with(|open| open.max_frame_size = MaxFrameSize(300));
    assert_eq!(seen, ["open", "close amqp:invalid-field"]);
    let (_, seen) = opened_with(|open| open.idle_time_out = Some(500));
    assert_eq!(seen, ["open", "close amqp:invalid-field"]);
    let (_, seen) = opened_with(|open| open.max_frame_size = MaxFrameSize(512));
    assert_eq!(seen, ["open"]);
    let mut raw = Raw::new(LinkOptions {
        allow_plain_amqp: true,
        ..options("server")
    });
    raw.bytes(&Protocol::Amqp.header());
    // An open without container-id.
    raw.bytes(&[0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x10, 0x45]);
    assert_eq!(
        names(&raw.take()),
        ["header Amqp", "open", "close amqp:decode-error"]
    );
}

#[test]
fn frames_out_of_turn_close_the_connection() {
    let mut raw = Raw::new(LinkOptions {
        allow_plain_amqp: true,
        ..options("server")
    });
    raw.bytes(&Protocol::Amqp.header());
    raw.frame(0, &begin_performative());
    assert_eq!(
        names(&raw.take()),
        ["header Amqp", "open", "close amqp:illegal-state"]
    );
    let mut raw = Raw::open();
    raw.frame(0, &open_performative());
    assert_eq!(names(&raw.take()), ["close amqp:illegal-state"]);
}

#[test]
fn the_owner_refuses_an_open_with_a_reason() {
    let mut raw = Raw::new(LinkOptions {
        allow_plain_amqp: true,
        ..options("server")
    });
    raw.input.extend_from_slice(&Protocol::Amqp.header());
    let mut out = Vec::new();
    super::super::output::write_frame(&mut out, crate::wire::frame::FrameKind::Amqp, 0, |out| {
        crate::wire::performative::encode(out, &open_performative());
    });
    raw.input.extend_from_slice(&out);
    raw.server.handle_bytes(raw.now, &mut raw.input);
    raw.server
        .refuse_open(raw.now, error(AmqpError::NotFound, "no vhost of that name"));
    let expect = ["header Amqp", "open", "close amqp:not-found"];
    assert_eq!(names(&raw.take()), expect);
}

// [AMQP 2.4.3] "each peer MUST write a close frame ... and the peer answers"
#[test]
fn close_is_answered_by_close_whoever_begins() {
    let mut raw = Raw::begun();
    raw.frame(0, &Performative::Close(Box::new(Close { error: None })));
    assert_eq!(names(&raw.take()), ["close"]);
    assert!(raw.server.is_closed());
    let kinds: Vec<_> = raw.events.iter().rev().take(2).collect();
    assert!(matches!(
        kinds[..],
        [Event::Closed { error: None }, Event::SessionEnded { .. }]
    ));

    let mut raw = Raw::begun();
    raw.server.close(
        raw.now,
        Some(error(AmqpError::InternalError, "the operator says so")),
    );
    assert_eq!(names(&raw.take()), ["close amqp:internal-error"]);
    raw.frame(0, &begin_performative());
    assert!(
        raw.take().is_empty(),
        "what comes after our close is discarded"
    );
    assert!(!raw.server.is_closed());
    raw.frame(0, &Performative::Close(Box::new(Close { error: None })));
    assert!(raw.server.is_closed());
}

#[test]
fn a_close_that_is_never_answered_ends_after_a_while() {
    let mut raw = Raw::begun();
    raw.server.close(raw.now, None);
    raw.take();
    let deadline = raw.server.next_deadline().unwrap();
    raw.server.handle_timeout(at(deadline.0));
    assert!(raw.server.is_closed());
}

// [AMQP 2.4.5] "to keep a connection alive a peer sends an empty frame"
#[test]
fn heartbeats_leave_at_half_of_what_the_peer_asked_for() {
    let (mut raw, _) = opened_with(|open| open.idle_time_out = Some(10_000));
    assert_eq!(
        raw.server.next_deadline().map(|deadline| deadline.0),
        Some(5_000)
    );
    raw.now = at(5_000);
    raw.server.handle_timeout(raw.now);
    assert_eq!(raw.take(), [Seen::Heartbeat]);
    // Any other frame does as well.
    raw.now = at(8_000);
    raw.frame(0, &begin_performative());
    assert_eq!(names(&raw.take()), ["begin"]);
    assert_eq!(
        raw.server.next_deadline().map(|deadline| deadline.0),
        Some(13_000)
    );
}

// [AMQP 2.4.5] "peers SHOULD advertise half their actual threshold"
#[test]
fn a_silent_peer_is_closed_at_twice_what_we_announced() {
    let (mut raw, _) = opened_with(|_| {});
    raw.now = at(40_000);
    raw.bytes(&[0, 0, 0, 8, 2, 0, 0, 0]);
    raw.server.handle_timeout(at(99_999));
    assert!(raw.take().is_empty());
    raw.server.handle_timeout(at(100_000));
    assert_eq!(names(&raw.take()), ["close amqp:resource-limit-exceeded"]);
}

#[test]
fn two_engines_close_each_other() {
    let mut pair = Pair::open();
    pair.begin();
    pair.client
        .close(pair.now, Some(error(AmqpError::NotAllowed, "enough")));
    pair.drive();
    assert!(pair.client.is_closed() && pair.server.is_closed());
    let closed = pair.take_server(|event| matches!(event, Event::Closed { .. }));
    let Some(Event::Closed { error: Some(error) }) = closed else {
        panic!("{closed:?}")
    };
    assert_eq!(condition(&error), "amqp:not-allowed");
}

#[test]
fn a_lost_socket_undoes_everything() {
    let mut pair = Pair::open();
    let (_, link) = pair.consumer(5);
    super::support::send(&mut pair.server, link, 42, b"x");
    pair.server.handle_disconnect();
    let events: Vec<_> = std::iter::from_fn(|| pair.server.poll_event()).collect();
    let [
        Event::SessionEnded { fates, .. },
        Event::Closed { error: None },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(
        (&fates.unsettled[..], &fates.unsent[..]),
        (&[42][..], &[][..])
    );
    assert!(pair.server.is_closed());
}

// What a peer says of itself is kept and shown; 8 KiB of nulls took 250 KiB.
#[test]
fn what_a_peer_says_of_itself_has_bounds_and_the_error_says_so() {
    let nulls = |count| {
        let nulls = Value::List(vec![Value::Null; count]);
        Some(fields([("x", nulls)]))
    };
    let check = |change: &dyn Fn(&mut Open), expect: Option<&str>| {
        let (_, seen) = opened_and_seen(|open| change(open));
        let told = format!("{seen:?}");
        let bound = expect.unwrap_or_default();
        let is_refused = names(&seen).contains(&"close amqp:invalid-field".to_owned());
        assert_eq!(is_refused, expect.is_some(), "{told}");
        assert!(told.contains(bound), "{told}");
    };
    check(&|open| open.container_id = "c".repeat(1024), None);
    check(&|open| open.container_id = "c".repeat(1025), Some("1024"));
    check(&|open| open.hostname = Some("h".repeat(1024)), None);
    check(&|open| open.hostname = Some("h".repeat(1025)), Some("1024"));
    check(&|open| open.properties = nulls(500), None);
    check(&|open| open.properties = nulls(600), Some("512"));
}
