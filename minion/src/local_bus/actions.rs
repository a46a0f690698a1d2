//! Acts on events of the minion's own bus before they are passed on. The tags are Salt's.

use std::sync::Arc;

use saline_data::Value;
use saline_modules::Host;
use saline_protocol::transport::Context;

use crate::jobs::job_runner::JobRunner;

/// Acts on an event. What the minion does not know is passed on, and nothing else.
pub(super) async fn act(
    context: &Context,
    host: &Arc<Host>,
    jobs: &Arc<JobRunner>,
    tag: &str,
    data: &[(String, Value)],
) {
    match tag {
        "module_refresh" => {
            let jobs = Arc::clone(jobs);
            // Looks for programs on the disk. An error means that the runtime is going down.
            let _ = context.spawn_blocking(move || jobs.refresh_modules()).await;
        }
        "grains_refresh" => {
            let host = Arc::clone(host);
            let _ = context
                .spawn_blocking(move || host.collect_printed_grains())
                .await;
        }
        // The master may take a while, and no event waits for it.
        "pillar_refresh" => host.pillar.want(true),
        "fire_master" => fire_master(host, data),
        _ => {}
    }
}

/// Sends an event to the master: its `tag` and `data`, or each of its `events`, which are mappings of both.
fn fire_master(host: &Host, event: &[(String, Value)]) {
    let get = |name: &str| {
        event
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    };
    let events = match get("events") {
        Some(Value::List(events)) => events.clone(),
        _ => vec![Value::Map(event.to_vec())],
    };
    for event in events {
        let tag = event.get("tag").and_then(Value::as_str).unwrap_or_default();
        let data = match event.get("data") {
            Some(Value::Map(data)) => data.clone(),
            None | Some(Value::Null) => Vec::new(),
            Some(other) => vec![("data".to_owned(), other.clone())],
        };
        if let Err(error) = host.events.fire(tag, data) {
            tracing::warn!("an event of the minion's bus was not sent to the master: {error}");
        }
    }
}
