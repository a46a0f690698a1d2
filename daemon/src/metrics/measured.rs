//! Metrics as they were measured at one moment, and their text.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use saline_protocol::transport::{Counters, Metric};

use super::histogram::MeasuredDurations;

/// The metrics of a daemon at one moment, in the order in which they are printed.
#[derive(Debug, Default)]
pub struct Metrics(Vec<Family>);

/// A metric, with a value for each of its labels.
#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Gauge(Vec<(Labels, f64)>),
    Counter(Vec<(Labels, f64)>),
    Histogram(MeasuredDurations),
}

/// The name of each label and its value.
type Labels = Vec<(&'static str, String)>;

/// A measured value. What could not be measured has no number, and is left out.
pub trait Measurement {
    /// Returns the number, in seconds for a duration, and 1 for a truth.
    fn number(self) -> Option<f64>;
}

impl Measurement for f64 {
    fn number(self) -> Option<f64> {
        Some(self)
    }
}

impl Measurement for u64 {
    fn number(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl Measurement for usize {
    fn number(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl Measurement for bool {
    fn number(self) -> Option<f64> {
        Some(f64::from(u8::from(self)))
    }
}

impl Measurement for Duration {
    fn number(self) -> Option<f64> {
        Some(self.as_secs_f64())
    }
}

impl<M: Measurement> Measurement for Option<M> {
    fn number(self) -> Option<f64> {
        self.and_then(M::number)
    }
}

impl Metrics {
    /// Returns the metrics that every daemon has: its build, its process, and what its transports count.
    /// Reads `/proc`, which does not block on a disk.
    pub fn of_this_process(daemon: &'static str, transports: &Counters) -> Self {
        let mut metrics = Self::default();
        let build = vec![
            ("daemon", daemon.to_owned()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        metrics.push(
            "saline_build_info",
            "Always 1; the labels name the daemon and its version.",
            Values::Gauge(vec![(build, 1.0)]),
        );
        super::process::measure(&mut metrics);
        for metric in Metric::ALL {
            metrics.counter(
                &format!("saline_transport_{}", metric.name()),
                transport_help(*metric),
                transports.get(*metric),
            );
        }
        metrics
    }

    /// Adds a value that may rise and fall. Its name has its unit.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Measurement) {
        let values = value.number().map(|number| (Vec::new(), number));
        self.push(name, help, Values::Gauge(values.into_iter().collect()));
    }

    /// Adds values that may rise and fall, one for each value of a label.
    pub fn gauges<M: Measurement>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (String, M)>,
    ) {
        let values = values
            .into_iter()
            .filter_map(|(value, measured)| Some((vec![(label, value)], measured.number()?)));
        self.push(name, help, Values::Gauge(values.collect()));
    }

    /// Adds a number of what has happened since the daemon started. `_total` is put behind its name.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Measurement) {
        let values = value.number().map(|number| (Vec::new(), number));
        self.push(name, help, Values::Counter(values.into_iter().collect()));
    }

    /// Adds numbers of what has happened since the daemon started, one for each value of a label. `_total` is put
    /// behind the name.
    pub fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'static str, u64)>,
    ) {
        let values = values.into_iter();
        let values = values.map(|(value, count)| (vec![(label, value.to_owned())], count as f64));
        self.push(name, help, Values::Counter(values.collect()));
    }

    /// Adds durations that were measured since the daemon started, in seconds.
    pub fn durations(&mut self, name: &str, help: &str, values: MeasuredDurations) {
        self.push(name, help, Values::Histogram(values));
    }

    fn push(&mut self, name: &str, help: &str, values: Values) {
        self.0.push(Family {
            name: name.to_owned(),
            help: help.to_owned(),
            values,
        });
    }

    /// Returns the metrics in the text format of Prometheus, version 0.0.4.
    pub fn into_text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = prometheus_text::encode(&mut text, &registry);
        text
    }
}

/// One line of text: each value with its name, without the histograms.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for family in &self.0 {
            let (Values::Gauge(values) | Values::Counter(values)) = &family.values else {
                continue;
            };
            let name = family.name.strip_prefix("saline_").unwrap_or(&family.name);
            for (labels, value) in values {
                write!(f, "{space}{name}")?;
                for (label, value) in labels {
                    write!(f, "[{label}={value}]")?;
                }
                write!(f, "={value}")?;
                space = " ";
            }
        }
        Ok(())
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, help, values } in &self.0 {
            let kind = match values {
                Values::Gauge(_) => MetricType::Gauge,
                Values::Counter(_) => MetricType::Counter,
                Values::Histogram(_) => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            match values {
                Values::Gauge(values) => {
                    for (labels, value) in values {
                        family.encode_family(labels)?.encode_gauge(value)?;
                    }
                }
                Values::Counter(values) => {
                    for (labels, value) in values {
                        let mut family = family.encode_family(labels)?;
                        family.encode_counter::<NoLabelSet, _, u64>(value, None)?;
                    }
                }
                Values::Histogram(values) => {
                    family.encode_histogram::<NoLabelSet>(
                        values.sum,
                        values.count,
                        &values.buckets,
                        None,
                    )?;
                }
            }
        }
        Ok(())
    }
}

fn transport_help(metric: Metric) -> &'static str {
    match metric {
        Metric::RequestsSent => "Requests that this daemon's transports were asked to send.",
        Metric::RequestsFailed => "Requests of this daemon that ended in an error of a transport.",
        Metric::RequestsReceived => "Requests that transports handed to this daemon.",
        Metric::BytesSent => "Bytes of payload in requests and publications that were sent.",
        Metric::BytesReceived => {
            "Bytes of payload in requests, replies and publications that arrived."
        }
        Metric::Published => "Publications that were handed to a transport: jobs, keys, events.",
        Metric::Delivered => "Publications that arrived at subscribers in this daemon.",
        Metric::Lost => "Publications that subscribers lost because they were too slow.",
        Metric::Connected => "Connections that came up.",
        Metric::Disconnected => "Connections that went down.",
        Metric::PeersRefused => "Peers that were cut off for breaking the protocol or a limit.",
        _ => "A number that a transport counts.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let mut metrics = Metrics::default();
        metrics.gauge("a_seconds", "How long.", Duration::from_millis(1_500));
        metrics.gauge("b", "What could not be measured.", None::<u64>);
        metrics.counters("c", "By \\ and\nlines.", "kind", [("x", 1), ("y", 2)]);
        metrics.gauges("d", "Labels.", "minion", [("a\"b\\c\nd".to_owned(), true)]);
        metrics.durations(
            "e_seconds",
            "Durations.",
            MeasuredDurations {
                sum: 2.5,
                count: 3,
                buckets: vec![(0.001, 2), (f64::INFINITY, 1)],
            },
        );
        insta::assert_snapshot!(metrics.into_text());
    }

    #[test]
    fn a_report_is_one_line() {
        let mut metrics = Metrics::default();
        metrics.gauge("saline_master_a", "A.", 3_usize);
        metrics.counters("saline_master_c", "C.", "kind", [("x", 1), ("y", 2)]);
        assert_eq!(
            metrics.to_string(),
            "master_a=3 master_c[kind=x]=1 master_c[kind=y]=2"
        );
    }
}
