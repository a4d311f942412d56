//! Copies of the topology of running vhosts, for the linter and for graphs: in a core of their own, read
//! some objects at a time.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Vhost;
use super::admin::{self, Admin};
use super::lint_counts::{Counts, Marks, State};
use crate::base::limits::{GRAPH_HOPS_MAX, LISTING_SLICE};
use crate::base::{Charge, Millis, Name};
use crate::broker::arguments::OnUndeliverable;
use crate::broker::queue::Queue;
use crate::config::UndeliverableSetting;
use crate::lint::{
    self, Figures, Graph, PARAMETER, Rule, Sandbox, Silence, Sorted, Topology, Unknown,
};
use crate::management::Refusal;
use crate::management::http::json::reading::memory_bytes;
use crate::management::samples::VhostSample;

/// Memory of a topology in a core, in that of its definitions as JSON.
const CORE_OF_JSON: u64 = 2;

/// Estimated memory of what is known of one queue without its name and the rules that it breaks.
const MARK_BYTES: u64 = 96;

/// A copy, and its memory, which counts until it is dropped.
pub(super) struct Copied {
    pub(super) topology: Topology,
    _counted: Vec<Charge>,
}

impl Admin {
    /// Copies the topology of a vhost. Takes long on a large vhost: it is for a thread that may block.
    ///
    /// 404: there is no such vhost. 500: the vhost failed.
    pub(super) fn copy_topology(
        &self,
        vhost: &Name,
        undeliverable: OnUndeliverable,
    ) -> Result<Copied, Refusal> {
        let mut topology = Topology::default();
        let counted = self.add_running(&mut topology, vhost, undeliverable)?;
        Ok(Copied {
            topology,
            _counted: vec![counted],
        })
    }

    /// Copies the topology of those vhosts that definitions have something for, and adds that, as an import
    /// would: what would stand after it. `vhost`: the one that they are for, if they do not name it;
    /// `unknown`: what becomes of what this broker does not have.
    ///
    /// 400: they are no definitions. 404: there is no such vhost. 500: a vhost failed.
    pub(super) fn topology_after(
        &self,
        definitions: &Json,
        vhost: Option<&Name>,
        (undeliverable, unknown): (OnUndeliverable, Unknown),
    ) -> Result<Copied, Refusal> {
        let silences = match vhost {
            Some(_) => None, // a global parameter is not imported into a vhost
            None => Silence::in_definitions(definitions)?,
        };
        let mut topology = Topology::default();
        let mut vhosts = Topology::vhosts_of(definitions, vhost)?;
        vhosts.extend(vhost.cloned());
        let kept = self.shared().node.alarms.connections();
        let mut counted = vec![kept.charge(memory_bytes(definitions) * CORE_OF_JSON)];
        for name in &vhosts {
            if vhost.is_some() || self.vhost(name).is_ok() {
                counted.push(self.add_running(&mut topology, name, undeliverable)?);
            } // else the import makes it
        }
        topology.add(definitions, vhost, undeliverable, unknown)?;
        topology.silences = silences.unwrap_or_else(|| self.silences().unwrap_or_default());
        Ok(Copied {
            topology,
            _counted: counted,
        })
    }

    /// Adds a running vhost to a topology; returns the charge for its memory.
    fn add_running(
        &self,
        topology: &mut Topology,
        vhost: &Name,
        undeliverable: OnUndeliverable,
    ) -> Result<Charge, Refusal> {
        let exported = self.export_definitions(Some(vhost))?;
        let kept = self.shared().node.alarms.connections();
        let counted = kept.charge(memory_bytes(&exported) * (1 + CORE_OF_JSON));
        let kind = exported.get("default_queue_type").and_then(Json::as_str);
        topology.default_queue_type(vhost, kind.map(Name::from), undeliverable);
        topology.add(&exported, Some(vhost), undeliverable, Unknown::LeftOut)?;
        Ok(counted)
    }

    /// What happens to dead letters without a target, unless their queue says otherwise.
    pub(super) fn undeliverable(&self) -> OnUndeliverable {
        match self.shared().settings.undeliverable() {
            UndeliverableSetting::Drop => OnUndeliverable::Drop,
            UndeliverableSetting::Quarantine => OnUndeliverable::Quarantine,
        }
    }

    /// The findings that the global parameter `lint` silences: none if it is not as it should be, as by an
    /// import. Whoever sets it is told.
    ///
    /// 400: it is not as it should be.
    pub(super) fn silences(&self) -> Result<Vec<Silence>, Refusal> {
        let registry = self.registry();
        let Some(value) = registry.global_parameter(PARAMETER) else {
            return Ok(Vec::new());
        };
        let value = serde_json::from_str(value).unwrap_or_default();
        Silence::read(&value)
    }

    /// How many findings there are in each of these vhosts, which are all, by the number of their rule, and
    /// which rules each queue breaks: as they were when they were last looked for. Takes long if a large vhost changed: it is for a
    /// thread that may block.
    pub(super) fn lint_counts(&self, vhosts: &[Arc<Vhost>]) -> Vec<Counts> {
        let shared = self.shared();
        shared
            .lint_counts
            .forget_others(vhosts.iter().map(|vhost| vhost.name()));
        let silenced = self
            .registry()
            .global_parameter(PARAMETER)
            .map(str::to_owned);
        let counts = vhosts.iter().map(|vhost| {
            let state = vhost.look(|core| State {
                router: core.router().generation(),
                policies: core.policies().generation(),
                silenced: silenced.clone(),
            });
            let Ok(state) = state else {
                return Counts::default(); // it failed
            };
            let now = shared.clock.now().mono;
            shared.lint_counts.of((now, vhost.name()), state, || {
                let counts = self.count_findings(vhost.name());
                (counts, shared.clock.now().mono)
            })
        });
        counts.collect()
    }

    /// Nothing is found where it cannot be looked at, since the vhost was deleted.
    fn count_findings(&self, vhost: &Name) -> Counts {
        let copied = self.copy_topology(vhost, self.undeliverable());
        let Ok(copied) = copied else {
            return Counts::default();
        };
        let silences = self.silences().unwrap_or_default();
        let Some(sandbox) = copied.topology.vhosts.get(vhost) else {
            return Counts::default();
        };
        let found = lint::count(sandbox, &silences);
        let by_rule = found.by_rule.into_iter();
        let mut bytes = 0;
        let by_queue = found.by_queue.into_iter().map(|(queue, rules)| {
            bytes += MARK_BYTES + queue.len() as u64 + size_of_val(&*rules) as u64;
            (queue, rules.into_iter().map(Rule::as_str).collect())
        });
        let by_queue = by_queue.collect();
        let kept = self.shared().node.alarms.connections();
        Counts {
            by_rule: by_rule
                .map(|(rule, count)| (rule.as_str(), count))
                .collect(),
            marks: Arc::new(Marks {
                by_queue,
                _counted: Some(kept.charge(bytes)),
            }),
        }
    }

    /// Where the dead letters of a vhost go, as things stand: with `around`, those of a queue and of the
    /// queues that its dead letters go to or come from, over so many deaths (16 at most). Of more than
    /// 150 queues and exchanges, those are in it in which messages died, that hold dead letters, or that
    /// have findings. Exclusive queues are not in it.
    ///
    /// Errors: 404: there is no such vhost or queue. 400: too many deaths. 500: the vhost failed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use coroner::{Broker, Value};
    ///
    /// let broker = Broker::builder().start().await?;
    /// let admin = broker.admin();
    /// let to = |name: &str| Value::String(name.to_owned());
    /// let dead = [
    ///     ("x-dead-letter-exchange", to("")),
    ///     ("x-dead-letter-routing-key", to("failed")),
    /// ];
    /// admin.declare_queue("/", "jobs", &dead).await?;
    /// admin.declare_queue("/", "failed", &[]).await?;
    ///
    /// let graph = admin.graph("/", Some(("jobs", 1))).await?;
    /// let arrow = &graph.to_json()["edges"][0];
    /// assert_eq!((&arrow["from"], &arrow["to"]), (&"q:jobs".into(), &"q:failed".into()));
    /// assert!(graph.to_svg().starts_with("<svg"));
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn graph(&self, vhost: &str, around: Option<(&str, u32)>) -> Result<Graph, Refusal> {
        let (admin, vhost) = (self.clone(), Name::from(vhost));
        let around = around.map(|(queue, hops)| (Name::from(queue), hops));
        let drawn = tokio::task::spawn_blocking(move || admin.draw_graph(&vhost, around.as_ref()));
        let broke = |_| Err(admin::internal("drawing the graph failed".to_owned()));
        drawn.await.unwrap_or_else(broke)
    }

    /// [`Admin::graph`] on a thread that may block.
    pub(super) fn draw_graph(
        &self,
        vhost: &Name,
        around: Option<&(Name, u32)>,
    ) -> Result<Graph, Refusal> {
        if let Some((_, hops)) = around.filter(|(_, hops)| *hops > GRAPH_HOPS_MAX) {
            let why = format!("{hops} hops are too many: {GRAPH_HOPS_MAX} at most");
            return Err(Refusal::bad_request(why));
        }
        let mut copied = self.copy_topology(vhost, self.undeliverable())?;
        let sandbox = copied.topology.vhosts.remove(vhost);
        let sandbox = sandbox.unwrap_or_else(|| Sandbox::new(vhost.clone(), self.undeliverable()));
        let figures = self.figures(vhost)?;
        let now = self.shared().clock.now();
        let figures = Some((now.wall, figures));
        let mut graph = Graph::of(&sandbox, &self.silences().unwrap_or_default(), figures);
        let Some((queue, hops)) = around else {
            graph.summarize();
            return Ok(graph);
        };
        if graph.around(queue, *hops) {
            return Ok(graph);
        }
        let why = format!("there is no queue '{queue}' in vhost '{vhost}', or it is exclusive");
        Err(Refusal::not_found(why))
    }

    /// The figures of all queues of a vhost.
    fn figures(&self, vhost: &Name) -> Result<Sorted<Name, Figures>, Refusal> {
        let core = self.vhost(vhost)?;
        let (now, rates) = (self.shared().clock.now().mono, core.rates.last());
        let mut figures = Vec::new();
        let mut after: Option<Name> = None;
        loop {
            let looked = core.look(|core| {
                core.visit_after(after.as_ref(), LISTING_SLICE, |queue| {
                    figures.push((queue.name.clone(), figures_of(queue, now, &rates)));
                })
            });
            after = looked.map_err(|_| admin::failed(vhost))?;
            if after.is_none() {
                return Ok(Sorted::of(figures));
            }
        }
    }
}

fn figures_of(queue: &Queue, now: Millis, rates: &VhostSample) -> Figures {
    let messages = &queue.messages;
    Figures {
        ready: messages.ready(),
        held: messages.held(),
        delayed: messages.delayed().usage().messages,
        pending: queue.pending.len(),
        oldest_s: messages.oldest().map(|oldest| now.since(oldest) / 1_000),
        dead_entered: queue.counters.dead_entered,
        dead: queue.counters.dead,
        rates: rates.deaths.rates(queue.id),
    }
}
