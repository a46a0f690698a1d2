//! `salt://` URLs.

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch};
use saline_jailed_files::InnerPath;
use saline_messages::FilePlace;

/// The environment of a file when nobody names another.
const BASE: &str = "base";

/// A file of the master: `salt://nginx/app.conf`, or `salt://nginx/app.conf?saltenv=prod`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SaltUrl {
    path: InnerPath,
    environment: Option<String>,
}

impl SaltUrl {
    /// Reads a URL. A path without `salt://` is one too, as with Salt.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("salt://").unwrap_or(text);
        if let Some((scheme, _)) = rest.split_once("://") {
            return Err(format!(
                "{text:?} begins with {scheme}://, and files of the master with salt://"
            ));
        }
        let (path, environment) = match rest.split_once("?saltenv=") {
            Some((path, environment)) => (path, Some(environment.to_owned())),
            None => (rest, None),
        };
        let path = InnerPath::parse(path).map_err(|error| format!("{text:?}: {error}"))?;
        Ok(Self { path, environment })
    }

    /// Returns the path below the roots.
    pub(crate) fn path(&self) -> &InnerPath {
        &self.path
    }

    /// Returns where the file lies: in the environment of the URL, else in this one, else in `base`.
    pub(crate) fn place(&self, environment: Option<&str>) -> FilePlace {
        let own = self.environment.as_deref();
        FilePlace {
            environment: own.or(environment).unwrap_or(BASE).to_owned(),
            path: self.path.as_str().to_owned(),
        }
    }

    /// Returns the name of the file in its folder.
    ///
    /// # Errors
    /// When the URL is that of all files.
    pub(crate) fn name(&self) -> Result<&str, Failure> {
        let name = self.path.components().next_back();
        name.ok_or_else(|| Failure::Invocation("the URL has no path".to_owned()))
    }
}

impl FromValue for SaltUrl {
    const TAKES: &'static str = "a file of the master, such as salt://nginx/app.conf";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match &value {
            Value::Text(text) => Self::parse(text).map_err(|_| Mismatch::of::<Self>(&value)),
            other => Err(Mismatch::of::<Self>(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_path_and_perhaps_an_environment() {
        let place = |text: &str, environment: Option<&str>| {
            SaltUrl::parse(text).map(|url| {
                let place = url.place(environment);
                format!("{}:{}", place.environment, place.path)
            })
        };
        assert_eq!(place("salt://a/b", None), Ok("base:a/b".to_owned()));
        assert_eq!(place("a//b/", Some("dev")), Ok("dev:a/b".to_owned()));
        assert_eq!(
            place("salt://a?saltenv=prod", Some("dev")),
            Ok("prod:a".to_owned())
        );
        for wrong in [
            "salt:///etc/passwd",
            "salt://../a",
            "http://a/b",
            "salt://a/../../b",
            "salt://a\0",
        ] {
            assert!(place(wrong, None).is_err(), "{wrong}");
        }
    }
}
