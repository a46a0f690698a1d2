//! Shell globs over names of keys and tags of events, with the syntax of targets.

/// One or several compiled globs, of which one must match.
#[derive(Debug, Clone)]
pub(crate) struct Glob(Vec<saline_targeting::Glob>);

impl Glob {
    /// Compiles one glob.
    ///
    /// # Errors
    /// One line that names the mistake.
    pub(crate) fn one(text: &str) -> Result<Self, String> {
        saline_targeting::Glob::compile(text)
            .map(|glob| Self(vec![glob]))
            .map_err(|error| error.to_string())
    }

    /// Compiles globs separated by commas, as `salt-key` does.
    ///
    /// # Errors
    /// As [`one`](Self::one).
    pub(crate) fn list(text: &str) -> Result<Self, String> {
        let globs: Result<Vec<_>, _> = text.split(',').map(Self::one).collect();
        Ok(Self(globs?.into_iter().flat_map(|glob| glob.0).collect()))
    }

    /// Whether one of the globs matches `text`.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        assert!(Glob::one("salt/job/*").unwrap().matches("salt/job/1/ret/m"));
        assert!(!Glob::one("salt/job/*").unwrap().matches("salt/auth"));
        let list = Glob::list("m1,w*").unwrap();
        assert!(list.matches("m1") && list.matches("web") && !list.matches("m2"));
        assert!(Glob::list("m1,[").unwrap_err().starts_with("not a glob"));
    }
}
