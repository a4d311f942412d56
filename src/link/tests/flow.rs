//! Credit, drain, echoes.

use bytes::Bytes;

use super::support::{
    Pair, Raw, Seen, attach_performative, consumer_answer, credit_performative, message, names,
    options, receiver, send,
};
use crate::base::Serial;
use crate::link::{Event, LinkOptions, Unsendable};
use crate::wire::performative::{Flow, LinkFlow, Performative};

// Engine rule 6: a message leaves only against link credit and session window. [AMQP 2.6.7]
#[test]
fn nothing_is_sent_without_credit_or_window() {
    let (mut raw, link) = Raw::receiving(2);
    send(&mut raw.server, link, 1, b"x");
    send(&mut raw.server, link, 2, b"x");
    let refused = raw.server.send(link, message(3, b"x"), Bytes::new);
    assert_eq!(refused, Err(Unsendable::NoCredit));
    assert_eq!(names(&raw.take()), ["transfer", "transfer"]);
    // Credit for more, but a window for one frame.
    let Performative::Flow(mut flow) = credit_performative(0, 10) else {
        panic!("a flow")
    };
    flow.next_incoming_id = Some(Serial(0xffff_fffe));
    flow.incoming_window = 1;
    raw.frame(0, &Performative::Flow(flow.clone()));
    let session = crate::link::SessionHandle {
        channel: 0,
        generation: 1,
    };
    assert_eq!(raw.server.session_limit(session), 3);
    send(&mut raw.server, link, 3, b"three");
    send(&mut raw.server, link, 4, b"four");
    assert_eq!(names(&raw.take()), ["transfer"]);
    assert_eq!(raw.server.unsent(link).collect::<Vec<_>>(), [4]);
    flow.next_incoming_id = Some(Serial(0xffff_ffff));
    raw.frame(0, &Performative::Flow(flow));
    assert_eq!(names(&raw.take()), ["transfer"]);
    assert!(
        raw.events
            .iter()
            .any(|event| matches!(event, Event::SessionFlow { .. }))
    );
}

// [AMQP 2.5.6] amqp10 for Node.js counts from its own first transfer-id: it is ahead of us for ever.
#[test]
fn a_peer_that_expects_a_later_transfer_has_its_window() {
    let (mut raw, link) = Raw::receiving(2);
    let Performative::Flow(mut flow) = credit_performative(0, 10) else {
        panic!("a flow")
    };
    flow.next_incoming_id = Some(Serial(3));
    flow.incoming_window = 1;
    raw.frame(0, &Performative::Flow(flow));
    send(&mut raw.server, link, 1, b"x");
    assert_eq!(names(&raw.take()), ["transfer"]);
}

// [AMQP 2.6.7] "advance the delivery-count as much as possible, consuming all link-credit"
#[test]
fn a_drain_delivers_then_uses_the_credit_up() {
    let (mut raw, link) = Raw::receiving(1);
    let Performative::Flow(mut flow) = credit_performative(0, 5) else {
        panic!("a flow")
    };
    flow.link.as_mut().unwrap().drain = true;
    raw.frame(0, &Performative::Flow(flow));
    let asked = raw.events.iter().any(|event| match event {
        Event::LinkFlow { limit, drain, .. } => *limit == 5 && *drain,
        _ => false,
    });
    assert!(asked);
    // A large one, so that the flow has to wait for its last frame.
    send(&mut raw.server, link, 1, &vec![0; 400_000]);
    send(&mut raw.server, link, 2, b"x");
    raw.server.drained(link, u64::MAX);
    let seen = raw.take();
    let Some(Seen::Frame(_, Performative::Flow(flow), _)) = seen.last() else {
        panic!("{:?}", names(&seen))
    };
    let link_flow = flow.link.as_ref().unwrap();
    assert_eq!(
        link_flow.delivery_count,
        Some(Serial(0)),
        "0xfffffffb and five"
    );
    assert_eq!(
        (link_flow.link_credit, link_flow.available),
        (Some(0), Some(0))
    );
    assert!(link_flow.drain);
    assert_eq!(
        raw.server.send(link, message(3, b"x"), Bytes::new),
        Err(Unsendable::NoCredit)
    );
}

// [AMQP 2.7.4] echo: "the peer SHOULD send its flow state"
#[test]
fn echoes_are_answered_for_links_and_sessions() {
    let (mut raw, _) = Raw::receiving(3);
    let Performative::Flow(mut flow) = credit_performative(0, 3) else {
        panic!("a flow")
    };
    flow.echo = true;
    raw.frame(0, &Performative::Flow(flow.clone()));
    let seen = raw.take();
    let [Seen::Frame(_, Performative::Flow(answer), _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    let answered = answer.link.as_ref().unwrap();
    assert_eq!(
        (answered.link_credit, answered.available),
        (Some(3), Some(0))
    );
    flow.link = None;
    raw.frame(0, &Performative::Flow(flow));
    let seen = raw.take();
    let [Seen::Frame(_, Performative::Flow(answer), _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(answer.link, None);
}

/// It was 0 whatever waited: the engine does not know.
#[test]
fn an_owner_that_echoes_tells_what_is_available() {
    let options = LinkOptions {
        allow_plain_amqp: true,
        owner_echoes: true,
        ..options("server")
    };
    let mut raw = Raw::open_with(options).begin();
    raw.frame(0, &attach_performative(receiver("l"), 0));
    let link = raw.attached();
    raw.take();
    let Performative::Flow(mut flow) = credit_performative(0, 3) else {
        panic!("a flow")
    };
    flow.echo = true;
    raw.frame(0, &Performative::Flow(flow));
    assert!(raw.take().is_empty(), "the owner is asked");
    raw.server.tell_available(link, 7);
    let seen = raw.take();
    let [Seen::Frame(_, Performative::Flow(answer), _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    let answered = answer.link.as_ref().unwrap();
    assert_eq!(
        (answered.link_credit, answered.available),
        (Some(3), Some(7))
    );
}

#[test]
fn credit_follows_the_receivers_count_even_when_it_is_late() {
    let (mut raw, link) = Raw::receiving(2);
    send(&mut raw.server, link, 1, b"x");
    // Sent before it saw the first delivery: count 0xfffffffb and credit 4, so three are left.
    raw.frame(0, &credit_performative(0, 4));
    assert_eq!(raw.server.credit(link), 3);
    raw.frame(0, &credit_performative(0, 0));
    assert_eq!(raw.server.credit(link), 0);
    let limits: Vec<u64> = raw
        .events
        .iter()
        .filter_map(|event| match event {
            Event::LinkFlow { limit, .. } => Some(*limit),
            _ => None,
        })
        .collect();
    assert_eq!(limits, [2, 4, 1]);
    raw.frame(0, &credit_performative(0, u32::MAX));
    assert_eq!(raw.server.credit(link), u32::MAX - 1);
}

#[test]
fn a_client_drains_a_server_that_has_nothing() {
    let mut pair = Pair::open();
    let (consumer, consuming) = pair.consumer(0);
    pair.client.drain(consumer, 10);
    pair.drive();
    pair.server.drained(consuming, u64::MAX);
    pair.drive();
    let drained = pair.take_client(|event| matches!(event, Event::SenderFlow { .. }));
    assert!(
        matches!(drained, Some(Event::SenderFlow { drained: true, .. })),
        "{drained:?}"
    );
    assert_eq!(pair.client.credit(consumer), 0);
}

#[test]
fn a_flow_without_session_state_of_ours_is_taken_from_the_start() {
    let (mut raw, link) = Raw::receiving(0);
    let flow = Flow {
        next_incoming_id: None,
        incoming_window: 10,
        link: Some(LinkFlow {
            handle: 0,
            link_credit: Some(2),
            ..LinkFlow::default()
        }),
        ..Flow::default()
    };
    raw.frame(0, &Performative::Flow(flow));
    assert_eq!(raw.server.credit(link), 2);
}

// [AMQP 2.5.6] The next-incoming-id follows the next-outgoing-id of the peer's flow.
#[test]
fn a_peer_that_counts_lost_transfers_is_told_the_window_behind_them() {
    let (mut raw, _) = Raw::sending(10);
    raw.take();
    let flow = Flow {
        next_outgoing_id: Serial(350),
        incoming_window: 10,
        echo: true,
        ..Flow::default()
    };
    raw.frame(0, &Performative::Flow(flow));
    let seen = raw.take();
    let [Seen::Frame(_, Performative::Flow(answer), _)] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(answer.next_incoming_id, Some(Serial(350)));
}

#[test]
fn an_echo_that_is_asked_for_before_the_attach_is_answered_outlasts_a_second_flow() {
    let mut raw = Raw::begun();
    raw.take();
    raw.frame(0, &attach_performative(receiver("c"), 0));
    for echo in [true, false] {
        let Performative::Flow(mut flow) = credit_performative(0, 5) else {
            panic!("a flow")
        };
        flow.echo = echo;
        raw.frame(0, &Performative::Flow(flow));
    }
    let link = raw.attached();
    raw.server.accept_attach(link, consumer_answer());
    assert_eq!(names(&raw.take()), ["attach", "flow"]);
}
