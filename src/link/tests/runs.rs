//! Transfers that come by the run do what they do one by one.

use rstest::rstest;

use super::support::{Raw, attach_performative, names, sender, transfer};
use crate::base::Serial;
use crate::link::LinkHandle;
use crate::wire::performative::{
    Attach, FirstTransfer, Performative, ReceiverSettleMode, SenderSettleMode, Transfer,
    write_transfer,
};

const CREDIT: u32 = 5;
const MESSAGE_BYTES_MAX: u64 = 1_000;

/// A transfer: handle, delivery-id, settled, length of the payload.
type Sent = (u32, u32, bool, usize);

/// A peer with two links on which it sends, attached like this, and the first of them.
fn peer(attach: &Attach) -> (Raw, LinkHandle) {
    let mut raw = Raw::begun();
    raw.message_bytes_max = Some(MESSAGE_BYTES_MAX);
    let mut first = None;
    for (handle, name) in [(0, "one"), (1, "two")] {
        let attach = Attach {
            name: name.to_owned(),
            ..attach.clone()
        };
        raw.frame(0, &attach_performative(attach, handle));
        let link = raw.attached();
        raw.server.set_credit(link, CREDIT);
        first.get_or_insert(link);
    }
    raw.take();
    raw.events.clear();
    (raw, first.unwrap())
}

/// What the peer gets, what the owner is told, and the credit that is left.
fn seen((mut raw, link): (Raw, LinkHandle)) -> (Vec<String>, String, u32, u64) {
    let events = format!("{:?}", raw.events);
    let transfers = raw.server.counters().transfers_in;
    (
        names(&raw.take()),
        events,
        raw.server.credit(link),
        transfers,
    )
}

// [AMQP 2.6.12] [AMQP 2.7.5]
#[rstest]
#[case::all_is_well(&[(0, 0, false, 10), (0, 1, false, 0), (0, 2, false, 9)])]
#[case::ids_wrap(&[(0, u32::MAX, false, 10), (0, 0, false, 10)])]
#[case::ids_have_gaps(&[(0, 3, false, 10), (0, 300, false, 10)])]
#[case::an_id_comes_twice(&[(0, 3, false, 10), (0, 3, false, 10), (0, 4, false, 1)])]
#[case::more_than_the_credit(&[(0, 0, false, 1), (0, 1, false, 1), (0, 2, false, 1),
    (0, 3, false, 1), (0, 4, false, 1), (0, 5, false, 1), (0, 6, false, 1)])]
#[case::two_links_by_turns(&[(0, 0, false, 1), (1, 1, false, 1), (0, 2, false, 1)])]
#[case::a_handle_of_no_link(&[(0, 0, false, 1), (7, 1, false, 1), (0, 2, false, 1)])]
#[case::one_is_too_large(&[(0, 0, false, 1), (0, 1, false, 1_001), (0, 2, false, 1)])]
#[case::settled_and_unsettled(&[(0, 0, true, 1), (0, 1, false, 1), (0, 2, true, 1)])]
fn transfers_by_the_run_do_what_they_do_one_by_one(
    #[case] sent: &[Sent],
    #[values(
        SenderSettleMode::Mixed,
        SenderSettleMode::Settled,
        SenderSettleMode::Unsettled
    )]
    snd_settle_mode: SenderSettleMode,
    #[values(ReceiverSettleMode::First, ReceiverSettleMode::Second)]
    rcv_settle_mode: ReceiverSettleMode,
) {
    let attach = Attach {
        snd_settle_mode,
        rcv_settle_mode,
        ..sender("")
    };
    let (mut one_by_one, link) = peer(&attach);
    let (mut by_the_run, _) = peer(&attach);
    let mut run = Vec::new();
    for &(handle, id, settled, bytes) in sent {
        let payload = vec![b'x'; bytes];
        // With all its fields, so that it is read the general way.
        let transfer = Transfer {
            settled: Some(settled),
            ..transfer(handle, id)
        };
        one_by_one.payload(0, &Performative::Transfer(transfer), &payload);
        let first = FirstTransfer {
            handle,
            delivery_id: Serial(id),
            message_format: 0,
            settled,
        };
        write_transfer(&mut run, 0, handle, Some(&first), false, bytes);
        run.extend(payload);
    }
    by_the_run.bytes(&run);
    assert_eq!(seen((by_the_run, link)), seen((one_by_one, link)));
}
