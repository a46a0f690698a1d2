//! `--versions-report` and `--config-dump`: descriptions of a program.

use std::io;

use saline_config::{Loaded, MasterConfig, MinionConfig};
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_protocol::transport::Registry;

use crate::arguments::{About, CommonOptions, OutputOptions};
use crate::exit;
use crate::output::Format;
use crate::screen::Screen;

/// The configuration that a program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The master's.
    Master,
    /// The configuration of the minion on this machine.
    Minion,
}

/// Prints a description of `program`, which reads the configuration of `role`.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn print(
    screen: &mut Screen<'_>,
    asked: About,
    (program, role): (&str, Role),
    (options, output): (&CommonOptions, &OutputOptions),
    registry: &Registry,
) -> io::Result<u8> {
    if let Err(line) = output.open_file(screen) {
        screen.note(line);
        return Ok(exit::FAILED);
    }
    match asked {
        About::Versions => screen.line(saline_daemon::versions_report(program, registry))?,
        About::Config => {
            let schemes: Vec<&str> = registry.schemes().collect();
            let dumped = match role {
                Role::Master => MasterConfig::load(&options.config_dir, &schemes).map(dump),
                Role::Minion => MinionConfig::load(&options.config_dir, &schemes).map(dump),
            };
            let (values, warnings) = match dumped {
                Ok((values, warnings)) => {
                    (saline_daemon::options_to_show(values, registry), warnings)
                }
                Err(error) => {
                    screen.note(format!("ERROR: {error}"));
                    return Ok(exit::FAILED);
                }
            };
            for warning in warnings {
                screen.note(escape_line(&format!("WARNING: {warning}")));
            }
            let format = output.format_or(Format::Yaml);
            if let Some(text) = format.render(&values, output.style(screen), false) {
                screen.line(text)?;
            }
        }
    }
    Ok(exit::GOOD)
}

/// Returns the options with their values, and what the operator is warned of.
fn dump<C>(loaded: Loaded<C>) -> (Value, Vec<String>) {
    let mut warnings = loaded.warnings;
    warnings.extend(loaded.unsupported_restrictions);
    (loaded.options, warnings)
}
