//! Time and size of transactions.

use std::thread;

use super::*;

const LIMIT: &str = "amqp:resource-limit-exceeded";
const TIMEOUT: &str = "amqp:transaction:timeout";

// [AMQP 4.5.8] `amqp:transaction:timeout`
#[test]
fn a_transaction_that_takes_too_long_is_rolled_back_and_its_users_are_told() {
    let broker = RunningBroker::start(&["--transaction-timeout", "400ms"]);
    let mut peer = Peer::new(&broker);
    peer.transfer(SENDER, true, None, &data(b"m"));
    peer.receive(10);
    let (id, _) = peer.message();
    let txn = peer.declare();
    peer.post(&txn, b"lost");
    peer.retire((id, id), true, &provisional(&txn, Some(ACCEPTED)));
    let (again, _) = peer.message();
    assert!(again > id, "the broker rolled it back by itself");
    assert_eq!(rejection(&peer.discharge(&txn, false)), TIMEOUT);
    peer.retire((again, again), false, &provisional(&txn, Some(ACCEPTED)));
    peer.detached(RECEIVER, TIMEOUT);
    peer.transfer(SENDER, false, Some(&provisional(&txn, None)), &data(b"m"));
    peer.detached(SENDER, TIMEOUT);
    // What a rollback asks for was done.
    peer.roll_back(&txn);
    assert_eq!(ready(&broker), 1);
    let quick = peer.declare();
    thread::sleep(Duration::from_millis(100));
    peer.commit(&quick);
}

#[test]
fn a_transaction_with_too_many_bytes_is_rolled_back() {
    let broker = RunningBroker::start(&["--transaction-max-bytes", "8KiB"]);
    let mut peer = Peer::new(&broker);
    let txn = peer.declare();
    peer.post(&txn, &[b'x'; 5_000]);
    let state = provisional(&txn, None);
    peer.transfer(SENDER, false, Some(&state), &data(&[b'x'; 5_000]));
    peer.detached(SENDER, LIMIT);
    assert_eq!(rejection(&peer.discharge(&txn, false)), LIMIT);
    assert_eq!(ready(&broker), 0);
    // Outcomes count as well, and what was settled comes back.
    peer.raw.attach_sender(SENDER, "q");
    for _ in 0..40 {
        peer.transfer(SENDER, true, None, &data(b"m"));
    }
    peer.receive(40);
    let ids: Vec<u32> = (0..40).map(|_| peer.message().0).collect();
    let txn = peer.declare();
    peer.retire((ids[0], ids[39]), true, &provisional(&txn, Some(ACCEPTED)));
    peer.detached(RECEIVER, LIMIT);
    assert_eq!(rejection(&peer.discharge(&txn, false)), LIMIT);
    assert_eq!(ready(&broker), 40);
}

#[test]
fn a_connection_has_so_many_transactions_open() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    let open: Vec<_> = (0..256).map(|_| peer.declare()).collect();
    let has_global_id = false;
    let id = peer.ask(&Control::Declare { has_global_id });
    assert_eq!(rejection(&peer.answer(id)), LIMIT);
    peer.commit(&open[7]);
    peer.declare();
}

#[test]
fn a_transaction_has_so_many_deliveries() {
    let broker = RunningBroker::start(&[]);
    let mut peer = Peer::new(&broker);
    for over in [0, 1] {
        let txn = peer.declare();
        let state = provisional(&txn, None);
        for count in 0..1_024 + over {
            peer.transfer(SENDER, true, Some(&state), &data(b"m"));
            if count % 50 == 0 {
                // The credit for more comes with what is answered.
                let id = peer.ask(&Control::Discharge {
                    txn_id: Bytes::from_static(b"none"),
                    fail: true,
                });
                peer.answer(id);
            }
        }
        if over == 0 {
            peer.commit(&txn);
        } else {
            peer.detached(SENDER, LIMIT);
            assert_eq!(rejection(&peer.discharge(&txn, false)), LIMIT);
        }
        assert_eq!(ready(&broker), 1_024);
    }
}
