//! The coordinator's link: declare, discharge, and how a transaction ends otherwise.

use super::*;

// [AMQP 4.1, 4.5.1] "The coordinator [...] capabilities": only those that are true.
#[test]
fn the_coordinator_names_what_it_offers() {
    let broker = RunningBroker::start(&[]);
    let mut raw = Raw::begun(broker.port);
    let attach = attach_controller(&mut raw, CONTROLLER, &[]);
    assert_eq!(offered(&attach), OFFERED);
    let flow = raw.wait_for(raw::FLOW);
    let Ok((Performative::Flow(flow), _)) = decode(&flow.body) else {
        panic!("{flow:?}");
    };
    let credit = flow.link.and_then(|link| link.link_credit);
    assert!(credit.is_some_and(|credit| credit > 1), "{credit:?}");
}

// [AMQP 4.2] Ids differ; several transactions of a session are open at a time, and of two sessions
// of one connection each may use the other's. [AMQP 4.5.9]
#[test]
fn transactions_have_ids_of_their_own_and_end_one_by_one() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let (first, second) = (peer.declare(), peer.declare());
    assert_ne!(first, second);
    peer.post(&first, b"1");
    peer.post(&second, b"2");
    peer.post(&first, b"3");
    assert_eq!(ready(&broker), 0, "nothing is visible before the discharge");
    peer.commit(&first);
    assert_eq!(ready(&broker), 2);
    peer.roll_back(&second);
    assert_eq!(ready(&broker), 2);
    let empty = peer.declare();
    peer.commit(&empty);
}

// [AMQP 4.5.9] amqp:multi-ssns-per-txn
#[test]
fn a_transaction_is_of_its_connection() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let txn = peer.declare();
    peer.raw.begin(1);
    peer.raw.wait_for(raw::BEGIN);
    let attach = raw::attach(0, false, "/queues/q");
    let attach = raw::performative(raw::ATTACH, &attach);
    peer.raw.send(&raw::frame(0, 1, &attach));
    peer.raw.wait_for(raw::ATTACH);
    let state = provisional(&txn, None);
    let fields = transfer_fields(0, 0, false, false, Some(&state));
    let post = [raw::performative(raw::TRANSFER, &fields), data(b"m")];
    peer.raw.send(&raw::frame(0, 1, &post.concat()));
    peer.answer(0);
    peer.next = 2;
    peer.commit(&txn);
    assert_eq!(ready(&broker), 1);
    // Another connection does not know it.
    let mut other = Peer::new(&broker);
    assert_eq!(rejection(&other.discharge(&txn, false)), UNKNOWN);
}

// [AMQP 4.3] "If the coordinator is unable to complete the discharge, the coordinator MUST convey
// the error to the controller as a transaction-error. If the source for the link to the coordinator
// supports the rejected outcome, then the message MUST be rejected with this outcome carrying the
// transaction-error."
#[test]
fn a_discharge_of_an_unknown_id_is_rejected() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let txn = peer.declare();
    peer.commit(&txn);
    for id in [
        txn,
        Bytes::from_static(b"x"),
        Bytes::from_static(&[0xff; 8]),
    ] {
        for fail in [false, true] {
            assert_eq!(rejection(&peer.discharge(&id, fail)), UNKNOWN);
        }
    }
    let txn = peer.declare();
    peer.commit(&txn);
}

// [AMQP 4.3] "If the source does not support the rejected outcome, the transactional resource MUST
// detach the link to the coordinator, with the detach performative carrying the transaction-error."
#[test]
fn a_controller_that_cannot_be_told_is_detached() {
    let broker = RunningBroker::start(&[]);
    for outcomes in [
        &["amqp:accepted:list", "amqp:declared:list"][..],
        &["amqp:declared:list", "amqp:rejected:list"],
    ] {
        let mut peer = Peer::new(&broker);
        attach_controller(&mut peer.raw, 5, outcomes);
        let mut discharge = Vec::new();
        let txn_id = Bytes::from_static(b"x");
        let fail = false;
        Control::Discharge { txn_id, fail }.write(&mut discharge);
        let id = peer.transfer(5, false, None, &discharge);
        if outcomes.contains(&"amqp:rejected:list") {
            assert_eq!(rejection(&peer.answer(id)), UNKNOWN);
        } else {
            peer.detached(5, UNKNOWN);
        }
    }
}

// [AMQP 4.5.2] "global-id [...] The coordinator MUST NOT be sent [it] unless it has the capability
// amqp:distributed-transactions."
#[test]
fn distributed_transactions_are_refused() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let id = peer.ask(&Control::Declare {
        has_global_id: true,
    });
    assert_eq!(rejection(&peer.answer(id)), "amqp:not-implemented");
    peer.declare();
}

// [AMQP 4.2] A declare that is sent settled has no answer that could name the id.
#[test]
fn a_settled_declare_and_what_is_neither_end_the_link() {
    let broker = RunningBroker::start(&[]);
    let declare = raw::described(0x77, &raw::described(0x31, &[0x45]));
    for (settled, bare, condition) in [
        (true, &declare[..], "amqp:invalid-field"),
        (false, &data(b"no request"), "amqp:decode-error"),
        (
            false,
            &raw::described(0x77, &raw::text("x")),
            "amqp:decode-error",
        ),
        (false, b"nonsense", "amqp:decode-error"),
    ] {
        let mut peer = Peer::new(&broker);
        peer.transfer(CONTROLLER, settled, None, bare);
        peer.detached(CONTROLLER, condition);
        attach_controller(&mut peer.raw, CONTROLLER, &[]);
        peer.declare();
    }
}

// [AMQP 4.3] A discharge may be sent settled; then only an error is told.
#[test]
fn a_settled_discharge_takes_effect_without_an_answer() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let txn_id = peer.declare();
    peer.post(&txn_id, b"m");
    let mut discharge = Vec::new();
    let fail = false;
    Control::Discharge { txn_id, fail }.write(&mut discharge);
    peer.transfer(CONTROLLER, true, None, &discharge);
    let txn = peer.declare();
    peer.commit(&txn);
    assert_eq!(ready(&broker), 1);
    peer.transfer(CONTROLLER, true, None, &discharge);
    peer.detached(CONTROLLER, UNKNOWN);
}

// [AMQP 4.3] "If the link to the coordinator is detached [...] all non-discharged transactions are
// rolled back"; so they are with its session and its connection.
#[test]
fn what_is_not_discharged_is_rolled_back_with_its_link_session_and_connection() {
    let broker = RunningBroker::start(&[]);
    for ended in ["link", "session", "connection"] {
        let mut peer = Peer::new(&broker);
        let txn = peer.declare();
        peer.post(&txn, b"lost");
        match ended {
            "link" => {
                peer.detach(CONTROLLER);
                peer.frame(raw::DETACH, |_| true);
                attach_controller(&mut peer.raw, CONTROLLER, &[]);
                assert_eq!(rejection(&peer.discharge(&txn, false)), UNKNOWN);
                peer.transfer(SENDER, false, Some(&provisional(&txn, None)), &data(b"m"));
                peer.detached(SENDER, UNKNOWN);
            }
            "session" => {
                peer.raw.perform(raw::END, &[]);
                peer.frame(raw::END, |_| true);
                peer.raw.begin(0);
                peer.raw.wait_for(raw::BEGIN);
                peer.next = 0;
                attach_controller(&mut peer.raw, CONTROLLER, &[]);
                assert_eq!(rejection(&peer.discharge(&txn, false)), UNKNOWN);
            }
            _ => drop(peer),
        }
        assert_eq!(ready(&broker), 0, "{ended}");
    }
}
