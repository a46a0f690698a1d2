//! The report of versions that every program prints with `-V`.

use saline_messages::{ProtocolVersions, SOFTWARE};
use saline_protocol::transport::Registry;

/// Returns the versions of `program`, its protocol, its transports and this system, in Salt's layout.
pub fn versions_report(program: &str, registry: &Registry) -> String {
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
        let report = versions_report("saline", &Registry::new());
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
