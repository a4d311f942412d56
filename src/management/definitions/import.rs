//! Import: from a definitions object to typed operations, in the order in which they can be carried
//! out.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::super::administration::Change;
use super::super::http::Fields;
use super::super::refusal::Refusal;
use super::{items, strangers};
use crate::base::Name;
use crate::broker::Command;

/// The component of parameters with operator policies.
pub(super) const OPERATOR_POLICY: &str = "operator_policy";
/// The component of parameters with the limits of a vhost.
pub(super) const VHOST_LIMITS: &str = "vhost-limits";
/// Items of one file, at most.
const ITEMS_MAX: usize = 1_000_000;

/// One item of a file.
#[derive(Debug)]
pub struct Item {
    /// Its name for people: `queue 'q' in vhost '/'`.
    pub what: String,
    /// The step that imports it, or why it cannot be imported.
    pub step: Result<ImportStep, Problem>,
    /// What may stand for it where nothing is imported, if it is of a kind that this broker does not have.
    pub stand_in: Option<Box<StandIn>>,
}

/// Something that has the name of an item, and its place among the others, for the linter: there is a
/// queue, an exchange, a binding or a policy, though this broker cannot run it.
#[derive(Debug)]
pub struct StandIn {
    /// The vhost of the item.
    pub vhost: Name,
    /// Which type the item has there: `stream`, `x-delayed-message`.
    pub kind: Name,
    /// Declares the stand-in.
    pub command: Command,
}

impl Item {
    /// An item without a stand-in.
    pub(super) const fn new(what: String, step: Result<ImportStep, Problem>) -> Self {
        Self {
            what,
            step,
            stand_in: None,
        }
    }
}

/// A step of an import.
#[derive(Debug)]
pub enum ImportStep {
    /// A change of the registry.
    Change(Change),
    /// A command for the core of this vhost.
    Command(Name, Box<Command>),
}

/// Why an item of a file is not imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// It uses a feature of RabbitMQ that Coroner does not have: the other items are imported.
    Unsupported(String),
    /// It is invalid: nothing is imported.
    Wrong(String),
}

/// The context in which items are read.
pub(super) struct Reading {
    /// The vhost for all items, if the file is for one.
    vhost: Option<Name>,
    /// Queues (true) and exchanges that are left out, by vhost: their bindings are left out, too.
    pub(super) left_out: BTreeSet<(Name, bool, Name)>,
}

/// The field of one kind of items, and the function that reads one of them.
pub(super) type ItemReader = (&'static str, fn(&mut Reading, &Fields) -> Vec<Item>);

/// The kinds of items, in the order of their dependencies.
pub(super) const OF_A_BROKER: &[ItemReader] = &[
    ("users", items::user),
    ("vhosts", items::vhost),
    ("permissions", items::permission),
    ("topic_permissions", items::topic_permission),
    ("global_parameters", items::global_parameter),
];
pub(super) const OF_A_VHOST: &[ItemReader] = &[
    ("parameters", items::parameter),
    ("policies", items::policy),
    ("exchanges", items::exchange),
    ("queues", items::queue),
    ("bindings", items::binding),
];

/// Reads definitions; of one vhost, if it is named, into which they are imported.
///
/// 400: it is not a definitions object.
pub fn read(definitions: &Json, vhost: Option<&Name>) -> Result<Vec<Item>, Refusal> {
    let Json::Object(definitions) = definitions else {
        return Err(Refusal::bad_request("definitions are a JSON object"));
    };
    let format = definitions.get("rabbitmq_definition_format");
    let format = format.and_then(Json::as_str);
    match (vhost, format) {
        (None, Some("single_virtual_host")) => {
            return Err(Refusal::bad_request(
                "these are definitions of one vhost: import them into one",
            ));
        }
        (Some(_), Some("cluster")) => {
            return Err(Refusal::bad_request(
                "these are definitions of a broker: they cannot be imported into one vhost",
            ));
        }
        _ => {}
    }
    let mut reading = Reading {
        vhost: vhost.cloned(),
        left_out: BTreeSet::new(),
    };
    let mut all: Vec<Item> = strangers::sections(definitions, vhost.is_some()).collect();
    let mut count = 0;
    let of_a_broker = if vhost.is_none() { OF_A_BROKER } else { &[] };
    for (field, read) in of_a_broker.iter().chain(OF_A_VHOST) {
        for fields in listed(definitions, field)? {
            let mut items = read(&mut reading, &fields);
            count += items.len();
            items.extend(strangers::of_item(field, &fields, &items));
            all.extend(items.into_iter().map(bounded));
        }
    }
    if count > ITEMS_MAX {
        let why = format!("definitions have at most {ITEMS_MAX} items");
        return Err(Refusal::bad_request(why));
    }
    Ok(all)
}

/// The item; invalid if it is larger than the broker keeps.
fn bounded(item: Item) -> Item {
    let step = item.step.and_then(|step| match step {
        ImportStep::Change(change) => match change.check_bounds() {
            Ok(()) => Ok(ImportStep::Change(change)),
            Err(refusal) => Err(Problem::Wrong(refusal.why)),
        },
        step @ ImportStep::Command(..) => Ok(step),
    });
    Item { step, ..item }
}

fn listed(definitions: &Map<String, Json>, field: &str) -> Result<Vec<Fields>, Refusal> {
    let items = match definitions.get(field) {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(_) => {
            let why = format!("the field '{field}' must be an array of objects");
            return Err(Refusal::bad_request(why));
        }
    };
    let objects = items.iter().enumerate().map(|(index, item)| {
        let Json::Object(fields) = item else {
            let why = format!("the field '{field}', item {index} must be an object");
            return Err(Refusal::bad_request(why));
        };
        Ok(Fields::from_map(fields.clone()))
    });
    objects.collect()
}

impl Reading {
    /// The vhost that an item is for.
    pub(super) fn vhost(&self, fields: &Fields) -> Result<Name, Problem> {
        match &self.vhost {
            Some(vhost) => Ok(vhost.clone()),
            None => items::name(fields, "vhost"),
        }
    }
}
