//! The router against its rules, one by one, and against a naive one.

use proptest::prelude::*;

use super::*;
use crate::base::Meter;
use crate::broker::Matching;
use crate::broker::policy::{Policies, Policy, PolicySpec};

/// Application properties only.
struct Properties(Vec<(&'static str, Value)>);

impl Attributes for Properties {
    fn application_properties<'a>(
        &'a self,
        is_wanted: impl Fn(&str) -> bool,
        mut found: impl FnMut(&'a str, Value),
    ) -> usize {
        let pairs = self.0.iter().filter(|(name, _)| is_wanted(name));
        pairs.for_each(|(name, value)| found(name, value.clone()));
        self.0.len()
    }

    fn annotations<'a>(&'a self, _: impl Fn(&str) -> bool, _: impl FnMut(&'a str, Value)) -> usize {
        0
    }
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn queue_name(n: u64) -> Name {
    Name::from(format!("q{n}"))
}

fn to_queue(n: u64) -> Destination {
    Destination::Queue(queue_name(n))
}

fn to_exchange(name: &str) -> Destination {
    Destination::Exchange(Name::from(name))
}

/// A router with the queues q1 to q4 and some exchanges, `name kind[ auto]`.
fn router(exchanges: &[&str]) -> Router {
    let mut router = Router::new(Seed(7));
    for n in 1..=4 {
        router.queue_added(queue_name(n), QueueId(n));
    }
    for words in exchanges {
        declare(&mut router, words, &[]);
    }
    router
}

fn declare(router: &mut Router, words: &str, arguments: &[(&str, Value)]) {
    let mut words = words.split(' ');
    let (name, kind) = (words.next().unwrap(), words.next().unwrap());
    let pairs = arguments.iter();
    let spec = ExchangeSpec {
        auto_delete: words.next() == Some("auto"),
        arguments: pairs.map(|(k, v)| (Name::from(*k), v.clone())).collect(),
        ..ExchangeSpec::plain(name, ExchangeKind::parse(kind).unwrap())
    };
    assert!(router.declare(spec).unwrap().created);
}

fn bind(router: &mut Router, source: &str, destination: &Destination, key: &str) {
    let bound = router.bind(&Name::from(source), destination, &Name::from(key), &[]);
    assert_eq!(bound, Ok(true), "{source} {destination:?} {key}");
}

fn unbind(router: &mut Router, source: &str, destination: &Destination, key: &str) -> Removed {
    let unbound = router.unbind(&Name::from(source), destination, &Name::from(key), &[]);
    unbound.unwrap()
}

fn routed(router: &Router, exchange: &str, keys: &[&str]) -> Vec<u64> {
    let keys: Vec<Name> = keys.iter().map(|key| Name::from(*key)).collect();
    let mut out = Vec::new();
    if let Some(exchange) = router.exchange_named(exchange) {
        router.route_by(exchange.id, &keys, &Properties(Vec::new()), 0, &mut out);
    }
    out.into_iter().map(|QueueId(n)| n).collect()
}

#[test]
fn default_exchange_routes_to_the_queue_named_by_the_key() {
    let router = router(&[]);
    assert_eq!(router.exchange_named("").unwrap().id, DEFAULT_EXCHANGE);
    assert_eq!(routed(&router, "", &["q2"]), [2]);
    assert_eq!(routed(&router, "", &["q2", "q1", "q2", "nosuch"]), [1, 2]);
    assert!(routed(&router, "", &["nosuch"]).is_empty());
}

#[test]
fn one_queue_gets_one_copy_however_many_keys_and_bindings_lead_there() {
    let mut router = router(&["d direct", "t topic", "f fanout"]);
    bind(&mut router, "d", &to_queue(1), "a");
    bind(&mut router, "d", &to_queue(1), "b");
    bind(&mut router, "d", &to_queue(2), "b");
    assert_eq!(routed(&router, "d", &["a"]), [1]);
    assert_eq!(routed(&router, "d", &["a", "b"]), [1, 2]);
    bind(&mut router, "t", &to_queue(1), "#");
    bind(&mut router, "t", &to_queue(1), "*");
    assert_eq!(routed(&router, "t", &["a"]), [1]);
    bind(&mut router, "f", &to_queue(3), "x");
    bind(&mut router, "f", &to_queue(3), "y");
    assert_eq!(routed(&router, "f", &["a", "b"]), [3]);
}

#[test]
fn binding_arguments_make_another_binding() {
    let mut router = router(&["d direct"]);
    bind(&mut router, "d", &to_queue(1), "a");
    let (source, key) = (Name::from("d"), Name::from("a"));
    let arguments = [(Name::from("n"), Value::Ulong(1))];
    assert_eq!(
        router.bind(&source, &to_queue(1), &key, &arguments),
        Ok(true)
    );
    assert_eq!(
        router.bind(&source, &to_queue(1), &key, &arguments),
        Ok(false)
    );
    assert!(unbind(&mut router, "d", &to_queue(1), "a").existed);
    assert_eq!(
        routed(&router, "d", &["a"]),
        [1],
        "the other binding is left"
    );
    assert!(
        router
            .unbind(&source, &to_queue(1), &key, &arguments)
            .unwrap()
            .existed
    );
    assert!(routed(&router, "d", &["a"]).is_empty());
    assert!(
        !router
            .unbind(&source, &to_queue(1), &key, &arguments)
            .unwrap()
            .existed
    );
}

#[test]
fn exchanges_lead_to_exchanges_also_in_circles() {
    let mut router = router(&["a fanout", "b direct", "c topic"]);
    bind(&mut router, "a", &to_exchange("b"), "");
    bind(&mut router, "b", &to_exchange("c"), "k.1");
    bind(&mut router, "c", &to_exchange("a"), "#");
    bind(&mut router, "c", &to_exchange("c"), "#");
    bind(&mut router, "c", &to_queue(1), "k.*");
    bind(&mut router, "a", &to_queue(2), "");
    assert_eq!(routed(&router, "a", &["k.1"]), [1, 2]);
    assert_eq!(routed(&router, "a", &["k.2"]), [2]);
    assert_eq!(routed(&router, "c", &["k.2"]), [1, 2]);
    router.delete(&Name::from("c"), false).unwrap();
    assert_eq!(routed(&router, "a", &["k.1"]), [2]);
}

#[test]
fn alternate_exchange_gets_what_nothing_wants() {
    let mut router = router(&["lost fanout"]);
    declare(
        &mut router,
        "d direct",
        &[("alternate-exchange", string("lost"))],
    );
    bind(&mut router, "d", &to_queue(1), "k");
    bind(&mut router, "lost", &to_queue(2), "");
    assert_eq!(routed(&router, "d", &["k"]), [1]);
    assert_eq!(routed(&router, "d", &["other"]), [2]);
    assert_eq!(routed(&router, "d", &["k", "other"]), [1]);
    declare(
        &mut router,
        "e direct",
        &[("alternate-exchange", string("e"))],
    );
    assert!(routed(&router, "e", &["k"]).is_empty(), "its own alternate");
    declare(
        &mut router,
        "m direct",
        &[("alternate-exchange", string("nosuch"))],
    );
    assert!(routed(&router, "m", &["k"]).is_empty());
    declare(
        &mut router,
        "n direct",
        &[("alternate-exchange", string(""))],
    );
    assert_eq!(
        routed(&router, "n", &["q3"]),
        [3],
        "by the default exchange"
    );
}

fn apply_policies(router: &mut Router, policies: &Policies) {
    for name in ["lost", "own", "plain"].map(Name::from) {
        let mut matching = Matching::new(ObjectKind::Exchange, name.clone());
        assert!(matching.go_on(policies, &mut Meter::default(), u64::MAX));
        router.set_policy_alternate(&name, matching.alternate_exchange().cloned());
    }
}

#[test]
fn alternate_exchange_comes_by_policy_too_and_the_argument_beats_it() {
    let mut router = router(&["lost fanout", "plain direct"]);
    declare(
        &mut router,
        "own direct",
        &[("alternate-exchange", string(""))],
    );
    bind(&mut router, "lost", &to_queue(2), "");
    let spec = PolicySpec {
        name: Name::from("p"),
        pattern: "^(plain|own)$",
        priority: 0,
        apply_to: "exchanges",
        definition: vec![(Name::from("alternate-exchange"), string("lost"))],
    };
    let mut policies = Policies::default();
    policies.set(false, Policy::new(false, spec).unwrap());
    let before = router.generation();
    apply_policies(&mut router, &policies);
    assert!(router.generation() > before, "cached routes are old");
    assert_eq!(routed(&router, "plain", &["q1"]), [2]);
    assert_eq!(routed(&router, "own", &["q1"]), [1]);
    policies.delete(false, &Name::from("p"));
    apply_policies(&mut router, &policies);
    assert!(routed(&router, "plain", &["q1"]).is_empty());
}

#[test]
fn auto_delete_exchanges_go_with_their_last_binding_and_pull_others_along() {
    let mut router = router(&[
        "a fanout auto",
        "b fanout auto",
        "c fanout auto",
        "d fanout",
    ]);
    bind(&mut router, "a", &to_exchange("b"), "");
    bind(&mut router, "b", &to_exchange("c"), "");
    bind(&mut router, "c", &to_queue(1), "");
    bind(&mut router, "d", &to_exchange("c"), "");
    let removed = router.queue_removed(&queue_name(1));
    assert_eq!(removed.exchanges, ["c", "b", "a"].map(Name::from));
    assert!(removed.existed);
    assert!(router.exchange_named("a").is_none());
    assert!(router.exchange_named("d").is_some());
    assert!(router.bindings(None, None, None).is_empty());
    assert_eq!(router.queue_removed(&queue_name(1)), Removed::default());
}

#[test]
fn auto_delete_exchange_goes_when_unbound() {
    let mut router = router(&["a direct auto"]);
    bind(&mut router, "a", &to_queue(1), "x");
    bind(&mut router, "a", &to_queue(1), "y");
    assert!(
        unbind(&mut router, "a", &to_queue(1), "x")
            .exchanges
            .is_empty()
    );
    let removed = unbind(&mut router, "a", &to_queue(1), "y");
    assert_eq!(removed.exchanges, [Name::from("a")]);
    assert!(!unbind(&mut router, "a", &to_queue(1), "y").existed);
}

#[test]
fn a_new_exchange_of_an_old_name_is_another_exchange() {
    let mut router = router(&["a direct"]);
    let old = router.exchange_named("a").unwrap().id;
    router.delete(&Name::from("a"), false).unwrap();
    declare(&mut router, "a fanout", &[]);
    assert_ne!(router.exchange_named("a").unwrap().id, old);
    let mut out = Vec::new();
    router.route_by(
        old,
        &[Name::from("k")],
        &Properties(Vec::new()),
        0,
        &mut out,
    );
    assert!(out.is_empty());
}

#[test]
fn declarations_are_checked() {
    let mut router = router(&["d direct"]);
    let mut check = |spec: ExchangeSpec| router.declare(spec).map(|declared| declared.created);
    let plain = ExchangeSpec::plain;
    assert_eq!(check(plain("d", ExchangeKind::Direct)), Ok(false));
    assert_eq!(check(plain("amq.direct", ExchangeKind::Direct)), Ok(false));
    for (field, given) in [
        ("type", plain("d", ExchangeKind::Fanout)),
        (
            "durable",
            ExchangeSpec {
                durable: false,
                ..plain("d", ExchangeKind::Direct)
            },
        ),
        (
            "auto_delete",
            ExchangeSpec {
                auto_delete: true,
                ..plain("d", ExchangeKind::Direct)
            },
        ),
        (
            "internal",
            ExchangeSpec {
                internal: true,
                ..plain("d", ExchangeKind::Direct)
            },
        ),
        ("type", plain("amq.direct", ExchangeKind::Topic)),
    ] {
        match check(given) {
            Err(Error::Inequivalent { field: named, .. }) => assert_eq!(named, field),
            other => panic!("{field} {other:?}"),
        }
    }
    for reserved in ["", "amq.mine"] {
        let refused = check(plain(reserved, ExchangeKind::Direct));
        assert!(
            matches!(refused, Err(Error::Reserved { .. })),
            "{reserved} {refused:?}"
        );
    }
    let alternate = ExchangeSpec {
        arguments: vec![(Name::from("alternate-exchange"), Value::Uint(1))],
        ..plain("new", ExchangeKind::Direct)
    };
    assert!(matches!(check(alternate), Err(Error::BadArgument { .. })));
    let broken = check(plain("a\rb", ExchangeKind::Direct));
    assert!(matches!(broken, Err(Error::BadRequest { .. })));
    assert!(matches!(
        ExchangeKind::parse("nope"),
        Err(Error::BadRequest { .. })
    ));
}

#[test]
fn deleting_and_binding_are_checked() {
    let mut router = router(&["d direct"]);
    bind(&mut router, "d", &to_queue(1), "k");
    let name = |text: &str| Name::from(text);
    let deleted = router.delete(&name("d"), true);
    assert!(matches!(deleted, Err(Error::NotIdle { .. })), "{deleted:?}");
    for predeclared in ["", "amq.direct", "amq.nosuch"] {
        let deleted = router.delete(&name(predeclared), false);
        assert!(
            matches!(deleted, Err(Error::Reserved { .. })),
            "{predeclared}"
        );
    }
    assert_eq!(router.delete(&name("nosuch"), true), Ok(Removed::default()));
    let mut refused = |source: &str, destination: Destination, arguments: &[(Name, Value)]| {
        router
            .bind(&name(source), &destination, &name("k"), arguments)
            .unwrap_err()
    };
    let missing = |kind, what: &str| Error::NotFound {
        kind,
        name: name(what),
    };
    assert_eq!(
        refused("nosuch", to_queue(1), &[]),
        missing(ObjectKind::Exchange, "nosuch")
    );
    assert_eq!(
        refused("d", to_queue(9), &[]),
        missing(ObjectKind::Queue, "q9")
    );
    assert_eq!(
        refused("d", to_exchange("no"), &[]),
        missing(ObjectKind::Exchange, "no")
    );
    assert!(matches!(
        refused("", to_queue(1), &[]),
        Error::Reserved { .. }
    ));
    assert!(matches!(
        refused("d", to_exchange(""), &[]),
        Error::Reserved { .. }
    ));
    let x_match = [(name("x-match"), string("some"))];
    let bad = refused("amq.headers", to_queue(1), &x_match);
    assert!(matches!(bad, Error::BadArgument { argument, .. } if argument == "x-match"));
}

#[test]
fn bindings_are_listed_in_order_and_by_what_is_asked_for() {
    let mut router = router(&["b direct", "a direct"]);
    for (source, destination, key) in [
        ("b", to_queue(2), "k2"),
        ("b", to_queue(2), "k1"),
        ("b", to_queue(1), "k3"),
        ("b", to_exchange("a"), "k1"),
        ("a", to_queue(1), "k1"),
    ] {
        bind(&mut router, source, &destination, key);
    }
    let listed = |source: Option<&str>, destination: Option<&Destination>, key: Option<&str>| {
        let (source, key) = (source.map(Name::from), key.map(Name::from));
        let bindings = router.bindings(source.as_ref(), destination, key.as_ref());
        let words = bindings.iter().map(|binding| {
            let (Destination::Queue(to) | Destination::Exchange(to)) = &binding.destination;
            format!("{} {to} {}", binding.source, binding.key)
        });
        words.collect::<Vec<_>>()
    };
    let all = ["a q1 k1", "b q1 k3", "b q2 k1", "b q2 k2", "b a k1"];
    assert_eq!(listed(None, None, None), all);
    assert_eq!(
        listed(Some("b"), Some(&to_queue(2)), Some("k1")),
        ["b q2 k1"]
    );
    assert_eq!(listed(Some("b"), None, Some("k1")), ["b q2 k1", "b a k1"]);
    assert_eq!(
        listed(None, Some(&to_queue(1)), None),
        ["a q1 k1", "b q1 k3"]
    );
    assert!(listed(Some("nosuch"), None, None).is_empty());
    assert_eq!(listed(Some(""), Some(&to_queue(4)), Some("q4")), [" q4 q4"]);
    assert!(listed(Some(""), Some(&to_queue(4)), Some("q3")).is_empty());
}

#[test]
fn only_what_may_reach_an_exchange_that_varies_depends_on_the_message() {
    let mut router = router(&["d direct", "f fanout", "h headers", "r x-local-random"]);
    let depends =
        |router: &Router, name| router.depends_on_message(router.exchange_named(name).unwrap().id);
    assert!(!depends(&router, "h"), "it has no bindings");
    bind(&mut router, "h", &to_queue(1), "");
    bind(&mut router, "f", &to_exchange("h"), "");
    assert!(depends(&router, "h") && depends(&router, "f"));
    assert!(!depends(&router, "d") && !router.depends_on_message(DEFAULT_EXCHANGE));
    router.queue_removed(&queue_name(1));
    assert!(!depends(&router, "f"));
    bind(&mut router, "h", &to_queue(2), "");
    router.delete(&Name::from("h"), false).unwrap();
    bind(&mut router, "r", &to_queue(2), "");
    assert!(depends(&router, "r"));
    router.delete(&Name::from("r"), false).unwrap();
    assert_eq!(router.varying_bindings, 0);
}

#[test]
fn a_random_exchange_picks_one_queue_by_the_draw_once_for_each_binding() {
    let mut router = router(&["f fanout", "r x-local-random"]);
    bind(&mut router, "f", &to_exchange("r"), "");
    let picked = |router: &Router, draw| {
        let mut out = Vec::new();
        let fanout = router.id_of("f").unwrap();
        router.route_by(fanout, &[Name::from("any")], &NoAttributes, draw, &mut out);
        out.iter().map(|queue| queue.0).collect::<Vec<_>>()
    };
    assert!(picked(&router, 5).is_empty());
    bind(&mut router, "r", &to_queue(1), "");
    bind(&mut router, "r", &to_queue(2), "");
    let again = [(Name::from("again"), Value::Bool(true))];
    let bound = router.bind(&Name::from("r"), &to_queue(1), &Name::default(), &again);
    assert_eq!(bound, Ok(true));
    let picks = |router: &Router| {
        let mut picks: Vec<_> = (30..33).flat_map(|draw| picked(router, draw)).collect();
        picks.sort_unstable();
        picks
    };
    assert_eq!(picks(&router), [1, 1, 2]);
    router.queue_removed(&queue_name(1));
    assert_eq!(picks(&router), [2, 2, 2]);
    router.queue_removed(&queue_name(2));
    assert!(picks(&router).is_empty());
}

/// A router whose exchange `d` has 300 bindings to q1, made anew by `bind_all`.
fn bind_all(router: &mut Router) {
    for n in 0..300 {
        bind(router, "d", &to_queue(1), &format!("k{n:03}"));
    }
}

fn forget_all(router: &mut Router) -> Vec<Name> {
    let mut gone = Vec::new();
    while router.is_forgetting() {
        gone.extend(router.forget_some(50));
    }
    gone
}

#[test]
fn bindings_of_a_deleted_queue_are_gone_at_once_and_removed_by_and_by() {
    let mut router = router(&["d direct auto", "f fanout", "r x-local-random"]);
    declare(
        &mut router,
        "e direct",
        &[("alternate-exchange", string("f"))],
    );
    bind_all(&mut router);
    bind(&mut router, "f", &to_queue(2), "");
    bind(&mut router, "e", &to_queue(1), "k");
    bind(&mut router, "r", &to_queue(1), "");
    bind(&mut router, "r", &to_queue(2), "");
    let removed = router.queue_removed(&queue_name(1));
    assert_eq!((removed.existed, removed.exchanges), (true, Vec::new()));
    assert!(router.is_forgetting(), "some are left");

    assert!(routed(&router, "d", &["k299"]).is_empty());
    assert_eq!(
        routed(&router, "e", &["k"]),
        [2],
        "by the alternate exchange"
    );
    let random = router.id_of("r").unwrap();
    for draw in 0..4 {
        let mut out = Vec::new();
        router.route_by(random, &[Name::default()], &NoAttributes, draw, &mut out);
        assert_eq!(out, [QueueId(2)]);
    }
    assert!(
        router
            .bindings(Some(&Name::from("d")), None, None)
            .is_empty()
    );
    assert_eq!(router.bindings(None, None, None).len(), 2);

    router.queue_added(queue_name(1), QueueId(11));
    bind(&mut router, "d", &to_queue(1), "k299");
    assert_eq!(routed(&router, "d", &["k299"]), [11]);
    assert!(forget_all(&mut router).is_empty(), "d has a binding again");
    assert_eq!(routed(&router, "d", &["k299"]), [11]);
    assert_eq!(router.bindings(None, Some(&to_queue(1)), None).len(), 1);
    router.queue_removed(&queue_name(1));
    assert!(
        router.exchange_named("d").is_none(),
        "the last binding went"
    );
}

#[test]
fn an_auto_delete_exchange_goes_with_the_last_of_many_bindings() {
    let mut router = router(&["d direct auto"]);
    bind_all(&mut router);
    router.queue_removed(&queue_name(1));
    assert_eq!(forget_all(&mut router), ["d"]);
    assert!(router.exchange_named("d").is_none());
}

#[test]
fn bindings_of_a_deleted_exchange_are_gone_at_once_and_those_of_a_new_one_stay() {
    let mut router = router(&["d direct", "f fanout"]);
    bind_all(&mut router);
    bind(&mut router, "f", &to_exchange("d"), "");
    let removed = router.delete(&Name::from("d"), false).unwrap();
    assert!(removed.existed && router.is_forgetting());
    assert!(routed(&router, "f", &["k299"]).is_empty());
    assert!(router.bindings(None, Some(&to_queue(1)), None).is_empty());
    assert!(
        router.delete(&Name::from("f"), true).unwrap().existed,
        "f is unused"
    );

    declare(&mut router, "d direct", &[]);
    bind(&mut router, "d", &to_queue(1), "k299");
    forget_all(&mut router);
    assert_eq!(routed(&router, "d", &["k299"]), [1]);
    assert_eq!(router.bindings(None, Some(&to_queue(1)), None).len(), 1);
    unbind(&mut router, "d", &to_queue(1), "k299");
    assert!(router.by_destination.is_empty() && router.gone.is_empty());
}

#[test]
fn a_hundred_thousand_bindings_are_added_found_and_removed() {
    const BINDINGS: u64 = 100_000;
    let mut router = router(&["d direct", "f fanout", "t topic"]);
    for n in 0..BINDINGS {
        router.queue_added(Name::from(format!("many{n}")), QueueId(100 + n));
    }
    let to = |n: u64| Destination::Queue(Name::from(format!("many{n}")));
    for n in 0..BINDINGS / 4 {
        bind(&mut router, "d", &to(n), &format!("k{n}"));
        bind(&mut router, "d", &to(0), &format!("other{n}"));
        bind(&mut router, "f", &to(n), "");
        bind(&mut router, "t", &to(n), &format!("a.{n}.*"));
    }
    assert_eq!(routed(&router, "d", &["k7"]), [107]);
    assert_eq!(routed(&router, "t", &["a.7.b"]), [107]);
    assert_eq!(routed(&router, "f", &["k"]).len() as u64, BINDINGS / 4);
    for n in 0..BINDINGS {
        router.queue_removed(&Name::from(format!("many{n}")));
    }
    assert!(router.bindings(None, None, None).is_empty());
    assert!(routed(&router, "f", &["k"]).is_empty());
}

/// What a router should find, by the definitions, from the list of its bindings.
fn routed_naively(router: &Router, start: &str, key: &str) -> Vec<u64> {
    let (mut seen, mut at) = (vec![start.to_owned()], 0);
    let mut queues = Vec::new();
    while let Some(name) = seen.get(at).cloned() {
        at += 1;
        let exchange = router.exchange_named(&name).unwrap();
        let mut go_on = |to: &str| {
            if !seen.iter().any(|known| known == to) {
                seen.push(to.to_owned());
            }
        };
        let bindings = router.bindings(Some(&Name::from(name.as_str())), None, None);
        let matching = bindings.iter().filter(|binding| match exchange.spec.kind {
            ExchangeKind::Direct => binding.key == key,
            ExchangeKind::Fanout | ExchangeKind::Headers => true,
            ExchangeKind::Topic => super::super::topic::matches_naively(&binding.key, key),
            ExchangeKind::LocalRandom => unreachable!("no test of this binds one"),
        });
        let mut is_wanted = false;
        for binding in matching {
            is_wanted = true;
            match &binding.destination {
                Destination::Queue(queue) => queues.push(router.queue(queue).unwrap().0),
                Destination::Exchange(to) => go_on(to),
            }
        }
        if let Some(alternate) = exchange.alternate().filter(|_| !is_wanted) {
            go_on(alternate);
        }
    }
    queues.sort_unstable();
    queues.dedup();
    queues
}

#[derive(Clone, Debug)]
enum Change {
    Bind(usize, Result<u64, usize>, usize),
    Unbind(usize, Result<u64, usize>, usize),
    RemoveQueue(u64),
}

fn change() -> impl Strategy<Value = Change> {
    let destination = || prop_oneof![(1..=4_u64).prop_map(Ok), (0..4_usize).prop_map(Err)];
    prop_oneof![
        6 => (0..4_usize, destination(), 0..5_usize).prop_map(|(s, d, k)| Change::Bind(s, d, k)),
        3 => (0..4_usize, destination(), 0..5_usize).prop_map(|(s, d, k)| Change::Unbind(s, d, k)),
        1 => (1..=4_u64).prop_map(Change::RemoveQueue),
    ]
}

proptest! {
    #[test]
    fn the_router_finds_what_the_definitions_find(
        changes in prop::collection::vec(change(), 0..40),
    ) {
        const EXCHANGES: [&str; 4] = ["d", "f", "t", "h"];
        const KEYS: [&str; 5] = ["", "a", "a.b", "a.*", "#"];
        let mut router = router(&["f fanout", "t topic", "h headers"]);
        declare(&mut router, "d direct", &[("alternate-exchange", string("t"))]);
        let name = |at: usize| Name::from(EXCHANGES[at]);
        let to = |destination: Result<u64, usize>| match destination {
            Ok(queue) => to_queue(queue),
            Err(at) => Destination::Exchange(name(at)),
        };
        let mut bound = BTreeSet::new();
        for change in changes {
            match change {
                Change::Bind(source, destination, key) => {
                    let to = to(destination);
                    let result = router.bind(&name(source), &to, &Name::from(KEYS[key]), &[]);
                    if result.is_ok() {
                        prop_assert_eq!(result, Ok(bound.insert((name(source), to, key))));
                    }
                }
                Change::Unbind(source, destination, key) => {
                    let to = to(destination);
                    let removed = unbind(&mut router, EXCHANGES[source], &to, KEYS[key]);
                    let was_bound = bound.remove(&(name(source), to, key));
                    prop_assert_eq!(removed.existed, was_bound);
                }
                Change::RemoveQueue(queue) => {
                    router.queue_removed(&queue_name(queue));
                    bound.retain(|(_, to, _)| *to != to_queue(queue));
                }
            }
            prop_assert_eq!(router.bindings(None, None, None).len(), bound.len());
        }
        for exchange in EXCHANGES {
            for key in ["", "a", "a.b", "x.y.z", "a.*"] {
                prop_assert_eq!(
                    routed(&router, exchange, &[key]),
                    routed_naively(&router, exchange, key),
                    "{} {}", exchange, key
                );
            }
        }
    }
}
