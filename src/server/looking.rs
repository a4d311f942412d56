//! Looking for dead letters, for programs that embed the broker: groups of them, and messages.
//! [evidence part 8]

use bytes::Bytes;

use super::admin::{Admin, failed, internal};
use super::clock::SystemClock;
use super::embedded::{Death, data};
use super::scan::{Scan, ScanError, whole};
use super::{Store, Vhost};
use crate::base::limits::{
    BROWSED_BYTES_MAX, BROWSED_MAX, GROUPS_SCAN_MS, GROUPS_SCANNED_MAX, SCAN_SLICE,
};
use crate::base::{Name, Now, Position};
use crate::broker::{Error, ObjectKind};
use crate::deaths::{Evidence, Viewer};
use crate::management::{DeathGroups, LookRequest, Refusal};
use crate::node::ShownMessage;
use crate::search::{By, Counted, Fingerprint, Groups};

/// Some messages of a queue, as they were when it was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SeenMessages {
    /// The messages, in the order of their positions.
    pub messages: Vec<SeenMessage>,
    /// The position at which the next look goes on; none: there are no more.
    pub next: Option<u64>,
}

/// A message in a queue, as it was when it was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SeenMessage {
    /// Its position in the queue.
    pub position: u64,
    /// The exchange by which it came to the queue; empty: the default one.
    pub exchange: String,
    /// The routing keys with which it came.
    pub routing_keys: Vec<String>,
    /// When it arrived in the queue, in milliseconds since 1970.
    pub arrived: i64,
    /// Failed deliveries in the queue.
    pub failures: u32,
    /// Deaths by queue and reason, the latest first.
    pub deaths: Vec<Death>,
    /// Condition and description of the error with which it died last, if the consumer gave them.
    pub error: (Option<String>, Option<String>),
    /// The key of its group, see [`Admin::groups`].
    pub group: String,
    /// The bytes of the data sections of its body; of another body its encoded sections.
    pub body: Bytes,
}

impl Admin {
    /// Counts dead letters of a queue by what they have in common: `group` (the fingerprint of their
    /// error), `reason`, `queue`, `condition`, `exchange`, `container`, `user` or `cause`. Changes
    /// nothing.
    ///
    /// Errors: 400: the word or a part of the filter is not valid. 404: there is no such vhost or
    /// queue. 500: the vhost failed, or a message cannot be read back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use coroner::{Broker, LookRequest, Value};
    ///
    /// let broker = Broker::builder().start().await?;
    /// let admin = broker.admin();
    /// admin.declare_queue("/", "failed", &[]).await?;
    /// let publisher = broker.publisher("/queues/failed").open().await?;
    /// for number in 0..3 {
    ///     publisher.publish(format!("order {number}")).await?;
    /// }
    /// let all = LookRequest::of("failed");
    /// let groups = admin.groups("/", &all, "group").await?;
    /// assert_eq!((&*groups.groups[0].label, groups.groups[0].count), ("never died", 3));
    ///
    /// let key = groups.groups[0].key.as_deref().unwrap();
    /// admin.set_group_note("/", "failed", key, "published to the wrong queue").await?;
    /// let of_group = all.only("group", Value::String(key.to_owned()));
    /// let seen = admin.browse("/", &of_group, 2).await?;
    /// assert_eq!((&*seen.messages[1].body, seen.next), (&b"order 1"[..], Some(2)));
    /// # broker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn groups(
        &self,
        vhost: &str,
        request: &LookRequest,
        by: &str,
    ) -> Result<DeathGroups, Refusal> {
        let by = by_of_word(by)?;
        let look = request.check()?;
        let vhost = self.vhost(vhost)?;
        queue_exists(&vhost, &look.queue)?;
        let (store, clock) = (self.shared().node.store.clone(), self.shared().clock);
        let counted = tokio::task::spawn_blocking(move || {
            let from = (vhost.clone(), store);
            let mut scan = Scan::new(from, look.queue.clone(), look.place, look.filter);
            let counted = count_groups(&mut scan, by, Viewer::Monitor, clock)?;
            let notes = vhost.look(|core| {
                let queue = core.queue(&look.queue).map(|queue| queue.id);
                let notes = queue.into_iter().flat_map(|queue| core.notes_of(queue));
                notes.cloned().collect::<Vec<_>>()
            });
            let notes = notes.map_err(|_| failed(vhost.name()))?;
            let scanned = (scan.scanned(), scan.next());
            Ok(DeathGroups::of(counted, scanned, (by, &notes)))
        });
        let broke = |_| Err(internal("looking through the queue failed".to_owned()));
        counted.await.unwrap_or_else(broke)
    }

    /// The next messages of a queue that a request means, at most `count` of them, 10,000 or 64 MiB,
    /// found among the next 10,000. Changes nothing.
    ///
    /// Errors: as of [`Admin::groups`].
    pub async fn browse(
        &self,
        vhost: &str,
        request: &LookRequest,
        count: usize,
    ) -> Result<SeenMessages, Refusal> {
        let look = request.check()?;
        let vhost = self.vhost(vhost)?;
        queue_exists(&vhost, &look.queue)?;
        let (store, now) = (self.shared().node.store.clone(), self.shared().clock.now());
        let seen = tokio::task::spawn_blocking(move || {
            let from = (vhost, store.clone());
            let mut scan = Scan::new(from, look.queue, look.place, look.filter);
            let (mut messages, mut bytes) = (Vec::new(), 0);
            while messages.len() < count
                && scan.scanned() < BROWSED_MAX
                && bytes < BROWSED_BYTES_MAX
            {
                let Some(found) = scan.slice(count - messages.len())? else {
                    break;
                };
                for seen in &found {
                    let seen = SeenMessage::of(seen, store.as_deref(), now)?;
                    bytes += seen.body.len();
                    let behind = Position(seen.position + 1);
                    messages.push(seen);
                    if bytes >= BROWSED_BYTES_MAX {
                        scan.go_back(behind);
                        break;
                    }
                }
            }
            let next = scan.next().map(|next| next.0);
            Ok(SeenMessages { messages, next })
        });
        let broke = |_| Err(internal("looking through the queue failed".to_owned()));
        seen.await.unwrap_or_else(broke)
    }
}

impl SeenMessage {
    fn of(seen: &ShownMessage, store: Option<&Store>, now: Now) -> Result<Self, ScanError> {
        let message = whole(store, &seen.message)?;
        let history = message.history();
        let deaths = history.map(|history| history.entries().iter());
        let deaths = deaths.into_iter().flatten();
        let evidence = seen.candidate().evidence();
        let shown = evidence.map(Evidence::shown).unwrap_or_default();
        let text = |text: Option<Name>| text.map(|text| text.to_string());
        let mut body = message.body().to_vec();
        for part in message.rest() {
            body.extend_from_slice(part);
        }
        let body = Bytes::from(body);
        Ok(Self {
            position: seen.position.0,
            exchange: seen.route.exchange.to_string(),
            routing_keys: seen.route.keys.iter().map(ToString::to_string).collect(),
            arrived: seen.arrived_at(now).0,
            failures: seen.failures,
            deaths: deaths.map(|entry| Death::of(entry)).collect(),
            error: (text(shown.0), text(shown.1)),
            group: Fingerprint::of(&message).key,
            body: data(&body, &body),
        })
    }
}

/// What groups are made by, as a word names it.
pub(super) fn by_of_word(word: &str) -> Result<By, Refusal> {
    By::from_word(word).ok_or_else(|| {
        let known = By::ALL.map(By::as_str).join(", ");
        Refusal::bad_request(format!("the parameter 'by' must be one of {known}"))
    })
}

/// Counts what a scan finds, as far as an answer goes. Blocks.
pub(super) fn count_groups(
    scan: &mut Scan,
    by: By,
    viewer: Viewer<'_>,
    clock: SystemClock,
) -> Result<Counted, ScanError> {
    let mut groups = Groups::new(by);
    let deadline = clock.now().mono.plus(GROUPS_SCAN_MS);
    while scan.scanned() < GROUPS_SCANNED_MAX && clock.now().mono < deadline {
        let Some(found) = scan.slice(SCAN_SLICE)? else {
            break;
        };
        for seen in &found {
            groups.add(&seen.candidate(), viewer);
        }
    }
    Ok(groups.finish())
}

/// Checks that there is such a queue.
pub(super) fn queue_exists(vhost: &Vhost, queue: &Name) -> Result<(), Refusal> {
    let exists = vhost.look(|core| core.queue(queue).is_some());
    if exists.map_err(|_| failed(vhost.name()))? {
        return Ok(());
    }
    let (kind, name) = (ObjectKind::Queue, queue.clone());
    Err(Error::NotFound { kind, name }.into())
}
