//! Vhosts, users, permissions and limits change while the broker runs, and outlive it.
#![allow(
    clippy::disallowed_methods,
    reason = "tests use directories and clocks"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::PathBuf;
use std::time::Duration;

use coroner::access::{Tag, UserLimits};
use coroner::base::Name;
use coroner::broker::registry::VhostLimits;
use coroner::broker::{Command, QueueCommand, Reply};
use coroner::management::{Change, NewPassword, Status, UserChange, VhostChange};
use coroner::server::Admin;
use coroner::{Broker, Builder};
use fe2o3_amqp::connection::{ConnectionHandle, OpenError};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

/// Longest time for what should happen at once, on a machine that has much else to do.
const SOON: Duration = Duration::from_mins(1);

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&directory).ok();
    directory
}

async fn connect(
    broker: &Broker,
    vhost: &str,
    user: &str,
) -> Result<ConnectionHandle<()>, OpenError> {
    let profile = SaslProfile::Plain {
        username: user.into(),
        password: user.into(),
    };
    Connection::builder()
        .container_id("test")
        .hostname(format!("vhost:{vhost}").as_str())
        .sasl_profile(profile)
        .open_with_stream(broker.connect())
        .await
}

fn name(name: &str) -> Name {
    Name::from(name)
}

fn vhost(called: &str) -> Change {
    Change::VhostPut {
        name: name(called),
        vhost: VhostChange {
            description: Some("for tests".to_owned()),
            tags: Some(vec![name("a")]),
            default_queue_type: Some(name("quorum")),
            creator: None,
        },
    }
}

/// A user whose password is its name.
fn user(called: &str) -> Change {
    Change::UserPut {
        name: name(called),
        user: UserChange {
            password: NewPassword::Clear(called.to_owned()),
            tags: Some(vec![Tag::Management]),
            limits: None,
        },
    }
}

fn permissions(of: &str, within: &str, pattern: &str) -> Change {
    Change::PermissionsPut {
        vhost: name(within),
        user: name(of),
        patterns: [pattern, pattern, pattern].map(str::to_owned),
    }
}

fn topics(of: &str, within: &str, write: &str) -> Change {
    Change::TopicPermissionsPut {
        vhost: name(within),
        user: name(of),
        exchange: name("amq.topic"),
        patterns: [write, ".*"].map(str::to_owned),
    }
}

async fn make(admin: &Admin, changes: impl IntoIterator<Item = Change>) {
    for change in changes {
        admin.change(change).await.unwrap();
    }
}

fn queue(called: &str) -> Command {
    Command::Queue(QueueCommand::Declare {
        connection: None,
        name: name(called),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    })
}

async fn queue_is_there(admin: &Admin, vhost: &str, called: &str) -> bool {
    let get = Command::Queue(QueueCommand::Get { name: name(called) });
    matches!(admin.apply(vhost, get).await, Ok(Reply::Queue(_)))
}

/// The error with which the broker closes a connection.
async fn closed(mut connection: ConnectionHandle<()>) -> String {
    let closed = tokio::time::timeout(SOON, connection.on_close()).await;
    format!("{:?}", closed.unwrap().unwrap_err())
}

/// Why a connection was refused, if it was: opened and closed at once, or never opened.
async fn refused(broker: &Broker, vhost: &str, user: &str) -> String {
    match connect(broker, vhost, user).await {
        Ok(connection) => closed(connection).await,
        Err(error) => format!("{error:?}"),
    }
}

async fn start(builder: Builder) -> Broker {
    builder.start().await.unwrap()
}

#[tokio::test]
async fn changes_survive_restarts_and_what_was_deleted_stays_so() {
    let data = directory("administration");
    let builder = || Broker::builder().data(&data);
    let broker = start(builder()).await;
    let admin = broker.admin();
    assert!(connect(&broker, "/", "guest").await.is_ok(), "fresh");
    make(
        &admin,
        [vhost("v"), vhost("gone"), user("ada"), user("bob")],
    )
    .await;
    let limits = VhostLimits {
        queues_max: Some(5),
        ..VhostLimits::default()
    };
    let all = [
        permissions("ada", "v", ".*"),
        topics("ada", "v", "^a"),
        permissions("bob", "v", ".*"),
        Change::VhostLimitsPut {
            vhost: name("v"),
            limits,
        },
        Change::UserDelete { name: name("bob") },
        Change::UserDelete {
            name: name("guest"),
        },
        Change::VhostDelete { name: name("gone") },
        Change::VhostDelete { name: name("/") },
    ];
    make(&admin, all).await;
    admin.apply("v", queue("kept")).await.unwrap();
    let before = admin.registry().facts();
    drop(admin);
    broker.stop().await;

    for round in 0..2 {
        let broker = start(builder()).await;
        let admin = broker.admin();
        assert_eq!(admin.registry().facts(), before, "start {round}");
        assert!(connect(&broker, "v", "ada").await.is_ok());
        assert!(connect(&broker, "v", "guest").await.is_err());
        assert!(queue_is_there(&admin, "v", "kept").await);
        drop(admin);
        broker.stop().await;
    }
    // What the settings name is made sure of; the rest stays as it is.
    let broker = start(builder().user("carl", "carl").vhost("w")).await;
    assert!(connect(&broker, "w", "carl").await.is_ok());
    assert!(connect(&broker, "v", "carl").await.is_ok());
    assert!(connect(&broker, "v", "ada").await.is_ok());
    broker.stop().await;
}

#[tokio::test]
async fn a_deleted_vhost_closes_its_connections_and_comes_back_empty() {
    let data = directory("deleted-vhost");
    let broker = start(Broker::builder().data(&data)).await;
    let admin = broker.admin();
    make(
        &admin,
        [vhost("v"), user("ada"), permissions("ada", "v", ".*")],
    )
    .await;
    admin.apply("v", queue("q")).await.unwrap();
    let mut connection = connect(&broker, "v", "ada").await.unwrap();
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "/queues/q")
        .await
        .unwrap();
    for number in 0..100 {
        sender.send(format!("{number}")).await.unwrap();
    }
    let deleted = admin.change(Change::VhostDelete { name: name("v") }).await;
    assert_eq!(deleted, Ok(false));
    let why = closed(connection).await;
    assert!(
        why.contains("ConnectionForced") && why.contains("vhost 'v' was deleted"),
        "{why}"
    );
    assert!(refused(&broker, "v", "ada").await.contains("NotFound"));
    let again = admin.change(Change::VhostDelete { name: name("v") }).await;
    assert_eq!(again.unwrap_err().status, Status::NotFound);

    make(&admin, [vhost("v"), permissions("ada", "v", ".*")]).await;
    assert!(!queue_is_there(&admin, "v", "q").await);
    admin.apply("v", queue("new")).await.unwrap();
    drop(admin);
    broker.stop().await;
    let broker = start(Broker::builder().data(&data)).await;
    let admin = broker.admin();
    assert!(!queue_is_there(&admin, "v", "q").await);
    assert!(queue_is_there(&admin, "v", "new").await);
}

#[tokio::test]
async fn a_deleted_user_is_put_out_and_permissions_count_from_the_next_operation_on() {
    let broker = start(Broker::builder()).await;
    let admin = broker.admin();
    make(&admin, [user("ada"), permissions("ada", "/", ".*")]).await;
    admin.apply("/", queue("mine")).await.unwrap();
    admin.apply("/", queue("other")).await.unwrap();
    let mut connection = connect(&broker, "/", "ada").await.unwrap();
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut sender = Sender::attach(&mut session, "s", "/queues/mine")
        .await
        .unwrap();
    assert!(sender.send("before").await.is_ok());
    assert!(
        Receiver::attach(&mut session, "r1", "/queues/other")
            .await
            .is_ok()
    );

    make(&admin, [permissions("ada", "/", "^mine")]).await;
    let refused = Receiver::attach(&mut session, "r2", "/queues/other").await;
    assert!(format!("{:?}", refused.unwrap_err()).contains("UnauthorizedAccess"));
    // The default exchange is not one of its names any more.
    assert!(sender.send("after").await.is_err());

    make(&admin, [Change::UserDelete { name: name("ada") }]).await;
    let why = closed(connection).await;
    assert!(why.contains("user 'ada' was deleted"), "{why}");
    assert!(connect(&broker, "/", "ada").await.is_err());
}

#[tokio::test]
async fn connections_beyond_a_limit_are_opened_and_closed_with_it() {
    let broker = start(Broker::builder()).await;
    let admin = broker.admin();
    make(&admin, [vhost("v"), user("ada"), user("bob")]).await;
    make(
        &admin,
        [permissions("ada", "v", ".*"), permissions("bob", "v", ".*")],
    )
    .await;
    let limits = VhostLimits {
        connections_max: Some(2),
        ..VhostLimits::default()
    };
    let of_user = UserLimits {
        connections_max: Some(1),
        ..UserLimits::default()
    };
    let vhost_limits = Change::VhostLimitsPut {
        vhost: name("v"),
        limits,
    };
    let user_limits = Change::UserLimitsPut {
        user: name("ada"),
        limits: of_user,
    };
    make(&admin, [vhost_limits, user_limits]).await;
    let first = connect(&broker, "v", "ada").await.unwrap();
    let text = refused(&broker, "v", "ada").await;
    assert!(
        text.contains("ResourceLimitExceeded") && text.contains("user 'ada'"),
        "{text}"
    );
    let _second = connect(&broker, "v", "bob").await.unwrap();
    let text = refused(&broker, "v", "bob").await;
    assert!(
        text.contains("ResourceLimitExceeded") && text.contains("vhost 'v'"),
        "{text}"
    );
    drop(first);
    let free = async {
        while admin.connections_in("v") > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, free).await.unwrap();
    assert!(connect(&broker, "v", "ada").await.is_ok());
}

#[tokio::test]
async fn topic_permissions_are_checked_with_each_key() {
    let broker = start(Broker::builder()).await;
    let admin = broker.admin();
    make(&admin, [user("ada"), permissions("ada", "/", ".*")]).await;
    make(&admin, [topics("ada", "/", r"^{username}\.")]).await;
    admin.apply("/", queue("q")).await.unwrap();
    let mut connection = connect(&broker, "/", "ada").await.unwrap();
    let mut session = Session::begin(&mut connection).await.unwrap();
    let mut send = async |key: &str| {
        let address = format!("/exchanges/amq.topic/{key}");
        let mut sender = Sender::attach(&mut session, key, address).await.unwrap();
        sender.send("x").await.map_err(|error| format!("{error:?}"))
    };
    // Nothing is bound: released, but allowed.
    assert!(send("ada.a").await.is_ok());
    let text = send("bob.a").await.unwrap_err();
    assert!(
        text.contains("UnauthorizedAccess") && text.contains("'bob.a'"),
        "{text}"
    );
    make(&admin, [topics("ada", "/", ".*")]).await;
    assert!(send("bob.b").await.is_ok(), "from the next operation on");
}

#[tokio::test]
async fn definitions_exported_by_rabbitmq_are_imported_unchanged() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/definitions/rabbitmq-4.0.5.json"
    );
    let exported = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let broker = start(Broker::builder()).await;
    let admin = broker.admin();
    for round in 0..2 {
        let imported = admin.import_definitions(&exported, None).await.unwrap();
        assert_eq!(imported.applied, 26, "import {round}");
        let left_out: Vec<&str> = imported.left_out.iter().map(|left| &*left.item).collect();
        assert!(left_out[0].contains("queue 'events'"), "{left_out:?}");
        assert!(
            left_out[1].contains("binding from 'dlx' to queue 'events'"),
            "{left_out:?}"
        );
        assert_eq!(left_out.len(), 2);
    }
    let back = admin.export_definitions(None).unwrap();
    for kind in [
        "users",
        "permissions",
        "topic_permissions",
        "policies",
        "queues",
        "exchanges",
        "bindings",
        "parameters",
        "vhosts",
    ] {
        for item in exported[kind].as_array().unwrap() {
            let is_there = back[kind].as_array().unwrap().contains(item);
            assert!(
                is_there || item.to_string().contains("\"events\""),
                "{kind}: {item}"
            );
        }
    }
    // A definition that contradicts what is there is named, and what was applied before it.
    let wrong = serde_json::json!({
        "queues": [
            {"vhost": "definitions-a", "name": "new"},
            {"vhost": "definitions-a", "name": "work", "durable": false},
            {"vhost": "definitions-a", "name": "never"},
        ],
    });
    let refusal = admin.import_definitions(&wrong, None).await.unwrap_err();
    assert!(
        refusal
            .why
            .starts_with("queue 'work' in vhost 'definitions-a': "),
        "{}",
        refusal.why
    );
    assert!(
        refusal
            .why
            .contains("the 1 items before it were applied, the 1 behind it not")
    );
    assert!(queue_is_there(&admin, "definitions-a", "new").await);
    // What makes no sense changes nothing.
    let wrong = serde_json::json!({
        "vhosts": [{"name": "half"}],
        "queues": [{"vhost": "half", "name": 5}],
    });
    let refusal = admin.import_definitions(&wrong, None).await.unwrap_err();
    assert_eq!(refusal.status, Status::BadRequest);
    assert!(admin.registry().vhost("half").is_none());
}

#[tokio::test]
async fn queues_are_limited_and_typed_by_their_vhost() {
    let broker = start(Broker::builder()).await;
    let admin = broker.admin();
    make(&admin, [vhost("v")]).await;
    let limits = |queues_max| Change::VhostLimitsPut {
        vhost: name("v"),
        limits: VhostLimits {
            queues_max: Some(queues_max),
            ..VhostLimits::default()
        },
    };
    make(&admin, [limits(1)]).await;
    let declared = admin.apply("v", queue("a")).await.unwrap();
    let Reply::QueueDeclared { info, .. } = declared else {
        panic!("{declared:?}")
    };
    assert_eq!(info.kind, "quorum", "the default of this vhost");
    assert!(admin.apply("v", queue("a")).await.is_ok(), "it is there");
    let refused = admin.apply("v", queue("b")).await.unwrap_err();
    let why = "cannot declare queue 'b': queue limit in vhost 'v' (1) is reached";
    assert_eq!(refused.why, why);
    make(&admin, [limits(2)]).await;
    assert!(admin.apply("v", queue("b")).await.is_ok());
    let passing = Command::Queue(QueueCommand::Declare {
        connection: None,
        name: name("c"),
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    });
    let lifted = Change::VhostLimitsDelete {
        vhost: name("v"),
        limit: None,
    };
    make(&admin, [lifted]).await;
    let declared = admin.apply("v", passing).await.unwrap();
    let Reply::QueueDeclared { info, .. } = declared else {
        panic!("{declared:?}")
    };
    assert_eq!(info.kind, "classic", "no quorum queue is like that");
}

#[tokio::test]
async fn definitions_are_loaded_before_anybody_may_connect() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/definitions/rabbitmq-4.0.5.json"
    );
    let settings = |definitions: &str| coroner::Settings {
        amqp: Vec::new(),
        in_memory: true,
        definitions: Some(definitions.into()),
        ..coroner::Settings::default()
    };
    let broker = start(Broker::builder().settings(settings(path))).await;
    assert!(queue_is_there(&broker.admin(), "definitions-a", "work").await);
    let missing = Broker::builder()
        .settings(settings("/no/such/file"))
        .start()
        .await;
    assert!(missing.unwrap_err().to_string().contains("/no/such/file"));
}
