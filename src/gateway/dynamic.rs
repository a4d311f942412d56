//! Dynamic nodes: temporary queues that live with the link that asked for them. [AMQP 3.5.3, 3.5.4]
//!
//! ```text
//!   attach, dynamic --> declared, exclusive --> attach answers with its address
//!                                                      |
//!   link, session or connection ends ------------------+--> deleted
//! ```

use super::Gateway;
use super::errors;
use super::terminus::OUTCOMES;
use super::work::Work;
use crate::access::Right;
use crate::base::Name;
use crate::broker::{Command, QueueCommand};
use crate::link::LinkHandle;
use crate::wire::performative::{
    Attach, DeliveryState, Error, Fields, Source, Symbol, Target, TargetArchetype, Terminus, Value,
    fields, is_delete_on_close,
};

/// Node property: how long the node lives. [AMQP 3.5.9]
const LIFETIME_POLICY: &str = "lifetime-policy";
/// Terminus capability by which JMS clients ask for a topic of their own; refused, as a temporary
/// queue is not one.
const TEMPORARY_TOPIC: &str = "temporary-topic";

/// A temporary queue, and the terminus that names it to the peer.
#[derive(Debug)]
pub(super) struct DynamicNode {
    queue: Name,
    terminus: DynamicTerminus,
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
        let capabilities = source.capabilities.as_ref();
        check_capabilities(capabilities.map(|capabilities| capabilities.iter()))?;
        check_properties(source.dynamic_node_properties.as_ref())?;
        let queue = self.temporary_queue()?;
        let mut source = Box::new(source.clone());
        source.address = Some(address(&queue));
        source.dynamic_node_properties = kept_properties(source.dynamic_node_properties.take());
        source.default_outcome = Some(DeliveryState::Released);
        let outcomes = || OUTCOMES.map(Symbol::from).to_vec();
        source.outcomes.get_or_insert_with(outcomes);
        self.declare_dynamic(handle, queue.clone(), DynamicTerminus::Source(source));
        Ok(Some(queue))
    }

    /// Declares the queue of a link whose target is dynamic; none if it is not.
    pub(super) fn dynamic_target(
        &mut self,
        handle: LinkHandle,
        attach: &Attach,
    ) -> Result<Option<Name>, Error> {
        let Some(TargetArchetype::Target(target)) = attach.target.as_deref() else {
            return Ok(None);
        };
        if !target.dynamic {
            return Ok(None);
        }
        check_address(target.address.as_deref())?;
        let capabilities = target.capabilities.as_ref();
        check_capabilities(capabilities.map(|capabilities| capabilities.iter()))?;
        check_properties(target.dynamic_node_properties.as_ref())?;
        let queue = self.temporary_queue()?;
        let mut target = Box::new(target.clone());
        target.address = Some(address(&queue));
        target.dynamic_node_properties = kept_properties(target.dynamic_node_properties.take());
        self.declare_dynamic(handle, queue.clone(), DynamicTerminus::Target(target));
        Ok(Some(queue))
    }

    /// The source in the answer to an attach: the dynamic one with its address, or the granted one.
    pub(super) fn source_answer(&self, handle: LinkHandle) -> Terminus<Source> {
        match self.dynamic.get(&handle).map(|node| &node.terminus) {
            Some(DynamicTerminus::Source(source)) => Terminus::Given(source.clone()),
            _ => Terminus::EchoWithOutcomes,
        }
    }

    /// The target in the answer to an attach: the dynamic one with its address, or the same.
    pub(super) fn target_answer(&self, handle: LinkHandle) -> Terminus<TargetArchetype> {
        match self.dynamic.get(&handle).map(|node| &node.terminus) {
            Some(DynamicTerminus::Target(target)) => {
                Terminus::Given(Box::new(TargetArchetype::Target((**target).clone())))
            }
            _ => Terminus::Echo,
        }
    }

    /// Deletes the temporary queue of a link that ends, if it has one.
    pub(super) fn delete_dynamic(&mut self, handle: LinkHandle) {
        let Some(DynamicNode { queue: name, .. }) = self.dynamic.remove(&handle) else {
            return;
        };
        self.batch
            .push(Work::Command(Command::Queue(QueueCommand::Delete {
                connection: Some(self.id),
                name,
                if_unused: false,
                if_empty: false,
            })));
    }

    /// A new, unused name, if the user has the right to it.
    fn temporary_queue(&self) -> Result<Name, Error> {
        let prefix = &self.environment.options.temporary_prefix;
        let queue = Name::from(format!("{prefix}{}", self.environment.next_id()));
        self.check_right(Right::Configure, &queue, "queue")?;
        Ok(queue)
    }

    fn declare_dynamic(&mut self, handle: LinkHandle, queue: Name, terminus: DynamicTerminus) {
        self.batch
            .push(Work::Declare(Command::Queue(QueueCommand::Declare {
                connection: Some(self.id),
                name: queue.clone(),
                durable: false,
                exclusive: true,
                auto_delete: false,
                arguments: Vec::new(),
            })));
        self.dynamic.insert(handle, DynamicNode { queue, terminus });
    }
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

fn check_capabilities<'a>(wanted: Option<impl Iterator<Item = &'a Symbol>>) -> Result<(), Error> {
    let topic = |capability: &Symbol| capability.as_str() == TEMPORARY_TOPIC;
    if wanted.is_some_and(|mut wanted| wanted.any(topic)) {
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
