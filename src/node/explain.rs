//! Explaining one message, an evicted one included.

use super::vhost::{Failed, Vhost};
use crate::base::{Meter, Position};
use crate::broker::{Asked, Content, Explained};
use crate::store::Disk;

impl<D: Disk> Vhost<D> {
    /// What is known of one message, and what may happen to it next; none if there is no such
    /// message. Its content is not there if it cannot be read. Reads the disk, outside the lock:
    /// may block.
    pub(crate) fn explain(
        &self,
        place: (&str, Position),
        asked: Asked<'_>,
    ) -> Result<Option<Explained>, Failed> {
        let now = self.now();
        let explain = |content| {
            let meter = &mut Meter::default();
            self.look(|core| {
                let queue = core.queue(place.0).map(|queue| queue.id);
                (queue, core.explain(now, place, asked, content, meter))
            })
        };
        let (queue, explained) = explain(None)?;
        let (Some(queue), Some(explained)) = (queue, explained) else {
            return Ok(None);
        };
        let Content::OnDisk(wanted) = &explained.content else {
            return Ok(Some(explained));
        };
        let read = self.pager().glance(queue, vec![wanted.clone()]).messages;
        match read.into_iter().next() {
            Some((_, message, route)) => Ok(explain(Some((message, route)))?.1),
            // It may have left meanwhile.
            None => Ok(explain(None)?.1),
        }
    }
}
