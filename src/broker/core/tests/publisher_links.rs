//! Links of publishers that outlive the broker. [AMQP 2.6.13, 3.5.5]

use super::scenario::{Draft, Scenario, draft, number, text};
use crate::base::{Lsn, Name, Seed};
use crate::broker::publisher_link::{KeptPublish, NotAccepted, PublisherLink, PublisherLinkFact};
use crate::broker::recovery::{ExpiryPolicy, LinkKey};
use crate::broker::*;

type Links = Vec<(u64, Vec<(Vec<u8>, NotAccepted)>)>;

fn link(number: u64) -> PublisherLink {
    PublisherLink {
        number,
        key: LinkKey {
            user: Name::from("guest"),
            by_token: false,
            container: Name::from("gateway-7"),
            link: Name::from(format!("out-{number}")),
        },
        expiry: ExpiryPolicy::ConnectionClose,
        timeout_s: 60,
    }
}

fn keep(s: &mut Scenario, number: u64) {
    let keep = PublisherCommand::Keep(Box::new(link(number)));
    s.apply(Command::Publisher(keep));
}

fn forget(s: &mut Scenario, link: u64) {
    s.apply(Command::Publisher(PublisherCommand::Forget { link }));
}

/// Publishes with this tag on a link, of which these are settled. Returns what it is told, and the record
/// that it waits for.
fn publish(
    s: &mut Scenario,
    (link, tag): (u64, &str),
    message: &Draft,
    settled: &[&str],
) -> (PublishOutcome, Lsn) {
    let bytes = |tag: &str| Box::from(tag.as_bytes());
    s.apply(Command::PublishKept(Box::new(KeptPublish {
        publish: message.post("", "q", 9),
        link,
        tag: bytes(tag),
        settled: settled.iter().map(|tag| bytes(tag)).collect(),
    })));
    match s.others.pop() {
        Some(Effect::Published { outcome, lsn, .. }) => (outcome, lsn),
        other => panic!("{other:?}"),
    }
}

fn links(core: &Core) -> Links {
    let links = core.publisher_links();
    let links = links.map(|(link, unsettled)| {
        let unsettled = unsettled.map(|(tag, of)| (tag.to_vec(), of.clone()));
        (link.number, unsettled.collect())
    });
    links.collect()
}

/// The links of a core that is rebuilt from these records.
fn rebuilt(s: &Scenario, records: impl Iterator<Item = Record>) -> Links {
    let options = CoreOptions::new(Name::from("/"), Seed(3));
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    for record in records {
        restoring.record(&record);
        restoring.record(&record);
    }
    links(&restoring.finish())
}

fn accepted(tags: &[&str]) -> Vec<(Vec<u8>, NotAccepted)> {
    let tags = tags.iter().map(|tag| (tag.as_bytes().to_vec(), None));
    tags.collect()
}

#[test]
fn what_became_of_a_message_stands_in_the_record_that_inserts_it() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    keep(&mut s, 1);
    s.records.clear();
    let (outcome, lsn) = publish(&mut s, (1, "a"), &draft("x"), &[]);
    assert_eq!(outcome, PublishOutcome::Accepted);
    assert_eq!((s.records.len(), lsn), (1, s.records[0].lsn));
    let kinds: Vec<_> = s.records[0].facts.iter().map(Fact::kind).collect();
    assert_eq!(kinds, ["inserted", "decided on a link"]);
    // One that the journal does not keep is told once it is known that it was accepted.
    let passing = Draft {
        durable: false,
        ..draft("x")
    };
    let (_, lsn) = publish(&mut s, (1, "b"), &passing, &[]);
    assert_eq!(lsn, s.records[1].lsn);
    assert_eq!(links(&s.core), [(1, accepted(&["a", "b"]))]);
}

#[test]
fn a_start_knows_what_is_not_settled_on_the_links_that_are_kept() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for number in [1, 2, 3] {
        keep(&mut s, number);
    }
    for tag in ["a", "b", "c"] {
        publish(&mut s, (1, tag), &draft(tag), &[]);
    }
    publish(&mut s, (1, "d"), &draft("d"), &["a", "c"]);
    // A tag may be used again once it is settled.
    publish(&mut s, (1, "b"), &draft("e"), &["b"]);
    publish(&mut s, (2, "a"), &draft("f"), &[]);
    forget(&mut s, 2);
    publish(&mut s, (2, "late"), &draft("g"), &[]);
    let expected = vec![(1, accepted(&["b", "d"])), (3, Vec::new())];
    assert_eq!(links(&s.core), expected);
    assert_eq!(rebuilt(&s, s.records.iter().cloned()), expected);
}

#[test]
fn an_outcome_that_leaves_nothing_of_the_message_is_not_kept() {
    let mut s = Scenario::new();
    keep(&mut s, 1);
    let (outcome, _) = publish(&mut s, (1, "a"), &draft("x"), &[]);
    assert_eq!(outcome, PublishOutcome::Unroutable);
    assert_eq!(links(&s.core), [(1, Vec::new())]);
    s.queue(
        "q",
        &[
            ("x-max-length", number(0)),
            ("x-overflow", text("reject-publish")),
        ],
    );
    let (outcome, _) = publish(&mut s, (1, "a"), &draft("x"), &[]);
    assert!(matches!(outcome, PublishOutcome::QueueFull { .. }));
    assert_eq!(links(&s.core), [(1, Vec::new())]);
    // A settled one with its tag is gone all the same.
    s.queue("r", &[]);
    s.bind("amq.fanout", "r", "");
    let kept = |s: &mut Scenario, settled: &[&str]| {
        let post = draft("x").post("amq.fanout", "", 9);
        s.apply(Command::PublishKept(Box::new(KeptPublish {
            publish: post,
            link: 1,
            tag: Box::from(*b"a"),
            settled: settled
                .iter()
                .map(|tag| Box::from(tag.as_bytes()))
                .collect(),
        })));
    };
    kept(&mut s, &[]);
    assert_eq!(links(&s.core), [(1, accepted(&["a"]))]);
    publish(&mut s, (1, "a"), &draft("x"), &["a"]);
    let expected = vec![(1, Vec::new())];
    assert_eq!(links(&s.core), expected);
    assert_eq!(rebuilt(&s, s.records.iter().cloned()), expected);
}

/// Else it would be rejected and dead-lettered once more.
#[test]
fn a_message_that_a_full_queue_rejects_and_dead_letters_is_known_as_that() {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue(
        "q",
        &[
            ("x-max-length", number(0)),
            ("x-overflow", text("reject-publish-dlx")),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dlq")),
        ],
    );
    keep(&mut s, 1);
    let (outcome, _) = publish(&mut s, (1, "a"), &draft("x"), &[]);
    let queue = Name::from("q");
    assert_eq!(
        outcome,
        PublishOutcome::QueueFull {
            queue: queue.clone()
        }
    );
    let expected = vec![(1, vec![(b"a".to_vec(), Some(queue))])];
    assert_eq!(rebuilt(&s, s.records.iter().cloned()), expected);
}

#[test]
fn a_checkpoint_has_the_links_in_slices() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for number in 1..=600 {
        keep(&mut s, number);
    }
    let tags: Vec<String> = (0..400).map(|tag| format!("{tag:03}")).collect();
    for tag in &tags {
        publish(&mut s, (7, tag), &draft(""), &[]);
    }
    let began = s.records.len();
    let mut snapshot = s.core.begin_snapshot(Lsn(0));
    let mut blocks = Vec::new();
    while let Some(slice) = s.core.snapshot_slice(s.now, &mut snapshot) {
        assert!(slice.facts.len() <= 300, "{} facts", slice.facts.len());
        if !slice.facts.is_empty() {
            blocks.push(slice.facts);
        }
        // They change behind and before what is being copied.
        publish(&mut s, (7, "late"), &draft(""), &["000"]);
        forget(&mut s, 600);
    }
    let copied = blocks.into_iter().map(|facts| Record {
        lsn: Lsn(1),
        wall: s.now.wall,
        facts: facts.into(),
        named: true,
    });
    let found = rebuilt(&s, copied.chain(s.records.iter().skip(began).cloned()));
    assert_eq!(found, links(&s.core));
    assert_eq!((found.len(), found[6].1.len()), (599, 400));
}

#[test]
fn links_of_a_deleted_user_are_forgotten_and_those_of_a_token_with_its_name_are_not() {
    let mut s = Scenario::new();
    for number in [1, 2] {
        keep(&mut s, number);
    }
    let mut namesake = link(3);
    namesake.key.by_token = true;
    s.apply(Command::Publisher(PublisherCommand::Keep(Box::new(
        namesake,
    ))));
    let before = s.core.kept().bytes();
    let user = Name::from("guest");
    s.apply(Command::Upkeep(UpkeepCommand::UserDeleted { user }));
    let left = links(&s.core);
    assert_eq!(left, [(3, Vec::new())]);
    assert!(s.core.kept().bytes() < before);
    assert_eq!(rebuilt(&s, s.records.iter().cloned()), left);
}

#[test]
fn a_link_that_is_kept_already_makes_no_record_unless_its_terms_change() {
    let mut s = Scenario::new();
    keep(&mut s, 1);
    let made = s.records.len();
    keep(&mut s, 1);
    assert_eq!(s.records.len(), made);
    let longer = PublisherLink {
        timeout_s: 120,
        ..link(1)
    };
    s.apply(Command::Publisher(PublisherCommand::Keep(Box::new(longer))));
    let last = s.records.last().and_then(|record| record.facts.last());
    let kept = matches!(
        last,
        Some(Fact::PublisherLink(PublisherLinkFact::Kept { link, .. })) if link.timeout_s == 120
    );
    assert!(kept, "{last:?}");
}
