//! The pages of an operator: overview, connections, exchanges and bindings, policies, users.

use serde_json::Value;

use super::visit::Visit;
use crate::access::Right;
use crate::base::limits::PAGE_ROWS_MAX;
use crate::management::http::Failure;
use crate::page::frame::Place;
use crate::page::operator::{Act, Cell, Field, Form, Kind, Operator, Table};
use crate::page::queue::{queue_link, vhost_flag};
use crate::page::show::{Bytes, Count, Rate, Text, encoded, shell};

/// The text at a path of fields; empty: there is none.
fn text(value: &Value, path: &str) -> Text {
    match value.pointer(path) {
        Some(Value::String(text)) => Text::new(text.clone()),
        None | Some(Value::Null) => Text::default(),
        Some(other) => Text::new(other.to_string()),
    }
}

fn count(value: &Value, path: &str) -> Count {
    Count(value.pointer(path).and_then(Value::as_u64).unwrap_or(0))
}

fn rate(value: &Value, path: &str) -> Rate {
    Rate(value.pointer(path).and_then(Value::as_f64).unwrap_or(0.0))
}

/// How a field is shown in a cell.
#[derive(Clone, Copy)]
enum Shown {
    Text,
    Number,
    Bytes,
    Rate,
}

/// The cells of these fields, given by their paths.
fn cells(value: &Value, fields: &[(&str, Shown)]) -> Vec<Cell> {
    let cell = |(path, shown): &(&str, Shown)| match shown {
        Shown::Text => Cell::text(text(value, path).raw()),
        Shown::Number => Cell::number(text(value, path).raw()),
        Shown::Bytes => Cell::number(&Bytes(count(value, path).0).to_string()),
        Shown::Rate => Cell::number(&rate(value, path).to_string()),
    };
    fields.iter().map(cell).collect()
}

/// The first rows of a list of the API, and how many more there are.
async fn rows(visit: &Visit<'_>, path: &str) -> Result<(Vec<Value>, u64), Failure> {
    let query = format!("page=1&page_size={PAGE_ROWS_MAX}");
    let page = visit.get(path, &query).await?;
    match page {
        // Some lists have no pages.
        Value::Array(mut rows) => {
            let more = rows.len().saturating_sub(PAGE_ROWS_MAX);
            rows.truncate(PAGE_ROWS_MAX);
            Ok((rows, more as u64))
        }
        mut page => {
            let rows = match page.get_mut("items").map(Value::take) {
                Some(Value::Array(rows)) => rows,
                _ => Vec::new(),
            };
            let more = count(&page, "/filtered_count")
                .0
                .saturating_sub(rows.len() as u64);
            Ok((rows, more))
        }
    }
}

fn page(visit: &Visit<'_>, title: &str, place: Place) -> Operator {
    Operator {
        frame: visit.frame(title, place),
        figures: Vec::new(),
        tables: Vec::new(),
        forms: Vec::new(),
        taken: None,
    }
}

/// The field that chooses a vhost.
fn vhost_field(visit: &Visit<'_>) -> Field {
    Field::line("vhost", "Vhost").of(Kind::Choice(visit.vhosts()))
}

/// `/ui/overview`.
pub(super) async fn overview(visit: &Visit<'_>) -> Result<Operator, Failure> {
    let overview = visit.get("/api/overview", "").await?;
    let number = |path: &str| count(&overview, path).to_string();
    let a_second = |path: &str| format!("{}/s", rate(&overview, path));
    let mut page = page(visit, "Overview", Place::Overview);
    page.figures = vec![
        ("Ready", number("/queue_totals/messages_ready")),
        ("Held", number("/queue_totals/messages_unacknowledged")),
        ("Published", a_second("/message_stats/publish_details/rate")),
        (
            "Delivered",
            a_second("/message_stats/deliver_get_details/rate"),
        ),
        ("Accepted", a_second("/message_stats/ack_details/rate")),
        ("Died", a_second("/message_stats/dead_details/rate")),
        ("Connections", number("/object_totals/connections")),
        ("Queues", number("/object_totals/queues")),
        ("Exchanges", number("/object_totals/exchanges")),
        ("Consumers", number("/object_totals/consumers")),
    ];
    let listeners = overview.get("listeners").and_then(Value::as_array);
    if let Some(listeners) = listeners.filter(|listeners| !listeners.is_empty()) {
        let row = |listener: &Value| {
            let fields = ["/protocol", "/ip_address", "/port"];
            cells(listener, &fields.map(|path| (path, Shown::Text)))
        };
        page.tables.push(Table {
            title: "Listeners",
            heads: vec!["Protocol", "Address", "Port"],
            rows: listeners.iter().map(row).collect(),
            left_out: 0,
        });
    }
    Ok(page)
}

/// `/ui/connections`.
pub(super) async fn connections(visit: &Visit<'_>) -> Result<Operator, Failure> {
    let (found, left_out) = rows(visit, "/api/connections").await?;
    let rows = found.iter().map(|connection| {
        let name = text(connection, "/name");
        let close = Act {
            path: format!("/ui/do/close?name={}", name.query()),
            label: "Close",
            command: format!("coroner close_connection {}", name.shell()),
        };
        let fields = [
            ("/name", Shown::Text),
            ("/user", Shown::Text),
            ("/vhost", Shown::Text),
            ("/protocol", Shown::Text),
            ("/state", Shown::Text),
            ("/recv_oct", Shown::Bytes),
            ("/send_oct", Shown::Bytes),
        ];
        let mut row = cells(connection, &fields);
        row.push(Cell::act(Some(close)));
        row
    });
    let mut page = page(visit, "Connections", Place::Connections);
    page.tables.push(Table {
        title: "Connections",
        heads: vec![
            "Name", "User", "Vhost", "Protocol", "State", "Received", "Sent", "Action",
        ],
        rows: rows.collect(),
        left_out,
    });
    Ok(page)
}

/// `/ui/exchanges`: with their bindings.
pub(super) async fn exchanges(visit: &Visit<'_>) -> Result<Operator, Failure> {
    let (found, left_out) = rows(visit, "/api/exchanges").await?;
    let shown = found.iter().map(|exchange| {
        let (vhost, name) = (text(exchange, "/vhost"), text(exchange, "/name"));
        let is_own = !name.is_empty() && !name.raw().starts_with("amq.");
        let may = is_own && visit.may(vhost.raw(), Right::Configure, name.raw());
        let delete = may.then(|| Act {
            path: format!(
                "/ui/do/delete-exchange?vhost={}&name={}",
                vhost.query(),
                name.query()
            ),
            label: "Delete",
            command: format!(
                "coroner delete exchange{} name={}",
                vhost_flag(&vhost),
                name.shell()
            ),
        });
        let title = if name.is_empty() {
            "(default)"
        } else {
            name.raw()
        };
        let fields = [
            ("/vhost", Shown::Text),
            ("/type", Shown::Text),
            ("/policy", Shown::Text),
            ("/message_stats/publish_in_details/rate", Shown::Rate),
        ];
        let mut row = vec![Cell::text(title)];
        row.extend(cells(exchange, &fields));
        row.push(Cell::act(delete));
        row
    });
    let exchanges = Table {
        title: "Exchanges",
        heads: vec![
            "Name",
            "Vhost",
            "Type",
            "Policy",
            "Messages a second",
            "Action",
        ],
        rows: shown.collect(),
        left_out,
    };
    let bindings = bindings(visit).await?;
    let mut page = page(visit, "Exchanges", Place::Exchanges);
    page.tables = vec![exchanges, bindings];
    page.forms = exchange_forms(visit);
    Ok(page)
}

async fn bindings(visit: &Visit<'_>) -> Result<Table, Failure> {
    let (found, left_out) = rows(visit, "/api/bindings").await?;
    let shown = found
        .iter()
        .filter(|binding| !text(binding, "/source").is_empty())
        .map(|binding| {
            let (vhost, destination) = (text(binding, "/vhost"), text(binding, "/destination"));
            let fields = [
                "/source",
                "/destination",
                "/vhost",
                "/routing_key",
                "/arguments",
            ];
            let mut row = cells(binding, &fields.map(|path| (path, Shown::Text)));
            let is_to_queue = text(binding, "/destination_type").raw() == "queue";
            if let Some(target) = row.get_mut(1).filter(|_| is_to_queue) {
                target.link = Some(queue_link(vhost.raw(), destination.raw()));
            }
            row
        });
    Ok(Table {
        title: "Bindings",
        heads: vec!["From exchange", "To", "Vhost", "Routing key", "Arguments"],
        rows: shown.collect(),
        left_out,
    })
}

/// The forms beneath the exchanges, each for the vhosts in which the user has rights for it.
fn exchange_forms(visit: &Visit<'_>) -> Vec<Form> {
    let types = ["direct", "fanout", "topic", "headers"];
    let mut forms = Vec::new();
    let mut form =
        |title, (action, rights): (&str, &[Right]), fields: &[Field], button, command: &str| {
            let vhosts = visit.vhosts_with(rights);
            if vhosts.is_empty() {
                return;
            }
            let mut all = vec![Field::line("vhost", "Vhost").of(Kind::Choice(vhosts))];
            all.extend_from_slice(fields);
            forms.push(Form {
                title,
                path: format!("/ui/do/{action}"),
                fields: all,
                button,
                command: command.to_owned(),
            });
        };
    form(
        "Declare an exchange",
        ("declare-exchange", &[Right::Configure]),
        &[
            Field::line("name", "Name"),
            Field::choice("type", "Type", &types),
        ],
        "Declare",
        "coroner declare exchange name=NAME type=TYPE",
    );
    form(
        "Declare a queue",
        ("declare-queue", &[Right::Configure]),
        &[
            Field::line("name", "Name"),
            Field::choice("type", "Type", &["classic", "quorum"]),
            Field::line("arguments", "Arguments (JSON)")
                .of(Kind::Lines)
                .with("{}"),
        ],
        "Declare",
        "coroner declare queue name=NAME arguments=JSON",
    );
    form(
        "Bind a queue to an exchange",
        ("bind", &[Right::Write, Right::Read]),
        &[
            Field::line("exchange", "Exchange"),
            Field::line("queue", "Queue"),
            Field::line("key", "Routing key"),
        ],
        "Bind",
        "coroner declare binding source=EXCHANGE destination=QUEUE routing_key=KEY",
    );
    form(
        "Publish a message",
        ("publish", &[Right::Write]),
        &[
            Field::line("exchange", "Exchange").with("amq.default"),
            Field::line("key", "Routing key"),
            Field::line("payload", "Body").of(Kind::Lines),
        ],
        "Publish",
        "coroner publish --exchange EXCHANGE --key KEY BODY",
    );
    forms
}

/// `/ui/policies`.
pub(super) async fn policies(visit: &Visit<'_>) -> Result<Operator, Failure> {
    let mut page = page(visit, "Policies", Place::Policies);
    let kinds = [
        ("Policies", "/api/policies", true),
        ("Operator policies", "/api/operator-policies", false),
    ];
    for (title, path, is_user) in kinds {
        let (found, left_out) = rows(visit, path).await?;
        let may = is_user && visit.identity().is_policymaker();
        let shown = found.iter().map(|policy| {
            let (vhost, name) = (text(policy, "/vhost"), text(policy, "/name"));
            let clear = may.then(|| Act {
                path: format!(
                    "/ui/do/delete-policy?vhost={}&name={}",
                    vhost.query(),
                    name.query()
                ),
                label: "Delete",
                command: format!(
                    "coroner clear_policy{} {}",
                    vhost_flag(&vhost),
                    name.shell()
                ),
            });
            let fields = [
                ("/name", Shown::Text),
                ("/vhost", Shown::Text),
                ("/pattern", Shown::Text),
                ("/apply-to", Shown::Text),
                ("/priority", Shown::Number),
                ("/definition", Shown::Text),
            ];
            let mut row = cells(policy, &fields);
            row.push(Cell::act(clear));
            row
        });
        page.tables.push(Table {
            title,
            heads: vec![
                "Name",
                "Vhost",
                "Pattern",
                "Applies to",
                "Priority",
                "Definition",
                "Action",
            ],
            rows: shown.collect(),
            left_out,
        });
    }
    if visit.identity().is_policymaker() {
        page.forms.push(policy_form(visit));
    }
    Ok(page)
}

fn policy_form(visit: &Visit<'_>) -> Form {
    Form {
        title: "Set a policy",
        path: "/ui/do/set-policy".to_owned(),
        fields: vec![
            vhost_field(visit),
            Field::line("name", "Name"),
            Field::line("pattern", "Pattern"),
            Field::choice("apply", "Applies to", &["queues", "exchanges", "all"]),
            Field::line("priority", "Priority").with("0"),
            Field::line("definition", "Definition (JSON)")
                .of(Kind::Lines)
                .with("{}"),
        ],
        button: "Set",
        command: "coroner set_policy NAME PATTERN DEFINITION".to_owned(),
    }
}

/// `/ui/users`: for administrators.
pub(super) async fn users(visit: &Visit<'_>) -> Result<Operator, Failure> {
    let (found, left_out) = rows(visit, "/api/users").await?;
    let shown = found.iter().map(|user| {
        let name = text(user, "/name");
        let delete = Act {
            path: format!("/ui/do/delete-user?name={}", name.query()),
            label: "Delete",
            command: format!("coroner delete_user {}", name.shell()),
        };
        let tags = user.get("tags").and_then(Value::as_array);
        let tags = tags.into_iter().flatten().filter_map(Value::as_str);
        vec![
            Cell::text(name.raw()),
            Cell::text(&tags.collect::<Vec<_>>().join(", ")),
            Cell::act(Some(delete)),
        ]
    });
    let users = Table {
        title: "Users",
        heads: vec!["Name", "Tags", "Action"],
        rows: shown.collect(),
        left_out,
    };
    let (found, left_out) = rows(visit, "/api/permissions").await?;
    let shown = found.iter().map(|rights| {
        let fields = ["/user", "/vhost", "/configure", "/write", "/read"];
        cells(rights, &fields.map(|path| (path, Shown::Text)))
    });
    let permissions = Table {
        title: "Permissions",
        heads: vec!["User", "Vhost", "Configure", "Write", "Read"],
        rows: shown.collect(),
        left_out,
    };
    let mut page = page(visit, "Users", Place::Users);
    page.tables = vec![users, permissions];
    page.forms = vec![
        Form {
            title: "Set a user",
            path: "/ui/do/set-user".to_owned(),
            fields: vec![
                Field::line("name", "Name"),
                Field::line("password", "Password").of(Kind::Password),
                Field::line("tags", "Tags, with commas between them"),
            ],
            button: "Set",
            command: "coroner add_user NAME".to_owned(),
        },
        Form {
            title: "Set permissions",
            path: "/ui/do/set-permissions".to_owned(),
            fields: vec![
                Field::line("user", "User"),
                vhost_field(visit),
                Field::line("configure", "Configure").with(".*"),
                Field::line("write", "Write").with(".*"),
                Field::line("read", "Read").with(".*"),
            ],
            button: "Set",
            command: "coroner set_permissions USER CONFIGURE WRITE READ".to_owned(),
        },
    ];
    Ok(page)
}

/// The forms on the page of a queue, as far as the user may.
pub(super) fn queue_forms(
    (vhost, name): (&Text, &Text),
    (may_read, may_configure): (bool, bool),
    has_delayed: bool,
) -> Vec<Form> {
    let query = format!("vhost={}&name={}", vhost.query(), name.query());
    let (flag, word) = (vhost_flag(vhost), shell(name.raw()));
    let mut forms = Vec::new();
    if may_read && has_delayed {
        forms.push(Form {
            title: "Retry what is delayed",
            path: format!("/ui/do/retry?{query}"),
            fields: vec![Field::line(
                "count",
                "How many, the next due first; empty: all",
            )],
            button: "Retry now",
            command: format!("coroner retry_delayed{flag} {word}"),
        });
    }
    if may_read {
        forms.push(Form {
            title: "Get messages",
            path: format!("/ui/do/get?{query}"),
            fields: vec![
                Field::line("count", "How many").with("1"),
                Field::choice(
                    "ackmode",
                    "And then",
                    &[
                        "ack_requeue_true",
                        "ack_requeue_false",
                        "reject_requeue_false",
                    ],
                ),
            ],
            button: "Get",
            command: format!("coroner get{flag} {word}"),
        });
        forms.push(Form {
            title: "Purge it",
            path: format!("/ui/do/purge?{query}"),
            fields: vec![Field::line("sure", "All ready messages go for good").of(Kind::Switch)],
            button: "Purge",
            command: format!("coroner purge_queue{flag} {word}"),
        });
    }
    if may_configure {
        forms.push(Form {
            title: "Delete it",
            path: format!("/ui/do/delete-queue?{query}"),
            fields: vec![
                Field::line("sure", "The queue and its messages go for good").of(Kind::Switch),
            ],
            button: "Delete",
            command: format!("coroner delete_queue{flag} {word}"),
        });
    }
    forms
}

/// The path of an object of a vhost in the API.
pub(super) fn object_path(kind: &str, vhost: &str, name: &str) -> String {
    format!("/api/{kind}/{}/{}", encoded(vhost), encoded(name))
}
