//! What the API counts, for Prometheus.

use async_trait::async_trait;
use saline_client::transport::Counters;
use saline_daemon::{Metrics, MetricsSource};

use crate::api::Api;

#[async_trait]
impl MetricsSource for Api {
    async fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::of_this_process("api", &Counters::new());
        metrics.counters(
            "saline_api_answers",
            "Answers of the API, by the class of their status.",
            "status",
            self.counted.statuses(),
        );
        metrics.durations(
            "saline_api_answer_seconds",
            "How long answers took; a stream of events counts until it begins.",
            self.counted.durations.measured(),
        );
        metrics.gauge(
            "saline_api_event_streams",
            "Clients that listen to events.",
            self.event_streams.count(),
        );
        metrics
    }
}
