//! Which rights each use of a link needs, one missing at a time.

use rstest::rstest;

use super::support::{Scene, addressed, receiver, sender};
use crate::access::{Permissions, TopicPermissions};
use crate::base::Name;
use crate::broker::registry::{DEFAULT_VHOST, RegistryFact};
use crate::broker::{Command, TopologyCommand};

/// What a client does with a link.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Publishes through a link to this address.
    Send(&'static str),
    /// Publishes to this address through a link to none.
    SendAnonymously(&'static str),
    /// Consumes from this address.
    Receive(&'static str),
}

/// A scene with `q`, the topic exchange `x`, and a client whose rights are `configure write read`.
fn scene(rights: [&str; 3]) -> (Scene, usize) {
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
    let [configure, write, read] = rights;
    scene
        .environment
        .change_registry([RegistryFact::PermissionsSet {
            vhost: Name::from(DEFAULT_VHOST),
            user: Name::from("limited"),
            permissions: Permissions::new(configure, write, read).unwrap(),
        }]);
    let client = scene.client_as("limited", "limited", None);
    (scene, client)
}

/// What the client is told: nothing when it may.
fn told(scene: &mut Scene, client: usize, what: Use) -> String {
    let attach = match what {
        Use::Send(address) => sender("out", Some(address)),
        Use::SendAnonymously(_) => sender("out", None),
        Use::Receive(address) => receiver("in", address),
    };
    let (link, attached) = scene.attach(client, attach);
    if let Err(refused) = attached {
        return refused;
    }
    let to = match what {
        Use::Send(_) => None,
        Use::SendAnonymously(address) => Some(address),
        Use::Receive(_) => return String::new(),
    };
    let outcome = scene.publish(client, link, &addressed(to, None));
    match outcome.as_deref() {
        Some("accepted" | "released") if scene.detached(client, link).is_none() => String::new(),
        Some(outcome) => outcome.to_owned(),
        None => scene.detached(client, link).unwrap_or_default(),
    }
}

#[rstest]
#[case(Use::Send("/queues/q"), ["", "^amq\\.default$", ""])]
#[case(Use::Send("/exchanges/x/k"), ["", "^x$", ""])]
#[case(Use::Send("/exchanges/x"), ["", "^x$", ""])]
#[case(Use::SendAnonymously("/queues/q"), ["", "^amq\\.default$", ""])]
#[case(Use::SendAnonymously("/exchanges/x/k"), ["", "^x$", ""])]
#[case(Use::Receive("/queues/q"), ["", "", "^q$"])]
#[case(Use::Send("auto.q"), ["^auto\\.q$", "^amq\\.default$", ""])]
#[case(Use::Receive("auto.q"), ["^auto\\.q$", "", "^auto\\.q$"])]
fn links_need_exactly_their_rights(#[case] what: Use, #[case] rights: [&str; 3]) {
    let (mut allowed, client) = scene(rights);
    assert_eq!(told(&mut allowed, client, what), "", "{what:?} {rights:?}");
    for missing in (0..3).filter(|right| !rights[*right].is_empty()) {
        let mut fewer = rights;
        fewer[missing] = "";
        let (mut refused, client) = scene(fewer);
        let error = told(&mut refused, client, what);
        assert!(
            error.contains("amqp:unauthorized-access"),
            "{what:?} {fewer:?}: '{error}'"
        );
    }
}

#[rstest]
#[case(Use::Send("/exchanges/x/mine.a"), true)]
#[case(Use::Send("/exchanges/x/other"), false)]
#[case(Use::SendAnonymously("/exchanges/x/mine.a"), true)]
#[case(Use::SendAnonymously("/exchanges/x/other"), false)]
fn topic_permissions_hold_for_each_routing_key(#[case] what: Use, #[case] may: bool) {
    let (mut scene, _) = scene(["", "^x$", ""]);
    let fact = RegistryFact::TopicPermissionsSet {
        vhost: Name::from(DEFAULT_VHOST),
        user: Name::from("limited"),
        exchange: Name::from("x"),
        permissions: TopicPermissions::new("^mine\\.", "", "limited", "/").unwrap(),
    };
    scene.environment.change_registry([fact]);
    let client = scene.client_as("limited", "limited", None);
    let error = told(&mut scene, client, what);
    let refused = error.contains("amqp:unauthorized-access");
    assert_eq!(refused, !may, "{what:?}: '{error}'");
}
