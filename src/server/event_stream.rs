//! Events for programs that embed the broker. [evidence part 10]

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::admin::Admin;
use super::events::{EventReader, Start, Told};
use super::shared::Shared;
use crate::base::Name;
use crate::base::limits::EVENT_LOOK_MS;
use crate::management::{Happening, Refusal};

impl Admin {
    /// What happens from now on in a vhost, or in all: deaths, drops, redrives, consumers that hold
    /// deliveries for too long.
    ///
    /// Errors: 404: there is no such vhost.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use coroner::Broker;
    ///
    /// let broker = Broker::builder().start().await?;
    /// let admin = broker.admin();
    /// admin.declare_queue("/", "jobs", &[]).await?;
    /// let mut events = admin.events(Some("/"))?;
    /// broker.publisher("/queues/jobs").open().await?.publish("cut the hedge").await?;
    /// broker.consumer("/queues/jobs").open().await?.next().await?.reject(None);
    ///
    /// let death = events.next().await.expect("the broker runs");
    /// assert_eq!((death.kind, death.reason), ("death", Some("rejected")));
    /// assert_eq!((death.queue.as_str(), death.outcome), ("jobs", Some("dropped")));
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self, vhost: Option<&str>) -> Result<EventStream, Refusal> {
        let shared = self.shared();
        if let Some(name) = vhost
            && shared.node.vhosts.get(name).is_none()
        {
            let why = format!("there is no vhost '{name}'");
            return Err(Refusal::not_found(why));
        }
        let mut stream = EventStream {
            reader: EventReader::new(Arc::clone(shared)),
            shared: Arc::clone(shared),
            vhost: vhost.map(Name::from),
            waiting: VecDeque::new(),
            missed: 0,
        };
        stream.find_vhosts(Start::Now);
        Ok(stream)
    }
}

/// Events as they happen, see [`Admin::events`]. Whoever takes them too late misses some: the next one
/// says how many.
pub struct EventStream {
    shared: Arc<Shared>,
    reader: EventReader,
    vhost: Option<Name>,
    waiting: VecDeque<Told>,
    missed: u64,
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vhost = &self.vhost;
        f.debug_struct("EventStream")
            .field("vhost", vhost)
            .finish_non_exhaustive()
    }
}

impl EventStream {
    /// The next event, once what it tells is durable; none: the broker stops.
    pub async fn next(&mut self) -> Option<Happening> {
        loop {
            if let Some((vhost, event)) = self.waiting.pop_front() {
                let missed = std::mem::take(&mut self.missed);
                return Some(Happening::of(&vhost, &event, missed));
            }
            let horizon = self.shared.node.events.next();
            let read = self.reader.read();
            self.missed += read.missed;
            self.waiting.extend(read.events);
            if self.waiting.is_empty() {
                if self.shared.is_stopping() {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(EVENT_LOOK_MS)).await;
                self.reader.look_again(horizon);
                self.find_vhosts(Start::Oldest);
            }
        }
    }

    fn find_vhosts(&mut self, start: Start) {
        let names = if let Some(name) = &self.vhost {
            vec![name.clone()]
        } else {
            let all = self.shared.all_vhosts();
            all.iter().map(|vhost| vhost.name().clone()).collect()
        };
        self.reader.read_vhosts(&names, start);
    }
}
