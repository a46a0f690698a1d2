//! Loads the configuration of a role.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;

use saline_data::Value;
use saline_data::nearest;
use saline_protocol::transport::Registry;

use crate::files::{Setting, gather};
use crate::given::Given;
use crate::given_values::GivenValues;
use crate::role::Role;
use crate::salt_options::is_salt_option;
use crate::salt_replacements::{
    instead_of, is_met, is_off, other_name_of, replacement_of, restricts,
};
use crate::secrecy::{self, Secrecy};
use crate::sections::{self, TransportOption};
use crate::{ConfigError, MetricsAddress, Paths};
use saline_data::yaml::{self, Content};

/// A configuration, and warnings for the operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<C> {
    /// The configured values, and defaults for the rest.
    pub config: C,
    /// One line each, with its place; for the log once it is started.
    pub warnings: Vec<String>,
    /// Why a daemon must not start: options of Salt that restrict what it does, and have no effect here.
    /// One line each, with its place.
    pub unsupported_restrictions: Vec<String>,
    /// Every option by its name, with secrets hidden: the value in the files, or the default. Paths have `root_dir` before
    /// them.
    pub options: Value,
    /// The options in the sections of transports, which only the transports know.
    pub(crate) of_transports: Vec<TransportOption>,
    pub(crate) given: GivenValues,
}

impl<C> Loaded<C> {
    /// Checks that a daemon may start with this configuration. The operator's commands need not: they
    /// restrict nothing, and use the local transport alone.
    ///
    /// # Errors
    /// `Unmet` when an option of Salt restricts what the daemon does, and has no effect here; `At` for an option that its
    /// transport does not have or take, alone or beside the others, also if the transport is not used.
    pub fn check_daemon(&self, registry: &Registry) -> Result<(), ConfigError> {
        if !self.unsupported_restrictions.is_empty() {
            return Err(ConfigError::Unmet {
                lines: self.unsupported_restrictions.clone(),
            });
        }
        for option in &self.of_transports {
            option.check(registry)?;
        }
        sections::check_together(&self.of_transports, registry)
    }
}

/// Reads the files of a role in `folder`.
pub(crate) fn load<C: Role>(folder: &Path, schemes: &[&str]) -> Result<Loaded<C>, ConfigError> {
    let gathered = gather(folder, C::FILE, C::DEFAULT_INCLUDE)?;
    let mut loaded = Loaded {
        config: C::default(),
        warnings: gathered.warnings,
        unsupported_restrictions: Vec::new(),
        options: Value::Null,
        of_transports: Vec::new(),
        given: GivenValues::default(),
    };
    let (mut unsupported, mut mistakes) = (Vec::new(), Vec::new());
    for setting in &gathered.settings {
        let name = setting.key.name.as_str();
        let is_known = C::OPTIONS.iter().any(|option| option.name == name) || C::is_kept(name);
        if is_known || is_met(name, &setting.node) {
            continue;
        }
        if schemes.contains(&name) {
            match sections::read(&mut loaded.config, setting) {
                Ok(options) => loaded.of_transports.extend(options),
                Err(error) => mistakes.push(ConfigError::at(&*setting.file, error)),
            }
        } else if restricts(name) && !is_off(&setting.node) {
            let message = format!(
                "option {name:?} of Salt restricts what the {} does, and Saline does not have it: remove it, or {}",
                C::FILE,
                instead_of(name)
            );
            loaded
                .unsupported_restrictions
                .push(at_key(setting, message).to_string());
        } else if C::is_of_other_role(name) {
            let other = C::OTHER;
            let message = format!("option {name:?} is one of the {other}, and has no effect here");
            loaded.warnings.push(at_key(setting, message).to_string());
        } else if let Some(instead) = replacement_of(name, &setting.node) {
            let message = format!("option {name:?} of Salt has no effect: {instead}");
            loaded.warnings.push(at_key(setting, message).to_string());
        } else if is_salt_option(name) {
            unsupported.push(setting);
        } else {
            mistakes.push(at_key(setting, unknown::<C>(name, schemes)));
        }
    }
    loaded.warnings.extend(without_effect(&unsupported));
    loaded.options = options::<C>(&gathered.settings, schemes);
    let readable = secrecy::readable_secrets(&gathered.settings, secrecy_of::<C>);
    loaded.warnings.extend(readable);
    for option in C::OPTIONS {
        let settings = gathered.settings.iter();
        for setting in settings.filter(|setting| setting.key.name == option.name) {
            let (warnings, hides_the_value) = (RefCell::default(), Cell::default());
            let given = Given {
                name: option.name,
                node: &setting.node,
                schemes,
                warnings: &warnings,
                hides_the_value: &hides_the_value,
            };
            if let Err(error) = (option.read)(&mut loaded.config, &given) {
                let error = match option.secrecy {
                    // What the error says may be of the secret; where it is may not.
                    Secrecy::Secret if !hides_the_value.get() => yaml::YamlError {
                        line: error.line,
                        column: error.column,
                        ..given.refuse(format!("takes {}, not the value here", option.unit))
                    },
                    Secrecy::Secret | Secrecy::Public | Secrecy::ByKeys | Secrecy::Rules => error,
                };
                mistakes.push(ConfigError::at(&*setting.file, error));
            }
            let warnings = warnings.into_inner().into_iter();
            let shown =
                warnings.map(|warning| ConfigError::at(&*setting.file, warning).to_string());
            loaded.warnings.extend(shown);
        }
    }
    if let Some(error) = ConfigError::of_all(mistakes) {
        return Err(error);
    }
    for (option, name, message) in loaded.config.unknown_names() {
        let place = place_of_name(&gathered.settings, option, &name);
        let shown = place.map(|(file, place)| ConfigError::at(file, place.error(message)));
        loaded
            .warnings
            .extend(shown.map(|warning| warning.to_string()));
    }
    loaded.config.finish();
    place_paths(&mut loaded);
    let tls = loaded.config.tls().clone();
    loaded.given = GivenValues::of(gathered.settings, tls, schemes);
    Ok(loaded)
}

/// Returns the file and the place of a name in the mapping that is the value of an option.
fn place_of_name<'s>(
    settings: &'s [Setting],
    option: &str,
    name: &str,
) -> Option<(&'s Path, yaml::Position)> {
    settings.iter().find_map(|setting| {
        let Content::Map(entries) = &setting.node.content else {
            return None;
        };
        let mut entries = entries.iter().filter(|_| setting.key.name == option);
        let (key, _) = entries.find(|(key, _)| key.name == name)?;
        Some((&*setting.file, key.position))
    })
}

/// Returns one warning about all options of Salt that are not supported, with the place of the first.
fn without_effect(settings: &[&Setting]) -> Option<String> {
    let first = settings.first()?;
    let mut names: Vec<&str> = Vec::new();
    for setting in settings {
        let name = setting.key.name.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let message = match names.as_slice() {
        [name] => format!("option {name:?} of Salt is not supported, and has no effect"),
        names => format!(
            "{} options of Salt are not supported, and have no effect: {}",
            names.len(),
            names.join(", ")
        ),
    };
    Some(at_key(first, message).to_string())
}

/// Puts the paths with `root_dir` before them, as they are used, in the place of those that were given.
fn place_paths<C: Role>(loaded: &mut Loaded<C>) {
    let Paths {
        pki_dir,
        cache_dir,
        state_dir,
        sock_dir,
        pid_file,
        ..
    } = loaded.config.paths().clone();
    let metrics_socket = match loaded.config.metrics_listen() {
        Some(MetricsAddress::Local(path)) => Some(path.clone()),
        _ => None,
    };
    let placed = [
        ("pki_dir", Some(pki_dir)),
        ("cachedir", Some(cache_dir)),
        ("state_dir", Some(state_dir)),
        ("sock_dir", Some(sock_dir)),
        ("pidfile", pid_file),
        ("log_file", loaded.config.logging().file.clone()),
        ("metrics_listen", metrics_socket),
    ];
    let Value::Map(options) = &mut loaded.options else {
        return;
    };
    for (name, path) in placed {
        let option = options.iter_mut().find(|(known, _)| known == name);
        if let (Some((_, value)), Some(path)) = (option, path) {
            *value = path.display().to_string().into();
        }
    }
}

/// Returns every option with its value.
fn options<C: Role>(settings: &[Setting], schemes: &[&str]) -> Value {
    let given = |name: &str| settings.iter().rfind(|setting| setting.key.name == name);
    let default = |text: &str| yaml::parse(text).unwrap_or_else(|_| text.into());
    let options = C::OPTIONS.iter().map(|option| {
        let value = match given(option.name) {
            Some(setting) => Value::from(setting.node.clone()),
            None => default(option.default),
        };
        (option.name, option.secrecy.shown(value))
    });
    let sections = schemes.iter().filter_map(|scheme| {
        let section = Value::from(given(scheme)?.node.clone());
        Some((*scheme, secrecy_of::<C>(scheme).shown(section)))
    });
    let names = settings.iter().map(|setting| setting.key.name.as_str());
    let kept: BTreeSet<&str> = names.filter(|name| C::is_kept(name)).collect();
    let kept = kept.into_iter().filter_map(|name| {
        let value = Value::from(given(name)?.node.clone());
        Some((name, secrecy_of::<C>(name).shown(value)))
    });
    Value::map(options.chain(sections).chain(kept))
}

/// Returns the secrecy of an option or of the section of a transport, whose options only the transport knows.
fn secrecy_of<C: Role>(name: &str) -> Secrecy {
    let option = C::OPTIONS.iter().find(|option| option.name == name);
    option.map_or(Secrecy::ByKeys, |option| option.secrecy)
}

fn at_key(setting: &Setting, message: String) -> ConfigError {
    ConfigError::at(&*setting.file, setting.key.position.error(message))
}

fn unknown<C: Role>(name: &str, schemes: &[&str]) -> String {
    if let Some(ours) = other_name_of(name).filter(|_| C::FILE == "master") {
        return format!("unknown option {name:?}; did you mean {ours:?}?");
    }
    let names = C::OPTIONS.iter().map(|option| option.name);
    match nearest(name, names.chain(schemes.iter().copied())) {
        Some(near) => format!("unknown option {name:?}; did you mean {near:?}?"),
        None => format!("unknown option {name:?}"),
    }
}
