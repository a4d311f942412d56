//! Looking whether the groups with notes are empty.

use crate::config::Settings;
use crate::server::notes::look_through;
use crate::server::{Admin, Broker};

/// Looks, and tells of each noted group whether it is known to be empty.
fn look(admin: &Admin) -> Vec<(String, bool)> {
    let vhost = admin.vhost("/").unwrap();
    look_through((&vhost, None), admin.shared().clock).unwrap();
    let told = vhost.look(|core| {
        let notes = core.notes();
        let told = notes.map(|note| (note.key.to_string(), note.empty_since.is_some()));
        told.collect()
    });
    told.unwrap()
}

#[tokio::test]
async fn a_group_is_empty_when_no_message_of_it_is_in_any_state() {
    let settings = Settings {
        amqp: Vec::new(),
        ..Settings::default()
    };
    let broker = Broker::builder().settings(settings).start().await.unwrap();
    let admin = broker.admin();
    admin.declare_queue("/", "dead", &[]).await.unwrap();
    let publisher = broker.publisher("/queues/dead").open().await.unwrap();
    publisher.publish("never died").await.unwrap();
    for key in ["none", "1:00000000"] {
        let created = admin.set_group_note("/", "dead", key, "why?").await;
        assert_eq!(created, Ok(true));
    }
    let expected = |none_is_empty| {
        let other = ("1:00000000".to_owned(), true);
        vec![other, ("none".to_owned(), none_is_empty)]
    };
    assert_eq!(look(&admin), expected(false));
    let mut consumer = broker.consumer("/queues/dead").open().await.unwrap();
    let held = consumer.next().await.unwrap();
    assert_eq!(look(&admin), expected(false), "a consumer holds it");
    held.accept();
    while !look(&admin)[1].1 {
        tokio::task::yield_now().await;
    }
    let refused = admin.set_group_note("/", "dead", "rejected", "x").await;
    assert!(refused.unwrap_err().why.contains("no key of a group"));
    admin.clear_group_note("/", "dead", "none").await.unwrap();
    assert_eq!(look(&admin).len(), 1);
    broker.stop().await;
}
