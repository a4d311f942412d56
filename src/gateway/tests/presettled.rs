//! Consumers that take settled: what is written is theirs, what is not stays in the queue.
//! [AMQP 2.6.12]

use rstest::rstest;

use super::support::{Scene, message, receiver};
use crate::broker::DropCause;
use crate::gateway::Written;
use crate::link::LinkHandle;
use crate::wire::performative::{Attach, SenderSettleMode};

/// A queue with two messages, and a client that takes settled, without credit so far.
fn scene() -> (Scene, usize, LinkHandle) {
    let mut scene = Scene::new();
    let (reader, other) = (scene.client(), scene.client());
    scene.queue("q", &[]);
    let link = scene.publisher(other, Some("/queues/q"));
    for body in [b"a", b"b"] {
        scene.publish(other, link, &message(body));
    }
    let owner = &mut scene.clients[reader];
    let attach = Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        ..receiver("r", "/queues/q")
    };
    let link = owner.engine.attach(owner.session.unwrap(), attach).unwrap();
    scene.drive();
    (scene, reader, link)
}

#[test]
fn what_is_written_is_gone_without_a_word_of_the_peer() {
    let (mut scene, reader, link) = scene();
    scene.clients[reader].engine.set_credit(link, 1);
    scene.drive();
    assert_eq!(scene.counts("q"), (1, 0));
    let settled = &scene.core.counters().settled;
    assert_eq!((settled.presettled, settled.accepted), (1, 0));
}

#[rstest]
#[case::nothing(Written::Nothing, 2, 0)]
#[case::a_part_which_may_have_arrived(Written::Part, 0, 2)]
#[case::all(Written::All, 0, 0)]
fn what_the_socket_did_not_take_comes_back_uncounted(
    #[case] written: Written,
    #[case] ready: u64,
    #[case] dropped: u64,
) {
    let (mut scene, reader, link) = scene();
    scene.clients[reader].engine.set_credit(link, 2);
    // The output is with the driver, which has not told that it is written.
    scene.turn(reader);
    scene.clients[reader]
        .gateway
        .handle_disconnect(scene.now, written);
    scene.drive();
    assert_eq!(scene.counts("q"), (ready, 0));
    let drops = &scene.core.counters().drops;
    assert_eq!(drops.of(DropCause::ConnectionLost), dropped);
    let other = scene.client();
    scene.consumer(other, "q", 2);
    for (_, _, payload) in scene.deliveries(other) {
        let text = String::from_utf8_lossy(&payload).into_owned();
        assert!(!text.contains("x-acquired-count"), "{text:?}");
    }
}

#[test]
fn what_waits_for_a_socket_that_takes_nothing_comes_back_with_the_link() {
    let (mut scene, reader, link) = scene();
    scene.clients[reader].blocked = true;
    scene.clients[reader].engine.set_credit(link, 2);
    scene.drive();
    assert_eq!(scene.counts("q"), (0, 2));
    scene.clients[reader].engine.detach(link, true, None);
    scene.drive();
    assert_eq!(scene.counts("q"), (2, 0));
}

#[test]
fn what_was_encoded_before_a_detach_is_still_written_and_so_gone() {
    let (mut scene, reader, link) = scene();
    scene.clients[reader].engine.set_credit(link, 2);
    scene.turn(reader);
    scene.clients[reader].engine.detach(link, true, None);
    scene.drive();
    assert_eq!(scene.counts("q"), (0, 0));
}
