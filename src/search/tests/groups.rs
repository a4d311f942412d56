//! Claims about counting groups.

use super::{death, died, evidence, message};
use crate::base::Position;
use crate::base::limits::{GROUP_SAMPLES_MAX, GROUPS_COUNTED_MAX, GROUPS_SHOWN_MAX};
use crate::deaths::{Reason, Viewer};
use crate::message::{Message, Route};
use crate::search::{By, Candidate, Counted, Groups};

fn counted<'a>(
    by: By,
    viewer: Viewer<'_>,
    messages: impl IntoIterator<Item = &'a Message>,
) -> Counted {
    let route = Route {
        exchange: "dlx".into(),
        keys: ["dlq".into()].into(),
    };
    let mut groups = Groups::new(by);
    for (position, message) in messages.into_iter().enumerate() {
        let candidate = Candidate {
            position: Position(position as u64),
            message,
            route: &route,
            failures: 0,
        };
        groups.add(&candidate, viewer);
    }
    groups.finish()
}

fn rejected(condition: &str, time: i64) -> Message {
    let evidence = evidence(Some(condition), Some("order 7 failed"));
    died(
        &message(&[]),
        &[death("orders", Reason::Rejected, time, Some(evidence))],
    )
}

#[test]
fn groups_add_up_largest_first_with_their_times_and_first_places() {
    let messages: Vec<Message> = (0..10)
        .map(|n| {
            rejected(
                if n % 3 == 0 {
                    "app:schema"
                } else {
                    "app:timeout"
                },
                100 - n,
            )
        })
        .chain([message(&[])])
        .collect();
    let found = counted(By::Condition, Viewer::Monitor, &messages);
    let shown: Vec<(Option<&str>, u64)> = found
        .groups
        .iter()
        .map(|group| (group.key.as_deref(), group.count))
        .collect();
    let expected = [(Some("app:timeout"), 6), (Some("app:schema"), 4), (None, 1)];
    assert_eq!(shown, expected);
    assert_eq!(
        (found.count, found.other_count, found.other_groups),
        (11, 0, Some(0))
    );
    let timeouts = &found.groups[0];
    assert_eq!(
        (timeouts.oldest.unwrap().0, timeouts.newest.unwrap().0),
        (92, 99)
    );
    assert_eq!(timeouts.sample.len(), GROUP_SAMPLES_MAX);
    assert_eq!(timeouts.sample[0], Position(1));
    assert_eq!(found.groups[2].label, "(no condition)");
    assert_eq!(found.groups[2].oldest, None);
}

#[test]
fn each_way_to_group_has_its_value() {
    let check = |by: By, key: Option<&str>, label: &str| {
        let found = counted(by, Viewer::Monitor, &[rejected("app:schema", 1)]);
        let group = &found.groups[0];
        assert_eq!(
            (group.key.as_deref(), group.label.as_str()),
            (key, label),
            "{by:?}"
        );
    };
    check(By::Reason, Some("rejected"), "rejected");
    check(By::Queue, Some("orders"), "orders");
    check(By::Exchange, Some("shop"), "shop");
    check(By::Container, Some("billing-1"), "billing-1");
    check(By::User, Some("ada"), "ada");
    check(By::Cause, Some("none"), "none");
    let found = counted(By::Group, Viewer::Monitor, &[rejected("app:schema", 1)]);
    assert_eq!(found.groups[0].label, "app:schema \"order <n> failed\"");
    for by in By::ALL {
        assert_eq!(By::from_word(by.as_str()), Some(by));
    }
}

#[test]
fn other_users_are_one_group_for_who_may_not_see_them() {
    let messages = [rejected("a", 1), message(&[])];
    let keys = |viewer: Viewer<'_>| -> Vec<Option<String>> {
        let found = counted(By::User, viewer, &messages);
        found.groups.into_iter().map(|group| group.key).collect()
    };
    assert_eq!(
        keys(Viewer::User {
            name: "bob",
            by_token: false
        }),
        [None]
    );
    assert_eq!(
        keys(Viewer::User {
            name: "ada",
            by_token: false
        }),
        [None, Some("ada".to_owned())]
    );
    assert_eq!(keys(Viewer::Monitor), [None, Some("ada".to_owned())]);
}

#[test]
fn groups_beyond_the_bound_are_counted_as_others() {
    let some = GROUPS_SHOWN_MAX + 10;
    let messages: Vec<Message> = (0..some).map(|n| rejected(&format!("c:{n}"), 1)).collect();
    let found = counted(By::Condition, Viewer::Monitor, &messages);
    assert_eq!(found.groups.len(), GROUPS_SHOWN_MAX);
    assert_eq!((found.other_count, found.other_groups), (10, Some(10)));
    let many = GROUPS_COUNTED_MAX + 5;
    let messages: Vec<Message> = (0..many).map(|n| rejected(&format!("c:{n}"), 1)).collect();
    let found = counted(By::Condition, Viewer::Monitor, &messages);
    let sum: u64 = found.groups.iter().map(|group| group.count).sum();
    assert_eq!(sum + found.other_count, many as u64);
    assert_eq!(found.other_groups, None);
}
