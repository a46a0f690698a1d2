//! Sections of transports: `tcp: {…}`. The role's own options, such as ports, are read here. The other options are kept as they are, and checked
//! against what the transport says of itself before a daemon starts, and again when the transport is started.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use saline_data::Value;
use saline_protocol::transport::{Error, OptionValue, Options, Registry};

use crate::ConfigError;
use crate::files::Setting;
use crate::given::Given;
use crate::role::Role;
use saline_data::yaml::{Content, Node, Position, YamlError};

/// An option in the section of a transport, with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TransportOption {
    scheme: String,
    name: String,
    value: OptionValue,
    file: Arc<Path>,
    position: Position,
}

impl TransportOption {
    /// Checks that the transport has the option, and takes the value.
    pub(crate) fn check(&self, registry: &Registry) -> Result<(), ConfigError> {
        let Ok(transport) = registry.get(&self.scheme) else {
            return Ok(());
        };
        let given = [(self.name.clone(), self.value.clone())];
        let checked = Options::check(transport.options(), given);
        checked.map(drop).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &Error) -> ConfigError {
        let message = format!("section {:?}: {}", self.scheme, error.context());
        ConfigError::at(&*self.file, self.position.error(message))
    }
}

/// Checks the options of each transport together, each of which the transport has.
pub(crate) fn check_together(
    options: &[TransportOption],
    registry: &Registry,
) -> Result<(), ConfigError> {
    let mut sections: BTreeMap<&str, Vec<&TransportOption>> = BTreeMap::new();
    for option in options {
        let section = sections.entry(&option.scheme).or_default();
        // That of a later file counts.
        section.retain(|known| known.name != option.name);
        section.push(option);
    }
    for (scheme, section) in sections {
        let Ok(transport) = registry.get(scheme) else {
            continue;
        };
        let given = section
            .iter()
            .map(|one| (one.name.clone(), one.value.clone()));
        let checked = Options::check(transport.options(), given)
            .and_then(|given| transport.check_options(&given));
        if let Err(error) = checked {
            let text = error.to_string();
            let named = section.iter().rev().find(|one| text.contains(&one.name));
            if let Some(option) = named.or(section.last()) {
                return Err(option.refused(&error));
            }
        }
    }
    Ok(())
}

/// Adds a section to the configuration. A later file overrides options of an earlier one. Returns the options that
/// only the transport knows.
pub(crate) fn read<C: Role>(
    config: &mut C,
    setting: &Setting,
) -> Result<Vec<TransportOption>, YamlError> {
    let mut options = Vec::new();
    let scheme = &setting.key.name;
    let entries = match &setting.node.content {
        Content::Map(entries) => entries.as_slice(),
        Content::Scalar(Value::Null) => &[],
        _ => {
            let message = format!("section {scheme:?} takes a mapping of the transport's options");
            return Err(setting.node.position.error(message));
        }
    };
    config
        .transport_options()
        .entry(scheme.clone())
        .or_default();
    for (key, node) in entries {
        let name = &key.name;
        if C::SECTION_OPTIONS.contains(&name.as_str()) {
            let given = Given {
                name: &format!("{scheme}:{name}"),
                node,
                schemes: &[],
                // None of these has warnings.
                warnings: &RefCell::default(),
                hides_the_value: &Cell::default(),
            };
            config.read_section_option(scheme, name, &given)?;
            continue;
        }
        let value = match &node.content {
            Content::List(items) => texts(items).map(OptionValue::List),
            Content::Scalar(Value::Bool(value)) => Some(OptionValue::Bool(*value)),
            Content::Scalar(Value::UInt(value)) => Some(OptionValue::Integer(*value)),
            Content::Scalar(Value::Int(value)) if *value >= 0 => {
                Some(OptionValue::Integer(value.unsigned_abs()))
            }
            Content::Scalar(Value::Text(value)) => Some(OptionValue::Text(value.clone())),
            _ => None,
        };
        let Some(value) = value else {
            // The value is not shown: it may be a secret.
            let message = format!(
                "option {name:?} of {scheme:?} takes True or False, a whole number from 0, text, or a list of texts"
            );
            return Err(node.position.error(message));
        };
        let section = config
            .transport_options()
            .entry(scheme.clone())
            .or_default();
        section.retain(|(known, _)| known != name);
        section.push((name.clone(), value.clone()));
        options.push(TransportOption {
            scheme: scheme.clone(),
            name: name.clone(),
            value,
            file: Arc::clone(&setting.file),
            position: key.position,
        });
    }
    Ok(options)
}

/// Returns the items of a list; none when one of them is no text.
fn texts(items: &[Node]) -> Option<Vec<String>> {
    let text = |item: &Node| match &item.content {
        Content::Scalar(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    items.iter().map(text).collect()
}
