//! Messages as the HTTP API shows them.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value as Json, json};

use crate::base::{Name, Timestamp};
use crate::deaths::{Evidence, How, LastFailure, Viewer};
use crate::management::http::json::message::{PayloadEncoding, Showing, Shown, message};
use crate::message::{KeyRule, Message, Route};

fn shown(message_: &Message, viewer: Viewer<'_>) -> Json {
    let route = Arc::new(Route {
        exchange: Name::from(""),
        keys: Arc::from([Name::from("q")]),
    });
    let shown = Shown {
        message: message_,
        route: &route,
        delivery_count: 1,
        failures: 1,
        acquired: 1,
        redelivered: true,
        viewer,
    };
    let encoding = PayloadEncoding::Auto;
    message(
        &shown,
        Showing {
            encoding,
            truncate: None,
        },
    )
}

#[test]
fn the_last_failure_of_a_message_names_users_to_those_who_may_see_them() {
    let payload = Bytes::from_static(b"\x00\x53\x75\xa0\x01m");
    let mut failed = Message::from_transfer(payload, KeyRule::default()).unwrap();
    assert_eq!(shown(&failed, Viewer::Monitor).get("last_failure"), None);
    let name = Name::from("billing");
    let by = Evidence::of_consumer(&name, "in", Some(&name), Some("10.0.3.7:51234"));
    let said = by.with_error("app:busy", Some("try later"), None);
    failed.fail(Arc::new(LastFailure {
        at: Timestamp(7),
        evidence: Arc::new(Evidence {
            how: Some(How::Failed),
            ..said
        }),
    }));
    for (viewer, is_named) in [
        (Viewer::Nobody, false),
        (
            Viewer::User {
                name: "other",
                by_token: false,
            },
            false,
        ),
        (
            Viewer::User {
                name: "billing",
                by_token: false,
            },
            true,
        ),
        (Viewer::Monitor, true),
    ] {
        let failure = &shown(&failed, viewer)["last_failure"];
        assert_eq!(failure["at"], 7);
        assert_eq!(failure["how"], "failed");
        assert_eq!(
            failure["error"],
            json!({"condition": "app:busy", "description": "try later", "info": null})
        );
        assert_eq!(failure["by"]["container"], "billing");
        assert_eq!(failure["by"].get("user").is_some(), is_named, "{viewer:?}");
        assert_eq!(failure["by"].get("address").is_some(), is_named);
    }
}
