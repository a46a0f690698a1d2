//! A whole system on one machine: a master, a swarm of minions, and what an operator's programs reach
//! with them. Explained in `docs/performance.md`.
//!
//! | file | holds |
//! |---|---|
//! | `arguments.rs` | the command line |
//! | `latency.rs` | how long a ping takes while others return much |
//! | `measure.rs` | what is measured, one function a figure |
//! | `setting.rs` | the system that is measured, and the ping of most measurements |

mod arguments;
mod latency;
mod measure;
mod setting;

use saline_protocol::transport::Registry;

use crate::row::Rows;
use crate::{Result, runtime};
use saline_daemon::raise_descriptors;

pub(crate) use arguments::SystemArguments;

/// Measures what is `wanted`, and prints it.
pub(crate) fn run(wanted: SystemArguments, registry: Registry) -> Result<()> {
    wanted.check(&registry)?;
    raise_descriptors()?;
    let mut rows = Rows::begin(wanted.json.as_deref())?;
    let runtime = runtime(1)?;
    for transport in &wanted.transport {
        for &minions in &wanted.minions {
            let mut show = |row| rows.show(row);
            let setting = setting::Setting {
                transport,
                minions,
                seconds: wanted.seconds,
                repeat: wanted.repeat,
                large: wanted.large,
                idle: wanted.idle,
                only: wanted.only,
                nats_servers: wanted.nats_servers,
                swarm: wanted.swarm,
                heartbeat: wanted.heartbeat,
            };
            runtime.block_on(measure::all(&setting, &registry, &mut show))?;
        }
    }
    runtime.shutdown_background();
    Ok(())
}
