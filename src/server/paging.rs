//! The two threads of the pager: one reads messages back, the other lets them leave.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::BrokerDisk;
use crate::node::pager::{EvictionJob, NextJob};
use crate::node::paging::{Paging, Worked};
use crate::node::{Clock, Node};

/// How often memory is looked at, and given back, when nobody says that there is too much.
const IDLE: Duration = Duration::from_secs(1);
/// The same once nothing had to leave so many times.
const STILL: Duration = Duration::from_secs(5);
const STILL_TIMES: u32 = 10;
/// How long to wait when nothing may leave at this moment.
const PAUSE: Duration = Duration::from_millis(2);
/// How long to wait for something to leave before more is read back.
const MOMENT: Duration = Duration::from_millis(1);

/// Starts them, unless messages can go nowhere.
pub(super) fn start(node: &Node<BrokerDisk>) -> io::Result<Vec<JoinHandle<()>>> {
    if !node.pager.has_place() {
        return Ok(Vec::new());
    }
    let paging = Arc::new(Paging {
        pager: Arc::clone(&node.pager),
        vhosts: Arc::clone(&node.vhosts),
    });
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let (loader, leaver) = (Arc::clone(&paging), paging);
    let clock = Arc::clone(&node.clock);
    Ok(vec![
        thread("page-in").spawn(move || run_loads(&loader))?,
        thread("page-out").spawn(move || run_leaves(&leaver, &*clock))?,
    ])
}

fn run_loads(paging: &Paging<BrokerDisk>) {
    let pager = &paging.pager;
    loop {
        let load = match pager.loads.next(None) {
            NextJob::Job(load) => load,
            NextJob::Nothing => continue,
            NextJob::End => return,
        };
        while pager.is_full() && !pager.loads.is_stopped() {
            pager.loads.pause(MOMENT);
        }
        paging.load(&load);
    }
}

fn run_leaves(paging: &Paging<BrokerDisk>, clock: &dyn Clock) {
    let pager = &paging.pager;
    let mut still = 0;
    loop {
        let patience = if still < STILL_TIMES { IDLE } else { STILL };
        let job = match pager.evictions.next(Some(patience)) {
            NextJob::Job(job) => {
                still = 0;
                job
            }
            NextJob::Nothing => {
                still = STILL_TIMES.min(still + 1);
                release_freed_memory();
                EvictionJob::Look
            }
            NextJob::End => return,
        };
        match paging.evict(clock.elapsed_ns(), job) {
            Worked::On => {}
            Worked::Stuck => pager.evictions.pause(PAUSE),
        }
    }
}

/// Has the allocator give memory back to the system that was freed a while ago. It does so when it
/// is asked for a large piece or gets one back, and when little goes on there is none. This one
/// comes from the system: a piece of what was freed would be what is not given back.
fn release_freed_memory() {
    /// Aligned so coarsely that the allocator asks the system for it.
    #[repr(align(131_072))]
    #[expect(dead_code, reason = "only its alignment counts")]
    struct Far(u8);
    drop(std::hint::black_box(Vec::<Far>::with_capacity(1)));
}
