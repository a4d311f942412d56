use std::sync::Arc;

use rstest::rstest;

use super::{after, death};
use crate::base::{Name, Timestamp};
use crate::deaths::{Death, Dying, Evidence, Reason, Recent};

/// A death as the core describes it.
fn dying(death: &Death) -> Dying<'_> {
    Dying {
        queue: &death.queue,
        reason: death.reason,
        time: death.time,
        exchange: &death.exchange,
        routing_keys: &death.routing_keys,
        ttl: death.ttl,
        evidence: death.evidence.as_ref(),
    }
}

#[test]
fn messages_that_die_alike_share_one_history() {
    let death = death("a", Reason::Rejected, 1);
    let mut recent = Recent::default();
    let first = recent.record(None, &dying(&death)).unwrap();
    let second = recent.record(None, &dying(&death)).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    let again = [1, 2].map(|_| recent.record(Some(&first), &dying(&death)).unwrap());
    assert!(Arc::ptr_eq(&again[0], &again[1]));
    assert_eq!(*again[0], after(Some(&first), &death));
}

/// Each case changes one thing about the second death.
#[rstest]
#[case::queue(|death: &mut Death| death.queue = "b".into())]
#[case::reason(|death: &mut Death| death.reason = Reason::Expired)]
#[case::time(|death: &mut Death| death.time = Timestamp(2))]
#[case::exchange(|death: &mut Death| death.exchange = "x".into())]
#[case::keys(|death: &mut Death| death.routing_keys = Arc::from([Name::from("k")]))]
#[case::ttl(|death: &mut Death| death.ttl = Some(5))]
#[case::evidence(|death: &mut Death| death.evidence = Some(Arc::new(Evidence::default())))]
fn whatever_differs_is_recorded(#[case] change: fn(&mut Death)) {
    let first = death("a", Reason::Rejected, 1);
    let mut second = first.clone();
    change(&mut second);
    let mut recent = Recent::default();
    let mut record = |death: &Death| recent.record(None, &dying(death)).unwrap();
    assert_eq!(*record(&first), after(None, &first));
    assert_eq!(*record(&second), after(None, &second));
}

#[test]
fn earlier_deaths_make_a_difference() {
    let death = death("a", Reason::Rejected, 1);
    let mut recent = Recent::default();
    let one = recent.record(None, &dying(&death)).unwrap();
    let two = recent.record(Some(&one), &dying(&death)).unwrap();
    assert_eq!(two.entries()[0].count, 2);
    let first_again = recent.record(None, &dying(&death)).unwrap();
    assert_eq!(first_again.entries()[0].count, 1);
}
