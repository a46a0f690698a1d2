//! The environment of a command: a few variables of the daemon, and what is set for the command.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The variables of the daemon that its commands get: where programs are, who and where the user is, language
/// and time, and the way to the network. A trailing `*` stands for any text.
const PASSED: [&str; 21] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// The environment of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

/// A variable that no environment can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {0:?} cannot be set")]
pub struct InvalidVariable(OsString);

impl Environment {
    /// Returns those of `variables` that every command gets, and those whose name matches one of `more`. A
    /// trailing `*` of a name in `more` stands for any text.
    pub(crate) fn passed(
        variables: impl Iterator<Item = (OsString, OsString)>,
        more: &[String],
    ) -> Self {
        let passes = |name: &OsStr| {
            let more = more.iter().map(String::as_str);
            PASSED
                .into_iter()
                .chain(more)
                .any(|pattern| match pattern.strip_suffix('*') {
                    Some(prefix) => name.as_bytes().starts_with(prefix.as_bytes()),
                    None => name == pattern,
                })
        };
        Self(variables.filter(|(name, _)| passes(name)).collect())
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.0.remove(name.as_ref());
    }

    /// Returns the variables as `NAME=value`.
    ///
    /// # Errors
    /// When a name is empty or has a `=`, and when a name or a value has a null byte.
    pub fn into_strings(self) -> Result<Vec<CString>, InvalidVariable> {
        let variables = self.0.into_iter();
        let strings = variables.map(|(name, value)| {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(InvalidVariable(name));
            }
            let mut string = name.clone();
            string.push("=");
            string.push(value);
            CString::new(string.into_vec()).map_err(|_| InvalidVariable(name))
        });
        strings.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_pass() {
        let variables = ["PATH", "LC_TIME", "LCX", "SECRET", "APP_A", "APP", "PATHX"];
        let passed = |more: &[&str]| {
            let more: Vec<String> = more.iter().map(|&name| name.to_owned()).collect();
            let variables = variables.map(|name| (name.into(), "x".into()));
            let strings = Environment::passed(variables.into_iter(), &more).into_strings();
            let strings = strings.unwrap().into_iter();
            strings
                .map(|s| s.into_string().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(passed(&[]), ["LC_TIME=x", "PATH=x"]);
        assert_eq!(
            passed(&["APP_*", "SECRET"]),
            ["APP_A=x", "LC_TIME=x", "PATH=x", "SECRET=x"]
        );
        assert_eq!(passed(&["*"]).len(), variables.len());
    }

    #[test]
    fn impossible_variables_are_refused() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0")] {
            let mut environment = Environment::default();
            environment.set(name, value);
            assert_eq!(
                environment.into_strings(),
                Err(InvalidVariable(name.into()))
            );
        }
    }
}
