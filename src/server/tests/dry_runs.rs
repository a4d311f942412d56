//! What a redrive would do, where there is more to look at than one dry run does.

use std::cell::Cell;

use crate::broker::redrive::{RedriveRights, RedriveSpec, RedriveTarget};
use crate::config::Settings;
use crate::management::DryRunPlace;
use crate::server::Broker;
use crate::server::redriving::forecast;

/// Messages that are looked at between two questions whether it is late.
const SLICE: u64 = 64;

#[tokio::test]
async fn a_dry_run_that_is_late_says_where_the_next_goes_on() {
    let settings = Settings {
        amqp: Vec::new(),
        ..Settings::default()
    };
    let broker = Broker::builder().settings(settings).start().await.unwrap();
    let admin = broker.admin();
    admin.declare_queue("/", "dead", &[]).await.unwrap();
    admin.declare_queue("/", "work", &[]).await.unwrap();
    let publisher = broker.publisher("/queues/dead").open().await.unwrap();
    let count = 3 * SLICE + 8;
    for number in 0..count {
        publisher.publish(number.to_string()).await.unwrap();
    }
    let mut dead = broker
        .consumer("/queues/dead")
        .credit(1)
        .open()
        .await
        .unwrap();
    let held = dead.next().await.unwrap();

    let vhost = admin.vhost("/").unwrap();
    let rights = RedriveRights::all().unwrap();
    let spec = RedriveSpec {
        target: RedriveTarget::Queue("work".into()),
        ..RedriveSpec::to_origin("dead".into())
    };
    let (mut from, mut seen) = (DryRunPlace::BEGIN, Vec::new());
    loop {
        let looks = Cell::new(0);
        let is_late = || looks.replace(looks.get() + 1) >= 2;
        let found = forecast((&vhost, None), (&spec, &rights), from, is_late).unwrap();
        let moved: u64 = found.targets.iter().map(|to| to.messages).sum();
        seen.push((moved, found.held, found.is_complete));
        match found.next {
            Some(next) => from = DryRunPlace::parse(&next).unwrap(),
            None => break,
        }
        assert!(seen.len() < 20, "{seen:?}");
    }
    let moved: u64 = seen.iter().map(|(moved, ..)| moved).sum();
    let held_ones: u64 = seen.iter().map(|(_, held, _)| held).sum();
    assert_eq!((moved, held_ones), (count - 1, 1), "{seen:?}");
    assert!(seen.len() > 2, "{seen:?}");
    let complete = seen.iter().map(|(.., is_complete)| *is_complete);
    assert_eq!(complete.filter(|is| *is).count(), 1, "the last: {seen:?}");
    held.accept();
    broker.stop().await;
}
