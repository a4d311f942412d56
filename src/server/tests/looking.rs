//! Dead letters as programs that embed the broker look at them, take them elsewhere and bring them
//! back.

use std::io::{self, Read, Write};

use crate::config::Settings;
use crate::management::LookRequest;
use crate::server::{AmqpError, Broker, ImportedMessages};
use crate::wire::Value;

/// A broker whose `dead` has dead letters: the errors in their order.
async fn with_dead_letters(errors: &[Option<(&str, &str)>]) -> Broker {
    let settings = Settings {
        amqp: Vec::new(),
        ..Settings::default()
    };
    let broker = Broker::builder().settings(settings).start().await.unwrap();
    let admin = broker.admin();
    let to = |name: &str| Value::String(name.to_owned());
    let dead = [
        ("x-dead-letter-exchange", to("")),
        ("x-dead-letter-routing-key", to("dead")),
    ];
    admin.declare_queue("/", "work", &dead).await.unwrap();
    admin.declare_queue("/", "dead", &[]).await.unwrap();
    let publisher = broker.publisher("/queues/work").open().await.unwrap();
    let mut work = broker.consumer("/queues/work").open().await.unwrap();
    for (number, error) in errors.iter().enumerate() {
        publisher.publish(format!("order {number}")).await.unwrap();
        let delivery = work.next().await.unwrap();
        delivery.reject(error.map(|(condition, text)| AmqpError::new(condition, text)));
    }
    while admin
        .browse("/", &LookRequest::of("dead"), 100)
        .await
        .unwrap()
        .messages
        .len()
        < errors.len()
    {
        tokio::task::yield_now().await;
    }
    broker
}

#[tokio::test]
async fn groups_lead_to_their_messages_and_show_their_notes() {
    let timeout = Some(("app:timeout", "no answer in 3 s"));
    let errors = [timeout, Some(("app:schema", "no price")), timeout, None];
    let broker = with_dead_letters(&errors).await;
    let admin = broker.admin();
    let all = LookRequest::of("dead");
    let counted = admin.groups("/", &all, "condition").await.unwrap();
    let counts: Vec<(Option<&str>, u64)> = counted
        .groups
        .iter()
        .map(|it| (it.key.as_deref(), it.count))
        .collect();
    let expected = [(Some("app:timeout"), 2), (None, 1), (Some("app:schema"), 1)];
    assert_eq!(counts, expected);
    assert_eq!(
        (counted.matched, counted.scanned, counted.next),
        (4, 4, None)
    );

    let by_group = admin.groups("/", &all, "group").await.unwrap();
    let largest = &by_group.groups[0];
    let key = largest.key.clone().unwrap();
    assert_eq!((largest.count, &largest.note), (2, &None));
    assert!(largest.newest >= largest.oldest && largest.oldest.is_some());
    admin
        .set_group_note("/", "dead", &key, "ask Bob")
        .await
        .unwrap();
    let noted = admin.groups("/", &all, "group").await.unwrap();
    let note = noted.groups[0].note.as_ref().unwrap();
    assert_eq!((&*note.text, &*note.by), ("ask Bob", ""));

    let of_group = all.clone().only("group", Value::String(key.clone()));
    let seen = admin.browse("/", &of_group, 10).await.unwrap();
    let positions: Vec<u64> = seen.messages.iter().map(|it| it.position).collect();
    assert_eq!((positions, &largest.sample), (vec![0, 2], &vec![0, 2]));
    let last = &seen.messages[1];
    assert_eq!((&*last.body, &*last.group), (&b"order 2"[..], &*key));
    let death = &last.deaths[0];
    assert_eq!(
        (&*death.queue, &*death.reason, death.count),
        ("work", "rejected", 1)
    );
    assert_eq!(last.error.1.as_deref(), Some("no answer in 3 s"));
    assert_eq!(
        (&*last.exchange, &last.routing_keys),
        ("", &vec!["dead".to_owned()])
    );

    // Page by page.
    let (mut from, mut bodies) = (Some(0), Vec::new());
    while let Some(position) = from {
        let page = admin
            .browse("/", &all.clone().from(position), 3)
            .await
            .unwrap();
        assert!(page.messages.len() <= 3);
        bodies.extend(page.messages.into_iter().map(|it| it.body));
        from = page.next;
    }
    assert_eq!(bodies, ["order 0", "order 1", "order 2", "order 3"]);
    let held = admin
        .browse("/", &all.clone().in_state("unacknowledged"), 3)
        .await;
    assert!(held.unwrap().messages.is_empty());
    broker.stop().await;
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_refused_with_its_status() {
    let broker = with_dead_letters(&[]).await;
    let admin = broker.admin();
    let all = LookRequest::of("dead");
    for (vhost, asked, by, status, says) in [
        ("/", all.clone(), "colour", 400, "'by' must be one of group"),
        (
            "/",
            all.clone().only("colour", Value::Null),
            "group",
            400,
            "colour",
        ),
        ("/", LookRequest::of("no"), "group", 404, "'no'"),
        ("gone", all.clone(), "group", 404, "gone"),
    ] {
        let refused = admin.groups(vhost, &asked, by).await.unwrap_err();
        assert_eq!(refused.status.code(), status, "{refused}");
        assert!(refused.why.contains(says), "{refused}");
    }
    let refused = admin.import_messages("/", "no", None, io::empty()).await;
    assert_eq!(refused.unwrap_err().status.code(), 404);
    broker.stop().await;
}

/// Gives a few bytes at a time, and ends with an error.
struct CutOff<'a>(&'a [u8]);

impl Read for CutOff<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer.get_mut(..7).unwrap_or_default())?;
        if read == 0 {
            return Err(io::Error::other("it was cut off"));
        }
        Ok(read)
    }
}

/// Takes so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(io::Error::other("it is full"));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn exported_lines_are_imported_once_and_errors_on_the_way_are_told() {
    let broker = with_dead_letters(&[None, Some(("app:schema", "no price")), None]).await;
    let admin = broker.admin();
    admin.declare_queue("/", "copies", &[]).await.unwrap();
    let all = LookRequest::of("dead");
    let (count, lines) = admin.export_messages("/", &all, Vec::new()).await.unwrap();
    let ends = std::str::from_utf8(&lines).unwrap().lines().count();
    assert_eq!((count, ends), (3, 3));
    let full = admin
        .export_messages("/", &all, Full(lines.len() - 1))
        .await;
    assert!(full.err().unwrap().why.contains("it is full"));

    let lines: &'static [u8] = lines.leak();
    let cut = CutOff(&lines[..lines.len() - 1]);
    let cut = admin
        .import_messages("/", "copies", Some("move"), cut)
        .await
        .unwrap_err();
    assert!(cut.why.contains("it was cut off"), "{cut}");
    let done = |imported, skipped| ImportedMessages { imported, skipped };
    let whole = admin
        .import_messages("/", "copies", Some("move"), lines)
        .await;
    assert_eq!(whole, Ok(done(3, 0)));
    let again = admin
        .import_messages("/", "copies", Some("move"), lines)
        .await;
    assert_eq!(again, Ok(done(0, 3)));
    let (_, copied) = {
        let copies = LookRequest::of("copies");
        admin
            .export_messages("/", &copies, Vec::new())
            .await
            .unwrap()
    };
    let without_times = |lines: &[u8]| {
        let lines = std::str::from_utf8(lines).unwrap().lines();
        let line = |line: &str| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("arrived");
            line
        };
        lines.map(line).collect::<Vec<_>>()
    };
    assert_eq!(without_times(&copied), without_times(lines));

    let wrong: &'static [u8] = [lines, b"{\n"].concat().leak();
    let refused = admin
        .import_messages("/", "copies", None, wrong)
        .await
        .unwrap_err();
    assert_eq!(refused.status.code(), 400);
    assert!(refused.why.starts_with("line 4: no JSON"), "{refused}");
    assert!(
        refused
            .why
            .ends_with("; 3 messages before it were imported"),
        "{refused}"
    );
    broker.stop().await;
}
