//! Loads the configuration of a role.

use std::path::Path;

use crate::files::{Setting, gather};
use crate::nearest::nearest;
use crate::options::{Given, Role};
use crate::salt_options::is_salt_option;
use crate::{ConfigError, sections};

/// A configuration, and warnings for the operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<C> {
    /// The configured values, and defaults for the rest.
    pub config: C,
    /// One line each, with its place; for the log once it is started.
    pub warnings: Vec<String>,
}

/// Reads the files of a role in `folder`.
pub(crate) fn load<C: Role>(folder: &Path, schemes: &[&str]) -> Result<Loaded<C>, ConfigError> {
    let gathered = gather(folder, C::FILE, C::DEFAULT_INCLUDE)?;
    let mut loaded = Loaded {
        config: C::default(),
        warnings: gathered.warnings,
    };
    for setting in &gathered.settings {
        let name = setting.key.name.as_str();
        if C::OPTIONS.iter().any(|option| option.name == name) {
            continue;
        }
        if schemes.contains(&name) {
            sections::read(loaded.config.transport_options(), setting)
                .map_err(|error| ConfigError::at(&*setting.file, error))?;
        } else if C::is_of_other_role(name) {
            let other = C::OTHER;
            let message = format!("option {name:?} is one of the {other}, and has no effect here");
            loaded.warnings.push(at_key(setting, message).to_string());
        } else if is_salt_option(name) {
            let message = format!("option {name:?} of Salt is not supported, and has no effect");
            loaded.warnings.push(at_key(setting, message).to_string());
        } else {
            return Err(at_key(setting, unknown::<C>(name, schemes)));
        }
    }
    for option in C::OPTIONS {
        let settings = gathered.settings.iter();
        for setting in settings.filter(|setting| setting.key.name == option.name) {
            let given = Given {
                name: option.name,
                node: &setting.node,
                schemes,
            };
            (option.read)(&mut loaded.config, &given)
                .map_err(|error| ConfigError::at(&*setting.file, error))?;
        }
    }
    loaded.config.finish();
    Ok(loaded)
}

fn at_key(setting: &Setting, message: String) -> ConfigError {
    ConfigError::at(&*setting.file, setting.key.position.error(message))
}

fn unknown<C: Role>(name: &str, schemes: &[&str]) -> String {
    let names = C::OPTIONS.iter().map(|option| option.name);
    match nearest(name, names.chain(schemes.iter().copied())) {
        Some(near) => format!("unknown option {name:?}; did you mean {near:?}?"),
        None => format!("unknown option {name:?}"),
    }
}
