//! Options that a backend declares, so that a configuration can be checked before anything starts.

use std::collections::BTreeMap;
use std::fmt;

use super::{Error, ErrorKind, Result};

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// `True` or `False`.
    Bool,
    /// A whole number, from zero to `u64::MAX`. A narrower range is the backend's to check, with
    /// [`ErrorKind::Config`], when it serves or connects.
    Integer,
    /// Any text.
    Text,
    /// A list of texts. A single text is taken as a list of one.
    List,
}

/// One option of a backend's section of the configuration (the section is named by the scheme). A
/// backend lists them in a constant:
///
/// ```
/// use saline_protocol::transport::{OptionKind, OptionSpec, OptionValue, Options};
///
/// const SPECS: &[OptionSpec] = &[OptionSpec {
///     name: "backlog",
///     kind: OptionKind::Integer,
///     secret: false,
///     help: "connections that wait to be accepted; 1024",
/// }];
///
/// let given = Options::check(SPECS, [("backlog".to_owned(), OptionValue::Integer(16))])?;
/// assert_eq!(given.integer("backlog", 1024), 16);
/// # Ok::<(), saline_protocol::transport::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// The option's name in the configuration.
    pub name: &'static str,
    /// The type of its value.
    pub kind: OptionKind,
    /// Whether its value is kept out of logs and `Debug` (`OBS-009`).
    pub secret: bool,
    /// One line about the option, with the unit and the default. The error about a value of another kind quotes it.
    pub help: &'static str,
}

/// The value of an option.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionValue {
    /// A value of [`OptionKind::Bool`].
    Bool(bool),
    /// A value of [`OptionKind::Integer`].
    Integer(u64),
    /// A value of [`OptionKind::Text`].
    Text(String),
    /// A value of [`OptionKind::Text`] that was declared secret: `Debug` does not show it.
    Secret(String),
    /// A value of [`OptionKind::List`].
    List(Vec<String>),
    /// A value of [`OptionKind::List`] that was declared secret: `Debug` does not show it.
    SecretList(Vec<String>),
}

impl fmt::Debug for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(values) => write!(f, "{values:?}"),
            Self::Secret(_) | Self::SecretList(_) => f.write_str("<secret>"),
        }
    }
}

/// Options of one endpoint, checked against what its backend declares: what was not given is not in
/// it, and the backend's default holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<&'static str, OptionValue>);

impl Options {
    /// None set: everything at its default.
    pub fn none() -> Self {
        Self::default()
    }

    /// Checks `given` against `specs`, and marks what those declare secret. Of a name that is given
    /// twice, the last value counts.
    ///
    /// # Errors
    /// `Config` for a name that is not declared (the error lists those that are) or a value of the
    /// wrong kind.
    pub fn check(
        specs: &'static [OptionSpec],
        given: impl IntoIterator<Item = (String, OptionValue)>,
    ) -> Result<Self> {
        let mut checked = BTreeMap::new();
        for (name, value) in given {
            let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
                let known: Vec<_> = specs.iter().map(|spec| spec.name).collect();
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("unknown option {name:?}; known are: {}", known.join(", ")),
                ));
            };
            let value = match (spec.kind, value) {
                (OptionKind::Bool, value @ OptionValue::Bool(_))
                | (OptionKind::Integer, value @ OptionValue::Integer(_)) => value,
                (OptionKind::Text, OptionValue::Text(text) | OptionValue::Secret(text)) => {
                    if spec.secret {
                        OptionValue::Secret(text)
                    } else {
                        OptionValue::Text(text)
                    }
                }
                (OptionKind::List, OptionValue::List(values) | OptionValue::SecretList(values)) => {
                    listed(spec, values)
                }
                (OptionKind::List, OptionValue::Text(text) | OptionValue::Secret(text)) => {
                    listed(spec, vec![text])
                }
                (kind, _) => {
                    return Err(Error::new(
                        ErrorKind::Config,
                        format!(
                            "option {name:?} takes a value of kind {kind:?}: {}",
                            spec.help
                        ),
                    ));
                }
            };
            checked.insert(spec.name, value);
        }
        Ok(Self(checked))
    }

    /// The value of `name`, if it was given.
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        self.0.get(name)
    }

    /// A whole number, or `default` when none was given.
    pub fn integer(&self, name: &str, default: u64) -> u64 {
        match self.get(name) {
            Some(OptionValue::Integer(value)) => *value,
            _ => default,
        }
    }

    /// A text, secret or not, if one was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(OptionValue::Text(text) | OptionValue::Secret(text)) => Some(text),
            _ => None,
        }
    }

    /// The texts of a list, secret or not; none when no list was given.
    pub fn list(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some(OptionValue::List(texts) | OptionValue::SecretList(texts)) => texts,
            _ => &[],
        }
    }

    /// A truth value, or `default` when none was given.
    pub fn bool(&self, name: &str, default: bool) -> bool {
        match self.get(name) {
            Some(OptionValue::Bool(value)) => *value,
            _ => default,
        }
    }
}

fn listed(spec: &OptionSpec, texts: Vec<String>) -> OptionValue {
    match spec.secret {
        true => OptionValue::SecretList(texts),
        false => OptionValue::List(texts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[OptionSpec] = &[
        OptionSpec {
            name: "backlog",
            kind: OptionKind::Integer,
            secret: false,
            help: "connections that wait to be accepted",
        },
        OptionSpec {
            name: "token",
            kind: OptionKind::Text,
            secret: true,
            help: "the broker's token",
        },
        OptionSpec {
            name: "servers",
            kind: OptionKind::List,
            secret: false,
            help: "the broker's servers",
        },
    ];

    #[test]
    fn an_unknown_option_is_refused_and_the_known_ones_listed() {
        let error =
            Options::check(SPECS, [("backlgo".into(), OptionValue::Integer(1))]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            error.to_string().contains("backlog, token, servers"),
            "{error}"
        );
    }

    #[test]
    fn a_single_text_is_a_list_of_one() {
        let list = |value| -> Result<Vec<String>> {
            let options = Options::check(SPECS, [("servers".into(), value)])?;
            Ok(options.list("servers").to_vec())
        };
        let texts = vec!["n1".to_owned(), "n2".to_owned()];
        assert_eq!(list(OptionValue::List(texts.clone())).unwrap(), texts);
        assert_eq!(list(OptionValue::Text("n1".into())).unwrap(), ["n1"]);
        assert!(list(OptionValue::Integer(1)).is_err());
    }

    #[test]
    fn a_list_is_no_text() {
        let list = OptionValue::List(vec!["hunter2".into()]);
        assert!(Options::check(SPECS, [("token".into(), list)]).is_err());
        assert!(Options::none().list("servers").is_empty());
        assert_eq!(Options::none().text("token"), None);
    }

    #[test]
    fn a_secret_does_not_show() {
        let options = Options::check(
            SPECS,
            [("token".into(), OptionValue::Text("hunter2".into()))],
        )
        .unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused() {
        assert!(Options::check(SPECS, [("backlog".into(), OptionValue::Bool(true))]).is_err());
    }
}
