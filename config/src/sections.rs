//! Sections of transports: `tcp: {…}`. Their options are kept as they are, and checked when the
//! transport is started, since only the transport knows them.

use saline_protocol::message::Value;
use saline_protocol::transport::OptionValue;

use crate::files::Setting;
use crate::options::TransportOptions;
use crate::yaml::{Content, YamlError};

/// Adds a section to `sections`. A later file overrides options of an earlier one.
pub(crate) fn read(sections: &mut TransportOptions, setting: &Setting) -> Result<(), YamlError> {
    let scheme = &setting.key.name;
    let entries = match &setting.node.content {
        Content::Map(entries) => entries.as_slice(),
        Content::Scalar(Value::Null) => &[],
        _ => {
            let message = format!("section {scheme:?} takes a mapping of the transport's options");
            return Err(setting.node.position.error(message));
        }
    };
    let section = sections.entry(scheme.clone()).or_default();
    for (key, node) in entries {
        let name = &key.name;
        let value = match &node.content {
            Content::Scalar(Value::Bool(value)) => OptionValue::Bool(*value),
            Content::Scalar(Value::UInt(value)) => OptionValue::Integer(*value),
            Content::Scalar(Value::Int(value)) if *value >= 0 => {
                OptionValue::Integer(value.unsigned_abs())
            }
            Content::Scalar(Value::Text(value)) => OptionValue::Text(value.clone()),
            // The value is not shown: it may be a secret.
            _ => {
                let message = format!(
                    "option {name:?} of {scheme:?} takes True or False, a whole number from 0, or text"
                );
                return Err(node.position.error(message));
            }
        };
        section.retain(|(known, _)| known != name);
        section.push((name.clone(), value));
    }
    Ok(())
}
