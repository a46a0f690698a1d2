//! A whole system on one machine: a master, a swarm of minions, and what an operator's programs reach
//! with them. Explained in `docs/performance.md`.
//!
//! | file | holds |
//! |---|---|
//! | `arguments.rs` | the command line |
//! | `fleet.rs` | the processes: master, swarm, command line |
//! | `latency.rs` | how long a ping takes while others return much |
//! | `measure.rs` | what is measured, one function a figure |
//! | `setting.rs` | the system that is measured, and the ping of most measurements |
//! | `row.rs` | a figure, as the table and the JSON show it |

mod arguments;
mod fleet;
mod latency;
mod measure;
mod row;
mod setting;

use std::fs::File;
use std::io::Write;

use saline_protocol::transport::Registry;

use crate::{Result, runtime};
use saline_daemon::raise_descriptors;

pub(crate) use arguments::SystemArguments;
use row::Row;

/// Measures what is `wanted`, and prints it.
pub(crate) fn run(wanted: SystemArguments, registry: Registry) -> Result<()> {
    wanted.check(&registry)?;
    raise_descriptors()?;
    let mut json = wanted.json.as_ref().map(File::create).transpose()?;
    let runtime = runtime(1)?;
    // Who reads this may have seen enough, which is no reason to panic.
    let _ = writeln!(std::io::stdout(), "{}", Row::HEAD);
    for transport in &wanted.transport {
        for &minions in &wanted.minions {
            let mut show = |row: Row| -> Result<()> {
                let _ = writeln!(std::io::stdout(), "{row}");
                if let Some(json) = &mut json {
                    writeln!(json, "{}", serde_json::to_string(&row)?)?;
                }
                Ok(())
            };
            let setting = setting::Setting {
                transport,
                minions,
                sync_spools: wanted.sync_spools,
                seconds: wanted.seconds,
                repeat: wanted.repeat,
                large: wanted.large,
                idle: wanted.idle,
                only_idle: wanted.only_idle,
                heartbeat: wanted.heartbeat,
            };
            runtime.block_on(measure::all(&setting, &registry, &mut show))?;
        }
    }
    runtime.shutdown_background();
    Ok(())
}
