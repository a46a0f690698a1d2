//! Steps of wall clocks.

use std::time::Duration;

use saline_protocol::transport::Clock;

use super::Injector;
use crate::error::Result;
use crate::fleet::set_clock;
use crate::plan::Fault;
use crate::timeline::{Condition, Who};

/// Why a fault needs another build.
pub(super) const WITHOUT_FEATURE: &str = "the daemons were built without the feature `chaos`";

impl Injector<'_> {
    /// Steps a clock by so many hours, and back.
    pub(super) async fn step_clock(
        self,
        who: Who,
        hours: i64,
        fault: Fault,
        lasts: Duration,
    ) -> Result<()> {
        let timeline = &self.fleet.timeline;
        if !cfg!(feature = "chaos") {
            timeline.impossible("clock stepped by 25 h", WITHOUT_FEATURE);
            return Ok(());
        }
        self.begin(fault, lasts);
        let _disturbed = timeline.disturb(who, Condition::Disturbed);
        let instance = who.to_string();
        set_clock(self.fleet.root(), &instance, hours * 3600)?;
        Clock.pause(lasts).await;
        set_clock(self.fleet.root(), &instance, 0)?;
        timeline.note(format_args!("clock of {who}: right again"));
        Ok(())
    }
}
