//! The two threads of the pager: one pages messages in, the other evicts them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::BrokerDisk;
use crate::node::pager::{EvictionJob, NextJob};
use crate::node::paging::{Paging, Worked};
use crate::node::{Clock, Node};

/// Interval at which memory is checked, and freed memory returned, without a wake-up.
const IDLE: Duration = Duration::from_secs(1);
/// The same after several checks without eviction.
const STILL: Duration = Duration::from_secs(5);
const STILL_TIMES: u32 = 10;
/// Wait when nothing can be evicted at this moment.
const PAUSE: Duration = Duration::from_millis(2);
/// Wait for eviction before more is paged in.
const MOMENT: Duration = Duration::from_millis(1);

/// Starts the threads, unless there is no place for evicted messages.
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

/// Makes the allocator return memory to the system that was freed a while ago. It does so when it
/// is asked for a large piece or gets one back, which does not happen while the broker is idle.
/// This piece comes from the system: a piece of the freed memory would itself not be returned.
fn release_freed_memory() {
    /// Aligned so coarsely that the allocator asks the system for it.
    #[repr(align(131_072))]
    #[expect(dead_code, reason = "only its alignment counts")]
    struct Far(u8);
    drop(std::hint::black_box(Vec::<Far>::with_capacity(1)));
}
