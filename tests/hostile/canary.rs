//! A well-behaved pair of clients beside a hostile one: what happens elsewhere must not reach them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::raw::{self, Raw};

/// Messages it sends at least.
const SONG_MIN: u32 = 10;

/// Publishes, consumes and settles until it is asked how it went.
pub struct Canary {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Canary {
    /// Declares its queue and begins.
    pub fn start(port: u16) -> Self {
        Raw::declare(port, "canary");
        let (mut publisher, mut consumer) = (Raw::begun(port), Raw::begun(port));
        publisher.attach_sender(0, "canary");
        publisher.wait_for(raw::FLOW);
        consumer.attach_receiver(0, "canary");
        consumer.credit(0, 0xffff_fffb, 0x7fff_ffff);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut round_trips = Vec::new();
            for id in 0.. {
                // It sings a little after the attack too, however short that was.
                if stopped.load(Ordering::Relaxed) && id >= SONG_MIN {
                    break;
                }
                let start = Instant::now();
                publisher.publish(0, id, false, b"canary");
                consumer.wait_for(raw::TRANSFER);
                publisher.wait_for(raw::DISPOSITION);
                let accepted = raw::performative(0x24, &[]);
                let fields = [
                    raw::truth(true),
                    raw::uint(id),
                    raw::uint(id),
                    raw::truth(true),
                    accepted,
                ];
                consumer.perform(raw::DISPOSITION, &fields);
                round_trips.push(start.elapsed());
                thread::sleep(Duration::from_millis(2));
            }
            round_trips
        });
        Self { stop, thread }
    }

    /// Stops it. Returns how long its slowest message took.
    pub fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let round_trips = self.thread.join().expect("the canary lives");
        *round_trips.iter().max().expect("the canary sang")
    }
}
