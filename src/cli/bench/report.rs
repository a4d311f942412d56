//! The report of a run, for people and for scripts.

use std::io::Write;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::process::Process;
use super::tally::Tally;

/// The results of one run.
#[derive(Serialize)]
pub(super) struct Report {
    sent: u64,
    confirmed: u64,
    /// Number of publishes with another outcome than accepted.
    refused: u64,
    /// Number of deliveries, redeliveries and those to rejecting consumers included.
    delivered: u64,
    /// Number of messages that arrived; in a dead-letter run, that were dead-lettered.
    finished: u64,
    /// Whether every message was confirmed and arrived.
    complete: bool,
    /// Time from the start to the last arrival or confirmation, in seconds.
    seconds: f64,
    messages_per_second: f64,
    latency_us: Option<LatencyMicros>,
    /// With a rate: latency from publish to acceptance.
    accepted_us: Option<LatencyMicros>,
    generator_cpu_us_per_message: f64,
    /// Resources of the broker's process, if it was named.
    broker: Option<Broker>,
}

/// Latency percentiles, in microseconds; from publish to arrival unless said otherwise.
#[derive(Serialize)]
struct LatencyMicros {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl LatencyMicros {
    /// The percentiles; none if nothing was recorded.
    #[allow(
        clippy::cast_precision_loss,
        reason = "figures for people; 2^52 is enough"
    )]
    fn of(nanos: &Histogram<u64>) -> Option<Self> {
        let quantile = |q: f64| nanos.value_at_quantile(q) as f64 / 1e3;
        (!nanos.is_empty()).then(|| Self {
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: quantile(1.0),
        })
    }
}

#[derive(Serialize)]
struct Broker {
    cpu_us_per_message: f64,
    /// CPU use in percent of one core.
    cpu_percent: f64,
    rss_kib: u64,
    rss_peak_kib: u64,
}

/// A process before and after the run.
pub(super) type Span = (Process, Process);

impl Report {
    #[allow(
        clippy::cast_precision_loss,
        reason = "figures for people; 2^52 is enough"
    )]
    pub(super) fn new(tally: &Tally, complete: bool, own: Span, broker: Option<Span>) -> Self {
        let messages = tally.finished.max(tally.confirmed);
        let seconds = tally.progress_nanos as f64 / 1e9;
        let cpu_seconds = |(before, after): Span| after.cpu_seconds - before.cpu_seconds;
        let per_message = |cpu_seconds: f64| cpu_seconds * 1e6 / messages.max(1) as f64;
        Self {
            sent: tally.sent,
            confirmed: tally.confirmed,
            refused: tally.refused,
            delivered: tally.delivered,
            finished: tally.finished,
            complete,
            seconds,
            messages_per_second: messages as f64 / seconds.max(1e-9),
            latency_us: LatencyMicros::of(&tally.latency),
            accepted_us: LatencyMicros::of(&tally.accepted),
            generator_cpu_us_per_message: per_message(cpu_seconds(own)),
            broker: broker.map(|span| Broker {
                cpu_us_per_message: per_message(cpu_seconds(span)),
                cpu_percent: cpu_seconds(span) * 100.0 / seconds.max(1e-9),
                rss_kib: span.1.rss_kib,
                rss_peak_kib: span.1.rss_peak_kib,
            }),
        }
    }

    /// Whether all messages arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Writes one JSON object in one line.
    pub(super) fn write_json(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{}", serde_json::to_string(self)?)
    }

    /// Writes a table for people.
    pub(super) fn write_table(&self, out: &mut impl Write) -> std::io::Result<()> {
        let mut row = |name: &str, value: String| writeln!(out, "{name:<32}{value:>16}");
        row("sent", self.sent.to_string())?;
        row("confirmed", self.confirmed.to_string())?;
        row("refused", self.refused.to_string())?;
        row("delivered", self.delivered.to_string())?;
        row("finished", self.finished.to_string())?;
        row("seconds", format!("{:.3}", self.seconds))?;
        row(
            "messages per second",
            format!("{:.0}", self.messages_per_second),
        )?;
        for (what, times) in [
            ("latency", &self.latency_us),
            ("accepted", &self.accepted_us),
        ] {
            let Some(times) = times else { continue };
            for (name, time) in [
                ("p50", times.p50),
                ("p90", times.p90),
                ("p99", times.p99),
                ("p99.9", times.p999),
                ("max", times.max),
            ] {
                row(&format!("{what} {name}, us"), format!("{time:.0}"))?;
            }
        }
        if let Some(broker) = &self.broker {
            row(
                "broker CPU, us a message",
                format!("{:.2}", broker.cpu_us_per_message),
            )?;
            row(
                "broker CPU, % of a core",
                format!("{:.0}", broker.cpu_percent),
            )?;
            row("broker memory, KiB", broker.rss_kib.to_string())?;
            row(
                "broker memory at most, KiB",
                broker.rss_peak_kib.to_string(),
            )?;
        }
        row(
            "generator CPU, us a message",
            format!("{:.2}", self.generator_cpu_us_per_message),
        )?;
        if !self.complete {
            writeln!(
                out,
                "INCOMPLETE: messages are missing and nothing happened for 30 seconds"
            )?;
        }
        Ok(())
    }
}
