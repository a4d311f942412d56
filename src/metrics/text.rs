//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};

use super::table::Metric;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes metrics, one family after the other.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
}

impl Text {
    /// The text so far.
    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Begins a metric; its samples follow.
    pub(super) fn begin(&mut self, metric: &Metric) {
        let (name, kind) = (metric.name, metric.kind.as_str());
        self.line(format_args!("# HELP {name} {}", metric.help));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// Writes one value; the labels are those of the metric, in order.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.out.push(if index == 0 { '{' } else { ',' });
            self.out.push_str(label);
            self.out.push_str("=\"");
            self.escaped(text);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        self.line(format_args!(" {value}"));
    }

    /// Writes a histogram: pairs of a bucket's upper bound and the number in it alone, then the
    /// number above all bounds, and the sum of all values.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (f64, u64)>,
        (above, sum): (u64, f64),
    ) {
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        for (bound, in_it) in buckets {
            count += in_it;
            let bound = bound.to_string();
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), count);
        }
        count += above;
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), count);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(line);
        self.out.push('\n');
    }

    fn escaped(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.out.push_str("\\\\"),
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str("\\n"),
                other => self.out.push(other),
            }
        }
    }
}
