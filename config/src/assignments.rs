//! `minions.d/*.yaml`: what the master's administrator says of minions.
//!
//! Decisions may rest on it that must not rest on what a minion says of itself. So a file that anybody else can change
//! is refused, also where the configuration itself would only be warned of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::path::Path;

use saline_data::Value;
use saline_data::yaml::{Content, Key, Node, Position, YamlError};
use saline_private_files::changeable;
use saline_targeting::{Assignment, Assignments, Attribute, ROLES};

use crate::files::{Setting, read_settings};
use crate::pattern::{PatternError, expand};
use crate::unread_files::unread_files;
use crate::{ConfigError, Loaded, MasterConfig};

/// The folder in that of the configuration.
const FOLDER: &str = "minions.d";

/// The files in the folder.
const FILES: &str = "minions.d/*.yaml";

/// How their names end.
const EXTENSION: &str = "yaml";

/// What stands under a glob.
const TAKES: &str = "`roles: [web]` and `attributes: {site: berlin}`, or one of them";

impl Loaded<MasterConfig> {
    /// Reads `minions.d/*.yaml` in the folder of the configuration. Only a daemon does: users who give orders need not
    /// be able to read these files.
    ///
    /// # Errors
    /// `ChangeableByOthers` when somebody other than root, this process's user and a group can change one of these files,
    /// `minions.d`, or the folder of the configuration; `LinkIntoChangeable` when they can change the folder that a link
    /// leads into. Others as for [`MasterConfig::load`]; `Assignments` also when two globs give a minion two values of
    /// one attribute.
    pub fn read_assignments(&mut self, folder: &Path) -> Result<(), ConfigError> {
        let files = expand(folder, FILES).map_err(|error| match error {
            PatternError::Folder(path, source) => ConfigError::Read { path, source },
            // It is a constant.
            PatternError::Malformed(why) => ConfigError::Read {
                path: folder.join(FOLDER),
                source: std::io::Error::other(why),
            },
        })?;
        if !files.is_empty() {
            refuse_changeable_folder(folder)?;
            refuse_changeable_folder(&folder.join(FOLDER))?;
            refuse_link_into_changeable_folder(&folder.join(FOLDER))?;
        }
        self.warnings
            .extend(unread_files(&folder.join(FOLDER), EXTENSION));
        let mut assignments = Vec::new();
        for path in &files {
            refuse_link_into_changeable_folder(path)?;
            let settings = read_settings(path, refuse_others)?;
            for setting in &settings {
                let read = assignment(path, setting);
                assignments.push(read.map_err(|error| ConfigError::at(path, error))?);
            }
            self.given.add(FOLDER, settings);
        }
        let accepts_itself =
            self.config.auto_accept || self.config.open_mode || self.config.autosign_file.is_some();
        if !assignments.is_empty() && accepts_itself {
            self.warnings.push(format!(
                "{} assigns roles and attributes to ids, and with auto_accept, autosign_file or open_mode a stranger takes an id that it \
                 wants: accept keys by hand where it matters who has them",
                folder.join(FOLDER).display()
            ));
        }
        self.config.assignments = Assignments::new(assignments)?;
        Ok(())
    }
}

/// Refuses a folder in which somebody else can put another file in the place of one.
fn refuse_changeable_folder(folder: &Path) -> Result<(), ConfigError> {
    let found = std::fs::metadata(folder).map_err(|source| ConfigError::Read {
        path: folder.to_owned(),
        source,
    })?;
    refuse_others(folder, &found)
}

/// Refuses a link that leads to something in a folder in which somebody else can put another file in its place.
fn refuse_link_into_changeable_folder(path: &Path) -> Result<(), ConfigError> {
    let real = std::fs::canonicalize(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    // Only the root of all folders lies in none.
    let Some(folder) = real.parent() else {
        return Ok(());
    };
    refuse_changeable_folder(folder).map_err(|error| match error {
        ConfigError::ChangeableByOthers { path: folder } => ConfigError::LinkIntoChangeable {
            link: path.to_owned(),
            folder,
        },
        other => other,
    })
}

fn refuse_others(path: &Path, found: &Metadata) -> Result<(), ConfigError> {
    match changeable(found) {
        None => Ok(()),
        Some(_) => Err(ConfigError::ChangeableByOthers {
            path: path.to_owned(),
        }),
    }
}

/// Returns the file, line and column of something.
fn place(file: &Path, position: Position) -> String {
    format!("{}:{}:{}", file.display(), position.line, position.column)
}

/// Reads what is assigned to one glob.
fn assignment(file: &Path, setting: &Setting) -> Result<Assignment, YamlError> {
    let Key {
        name: glob,
        position,
    } = &setting.key;
    let mut read = Assignment {
        glob: glob.clone(),
        place: place(file, *position),
        roles: BTreeSet::new(),
        attributes: BTreeMap::new(),
    };
    let Content::Map(entries) = &setting.node.content else {
        let message = format!("{glob:?} takes {TAKES}");
        return Err(setting.node.position.error(message));
    };
    for (key, node) in entries {
        match key.name.as_str() {
            "roles" => read.roles = roles(node)?,
            "attributes" => read.attributes = attributes(file, node)?,
            other => {
                let message = format!("unknown name {other:?}: {glob:?} takes {TAKES}");
                return Err(key.position.error(message));
            }
        }
    }
    Ok(read)
}

fn roles(node: &Node) -> Result<BTreeSet<String>, YamlError> {
    let nodes = match &node.content {
        Content::List(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let role = |node: &Node| {
        match &node.content {
        Content::Scalar(Value::Text(role)) if !role.is_empty() => Ok(role.clone()),
        _ => Err(node.position.error(
            "roles are texts: `roles: [web, frontend]`; one that looks like something else stands in quotes",
        )),
    }
    };
    nodes.iter().map(role).collect()
}

fn attributes(file: &Path, node: &Node) -> Result<BTreeMap<String, Attribute>, YamlError> {
    let Content::Map(entries) = &node.content else {
        let message = "attributes are a mapping of names to values: `attributes: {site: berlin}`";
        return Err(node.position.error(message));
    };
    let attribute = |(key, node): &(Key, Node)| {
        let name = key.name.clone();
        if name == ROLES {
            let message = format!("an attribute cannot be called {ROLES:?}: roles have that name");
            return Err(key.position.error(message));
        }
        let is_scalar = |node: &Node| matches!(&node.content, Content::Scalar(value) if !matches!(value, Value::Null));
        let is_taken = match &node.content {
            Content::List(members) => members.iter().all(is_scalar),
            _ => is_scalar(node),
        };
        if !is_taken {
            let message = format!(
                "attribute {name:?} takes a text, a number, True or False, or a list of them"
            );
            return Err(node.position.error(message));
        }
        let attribute = Attribute {
            value: Value::from(node.clone()),
            place: place(file, node.position),
        };
        Ok((name, attribute))
    };
    entries.iter().map(attribute).collect()
}
