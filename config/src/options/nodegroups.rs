//! The option `nodegroups`: names for targets.

use std::collections::BTreeMap;

use saline_data::Value;
use saline_targeting::NodegroupDefinition;

use crate::given::Given;
use saline_data::yaml::{self, Content, Node, YamlError};

/// The kind of value that the option takes.
const TAKES: &str = "a mapping of names to compound expressions, or to lists of their words";

/// Reads the definitions of one file.
pub(super) fn definitions(
    given: &Given<'_>,
) -> Result<BTreeMap<String, NodegroupDefinition>, YamlError> {
    let entries = match &given.node.content {
        Content::Map(entries) => entries,
        Content::Scalar(Value::Null) => return Ok(BTreeMap::new()),
        _ => return Err(given.wrong(TAKES)),
    };
    let read = entries.iter().map(|(key, node)| {
        let definition = match &node.content {
            Content::List(words) if !words.is_empty() => words
                .iter()
                .map(word)
                .collect::<Option<_>>()
                .map(NodegroupDefinition::Words),
            Content::List(_) | Content::Map(_) => None,
            Content::Scalar(_) => word(node).map(NodegroupDefinition::Expression),
        };
        let wrong = || given.refuse(format!("takes {TAKES}; that of {:?} is neither", key.name));
        Ok((key.name.clone(), definition.ok_or_else(wrong)?))
    });
    read.collect()
}

/// Returns a word of a definition; ids that look like numbers are written out.
fn word(node: &Node) -> Option<String> {
    match &node.content {
        Content::Scalar(Value::Null) | Content::List(_) | Content::Map(_) => None,
        Content::Scalar(Value::Text(text)) => Some(text.clone()),
        Content::Scalar(other) => Some(yaml::as_key(other.clone())),
    }
}
