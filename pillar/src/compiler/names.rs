//! Finds the files that names such as `web.ports` and globs such as `app.*` stand for.

use saline_targeting::Glob;

use super::{Compiler, Part};

impl Compiler<'_> {
    /// Returns the path of a file that is named at `named`: `web/ports.sls` or `web/ports/init.sls`.
    pub(super) fn find(&mut self, environment: &str, sls: &str, named: Part<'_>) -> Option<String> {
        if !is_name(sls) {
            let error =
                format!("{sls:?} cannot be the name of a file: `web.ports` is web/ports.sls");
            self.wrong_in(named, &error);
            return None;
        }
        let paths = paths(sls);
        for path in &paths {
            match self.environments.has(environment, path) {
                Ok(true) => return Some(path.clone()),
                Ok(false) => {}
                Err(error) => {
                    self.wrong_in(named, &error);
                    return None;
                }
            }
        }
        let [file, init] = paths;
        let error = format!("{environment} has no file {file} and no {init}");
        self.wrong_in(named, &error);
        None
    }

    /// Whether an environment is known to have no file of this name, and none that it stands for if it is a glob.
    pub(super) fn is_missing(&self, environment: &str, sls: &str) -> bool {
        match glob(sls) {
            Some(Ok(glob)) => match self.environments.sls_names(environment) {
                Ok(names) => !names.iter().any(|name| glob.matches(name)),
                Err(_) => false,
            },
            Some(Err(_)) => false,
            None => {
                is_name(sls)
                    && paths(sls)
                        .iter()
                        .all(|path| self.environments.has(environment, path) == Ok(false))
            }
        }
    }

    /// Returns the names that a glob stands for, in their order; a name that is none as it is. It is named at `named`.
    pub(super) fn expand(&mut self, environment: &str, sls: &str, named: Part<'_>) -> Vec<String> {
        let glob = match glob(sls) {
            None => return vec![sls.to_owned()],
            Some(glob) => glob.map_err(|error| format!("the glob {sls:?}: {error}")),
        };
        let found = glob.and_then(|glob| {
            let mut names = self.environments.sls_names(environment)?;
            names.retain(|name| glob.matches(name));
            match names.is_empty() {
                true => Err(format!(
                    "{environment} has no file with a name like {sls:?}"
                )),
                false => Ok(names),
            }
        });
        found.unwrap_or_else(|error| {
            self.wrong_in(named, &error);
            Vec::new()
        })
    }
}

/// Returns the glob that a name is; none if it is the name of one file.
fn glob(sls: &str) -> Option<Result<Glob, String>> {
    let is_glob = sls.contains(['*', '?', '[']);
    is_glob.then(|| Glob::compile(sls).map_err(|error| error.to_string()))
}

fn is_name(sls: &str) -> bool {
    sls.split('.').all(|part| !part.is_empty()) && !sls.contains(['/', '\0', '\\'])
}

/// Returns the paths that a file with this name may have.
pub(super) fn paths(sls: &str) -> [String; 2] {
    let path = sls.replace('.', "/");
    [format!("{path}.sls"), format!("{path}/init.sls")]
}
