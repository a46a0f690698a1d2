//! The entries of a mapping while it is read.

use std::collections::HashMap;

use super::{Content, Key, Node, YamlError};

/// The entries of a mapping while it is read, and those that `<<` brought: they give way to the
/// mapping's own, wherever they stand.
#[derive(Default)]
pub(super) struct Entries {
    own: Vec<(Key, Node)>,
    lines: HashMap<String, u64>,
    merged: Vec<(Key, Node)>,
}

impl Entries {
    pub fn insert(&mut self, key: Key, value: Node) -> Result<(), YamlError> {
        if let Some(line) = self.lines.insert(key.name.clone(), key.position.line) {
            let message = format!("{:?} occurs twice, first in line {line}", key.name);
            return Err(key.position.error(message));
        }
        self.own.push((key, value));
        Ok(())
    }

    pub fn merge(&mut self, value: Node) -> Result<(), YamlError> {
        let position = value.position;
        match value.content {
            Content::Map(entries) => self.merged.extend(entries),
            Content::List(nodes) if nodes.iter().all(|n| matches!(n.content, Content::Map(_))) => {
                for node in nodes {
                    self.merge(node)?;
                }
            }
            _ => return Err(position.error("`<<` takes a mapping or a list of mappings")),
        }
        Ok(())
    }

    /// Returns the entries in Salt's order: those that `<<` brought come first.
    pub fn finish(mut self) -> Vec<(Key, Node)> {
        let mut entries = Vec::with_capacity(self.merged.len() + self.own.len());
        for (key, value) in self.merged {
            if !self.lines.contains_key(&key.name) {
                self.lines.insert(key.name.clone(), key.position.line);
                entries.push((key, value));
            }
        }
        entries.append(&mut self.own);
        entries
    }
}
