//! Bearers of tokens: their rights, the end of them, and tokens that take the place of others.

use rstest::rstest;

use super::support::{Scene, addressed, condition, message, receiver, section, sender};
use crate::base::Name;
use crate::broker::registry::{DEFAULT_VHOST, RegistryFact};
use crate::broker::{Command, TopologyCommand};
use crate::link::{ClientSasl, Event, LinkHandle, LinkOptions};
use crate::wire::Value;
use crate::wire::performative::{
    Attach, ReceiverSettleMode, SenderSettleMode, Source, Symbol, Target, TargetArchetype, fields,
};

const ALL: &str = "configure:*/* write:*/* read:*/*";

/// A client that logs in with a token by a mechanism.
fn login(scene: &mut Scene, mechanism: &str, token: &str) -> usize {
    let response = match mechanism {
        "OAUTHBEARER" => format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}"),
        _ => format!("user=whoever\u{1}auth=Bearer {token}\u{1}\u{1}"),
    };
    let sasl = ClientSasl {
        mechanism: mechanism.to_owned(),
        response: response.into_bytes(),
    };
    scene.add_client(sasl, None, LinkOptions::default().max_frame_size)
}

/// A client with a session whose token grants these scopes for a minute.
fn bearer(scene: &mut Scene, scopes: &str) -> usize {
    let client = login(scene, "XOAUTH2", &format!("ada 60000 {scopes}"));
    let owner = &mut scene.clients[client];
    owner.session = owner.engine.begin();
    scene.drive();
    client
}

/// The condition and description that the connection was closed with.
fn closed(scene: &mut Scene, client: usize) -> Option<(String, String)> {
    match scene.take(client, |event| matches!(event, Event::Closed { .. }))? {
        Event::Closed { error, .. } => {
            let why = error.as_ref().and_then(|error| error.description.clone());
            Some((condition(error.as_deref()), why.unwrap_or_default()))
        }
        _ => None,
    }
}

fn is_open(scene: &Scene, client: usize) -> bool {
    scene.clients[client].gateway.user().is_some()
}

// [RFC 7628 3] [AMQP 5.3]
#[rstest]
#[case("OAUTHBEARER")]
#[case("XOAUTH2")]
fn a_token_logs_its_user_in(#[case] mechanism: &str) {
    let mut scene = Scene::new();
    let client = login(&mut scene, mechanism, &format!("ada 60000 {ALL}"));
    let user = scene.clients[client].gateway.user();
    assert_eq!(user, Some(&Name::from("ada")));
}

// [RFC 7628 3.2.3] the client answers the error before it gets the outcome.
#[rstest]
#[case("OAUTHBEARER", "malformed")]
#[case("XOAUTH2", "malformed")]
#[case("XOAUTH2", "ada 60000 tag:administrator")]
#[case("XOAUTH2", "ada 60000 read:other/*")]
#[case("XOAUTH2", "ada 0 read:*/*")]
fn a_token_that_is_bad_or_opens_no_vhost_opens_nothing(
    #[case] mechanism: &str,
    #[case] token: &str,
) {
    let mut scene = Scene::new();
    let client = login(&mut scene, mechanism, token);
    assert!(!is_open(&scene, client), "{token}");
    let ended = |event: &Event| matches!(event, Event::Closed { .. });
    assert!(scene.take(client, ended).is_some(), "{token}");
}

/// What somebody does with a link: nothing when it may.
fn told(scene: &mut Scene, client: usize, attach: Attach, to: Option<&str>) -> String {
    let publishes = attach.role == crate::wire::performative::Role::Sender;
    let (link, attached) = scene.attach(client, attach);
    if let Err(refused) = attached {
        return refused;
    }
    if !publishes {
        return String::new();
    }
    let outcome = scene.publish(client, link, &addressed(to, None));
    match outcome.as_deref() {
        Some("accepted" | "released") | None => scene.detached(client, link).unwrap_or_default(),
        Some(outcome) => outcome.to_owned(),
    }
}

#[rstest]
#[case(
    "write:*/amq.default",
    "write:*/other read:*/* configure:*/*",
    Some("/queues/q"),
    None
)]
#[case("write:%2F/x", "write:%2F/y", Some("/exchanges/x/mine.a"), None)]
#[case(
    "write:%2F/x",
    "write:*/amq.default",
    None,
    Some("/exchanges/x/mine.a")
)]
#[case(
    "write:*/x/mine.*",
    "write:*/x/other.*",
    Some("/exchanges/x/mine.a"),
    None
)]
#[case(
    "write:*/x/mine.*",
    "write:*/x/other.*",
    None,
    Some("/exchanges/x/mine.a")
)]
#[case("read:*/q", "read:*/p write:*/q", None, None)]
fn scopes_give_the_rights_that_permissions_give(
    #[case] enough: &str,
    #[case] other: &str,
    #[case] address: Option<&str>,
    #[case] to: Option<&str>,
) {
    for (scopes, may) in [(enough, true), (other, false)] {
        let mut scene = Scene::new();
        scene.queue("q", &[]);
        scene.ask(Command::Topology(TopologyCommand::ExchangeDeclare {
            name: Name::from("x"),
            kind: Name::from("topic"),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Vec::new(),
        }));
        let client = bearer(&mut scene, scopes);
        let attach = match (address, to) {
            (None, None) => receiver("in", "/queues/q"),
            _ => sender("out", address),
        };
        let error = told(&mut scene, client, attach, to);
        if may {
            assert_eq!(error, "", "{scopes}");
        } else {
            assert!(
                error.contains("amqp:unauthorized-access"),
                "{scopes}: '{error}'"
            );
        }
    }
}

#[test]
fn users_of_the_registry_have_nothing_to_do_with_a_token_of_their_name() {
    let mut scene = Scene::new();
    scene.queue("q", &[]);
    // `guest` may do everything, its namesake with a token nothing but read.
    let token = "guest 60000 read:*/q";
    let client = login(&mut scene, "XOAUTH2", token);
    let owner = &mut scene.clients[client];
    owner.session = owner.engine.begin();
    scene.drive();
    let attach = sender("out", Some("/queues/q"));
    let error = told(&mut scene, client, attach, None);
    assert!(error.contains("amqp:unauthorized-access"), "'{error}'");
    let name = Name::from("guest");
    (scene.environment).change_registry([RegistryFact::UserDeleted { name }]);
    scene.follow_registry();
    assert!(is_open(&scene, client));
    assert_eq!(closed(&mut scene, client), None);
    let name = Name::from(DEFAULT_VHOST);
    (scene.environment).change_registry([RegistryFact::VhostDeleted { name }]);
    scene.follow_registry();
    let (condition, _) = closed(&mut scene, client).unwrap();
    assert_eq!(condition, "amqp:connection:forced");
}

/// It took over links that outlive their connection, with what became of the user's messages.
#[test]
fn a_token_of_the_name_of_a_user_takes_over_no_link_of_that_user() {
    let mut scene = Scene::new();
    scene.queue("q", &[]);
    let policy = || Some(Symbol::from("connection-close"));
    let out = Attach {
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        target: Some(Box::new(TargetArchetype::Target(Target {
            address: Some("/queues/q".to_owned()),
            expiry_policy: policy(),
            timeout_s: 60,
            ..Target::default()
        }))),
        ..sender("out", None)
    };
    let mut into = receiver("in", "/queues/q");
    into.rcv_settle_mode = ReceiverSettleMode::Second;
    let source = into.source.as_mut().unwrap();
    (source.expiry_policy, source.timeout_s) = (policy(), 60);
    for attach in [out, into] {
        let user = scene.client();
        let (first, attached) = scene.attach(user, attach.clone());
        assert_eq!(attached, Ok(()));
        let namesake = login(&mut scene, "XOAUTH2", &format!("guest 60000 {ALL}"));
        let owner = &mut scene.clients[namesake];
        owner.session = owner.engine.begin();
        scene.drive();
        let (_, attached) = scene.attach(namesake, attach.clone());
        assert_eq!(attached, Ok(()));
        assert_eq!(scene.detached(user, first), None, "{}", attach.name);
        // The link is taken over by the user itself.
        let again = scene.client();
        scene.attach(again, attach.clone()).1.unwrap();
        let stolen = scene.detached(user, first).unwrap_or_default();
        assert!(
            stolen.contains("amqp:link:stolen"),
            "{}: '{stolen}'",
            attach.name
        );
    }
}

/// Its connections filled the limit of the user, so that this one could not connect.
#[test]
fn a_token_of_the_name_of_a_user_takes_no_connection_of_that_users_limit() {
    let mut scene = Scene::new();
    let user = scene.environment.registry().user("guest").cloned();
    let mut user = user.expect("there is one");
    user.limits.connections_max = Some(1);
    (scene.environment).change_registry([RegistryFact::UserSet(Box::new(user))]);
    let namesake = login(&mut scene, "XOAUTH2", &format!("guest 60000 {ALL}"));
    let first = scene.client();
    assert!(is_open(&scene, namesake) && is_open(&scene, first));
    let second = scene.client();
    assert!(!is_open(&scene, second), "the limit is the user's");
}

#[test]
fn rights_end_with_the_token_and_the_connection_too() {
    let mut scene = Scene::new();
    scene.queue("q", &[]);
    let client = bearer(&mut scene, ALL);
    let link = scene.publisher(client, Some("/queues/q"));
    scene.consumer(client, "q", 10);
    let before = scene.publish(client, link, &message(b"in time"));
    assert_eq!(before.as_deref(), Some("accepted"));
    assert_eq!(scene.deliveries(client).len(), 1);
    // The wall clock of the scene began at 0.
    scene.now.wall.0 = 59_999;
    scene.follow_registry();
    assert_eq!(closed(&mut scene, client), None);
    let deadline = scene.clients[client].gateway.next_deadline().unwrap();
    assert_eq!(
        deadline,
        scene.now.mono.plus(1),
        "the end of the token is a timer"
    );
    // A message that is in the input already is not looked at any more.
    scene.now.wall.0 = 60_000;
    scene.send(client, link, &message(b"too late"));
    scene.follow_registry();
    let (condition, why) = closed(&mut scene, client).unwrap();
    assert_eq!(condition, "amqp:unauthorized-access");
    assert_eq!(why, "the token has expired");
    assert_eq!(scene.outcome(client), None);
    assert_eq!(
        scene.counts("q"),
        (1, 0),
        "what it held is ready again, once"
    );
}

/// A pair of links to `/management`.
fn pair(scene: &mut Scene, client: usize) -> LinkHandle {
    let paired = |attach: Attach| Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        source: Some(Box::new(Source {
            address: Some("/management".into()),
            ..Source::default()
        })),
        target: Some(Box::new(TargetArchetype::Target(Target {
            address: Some("/management".into()),
            ..Target::default()
        }))),
        properties: Some(fields([("paired", Value::Bool(true))])),
        ..attach
    };
    let (asking, result) = scene.attach(client, paired(sender("pair", None)));
    assert_eq!(result, Ok(()));
    let (answering, result) = scene.attach(client, paired(receiver("pair", "")));
    assert_eq!(result, Ok(()));
    scene.clients[client].engine.set_credit(answering, 100);
    scene.drive();
    asking
}

/// Asks to take another token; the answer as text.
fn renew(scene: &mut Scene, client: usize, link: LinkHandle, token: &str) -> String {
    let properties = [
        Value::Ulong(1),
        Value::Null,
        Value::string("/auth/tokens"),
        Value::string("PUT"),
        Value::string("$me"),
    ];
    let mut request = section(0x73, &Value::List(properties.to_vec()));
    let body = Value::Binary(token.as_bytes().to_vec().into());
    request.extend(section(0x77, &body));
    scene.send_settled(client, link, &request);
    let answers = scene.deliveries(client);
    let (_, _, answer) = answers.first().expect("an answer");
    String::from_utf8_lossy(answer).into_owned()
}

#[test]
fn another_token_of_the_same_user_takes_the_place_of_the_first() {
    let mut scene = Scene::new();
    scene.queue("q", &[]);
    let client = bearer(&mut scene, "read:*/q");
    let kept_bytes = scene.clients[client].gateway.kept_bytes();
    let link = pair(&mut scene, client);
    let answer = renew(&mut scene, client, link, &format!("ada 90000 {ALL}"));
    assert!(answer.contains("204"), "{answer}");
    assert!(
        scene.clients[client].gateway.kept_bytes() > kept_bytes,
        "its scopes are counted"
    );
    let publisher = scene.publisher(client, Some("/queues/q"));
    scene.now.wall.0 = 60_000;
    scene.follow_registry();
    let outcome = scene.publish(client, publisher, &message(b"still there"));
    assert_eq!(outcome.as_deref(), Some("accepted"));
    // Fewer rights hold at once, on links that are open too.
    let answer = renew(&mut scene, client, link, "ada 95000 read:*/q");
    assert!(answer.contains("204"), "{answer}");
    let outcome = scene.publish(client, publisher, &message(b"no more"));
    assert_eq!(outcome, None);
    let detached = scene.detached(client, publisher);
    assert_eq!(detached.as_deref(), Some("amqp:unauthorized-access"));
    scene.now.wall.0 = 95_000;
    scene.follow_registry();
    assert!(closed(&mut scene, client).is_some());
}

#[rstest]
#[case("bob 90000 read:*/*", "not of the user")]
#[case("ada 90000 read:other/*", "does not open vhost '/'")]
#[case("ada 90000 tag:administrator", "does not open vhost '/'")]
#[case("malformed", "malformed token")]
fn a_token_that_does_not_fit_leaves_the_old_one(#[case] token: &str, #[case] why: &str) {
    let mut scene = Scene::new();
    let client = bearer(&mut scene, ALL);
    let link = pair(&mut scene, client);
    let answer = renew(&mut scene, client, link, token);
    assert!(answer.contains("400") && answer.contains(why), "{answer}");
    scene.now.wall.0 = 59_999;
    scene.follow_registry();
    assert_eq!(closed(&mut scene, client), None, "the old one is in place");
    scene.now.wall.0 = 60_000;
    scene.follow_registry();
    assert!(closed(&mut scene, client).is_some(), "and ends when it did");
}

#[test]
fn who_logged_in_with_a_password_has_no_token_to_renew() {
    let mut scene = Scene::new();
    let client = scene.client();
    let link = pair(&mut scene, client);
    let answer = renew(&mut scene, client, link, &format!("guest 90000 {ALL}"));
    assert!(
        answer.contains("400") && answer.contains("did not log in"),
        "{answer}"
    );
}

/// Links to and from `$cbs`, as clients of Azure's services attach them.
fn cbs(scene: &mut Scene, client: usize) -> LinkHandle {
    let (putting, result) = scene.attach(client, sender("cbs", Some("$cbs")));
    assert_eq!(result, Ok(()));
    let (told, result) = scene.attach(client, receiver("cbs-status", "$cbs"));
    assert_eq!(result, Ok(()));
    scene.clients[client].engine.set_credit(told, 100);
    scene.drive();
    putting
}

/// A request to `$cbs` with these application properties.
fn put_token(pairs: &[(&str, &str)], token: &Value) -> Vec<u8> {
    let properties = [
        Value::string("id-7"),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::string("$cbs"),
    ];
    let pairs = pairs
        .iter()
        .map(|(name, value)| (Value::string(*name), Value::string(*value)));
    let mut request = section(0x73, &Value::List(properties.to_vec()));
    request.extend(section(0x74, &Value::Map(pairs.collect())));
    request.extend(section(0x77, token));
    request
}

const PUT: &[(&str, &str)] = &[
    ("operation", "put-token"),
    ("type", "jwt"),
    ("name", "amqp://localhost/"),
];

/// The status code of the answer, its description, and whether it repeats the request's id.
fn status(scene: &mut Scene, client: usize) -> (i32, String, bool) {
    let answers = scene.deliveries(client);
    let (_, _, answer) = answers.first().expect("an answer");
    let index = crate::wire::walk(answer).unwrap();
    let at = index.application_properties.value as usize;
    let told = crate::wire::Reader::starting_at(answer, at)
        .value()
        .unwrap();
    let Value::Map(told) = told else {
        panic!("{told:?}");
    };
    let [(_, Value::Int(code)), (_, Value::String(why))] = &told[..] else {
        panic!("{told:?}");
    };
    let text = String::from_utf8_lossy(answer);
    (*code, why.clone(), text.contains("id-7"))
}

#[test]
fn cbs_takes_tokens_in_place_of_the_first() {
    let mut scene = Scene::new();
    let client = bearer(&mut scene, "read:*/q");
    let link = cbs(&mut scene, client);
    let token = Value::String(format!("ada 90000 {ALL}"));
    scene.send(client, link, &put_token(PUT, &token));
    scene.drive();
    assert_eq!(scene.outcome(client).as_deref(), Some("accepted"));
    let accepted = (202, "Accepted".to_owned(), true);
    assert_eq!(status(&mut scene, client), accepted);
    scene.now.wall.0 = 60_000;
    scene.follow_registry();
    assert_eq!(closed(&mut scene, client), None);
    // As many as it likes, with the credit that it gets.
    for _ in 0..20 {
        scene.send_settled(client, link, &put_token(PUT, &token));
        assert_eq!(status(&mut scene, client), accepted);
    }
    scene.now.wall.0 = 90_000;
    scene.follow_registry();
    assert!(closed(&mut scene, client).is_some());
}

#[rstest]
#[case(PUT, Value::string("bob 90000 read:*/*"), 401, "not of the user")]
#[case(PUT, Value::string("malformed"), 401, "malformed token")]
#[case(PUT, Value::Ulong(7), 400, "must be the token")]
#[case(&[("operation", "delete-token"), ("type", "jwt")], Value::Null, 400, "must be put-token")]
#[case(&[("operation", "put-token")], Value::string("ada"), 400, "'type' must be jwt")]
fn cbs_says_what_is_wrong_and_leaves_the_first(
    #[case] pairs: &[(&str, &str)],
    #[case] token: Value,
    #[case] code: i32,
    #[case] why: &str,
) {
    let mut scene = Scene::new();
    let client = bearer(&mut scene, ALL);
    let link = cbs(&mut scene, client);
    scene.send_settled(client, link, &put_token(pairs, &token));
    let (answered, told, repeats) = status(&mut scene, client);
    assert!(
        answered == code && repeats && told.contains(why),
        "{answered} {told}"
    );
    scene.now.wall.0 = 59_999;
    scene.follow_registry();
    assert_eq!(closed(&mut scene, client), None);
    scene.now.wall.0 = 60_000;
    scene.follow_registry();
    assert!(closed(&mut scene, client).is_some());
}

#[test]
fn cbs_answers_on_the_link_that_is_named_and_needs_one_with_credit() {
    let mut scene = Scene::new();
    let client = bearer(&mut scene, ALL);
    let (link, result) = scene.attach(client, sender("cbs", Some("$cbs")));
    assert_eq!(result, Ok(()));
    let token = Value::string("ada 90000 read:*/*");
    let named = |name: &str| {
        let attach = receiver(name, "$cbs");
        Attach {
            target: Some(Box::new(TargetArchetype::Target(Target {
                address: Some(name.into()),
                ..Target::default()
            }))),
            ..attach
        }
    };
    for name in ["other", "$cbs"] {
        let (told, result) = scene.attach(client, named(name));
        assert_eq!(result, Ok(()));
        scene.clients[client].engine.set_credit(told, 1);
        scene.drive();
    }
    scene.send_settled(client, link, &put_token(PUT, &token));
    let answers = scene.deliveries(client);
    let named = scene.clients[client]
        .engine
        .link_name(answers[0].0)
        .cloned();
    assert_eq!(named, Some(Name::from("$cbs")));
    // The other one is used while it has credit; then there is none.
    scene.send_settled(client, link, &put_token(PUT, &token));
    assert_eq!(scene.deliveries(client).len(), 1);
    scene.send_settled(client, link, &put_token(PUT, &token));
    let detached = scene.detached(client, link);
    assert_eq!(detached.as_deref(), Some("amqp:precondition-failed"));
}

#[test]
fn who_logged_in_with_a_password_puts_no_token() {
    let mut scene = Scene::new();
    let client = scene.client();
    let link = cbs(&mut scene, client);
    let token = Value::String(format!("guest 90000 {ALL}"));
    scene.send_settled(client, link, &put_token(PUT, &token));
    let (code, why, _) = status(&mut scene, client);
    assert!(
        code == 401 && why.contains("did not log in"),
        "{code} {why}"
    );
}

#[test]
fn cbs_is_no_address_where_no_tokens_are_taken() {
    let mut options = super::support::options();
    options.mechanisms.takes_tokens = false;
    let mut scene = Scene::with(options);
    let client = scene.client();
    for attach in [sender("cbs", Some("$cbs")), receiver("cbs", "$cbs")] {
        let (_, result) = scene.attach(client, attach);
        assert!(result.is_err());
    }
}
