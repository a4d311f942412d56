//! Consumers that want some of the messages only. [AMQP 3.5.8, AMQP Filter Expressions 4, 6]

use rstest::rstest;

use super::support::{Scene, message, receiver, section};
use crate::link::{Event, LinkHandle};
use crate::wire::performative::{Attach, Symbol, Value};

const SELECTOR: &str = "apache.org:selector-filter:string";
const PROPERTIES: &str = "amqp:properties-filter";
const SQL: &str = "amqp:sql-filter";
const APPLICATION: &str = "amqp:application-properties-filter";

/// The attach of a receiver from `q` with filters of these kinds.
fn filtering(filters: &[(&str, Value)]) -> Attach {
    let mut attach = receiver("r", "/queues/q");
    let filters = filters.iter().map(|(kind, value)| {
        let described = (Value::symbol(*kind), value.clone());
        (Symbol::from(*kind), Value::Described(Box::new(described)))
    });
    if let Some(source) = attach.source.as_mut() {
        source.filter = Some(filters.collect());
    }
    attach
}

fn pair(name: &str, value: &str) -> Value {
    Value::Map(vec![(Value::string(name), Value::string(value))])
}

/// A message with a subject and a colour.
fn coloured(subject: &str, colour: &str) -> Vec<u8> {
    let subject = [
        Value::Null,
        Value::Null,
        Value::Null,
        Value::string(subject),
    ];
    let mut encoded = section(0x73, &Value::List(subject.to_vec()));
    encoded.extend(section(0x74, &pair("colour", colour)));
    encoded.extend(message(colour.as_bytes()));
    encoded
}

pub(super) fn answer(scene: &mut Scene, client: usize, link: LinkHandle) -> Attach {
    let of_link =
        |event: &Event| matches!(event, Event::AttachAnswered { link: of, .. } if *of == link);
    match scene.take(client, of_link) {
        Some(Event::AttachAnswered { attach, .. }) => *attach,
        other => panic!("{other:?}"),
    }
}

// [AMQP Filter Expressions 4.2.4, 4.2.5]
#[test]
fn a_consumer_gets_the_messages_that_all_of_its_filters_want() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let publisher = scene.publisher(client, Some("/queues/q"));
    for (subject, colour) in [
        ("invoice", "red"),
        ("invoice", "blue"),
        ("order", "red"),
        ("invoice", "dark red"),
        ("invoice", "bright red"),
    ] {
        scene.publish(client, publisher, &coloured(subject, colour));
    }
    let filters = [
        (PROPERTIES, pair("subject", "&p:inv")),
        (APPLICATION, pair("colour", "&s:red")),
        (SELECTOR, Value::string("colour <> 'dark red'")),
    ];
    let (link, result) = scene.attach(client, filtering(&filters));
    assert_eq!(result, Ok(()));
    scene.clients[client].engine.set_credit(link, 10);
    scene.drive();
    let bodies: Vec<_> = scene
        .deliveries(client)
        .into_iter()
        .map(|it| it.2)
        .collect();
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    assert!(bodies[0].ends_with(b"red") && bodies[1].ends_with(b"bright red"));
    assert_eq!(
        scene.counts("q"),
        (3, 2),
        "the others stay for other consumers"
    );
}

// [AMQP Filter Expressions 6]
#[test]
fn a_consumer_gets_the_messages_that_its_sql_filter_wants() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let publisher = scene.publisher(client, Some("/queues/q"));
    let all = [("invoice", "red"), ("order", "red"), ("invoice", "blue")];
    for (subject, colour) in all {
        scene.publish(client, publisher, &coloured(subject, colour));
    }
    let text = "p.subject LIKE 'inv%' AND colour IN (\"red\", 'green') AND UTC() >= 0";
    let filters = [
        (SQL, Value::string(text)),
        (APPLICATION, pair("colour", "&s:d")),
        (SELECTOR, Value::string("colour <> 'blue'")),
    ];
    let (link, result) = scene.attach(client, filtering(&filters));
    assert_eq!(result, Ok(()));
    let source = answer(&mut scene, client, link).source;
    let kept = source.and_then(|source| source.filter).expect("filters");
    let kinds: Vec<_> = kept.iter().map(|(kind, _)| kind.to_string()).collect();
    assert_eq!(kinds, [SQL, APPLICATION, SELECTOR]);
    scene.clients[client].engine.set_credit(link, 10);
    scene.drive();
    let bodies: Vec<_> = scene
        .deliveries(client)
        .into_iter()
        .map(|it| it.2)
        .collect();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert!(bodies[0].ends_with(b"red"));
    assert_eq!(scene.counts("q"), (2, 1));
}

// Clients in Go write the number of the descriptor, and a name of their own as key.
#[test]
fn an_sql_filter_is_known_by_its_number() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let publisher = scene.publisher(client, Some("/queues/q"));
    scene.publish(client, publisher, &coloured("invoice", "red"));
    scene.publish(client, publisher, &coloured("invoice", "blue"));
    let mut attach = receiver("r", "/queues/q");
    let value = (Value::Ulong(0x120), Value::string("colour = 'blue'"));
    let filters = [(
        Symbol::from("sql-filter"),
        Value::Described(Box::new(value)),
    )];
    if let Some(source) = attach.source.as_mut() {
        source.filter = Some(filters.into_iter().collect());
    }
    let (link, result) = scene.attach(client, attach);
    assert_eq!(result, Ok(()));
    scene.clients[client].engine.set_credit(link, 10);
    scene.drive();
    let deliveries = scene.deliveries(client);
    assert_eq!(deliveries.len(), 1);
    assert!(deliveries[0].2.ends_with(b"blue"));
}

// "the filters actually in place" [AMQP 3.5.3]
#[test]
fn the_answer_names_the_filters_that_are_applied_and_no_other() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let filters = [
        (APPLICATION, pair("colour", "red")),
        ("apache.org:no-local-filter:list", Value::List(Vec::new())),
        (PROPERTIES, pair("subject", "invoice")),
        ("rabbitmq:stream-offset-spec", Value::string("first")),
        (SQL, Value::List(Vec::new())),
    ];
    let (link, result) = scene.attach(client, filtering(&filters));
    assert_eq!(result, Ok(()));
    let source = answer(&mut scene, client, link).source;
    let kept = source.and_then(|source| source.filter).expect("filters");
    let kinds: Vec<_> = kept.iter().map(|(kind, _)| kind.to_string()).collect();
    assert_eq!(kinds, [APPLICATION, PROPERTIES]);
    let wanted = filtering(&filters).source.and_then(|source| source.filter);
    let wanted = wanted.expect("filters");
    for (kind, value) in &kept {
        assert_eq!(wanted.get(kind.as_str()), Some(value), "{kind}");
    }
}

#[rstest]
#[case::no_field_of_a_message(PROPERTIES, pair("colour", "red"), "'colour'")]
#[case::an_unknown_modifier(APPLICATION, pair("colour", "&x:red"), "'colour'")]
#[case::a_name_that_is_a_number(
    APPLICATION,
    Value::Map(vec![(Value::Uint(1), Value::Null)]),
    "neither a symbol nor a string"
)]
#[case::no_operand(SQL, Value::string("colour ="), "character 9")]
#[case::an_unknown_section(SQL, Value::string("footer.x = 1"), "'footer' at character 1")]
#[case::no_field_at_all(PROPERTIES, Value::Map(Vec::new()), "from 1 to 16")]
fn a_filter_that_cannot_be_applied_is_refused_by_name(
    #[case] kind: &str,
    #[case] value: Value,
    #[case] expect: &str,
) {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let owner = &mut scene.clients[client];
    let session = owner.session.unwrap();
    let attach = filtering(&[(kind, value)]);
    let link = owner.engine.attach(session, attach).unwrap();
    scene.drive();
    let of_link = |event: &Event| matches!(event, Event::Detached { link: of, .. } if *of == link);
    let Some(Event::Detached {
        error: Some(error), ..
    }) = scene.take(client, of_link)
    else {
        panic!("attached");
    };
    assert_eq!(error.condition.to_string(), "amqp:invalid-field");
    let text = error.description.as_deref().unwrap_or_default();
    assert!(text.contains(kind) && text.contains(expect), "{text}");
}
