//! The files that a template may include.

use serde::{Deserialize, Serialize};

/// A file of a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// The path of the file, as the operator knows it.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Reads the files of the roots.
pub trait Files: Send + Sync {
    /// Returns the file with a name such as `web/init.sls`, none if no root has it.
    ///
    /// # Errors
    /// A line for the operator when the file cannot be read.
    fn read(&self, name: &str) -> Result<Option<File>, String>;
}

/// Returns the name of a file that the template `parent` calls `name`: `./x` and `../x` begin in the folder of
/// `parent`, and `salt://` is left out.
///
/// # Errors
/// When the name leads out of the roots, or is none.
pub(crate) fn normalized(parent: &str, name: &str) -> Result<String, String> {
    let own = name.strip_prefix("salt://").unwrap_or(name);
    let mut parts: Vec<&str> = Vec::new();
    if own.starts_with("./") || own.starts_with("../") {
        parts.extend(parent.split('/'));
        parts.pop();
    }
    for part in own.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Err(format!("{name:?} leads out of the roots"));
                }
            }
            part if part.contains(['\0', '\\', '\n']) => {
                return Err(format!("{name:?} cannot be the name of a file"));
            }
            part => parts.push(part),
        }
    }
    match parts.is_empty() {
        true => Err(format!("{name:?} cannot be the name of a file")),
        false => Ok(parts.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn a_name_is_below_the_roots_or_refused() {
        for (parent, name, expected) in [
            ("", "a/b.sls", Some("a/b.sls")),
            ("a/b.sls", "./c.sls", Some("a/c.sls")),
            ("a/b/c.sls", "../d/e.sls", Some("a/d/e.sls")),
            ("a/b.sls", "salt://c//./d", Some("c/d")),
            ("a/b.sls", "/etc/passwd", Some("etc/passwd")),
            ("a/b.sls", "../../etc/passwd", None),
            ("a/b.sls", "c/../../../etc/passwd", None),
            ("a/b.sls", "..", None),
            ("", "", None),
            ("", "a\0b", None),
        ] {
            assert_eq!(normalized(parent, name).ok().as_deref(), expected, "{name}");
        }
    }
}
