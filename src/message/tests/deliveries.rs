use std::sync::Arc;

use super::{message, prefix, rejected, route};
use crate::base::Name;
use crate::deaths::{Death, Evidence, EvidenceLevel, History, How, Viewer};
use crate::message::{Message, Prefix, Route};

/// The raw bytes of `vectors/ours/header-absent.json` and `vectors/client-delivery-count-header.json`,
/// without the body.
#[test]
fn first_delivery_is_written_as_rabbitmq_writes_it() {
    let annotations =
        "005372c12304a30a782d65786368616e6765a100a30d782d726f7574696e672d6b6579a103737263";
    let route = route("", &["src", "cc"]);
    let plain = prefix(&message("005375a0026d31"), &route, 0, 0);
    assert_eq!(plain, format!("005370c006054040404143{annotations}"));
    let client_counts = message("005370c00705414040425209005375a0026d31");
    assert_eq!(
        prefix(&client_counts, &route, 0, 0),
        format!("005370c006054140404143{annotations}")
    );
}

/// The raw bytes of `vectors/ours/header-not-durable.json`, first delivery.
#[test]
fn header_is_delivered_as_it_came() {
    let header = |payload: &str| {
        let prefix = prefix(&message(payload), &route("", &["src"]), 0, 0);
        prefix[..prefix.find("005372").unwrap()].to_owned()
    };
    assert_eq!(
        header("005370c00402425007 005375a000"),
        "005370c00705425007404143"
    );
    assert_eq!(
        header("005370c008034140700000ea60 005375a000"),
        "005370c00a054140700000ea604143"
    );
}

/// The raw bytes of `vectors/ours/modified-annotations-null-quorum.json`: one failure.
#[test]
fn counts_are_shown_when_above_zero() {
    let modified = message("005370c0020141 005375a0026d31");
    let modified = super::modified_by(&modified, &super::bytes("c10b02a307782d6f70742d7640"));
    let modified = modified.unwrap();
    assert_eq!(
        prefix(&modified, &route("", &["src"]), 1, 1),
        "005370c00705414040425201005372c1550aa307782d6f70742d7640a30a782d65786368616e6765a100a30d\
         782d726f7574696e672d6b6579a103737263a310782d64656c69766572792d636f756e745501a310782d6163\
         7175697265642d636f756e745501"
    );
}

/// The raw bytes of the dead letter in `vectors/client-delivery-count-header.json`.
#[test]
fn dead_letter_is_written_as_rabbitmq_writes_it() {
    let published = message("005370c00705414040425209005375a0026d31");
    let dead = published.died(rejected(), 0);
    assert_eq!(
        prefix(&dead, &route("dlx", &["src"]), 0, 0),
        "005370c006054140404243005372d10000015d00000012a30a782d65786368616e6765a103646c78a30d782d\
         726f7574696e672d6b6579a103737263a30c782d6f70742d646561746873e07f01d1000000790000000ea305\
         7175657565a103737263a306726561736f6ea30872656a6563746564a305636f756e745301a30a6669727374\
         2d74696d6583000001a1fd87458ca3096c6173742d74696d6583000001a1fd87458ca30865786368616e6765\
         a100a30c726f7574696e672d6b657973e00901b100000003737263a316782d66697273742d64656174682d65\
         786368616e6765a100a313782d66697273742d64656174682d7175657565a103737263a314782d6669727374\
         2d64656174682d726561736f6ea10872656a6563746564a315782d6c6173742d64656174682d65786368616e\
         6765a100a312782d6c6173742d64656174682d7175657565a103737263a313782d6c6173742d64656174682d\
         726561736f6ea10872656a6563746564"
    );
}

#[test]
fn dead_letter_loses_its_ttl_and_keeps_durable_priority_and_bytes() {
    let published = message("005370c00903415007700000ea60 005373c00100 005375a0026d31");
    let dead = published.died(rejected(), 3);
    assert_eq!(
        (dead.durable(), dead.priority(), dead.ttl_ms()),
        (true, Some(7), None)
    );
    assert_eq!(
        (
            dead.carried_delivery_count(),
            published.carried_delivery_count()
        ),
        (3, 0)
    );
    assert_eq!(
        dead.bare().as_ptr(),
        published.bare().as_ptr(),
        "the bytes are shared"
    );
}

/// What a [`Prefix`] that wrote for `first` writes for `second`, which must be what is written
/// for it anew.
fn check_reuse(first: (&Message, &Arc<Route>, u32), second: (&Message, &Arc<Route>, u32)) {
    let mut prefix = Prefix::default();
    for (message, route, failures) in [first, second, second, first] {
        let view = super::view(message, route, failures, failures);
        let mut anew = Vec::new();
        message.write_prefix(&view, &mut anew);
        assert_eq!(prefix.of(message, &view), anew);
    }
}

#[test]
fn prefix_is_written_anew_when_anything_in_it_differs() {
    let plain = message("005375a0026d31");
    let same = message("005375a0026d32");
    let src = route("", &["src"]);
    check_reuse((&plain, &src, 0), (&same, &src, 0));
    check_reuse((&plain, &src, 0), (&plain, &route("x", &["src"]), 0));
    check_reuse((&plain, &src, 0), (&plain, &src, 1));
    for other in [
        "005370c0020141 005375a0026d31",
        "005370c00402425007 005375a000",
        "005370c008034140700000ea60 005375a000",
        "005372c10b02a307782d6f70742d7640 005375a000",
    ] {
        check_reuse((&plain, &src, 0), (&message(other), &src, 0));
    }
    let dead = plain.died(rejected(), 0);
    check_reuse((&plain, &src, 0), (&dead, &src, 0));
    check_reuse((&dead, &src, 0), (&plain.died(rejected(), 0), &src, 0));
    check_reuse((&dead, &src, 0), (&plain.died(rejected(), 2), &src, 0));
}

#[test]
fn a_suspect_says_so_and_what_is_none_says_nothing() {
    let (plain, src) = (message("005375a0026d31"), route("", &["src"]));
    let mut prefix = Prefix::default();
    for suspect in [false, true, true, false] {
        let view = super::DeliveryView {
            suspect,
            ..super::view(&plain, &src, 0, 1)
        };
        let written = prefix.of(&plain, &view);
        // The symbol, and the boolean true.
        let name = [b"\xa3\x0dx-opt-suspect".as_slice(), &[0x41]].concat();
        let told = written.windows(name.len()).any(|bytes| bytes == name);
        assert_eq!(told, suspect);
    }
}

/// A user that lost its tag saw names of others for as long as dead letters shared a history.
#[test]
fn prefix_is_written_anew_when_who_looks_may_see_less() {
    let evidence = Evidence {
        how: Some(How::Rejected),
        user: Some(Name::from("billing")),
        ..Evidence::default()
    };
    let death = Death {
        evidence: Some(Arc::new(evidence)),
        ..super::death()
    };
    let history = Arc::new(History::record(None, &death).unwrap());
    let dead = message("005375a0026d31").died(history, 0);
    let route = route("", &["src"]);
    let mut prefix = Prefix::default();
    for (viewer, is_named) in [
        (Viewer::Monitor, true),
        (
            Viewer::User {
                name: "other",
                by_token: false,
            },
            false,
        ),
    ] {
        let mut view = super::view(&dead, &route, 0, 0);
        (view.deaths.evidence, view.deaths.viewer) = (EvidenceLevel::Full, viewer);
        let written = String::from_utf8_lossy(prefix.of(&dead, &view)).into_owned();
        assert_eq!(written.contains("billing"), is_named, "{viewer:?}");
    }
}
