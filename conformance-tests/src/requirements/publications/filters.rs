//! What a filter takes.

use std::sync::Arc;

use bytes::Bytes;

use crate::Outcome;
use crate::failure::ensure_eq;
use crate::kit::{World, exact, prefix, topic};

/// Publishes on each of `topics` and then on `end`; returns the topics of what arrived before it.
async fn sieve(
    world: &World,
    filters: &[saline_protocol::transport::TopicFilter],
    topics: &[&str],
    end: &str,
) -> Outcome<Vec<String>> {
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(filters).await?;
    for name in topics {
        host.publish(&topic(name)?, Bytes::new()).await?;
    }
    host.publish(&topic(end)?, "end").await?;
    let mut arrived = Vec::new();
    loop {
        let (topic, payload) = listener.message().await?;
        if payload == "end" {
            return Ok(arrived);
        }
        arrived.push(topic.as_str().to_owned());
    }
}

pub(super) async fn exact_filter(world: Arc<World>) -> Outcome {
    let topics = ["a", "a/b/c", "a/bc", "b", "a/b", "other/b", "a/B"];
    let arrived = sieve(&world, &[exact("a/b")?], &topics, "a/b").await?;
    ensure_eq!(arrived, ["a/b"], "what a filter for exactly a/b took");
    Ok(())
}

pub(super) async fn prefix_filter(world: Arc<World>) -> Outcome {
    let topics = ["a", "a/b", "a/bc", "a/b/c", "a/bc/d", "b/a/b", "a/b/c/d/e"];
    let arrived = sieve(&world, &[prefix("a/b")?], &topics, "a/b").await?;
    ensure_eq!(
        arrived,
        ["a/b", "a/b/c", "a/b/c/d/e"],
        "what a filter for a/b and beneath took"
    );
    Ok(())
}

pub(super) async fn overlapping_filters(world: Arc<World>) -> Outcome {
    let filters = [
        prefix("a")?,
        prefix("a/b")?,
        exact("a/b")?,
        exact("a/b")?,
        exact("c")?,
    ];
    let topics = ["a", "a/b", "a/b/c", "c", "d", "a/b"];
    let arrived = sieve(&world, &filters, &topics, "a").await?;
    ensure_eq!(
        arrived,
        ["a", "a/b", "a/b/c", "c", "a/b"],
        "what five overlapping filters took"
    );
    Ok(())
}

pub(super) async fn longest_topics(world: Arc<World>) -> Outcome {
    let long = format!("{}/{}", "a/".repeat(6) + "b", "c".repeat(498));
    ensure_eq!(long.len(), 512, "the suite's own longest topic");
    let visible: String = ('!'..='~').filter(|c| *c != '/').collect();
    let cut: String = long.chars().take(511).collect();
    for name in [long.as_str(), visible.as_str(), "0"] {
        let topics = [cut.as_str(), "a", name, "!"];
        let arrived = sieve(&world, &[exact(name)?], &topics, name).await?;
        ensure_eq!(arrived, [name], "what a filter for exactly that topic took");
    }
    let arrived = sieve(&world, &[prefix("a/a")?], &[long.as_str(), "a"], "a/a").await?;
    ensure_eq!(arrived, [long], "what a filter for a/a and beneath took");
    Ok(())
}
