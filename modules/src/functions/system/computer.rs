//! Tells how the machine is called.

use std::fs;
use std::io;

use saline_data::Value;
use saline_functions::{Failure, function};

use crate::JobContext;
use crate::grains::node_name;

/// The file with the name of the machine for people.
const MACHINE_INFO: &str = "/etc/machine-info";

/// Returns the name of the host, as `network.get_hostname` does.
///
/// CLI Example:
///
///     saline '*' system.get_computer_name
#[function(nonblocking)]
pub(super) fn get_computer_name(_: &JobContext<'_>) -> String {
    node_name()
}

/// Returns the name of the machine for people, which `hostnamectl` keeps as `PRETTY_HOSTNAME` in `/etc/machine-info`; `False` if it has
/// none.
///
/// CLI Example:
///
///     saline '*' system.get_computer_desc
#[function]
pub(super) fn get_computer_desc(_: &JobContext<'_>) -> Result<Value, Failure> {
    match fs::read_to_string(MACHINE_INFO) {
        Ok(text) => Ok(description(&text).map_or(Value::Bool(false), Value::from)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Value::Bool(false)),
        Err(error) => Err(Failure::Execution(format!("{MACHINE_INFO}: {error}"))),
    }
}

/// Returns the name for people from the text of the file.
fn description(text: &str) -> Option<&str> {
    let value = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("PRETTY_HOSTNAME="))?;
    let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_for_people_stands_in_the_file_with_or_without_quotes() {
        let text = "# of hostnamectl\nCHASSIS=vm\nPRETTY_HOSTNAME=\"The shop's first\"\n";
        assert_eq!(description(text), Some("The shop's first"));
        assert_eq!(description("PRETTY_HOSTNAME=Shop\n"), Some("Shop"));
        assert_eq!(description("PRETTY_HOSTNAME=\n"), None);
        assert_eq!(description("ICON_NAME=x\n"), None);
    }
}
