//! Messages that are published in a transaction. [AMQP 4.4.1]

use super::*;

// [AMQP 4.4.1] "the transactional resource [...] MUST NOT make the message available before the
// transaction is discharged", and tells a provisional outcome. Order is that of arrival.
#[test]
fn messages_enter_their_queue_at_the_commit_in_their_order() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    peer.receive(10);
    let txn = peer.declare();
    for body in [b"1", b"2", b"3"] {
        peer.post(&txn, body);
    }
    assert!(!peer.has_message());
    peer.commit(&txn);
    for body in [b"1", b"2", b"3"] {
        assert!(peer.message().1.ends_with(body));
    }
}

// [AMQP 4.4.1] Sent settled it belongs to the transaction all the same, without an answer.
#[test]
fn a_settled_post_is_one_of_the_transaction() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    for fail in [true, false] {
        let txn = peer.declare();
        peer.transfer(SENDER, true, Some(&provisional(&txn, None)), &data(b"m"));
        peer.discharge(&txn, fail);
        assert_eq!(ready(&broker), u64::from(!fail));
    }
}

// [AMQP 4.4.1, 2.6.14] The state may come with any of the frames, and with several.
#[test]
fn a_message_in_several_frames_is_posted_once_it_is_complete() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let body = vec![b'x'; 3_000];
    let message = durable(&body);
    for named in [
        [true, false, false],
        [false, false, true],
        [true, true, true],
    ] {
        let txn = peer.declare();
        let id = send_in_parts(&mut peer, &txn, &message, &named);
        let outcome = peer.answer(id);
        assert_eq!(outcome, in_transaction(&txn, &DeliveryState::Accepted));
        let before = ready(&broker);
        peer.commit(&txn);
        assert_eq!(ready(&broker), before + 1, "{named:?}");
    }
    // [AMQP 4.4.1] Two transactions for one message: the link ends.
    let (txn, other) = (peer.declare(), peer.declare());
    let id = peer.next;
    peer.next += 1;
    for (more, txn) in [(true, &txn), (false, &other)] {
        let state = provisional(txn, None);
        let fields = transfer_fields(SENDER, id, false, more, Some(&state));
        let transfer = raw::performative(raw::TRANSFER, &fields);
        peer.raw
            .send(&raw::frame(0, 0, &[transfer, data(b"m")].concat()));
    }
    peer.detached(SENDER, "amqp:invalid-field");
}

/// Sends a message in as many frames as flags, with the transaction's id in those of the flags.
fn send_in_parts(peer: &mut Peer, txn: &[u8], message: &[u8], named: &[bool]) -> u32 {
    let id = peer.next;
    peer.next += 1;
    let state = provisional(txn, None);
    let size = message.len().div_ceil(named.len());
    for (index, part) in message.chunks(size).enumerate() {
        let more = index + 1 < named.len();
        let state = named[index].then_some(&state[..]);
        let fields = transfer_fields(SENDER, id, false, more, state);
        let frame = [raw::performative(raw::TRANSFER, &fields), part.to_vec()];
        peer.raw.send(&raw::frame(0, 0, &frame.concat()));
    }
    id
}

// A body that is written to the journal while it arrives: what is rolled back leaves nothing there
// that a restart would find.
#[test]
fn large_durable_messages_are_committed_whole_or_dropped() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/transactions");
    std::fs::remove_dir_all(path).ok();
    let broker = RunningBroker::start(&["--data", path]);
    let mut peer = Peer::new(&broker);
    let body: Vec<u8> = (0..900_000_u32).map(|at| (at % 251) as u8).collect();
    for fail in [true, false] {
        let txn = peer.declare();
        let id = send_in_parts(&mut peer, &txn, &durable(&body), &[true; 10]);
        peer.answer(id);
        assert_eq!(ready(&broker), 0);
        assert_eq!(peer.discharge(&txn, fail), DeliveryState::Accepted);
        assert_eq!(ready(&broker), u64::from(!fail));
    }
    drop(peer);
    drop(broker);
    let broker = RunningBroker::start(&["--data", path]);
    assert_eq!(ready(&broker), 1);
    let mut peer = Peer::new(&broker);
    peer.receive(1);
    let mut got = Vec::new();
    loop {
        let came = peer.frame(raw::TRANSFER, |_| true);
        let Ok((Performative::Transfer(transfer), used)) = decode(&came.body) else {
            panic!("a transfer");
        };
        got.extend_from_slice(&came.body[used..]);
        if !transfer.more {
            break;
        }
    }
    assert!(got.ends_with(&body));
}

// [AMQP 4.4.1] "If the transaction is unknown the link is detached with amqp:transaction:unknown-id".
#[test]
fn a_post_under_an_unknown_id_ends_its_link() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    for settled in [false, true] {
        let state = provisional(b"12345678", None);
        peer.transfer(SENDER, settled, Some(&state), &data(b"m"));
        peer.detached(SENDER, UNKNOWN);
        peer.raw.attach_sender(SENDER, "q");
    }
    assert_eq!(ready(&broker), 0);
    let txn = peer.declare();
    peer.post(&txn, b"the connection goes on");
    peer.commit(&txn);
}

// [AMQP 4.3] All or nothing: what one message is refused for undoes the others.
#[test]
fn a_commit_that_one_message_prevents_is_rejected_and_rolled_back() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    Raw::declare(broker.port, "gone");
    peer.raw.attach_sender(5, "gone");
    peer.transfer(SENDER, true, None, &data(b"held"));
    peer.receive(1);
    let (held, _) = peer.message();
    let txn = peer.declare();
    peer.post(&txn, b"lost");
    peer.retire((held, held), true, &provisional(&txn, Some(ACCEPTED)));
    let state = provisional(&txn, None);
    let id = peer.transfer(5, false, Some(&state), &data(b"m"));
    peer.answer(id);
    let mut manager = Raw::managing(broker.port, "guest");
    manager.manage(0, ("DELETE", "/queues/gone"), &raw::null());
    assert_eq!(rejection(&peer.discharge(&txn, false)), ROLLBACK);
    assert_eq!(
        ready(&broker),
        1,
        "the message that was settled is back, the post is not there"
    );
    assert_eq!(rejection(&peer.discharge(&txn, false)), UNKNOWN);
}

// [AMQP 4.3] A message that comes on a link which the broker has closed is in no queue, and so is the rest.
#[test]
fn a_post_on_a_link_that_the_broker_has_closed_prevents_the_commit() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    Raw::declare(broker.port, "gone");
    peer.raw.attach_sender(5, "gone");
    let id = peer.transfer(5, false, None, &data(b"it follows its queue from here on"));
    peer.answer(id);
    let txn = peer.declare();
    peer.post(&txn, b"one");
    let mut manager = Raw::managing(broker.port, "guest");
    manager.manage(0, ("DELETE", "/queues/gone"), &raw::null());
    let came = peer.frame(raw::DETACH, |_| true);
    assert!(came.says("amqp:resource-deleted"), "{came:x?}");
    // The client did not read that yet.
    peer.transfer(5, false, Some(&provisional(&txn, None)), &data(b"two"));
    assert_eq!(rejection(&peer.discharge(&txn, false)), ROLLBACK);
    assert_eq!(ready(&broker), 0);
}

// [AMQP 4.4.1] A message that is refused at once has a provisional outcome that says so; who does not look at
// it learns it from the discharge.
#[test]
fn a_post_that_is_refused_at_once_prevents_the_commit() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let mut fields = raw::attach(5, false, "");
    fields[6] = raw::described(0x29, &raw::list(&[]));
    peer.raw.perform(raw::ATTACH, &fields);
    peer.raw.wait_for(raw::ATTACH);
    let txn = peer.declare();
    peer.post(&txn, b"lost");
    let id = peer.transfer(
        5,
        false,
        Some(&provisional(&txn, None)),
        &data(b"without to"),
    );
    let DeliveryState::Transactional {
        outcome: Some(outcome),
        ..
    } = peer.answer(id)
    else {
        panic!("a provisional outcome");
    };
    let outcome = DeliveryState::decode(&outcome).expect("an outcome");
    assert_eq!(rejection(&outcome), "amqp:precondition-failed");
    assert_eq!(rejection(&peer.discharge(&txn, false)), ROLLBACK);
    assert_eq!(ready(&broker), 0);
}
