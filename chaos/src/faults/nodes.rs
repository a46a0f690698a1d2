//! Faults of the servers of NATS.

use std::time::Duration;

use rustix::process::Signal;
use saline_protocol::transport::Clock;

use super::Injector;
use crate::error::Result;
use crate::plan::Fault;
use crate::timeline::{Condition, Who};

impl Injector<'_> {
    /// Kills a server, and starts it at the same port.
    pub(super) async fn kill_node(self, number: usize, lasts: Duration) -> Result<()> {
        let Some(node) = self.fleet.nats.as_ref().and_then(|nats| nats.node(number)) else {
            return Ok(());
        };
        let mut node = node.lock().await;
        self.begin(Fault::KillNode(number), lasts);
        let _disturbed = self.fleet.timeline.disturb(Who::Nats, Condition::Disturbed);
        node.kill();
        Clock.pause(lasts).await;
        node.start_again();
        self.fleet.timeline.note("the server of NATS is started");
        Ok(())
    }

    /// Stops a server by a signal, and lets it continue.
    pub(super) async fn stop_node(self, number: usize, lasts: Duration) -> Result<()> {
        let Some(node) = self.fleet.nats.as_ref().and_then(|nats| nats.node(number)) else {
            return Ok(());
        };
        let node = node.lock().await;
        self.begin(Fault::StopNode(number), lasts);
        let _disturbed = self.fleet.timeline.disturb(Who::Nats, Condition::Disturbed);
        node.signal(Signal::STOP);
        Clock.pause(lasts).await;
        node.signal(Signal::CONT);
        self.fleet.timeline.note("the server of NATS continues");
        Ok(())
    }

    /// Lets nothing pass between the servers.
    pub(super) async fn split_nodes(self, fault: Fault, lasts: Duration) -> Result<()> {
        let Some(nats) = &self.fleet.nats else {
            return Ok(());
        };
        self.begin(fault, lasts);
        let _disturbed = self.fleet.timeline.disturb(Who::Nats, Condition::Disturbed);
        nats.routes.set(|now| now.black_hole = true);
        Clock.pause(lasts).await;
        nats.routes.clear();
        self.fleet.timeline.note("routes of NATS: clear");
        Ok(())
    }
}
