//! Dynamic nodes: temporary queues and topics that live with the link that asked for them. [AMQP 3.5.3, 3.5.4]
//!
//! ```text
//!   attach, dynamic --> declared, exclusive --> attach answers with its address
//!                                                      |
//!   link, session or connection ends ------------------+--> deleted
//! ```

use super::Gateway;
use super::address::Address;
use super::errors;
use super::subscriptions::TEMPORARY_TOPIC;
use super::terminus::{OUTCOMES, has_capability};
use super::work::Work;
use crate::access::Right;
use crate::base::Name;
use crate::broker::{Command, QueueCommand, TopologyCommand};
use crate::link::LinkHandle;
use crate::wire::performative::{
    Attach, DeliveryState, Error, Fields, Source, Symbol, Target, TargetArchetype, Terminus, Value,
    fields, is_delete_on_close,
};

/// Node property: how long the node lives. [AMQP 3.5.9]
const LIFETIME_POLICY: &str = "lifetime-policy";

/// A temporary queue or topic, and the terminus that names it to the peer.
#[derive(Debug)]
pub(super) struct DynamicNode {
    node: Node,
    /// None of a subscriber, whose answer names its subscription.
    terminus: Option<DynamicTerminus>,
}

/// What lives with its link.
#[derive(Debug)]
enum Node {
    Queue(Name),
    /// An exchange that subscribers bind their queues to.
    Topic(Name),
}

/// The peer's terminus, with the address filled in.
#[derive(Debug)]
enum DynamicTerminus {
    Source(Box<Source>),
    Target(Box<Target>),
}

impl Gateway {
    /// Declares the queue of a link whose source is dynamic; none if it is not.
    pub(super) fn dynamic_source(
        &mut self,
        handle: LinkHandle,
        source: Option<&Source>,
    ) -> Result<Option<Name>, Error> {
        let Some(source) = source.filter(|source| source.dynamic) else {
            return Ok(None);
        };
        check_address(source.address.as_deref())?;
        check_capabilities(source.capabilities.as_deref())?;
        check_properties(source.dynamic_node_properties.as_ref())?;
        let queue = self.temporary_name("queue")?;
        let mut source = Box::new(source.clone());
        source.address = Some(address(&queue));
        // It goes with its link, whatever was asked for.
        (source.durable, source.expiry_policy, source.timeout_s) = (0, None, 0);
        source.dynamic_node_properties = kept_properties(source.dynamic_node_properties.take());
        source.default_outcome = Some(DeliveryState::Released);
        let outcomes = || OUTCOMES.map(Symbol::from).to_vec();
        source.outcomes.get_or_insert_with(outcomes);
        let terminus = Some(DynamicTerminus::Source(source));
        self.declare_dynamic(handle, Node::Queue(queue.clone()), terminus);
        Ok(Some(queue))
    }

    /// Declares the topic of a link whose source is a temporary topic.
    pub(super) fn dynamic_topic_source(
        &mut self,
        handle: LinkHandle,
        source: &Source,
    ) -> Result<Name, Error> {
        check_address(source.address.as_deref())?;
        check_properties(source.dynamic_node_properties.as_ref())?;
        let topic = self.temporary_name("exchange")?;
        self.declare_dynamic(handle, Node::Topic(topic.clone()), None);
        Ok(topic)
    }

    /// Declares the queue or topic of a link whose target is dynamic: its address, and whether it
    /// is a topic. None if it is not dynamic.
    pub(super) fn dynamic_target(
        &mut self,
        handle: LinkHandle,
        attach: &Attach,
    ) -> Result<Option<(Address, bool)>, Error> {
        let Some(TargetArchetype::Target(target)) = attach.target.as_deref() else {
            return Ok(None);
        };
        if !target.dynamic {
            return Ok(None);
        }
        let mut target = Box::new(target.clone());
        (target.expiry_policy, target.timeout_s) = (None, 0);
        check_address(target.address.as_deref())?;
        let is_topic = self.environment.options.subscriptions
            && has_capability(target.capabilities.as_deref(), TEMPORARY_TOPIC);
        if !is_topic {
            check_capabilities(target.capabilities.as_deref())?;
        }
        check_properties(target.dynamic_node_properties.as_ref())?;
        target.dynamic_node_properties = kept_properties(target.dynamic_node_properties.take());
        let name = self.temporary_name(if is_topic { "exchange" } else { "queue" })?;
        let (node, address) = if is_topic {
            target.address = Some(temporary_topic_address(&name));
            let (exchange, key) = (name.clone(), Name::default());
            (Node::Topic(name), Address::Exchange { exchange, key })
        } else {
            target.address = Some(address(&name));
            (Node::Queue(name.clone()), Address::Queue(name))
        };
        self.declare_dynamic(handle, node, Some(DynamicTerminus::Target(target)));
        Ok(Some((address, is_topic)))
    }

    /// The source in the answer to an attach: the dynamic one with its address, or the granted one.
    pub(super) fn source_answer(&self, handle: LinkHandle) -> Terminus<Source> {
        match self
            .dynamic
            .get(&handle)
            .and_then(|node| node.terminus.as_ref())
        {
            Some(DynamicTerminus::Source(source)) => Terminus::Given(source.clone()),
            _ => Terminus::EchoWithOutcomes,
        }
    }

    /// The target in the answer to an attach: the dynamic one with its address, or the same.
    pub(super) fn target_answer(&self, handle: LinkHandle) -> Terminus<TargetArchetype> {
        match self
            .dynamic
            .get(&handle)
            .and_then(|node| node.terminus.as_ref())
        {
            Some(DynamicTerminus::Target(target)) => {
                Terminus::Given(Box::new(TargetArchetype::Target((**target).clone())))
            }
            _ => Terminus::Echo,
        }
    }

    /// Deletes the temporary queue or topic of a link that ends, if it has one.
    pub(super) fn delete_dynamic(&mut self, handle: LinkHandle) {
        let Some(DynamicNode { node, .. }) = self.dynamic.remove(&handle) else {
            return;
        };
        let delete = match node {
            Node::Queue(name) => Command::Queue(QueueCommand::Delete {
                connection: Some(self.id),
                name,
                if_unused: false,
                if_empty: false,
            }),
            Node::Topic(name) => Command::Topology(TopologyCommand::ExchangeDelete {
                connection: Some(self.id),
                name,
                if_unused: false,
            }),
        };
        self.batch.push(Work::Command(delete));
    }

    /// Deletes the temporary topics of a connection that ends; its queues are exclusive and go with
    /// it.
    pub(super) fn delete_dynamic_topics(&mut self) {
        let topics = self.dynamic.iter();
        let topics = topics.filter(|(_, dynamic)| matches!(dynamic.node, Node::Topic(_)));
        let mut handles: Vec<LinkHandle> = topics.map(|(handle, _)| *handle).collect();
        handles.sort_unstable();
        for handle in handles {
            self.delete_dynamic(handle);
        }
    }

    /// A new, unused name, if the user has the right to it.
    fn temporary_name(&self, kind: &str) -> Result<Name, Error> {
        let prefix = &self.environment.options.temporary_prefix;
        let name = Name::from(format!("{prefix}{}", self.environment.next_id()));
        self.check_right(Right::Configure, &name, kind)?;
        Ok(name)
    }

    fn declare_dynamic(
        &mut self,
        handle: LinkHandle,
        node: Node,
        terminus: Option<DynamicTerminus>,
    ) {
        let declare = match &node {
            Node::Queue(name) => Command::Queue(QueueCommand::Declare {
                connection: Some(self.id),
                name: name.clone(),
                durable: false,
                exclusive: true,
                auto_delete: false,
                arguments: Vec::new(),
            }),
            Node::Topic(name) => Command::Topology(TopologyCommand::TemporaryTopic {
                connection: self.id,
                name: name.clone(),
            }),
        };
        self.batch.push(Work::Declare(declare));
        self.dynamic.insert(handle, DynamicNode { node, terminus });
    }
}

/// The address of a temporary topic.
pub(super) fn temporary_topic_address(exchange: &Name) -> String {
    format!("/exchanges/{exchange}")
}

fn address(queue: &Name) -> String {
    format!("/queues/{queue}")
}

fn check_address(address: Option<&str>) -> Result<(), Error> {
    match address {
        None => Ok(()),
        Some(_) => Err(errors::invalid_field(
            "a dynamic terminus gets its address from the broker",
        )),
    }
}

/// Without subscriptions there are no temporary topics: a temporary queue is not one.
fn check_capabilities(wanted: Option<&[Symbol]>) -> Result<(), Error> {
    if has_capability(wanted, TEMPORARY_TOPIC) {
        return Err(errors::not_implemented(
            "temporary topics are not offered, temporary queues are",
        ));
    }
    Ok(())
}

/// The requested node properties that are granted: the lifetime. [AMQP 3.5.9]
fn kept_properties(asked: Option<Fields>) -> Option<Fields> {
    let policy = asked?.get(LIFETIME_POLICY)?.clone();
    Some(fields([(LIFETIME_POLICY, policy)]))
}

/// Checks that the requested lifetime is that of the link, or unspecified.
fn check_properties(properties: Option<&Fields>) -> Result<(), Error> {
    let policy = properties.and_then(|fields| fields.get(LIFETIME_POLICY));
    let is_known = match policy {
        None | Some(Value::Null) => true,
        Some(policy) => is_delete_on_close(policy),
    };
    if is_known {
        return Ok(());
    }
    Err(errors::not_implemented(
        "a dynamic node lives as long as its link: the lifetime-policy is delete-on-close",
    ))
}
