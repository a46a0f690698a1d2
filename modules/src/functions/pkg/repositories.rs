//! Tells from where apt gets packages: `sources.list` and the files of `sources.list.d`, in both of apt's formats.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use saline_data::Value;
use saline_functions::{Failure, function};

use super::sources::{Source, deb822, one_line};
use crate::JobContext;

/// The folder of apt's configuration.
const APT: &str = "/etc/apt";

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// Returns the repositories that apt is configured with, by their addresses: for each a list of its entries, with the `file`, the `type`
/// (`deb` or `deb-src`), the `uri`, the `dist`, the components (`comps`), the `architectures`, the key (`signedby`), whether it is
/// `disabled`, and the entry as a `line` of `sources.list`. A block of a `.sources` file is an entry for each of its types, addresses and
/// suites; a key that stands in the block itself is not shown.
///
/// CLI Example:
///
///     saline '*' pkg.list_repos
#[function]
pub(super) fn list_repos(_: &JobContext<'_>) -> Result<Value, Failure> {
    list(Path::new(APT))
}

/// Returns the repositories of the configuration in this folder.
fn list(folder: &Path) -> Result<Value, Failure> {
    let mut repositories: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for path in files(folder) {
        let failed = |error: io::Error| {
            Failure::Execution(format!("{} cannot be read: {error}", path.display()))
        };
        let text = read(&path).map_err(failed)?;
        let sources = match path.extension().is_some_and(|end| end == "sources") {
            true => deb822(&text),
            false => one_line(&text),
        };
        for source in sources {
            let entry = shown(&source, &path);
            repositories.entry(source.uri).or_default().push(entry);
        }
    }
    let repositories = repositories.into_iter();
    Ok(Value::map(
        repositories.map(|(uri, entries)| (uri, Value::List(entries))),
    ))
}

/// Returns the files that apt reads, in its order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("sources.list.d"));
    let entries = entries.into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| is_read(path))
        .collect();
    below.sort();
    let first = folder.join("sources.list");
    let first = first.is_file().then_some(first);
    first.into_iter().chain(below).collect()
}

/// Whether apt reads this file of `sources.list.d`.
fn is_read(path: &Path) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = path.file_name().and_then(|name| name.to_str());
    let is_name = name.is_some_and(|name| {
        !name.starts_with('.')
            && name.chars().all(is_plain)
            && (name.ends_with(".list") || name.ends_with(".sources"))
    });
    is_name && path.is_file()
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn shown(source: &Source, path: &Path) -> Value {
    let texts = |list: &[String]| Value::texts(list.iter().map(String::as_str));
    Value::map([
        ("architectures", texts(&source.architectures)),
        ("comps", texts(&source.components)),
        ("disabled", Value::from(source.is_disabled)),
        ("dist", Value::from(source.suite.as_str())),
        ("file", Value::from(path.display().to_string())),
        ("line", Value::from(source.to_string())),
        ("signedby", Value::from(source.signed_by.as_str())),
        ("type", Value::from(source.kind.as_str())),
        ("uri", Value::from(source.uri.as_str())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_apt_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sources.list", "deb http://a/ stable main\n");
        write(
            "sources.list.d/b.sources",
            "Types: deb deb-src\nURIs: http://b/ http://a/\nSuites: stable\nComponents: main\nEnabled: no\n",
        );
        write("sources.list.d/a.list", "# deb http://c/ stable main\n");
        write("sources.list.d/a.list.save", "deb http://no/ stable main\n");
        write(
            "sources.list.d/.hidden.list",
            "deb http://no/ stable main\n",
        );
        write(
            "sources.list.d/with space.list",
            "deb http://no/ stable main\n",
        );
        let listed = list(folder.path()).unwrap();
        let uris = |listed: &Value| match listed {
            Value::Map(entries) => entries
                .iter()
                .map(|(uri, _)| uri.clone())
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(uris(&listed), ["http://a/", "http://b/", "http://c/"]);
        let Some(Value::List(entries)) = listed.get("http://a/") else {
            panic!("{listed:?}");
        };
        let files: Vec<_> = entries
            .iter()
            .map(|entry| entry.get("file").and_then(Value::as_str).unwrap())
            .map(|file| file.rsplit('/').next().unwrap())
            .collect();
        assert_eq!(files, ["sources.list", "b.sources", "b.sources"]);
        assert_eq!(entries[0].get("disabled"), Some(&Value::Bool(false)));
        assert_eq!(entries[1].get("disabled"), Some(&Value::Bool(true)));
        write("sources.list", &"#".repeat(1024 * 1024 + 1));
        assert!(list(folder.path()).is_err());
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(list(empty.path()).unwrap(), Value::Map(Vec::new()));
    }
}
