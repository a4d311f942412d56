//! Outcomes that are said in a transaction. [AMQP 4.4.2]

use super::*;

/// A peer that holds so many messages, and their delivery-ids.
fn holding(broker: &RunningBroker, count: u32) -> (Peer, Vec<u32>) {
    let mut peer = Peer::new(broker);
    for _ in 0..count {
        peer.transfer(SENDER, true, None, &data(b"m"));
    }
    peer.receive(100);
    let ids = (0..count).map(|_| peer.message().0).collect();
    (peer, ids)
}

// [AMQP 4.4.2] "On a successful discharge, the resource will apply the given outcome and can
// immediately settle the transfers."
#[test]
fn outcomes_are_applied_at_the_commit_and_the_broker_settles() {
    let broker = RunningBroker::start(&[]);
    let (mut peer, ids) = holding(&broker, 4);
    let txn = peer.declare();
    peer.retire((ids[0], ids[1]), true, &provisional(&txn, Some(ACCEPTED)));
    peer.retire((ids[2], ids[2]), false, &provisional(&txn, Some(ACCEPTED)));
    peer.commit_settling(&txn, ids[2]);
    // What was not said anything of is still the consumer's.
    peer.settle(ids[3], RELEASED);
    let (_, message) = peer.message();
    assert!(message.ends_with(b"m"));
    assert!(!peer.has_message(), "three are gone for good");
}

impl Peer {
    /// Commits, and takes the settlement of a delivery that this peer had not settled.
    fn commit_settling(&mut self, txn: &Bytes, id: u32) {
        let (txn_id, fail) = (txn.clone(), false);
        let asked = self.ask(&Control::Discharge { txn_id, fail });
        assert_eq!(self.answer(asked), DeliveryState::Accepted);
        let (settled, state) = self.disposition(&Role::Sender, id);
        let Some(DeliveryState::Transactional {
            txn_id,
            outcome: Some(outcome),
        }) = state
        else {
            panic!("{state:?}");
        };
        assert!(settled && txn_id == *txn);
        assert_eq!(DeliveryState::decode(&outcome), Ok(DeliveryState::Accepted));
    }
}

// [AMQP 4.4.2] "In the event of a controller-initiated rollback [...] the outcome will not be
// applied, and the deliveries will still be live and will remain acquired by the controller". What
// the consumer has settled it cannot say anything of again: that goes back, as a failed delivery.
#[test]
fn after_a_rollback_what_was_settled_comes_back_and_the_rest_is_still_held() {
    let broker = RunningBroker::start(&[]);
    let (mut peer, ids) = holding(&broker, 3);
    let txn = peer.declare();
    peer.retire((ids[0], ids[0]), true, &provisional(&txn, Some(ACCEPTED)));
    peer.retire((ids[1], ids[1]), false, &provisional(&txn, Some(ACCEPTED)));
    peer.roll_back(&txn);
    let (again, message) = peer.message();
    assert!(again > ids[2]);
    assert!(counts_one_failure(&message), "{message:x?}");
    assert!(!peer.has_message(), "the other two are still held");
    // Another transaction, or none, may say what becomes of it.
    let txn = peer.declare();
    peer.retire((ids[1], ids[1]), false, &provisional(&txn, Some(ACCEPTED)));
    peer.commit_settling(&txn, ids[1]);
    peer.settle(ids[2], ACCEPTED);
    peer.settle(again, ACCEPTED);
    drop(peer);
    assert_eq!(ready(&broker), 0);
}

/// Whether the header of a message says that one delivery has failed. [AMQP 3.2.1]
fn counts_one_failure(message: &[u8]) -> bool {
    let index = coroner::wire::walk(message).expect("a message");
    let header = index.read_header(message).expect("a header");
    header.delivery_count == Some(1)
}

// [AMQP 4.4.2] It may settle behind its outcome and before the discharge.
#[test]
fn a_delivery_that_is_settled_before_the_rollback_comes_back() {
    let broker = RunningBroker::start(&[]);
    for state in [None, Some(())] {
        let (mut peer, ids) = holding(&broker, 1);
        let txn = peer.declare();
        let said = provisional(&txn, Some(ACCEPTED));
        peer.retire((ids[0], ids[0]), false, &said);
        let settling = state.map_or_else(raw::null, |()| said.clone());
        peer.retire((ids[0], ids[0]), true, &settling);
        peer.roll_back(&txn);
        let (again, message) = peer.message();
        assert!(counts_one_failure(&message));
        peer.settle(again, ACCEPTED);
        drop(peer);
    }
}

// A failed delivery counts for the delivery limit whoever says that it failed.
#[test]
fn rollbacks_count_for_the_delivery_limit() {
    let broker = RunningBroker::start(&[]);
    let mut manager = Raw::managing(broker.port, "guest");
    let arguments = raw::map(&[
        raw::text("x-queue-type"),
        raw::text("quorum"),
        raw::text("x-delivery-limit"),
        raw::uint(2),
    ]);
    let body = raw::map(&[
        raw::text("durable"),
        raw::truth(true),
        raw::text("arguments"),
        arguments,
    ]);
    let made = manager.manage(0, ("PUT", "/queues/limited"), &body);
    assert!(made.says("201"), "{made:?}");
    let mut peer = Peer::new(&broker);
    peer.raw.attach_sender(5, "limited");
    peer.transfer(5, true, None, &data(b"m"));
    peer.raw.attach_receiver(RECEIVER, "limited");
    peer.raw.credit(RECEIVER, 0xffff_fffb, 100);
    for _ in 0..3 {
        let (id, _) = peer.message();
        let txn = peer.declare();
        peer.retire((id, id), true, &provisional(&txn, Some(ACCEPTED)));
        peer.roll_back(&txn);
    }
    assert!(!peer.has_message(), "it died of the limit");
}

// [AMQP 4.4.2] An outcome under an unknown id ends its link.
#[test]
fn an_outcome_under_an_unknown_id_ends_its_link() {
    let broker = RunningBroker::start(&[]);
    for settled in [true, false] {
        let (mut peer, ids) = holding(&broker, 1);
        let state = provisional(b"12345678", Some(ACCEPTED));
        peer.retire((ids[0], ids[0]), settled, &state);
        peer.detached(RECEIVER, UNKNOWN);
        assert_eq!(ready(&broker), 1, "nothing was lost");
        peer.receive(1);
        let (again, _) = peer.message();
        peer.settle(again, ACCEPTED);
    }
}

// [AMQP 4.4.2] "the delivery MUST NOT be associated with a different non-discharged transaction
// than the outcome. If this happens then the control link MUST be terminated with a
// transaction-rollback error."
#[test]
fn one_message_is_in_one_transaction_only() {
    let broker = RunningBroker::start(&[]);
    let (mut peer, ids) = holding(&broker, 1);
    let (first, second) = (peer.declare(), peer.declare());
    peer.retire(
        (ids[0], ids[0]),
        false,
        &provisional(&first, Some(ACCEPTED)),
    );
    // Once more the same says nothing new.
    peer.retire(
        (ids[0], ids[0]),
        false,
        &provisional(&first, Some(ACCEPTED)),
    );
    peer.retire(
        (ids[0], ids[0]),
        false,
        &provisional(&second, Some(ACCEPTED)),
    );
    peer.detached(CONTROLLER, ROLLBACK);
    // Both are rolled back, and the delivery is still the consumer's.
    peer.settle(ids[0], RELEASED);
    peer.message();
}

// [AMQP 4.5.6] A state without an outcome is that of a delivery settled without one; one that is no outcome ends
// the session, as it does without a transaction.
#[test]
fn a_state_that_is_no_outcome_ends_the_session() {
    let broker = RunningBroker::start(&[]);
    let (mut peer, ids) = holding(&broker, 1);
    let txn = peer.declare();
    peer.retire((ids[0], ids[0]), true, &provisional(&txn, None));
    peer.commit(&txn);
    let (again, _) = peer.message();
    let txn = peer.declare();
    peer.retire((again, again), true, &provisional(&txn, Some(0x73)));
    let end = peer.frame(raw::END, |_| true);
    assert!(end.says("amqp:invalid-field"), "{end:?}");
}

// A consumer's link may go before the discharge: what it settled in the transaction is settled by
// the commit.
#[test]
fn outcomes_outlive_the_link_they_came_on() {
    let broker = RunningBroker::start(&[]);
    for fail in [true, false] {
        let (mut peer, ids) = holding(&broker, 3);
        let txn = peer.declare();
        peer.retire((ids[0], ids[0]), true, &provisional(&txn, Some(ACCEPTED)));
        peer.retire((ids[1], ids[1]), false, &provisional(&txn, Some(ACCEPTED)));
        peer.detach(RECEIVER);
        peer.frame(raw::DETACH, |_| true);
        assert_eq!(ready(&broker), 1, "what it said nothing of is free at once");
        peer.discharge(&txn, fail);
        assert_eq!(ready(&broker), if fail { 3 } else { 1 });
        let mut rest = Peer::new(&broker);
        rest.receive(3);
        for _ in 0..(if fail { 3 } else { 1 }) {
            let (id, _) = rest.message();
            rest.settle(id, ACCEPTED);
        }
        drop(rest);
    }
}

// The outcomes of a session that ends go with it, whoever declared the transaction.
#[test]
fn a_transaction_with_outcomes_of_a_session_that_ended_is_rolled_back() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    peer.transfer(SENDER, true, None, &data(b"m"));
    peer.raw.begin(1);
    peer.raw.wait_for(raw::BEGIN);
    let on_second = |code, fields: &[Vec<u8>]| raw::frame(0, 1, &raw::performative(code, fields));
    let attach = on_second(raw::ATTACH, &raw::attach(0, true, "/queues/q"));
    peer.raw.send(&attach);
    peer.raw.wait_for(raw::ATTACH);
    let wide = 0x7fff_ffff;
    let flow = [0xffff_fffc, wide, 0, wide, 0, 0xffff_fffb, 5].map(raw::uint);
    peer.raw.send(&on_second(raw::FLOW, &flow));
    let (id, _) = peer.message();
    let txn = peer.declare();
    let fields = [
        raw::truth(true),
        raw::uint(id),
        raw::null(),
        raw::truth(true),
        provisional(&txn, Some(ACCEPTED)),
    ];
    peer.raw.send(&on_second(raw::DISPOSITION, &fields));
    peer.raw.send(&on_second(raw::END, &[]));
    peer.frame(raw::END, |_| true);
    assert_eq!(rejection(&peer.discharge(&txn, false)), ROLLBACK);
    assert_eq!(ready(&broker), 1);
}

// [AMQP 4.4.3] Acquisition for a transaction is not offered: who asks for it is told.
#[test]
fn credit_in_a_transaction_ends_the_link() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let txn = peer.declare();
    peer.raw.attach_receiver(RECEIVER, "q");
    let wide = 0x7fff_ffff;
    let flow = [0xffff_fffc, wide, 0, wide, RECEIVER, 0xffff_fffb, 5].map(raw::uint);
    let properties = raw::map(&[raw::symbol("txn-id"), raw::binary(&txn)]);
    let mut fields = flow.to_vec();
    fields.extend([raw::null(), raw::null(), raw::null(), properties]);
    peer.raw.perform(raw::FLOW, &fields);
    peer.detached(RECEIVER, "amqp:not-implemented");
}

// [AMQP 4.3] An outcome for a delivery that went with its link cannot be applied: the rest is not done either.
#[test]
fn an_outcome_for_a_delivery_on_a_link_that_the_broker_has_closed_prevents_the_commit() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    Raw::declare(broker.port, "gone");
    peer.raw.attach_sender(5, "gone");
    let id = peer.transfer(5, false, None, &data(b"asked"));
    peer.answer(id);
    peer.detach(5);
    peer.raw.attach_receiver(6, "gone");
    peer.raw.credit(6, 0xffff_fffb, 1);
    let (asked, _) = peer.message();
    let txn = peer.declare();
    peer.post(&txn, b"answered");
    let mut manager = Raw::managing(broker.port, "guest");
    manager.manage(0, ("DELETE", "/queues/gone"), &raw::null());
    peer.frame(raw::DETACH, |came| came.says("amqp:resource-deleted"));
    // The client did not read that yet.
    peer.retire((asked, asked), true, &provisional(&txn, Some(ACCEPTED)));
    assert_eq!(rejection(&peer.discharge(&txn, false)), ROLLBACK);
    assert_eq!(ready(&broker), 0);
}
