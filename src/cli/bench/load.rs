//! The load loop: one thread, every socket non-blocking, one poll for all of them.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::BenchError;
use super::codec::write_frame;
use super::connection::Connection;
use super::consumer::Consumer;
use super::producer::Producer;
use super::tally::Tally;

/// Longest wait for a socket, so that deadlines are checked.
const TURN_WAIT: Duration = Duration::from_millis(100);
/// Time without progress after which a run ends: messages were lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// The condition that ends a run.
pub(super) enum End {
    /// Producers stop after this long; then what they sent must arrive.
    After(Duration),
    /// All messages that the producers have to send must arrive.
    WhenAllArrived,
    /// This number of messages, which were in the queues before, must arrive.
    WhenArrived(u64),
}

/// All connections of a run.
pub(super) struct Load {
    pub(super) producers: Vec<Producer>,
    pub(super) consumers: Vec<Consumer>,
    pub(super) end: End,
}

impl Load {
    /// Runs to the end. False when messages were missing and no progress was made any more.
    pub(super) fn run(&mut self, tally: &mut Tally) -> Result<bool, BenchError> {
        for connection in self.connections() {
            connection.start()?;
        }
        // Input that arrived with the last answers of the handshake, the first credit above all.
        let all = vec![true; self.producers.len() + self.consumers.len()];
        self.read(&all, tally)?;
        let heartbeat_every = self
            .connections()
            .filter_map(|it| it.heartbeat_every())
            .min();
        let mut heartbeat_nanos = heartbeat_every.map(nanos);
        loop {
            tally.read_clock();
            if let Some(due) = heartbeat_nanos.filter(|due| *due <= tally.now_nanos) {
                heartbeat_nanos = heartbeat_every.map(|every| due + nanos(every));
                self.connections().for_each(beat);
            }
            self.write(tally)?;
            if self.is_over(tally) {
                return Ok(true);
            }
            if tally.now_nanos.saturating_sub(tally.progress_nanos) > nanos(PATIENCE) {
                return Ok(false);
            }
            let ready = self.poll(self.wait(tally))?;
            self.read(&ready, tally)?;
        }
    }

    /// Closes all connections.
    pub(super) fn close(&mut self) -> Result<(), BenchError> {
        self.connections().try_for_each(Connection::close)
    }

    fn connections(&mut self) -> impl Iterator<Item = &mut Connection> {
        let producers = self
            .producers
            .iter_mut()
            .map(|producer| &mut producer.connection);
        producers.chain(
            self.consumers
                .iter_mut()
                .map(|consumer| &mut consumer.connection),
        )
    }

    fn write(&mut self, tally: &mut Tally) -> Result<(), BenchError> {
        if let End::After(duration) = self.end
            && tally.now_nanos >= nanos(duration)
        {
            self.producers.iter_mut().for_each(Producer::stop);
        }
        for producer in &mut self.producers {
            producer.produce(tally);
        }
        let published =
            tally.confirmed == tally.sent && self.producers.iter().all(Producer::is_done);
        for consumer in &mut self.consumers {
            consumer.follow(tally, published);
        }
        for connection in self.connections() {
            connection.flush()?;
        }
        Ok(())
    }

    fn is_over(&self, tally: &Tally) -> bool {
        if let End::WhenArrived(count) = self.end {
            return tally.finished >= count;
        }
        let confirmed = tally.confirmed + tally.refused == tally.sent;
        let arrived = self.consumers.is_empty() || tally.finished >= tally.confirmed;
        self.producers.iter().all(Producer::is_done) && confirmed && arrived
    }

    /// The time until something is due if no socket becomes ready.
    fn wait(&self, tally: &Tally) -> Duration {
        let ready =
            |producer: &Producer| producer.is_ready() && producer.connection.pending_bytes() == 0;
        if self.producers.iter().any(ready) {
            return Duration::ZERO;
        }
        let due = self.producers.iter().filter_map(Producer::due_nanos).min();
        let until_due = due.map(|due| Duration::from_nanos(due.saturating_sub(tally.now_nanos)));
        until_due.map_or(TURN_WAIT, |until_due| until_due.min(TURN_WAIT))
    }

    /// Reads every connection that is ready, producers first.
    fn read(&mut self, ready: &[bool], tally: &mut Tally) -> Result<(), BenchError> {
        tally.read_clock();
        let (producers, consumers) = ready.split_at(self.producers.len());
        for (producer, ready) in self.producers.iter_mut().zip(producers) {
            if *ready {
                producer.read(tally)?;
            }
        }
        for (consumer, ready) in self.consumers.iter_mut().zip(consumers) {
            if *ready {
                consumer.read(tally)?;
            }
        }
        Ok(())
    }

    /// Polls all sockets. Returns which connections have something to read, producers first.
    fn poll(&self, wait: Duration) -> Result<Vec<bool>, BenchError> {
        let producers = self.producers.iter().map(|producer| &producer.connection);
        let consumers = self.consumers.iter().map(|consumer| &consumer.connection);
        let mut sockets: Vec<_> = producers
            .chain(consumers)
            .map(|connection| {
                let writing = connection.pending_bytes() > 0;
                let wanted = if writing {
                    PollFlags::IN | PollFlags::OUT
                } else {
                    PollFlags::IN
                };
                PollFd::new(connection.stream(), wanted)
            })
            .collect();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: wait.subsec_nanos().into(),
        };
        match poll(&mut sockets, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(BenchError::io("waiting")(error.into())),
        }
        let unready = PollFlags::OUT;
        Ok(sockets
            .iter()
            .map(|socket| !(socket.revents() - unready).is_empty())
            .collect())
    }
}

/// Sends an empty frame if no other output is pending. [AMQP 2.4.5]
fn beat(connection: &mut Connection) {
    if connection.pending_bytes() == 0 {
        write_frame(connection.output(), 0, |_| ());
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
