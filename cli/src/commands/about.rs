//! `--versions-report` and `--config-dump`: descriptions of a program.

use std::io;

use saline_config::MasterConfig;
use saline_protocol::message::{ProtocolVersions, SOFTWARE};
use saline_protocol::printable::escape_line;
use saline_protocol::transport::Registry;

use crate::arguments::{About, CommonOptions};
use crate::exit;
use crate::output::{Format, Style};
use crate::screen::Screen;

/// Prints a description of `program`.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn print(
    screen: &mut Screen<'_>,
    asked: About,
    program: &str,
    options: &CommonOptions,
    registry: &Registry,
) -> io::Result<u8> {
    match asked {
        About::Versions => screen.line(versions(program, registry))?,
        About::Config => {
            let schemes: Vec<&str> = registry.schemes().collect();
            let loaded = match MasterConfig::load(&options.config_dir, &schemes) {
                Ok(loaded) => loaded,
                Err(error) => {
                    screen.complain(format!("ERROR: {error}"));
                    return Ok(exit::FAILED);
                }
            };
            for warning in loaded.warnings.iter().chain(&loaded.unmet) {
                screen.complain(escape_line(&format!("WARNING: {warning}")));
            }
            if let Some(text) = Format::Yaml.render(&loaded.options, Style::default(), false) {
                screen.line(text)?;
            }
        }
    }
    Ok(exit::GOOD)
}

/// Returns the versions, in Salt's layout.
fn versions(program: &str, registry: &Registry) -> String {
    let ProtocolVersions { lowest, highest } = ProtocolVersions::OURS;
    let protocol = match lowest == highest {
        true => highest.to_string(),
        false => format!("{lowest} to {highest}"),
    };
    let default = registry.network_default().unwrap_or_default();
    let schemes = registry.schemes().map(|scheme| match scheme == default {
        true => format!("{scheme} (default)"),
        false => scheme.to_owned(),
    });
    let schemes: Vec<String> = schemes.collect();
    let system = rustix::system::uname();
    let system = [system.sysname(), system.release(), system.machine()];
    let system = system.map(|part| part.to_string_lossy().into_owned());
    let sections = [
        (
            "Saline Version",
            vec![
                ("Saline", SOFTWARE.to_owned()),
                ("program", program.to_owned()),
            ],
        ),
        (
            "Protocol",
            vec![("versions", protocol), ("transports", schemes.join(", "))],
        ),
        ("System", vec![("system", system.join(" "))]),
    ];
    let mut text = String::new();
    for (heading, entries) in sections {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{heading}:\n"));
        for (name, value) in entries {
            text.push_str(&format!("{name:>18}: {value}\n"));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_versions_has_every_section() {
        let report = versions("saline", &Registry::new());
        let system = report.lines().last().unwrap_or_default();
        assert!(system.starts_with("            system: "), "{report}");
        insta::assert_snapshot!(report.replace(system, "SYSTEM"), @"
        Saline Version:
                    Saline: 0.1.0
                   program: saline

        Protocol:
                  versions: 1
                transports: 

        System:
        SYSTEM
        ");
    }
}
