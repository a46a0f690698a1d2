//! The functions of `file`, on the real file system.

mod backups;
mod contents;
mod folders;
mod ownership;
mod replacing;
mod searching;

use std::path::{Path, PathBuf};

use saline_data::Value;

use super::{Bench, text};
use crate::Outcome;

/// A minion and a folder of its machine.
struct Files {
    bench: Bench,
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            bench: Bench::new(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its path.
    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// Calls a function of the module with a path and further arguments.
    fn call(
        &self,
        fun: &str,
        path: &Path,
        positional: &[&str],
        named: &[(&str, Value)],
    ) -> Outcome {
        let path = Value::from(path.to_str().unwrap());
        let others = positional.iter().map(|text| Value::from(*text));
        let positional: Vec<Value> = std::iter::once(path).chain(others).collect();
        self.bench.call(&format!("file.{fun}"), &positional, named)
    }

    /// Calls a function that succeeds, and returns its value.
    fn done(&self, fun: &str, path: &Path, positional: &[&str], named: &[(&str, Value)]) -> Value {
        let outcome = self.call(fun, path, positional, named);
        assert_eq!(outcome.retcode, 0, "{outcome:?}");
        outcome.value
    }

    /// Calls a function that fails, and returns its line without the path of the folder.
    fn refused(
        &self,
        fun: &str,
        path: &Path,
        positional: &[&str],
        named: &[(&str, Value)],
    ) -> String {
        let outcome = self.call(fun, path, positional, named);
        assert_ne!(outcome.retcode, 0, "{outcome:?}");
        self.shown(text(&outcome))
    }

    fn shown(&self, text: &str) -> String {
        text.replace(self.folder.path().to_str().unwrap(), "FOLDER")
    }

    fn diff(&self, answer: &Value) -> String {
        self.shown(answer.get("diff").and_then(Value::as_str).unwrap())
    }

    /// The names in the folder, so that a test sees what was left behind.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }
}

fn is_changed(answer: &Value) -> bool {
    answer.get("changed").and_then(Value::as_bool).unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

const TEST: (&str, Value) = ("test", Value::Bool(true));
