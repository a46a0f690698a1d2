//! Renders the files of a pillar, and puts together what they include.

use std::collections::HashMap;

use saline_data::Value;
use saline_render::{Document, Step};

use super::{Compiler, INCLUDE, Part};
use crate::include::Included;
use crate::{MAX_AGAIN, MAX_DEPTH, MAX_FILES};

/// The files of an environment that a pillar has so far, by their names.
pub(super) type Files = HashMap<String, File>;

/// A file as it was rendered last. One that could not be rendered is empty.
#[derive(Default)]
pub(super) struct File {
    defaults: Value,
    /// What it says itself.
    own: Vec<(String, Value)>,
    /// The names of the files that it includes, with their keys.
    includes: Vec<(String, Option<String>)>,
}

impl Compiler<'_> {
    /// Returns what a file says that the top file names at `named`: also where another file has included it.
    pub(super) fn named_file(
        &mut self,
        environment: &str,
        sls: &str,
        named: Part<'_>,
        files: &mut Files,
    ) -> Vec<(String, Value)> {
        match files.get(sls) {
            Some(file) if file.defaults == Value::Null => {
                let mut all = Vec::new();
                for (included, key) in &file.includes {
                    let found = self.again(included, files);
                    self.merge_included(&mut all, key.as_deref(), found);
                }
                let own = self.again(sls, files);
                self.merge(&mut all, own);
                all
            }
            _ => self.render(environment, sls, &Value::Null, named, files),
        }
    }

    /// Renders the file with a name such as `web.ports`, after what it includes. It is named at `named`.
    fn render(
        &mut self,
        environment: &str,
        sls: &str,
        defaults: &Value,
        named: Part<'_>,
        files: &mut Files,
    ) -> Vec<(String, Value)> {
        let unread = File {
            defaults: defaults.clone(),
            ..File::default()
        };
        files.insert(sls.to_owned(), unread);
        self.rendered += 1;
        if self.rendered > MAX_FILES {
            if self.rendered == MAX_FILES + 1 {
                let error = format!("the pillar has more than {MAX_FILES} files");
                self.errors.push(error);
            }
            return Vec::new();
        }
        let Some(file) = self.find(environment, sls, named) else {
            return Vec::new();
        };
        let request = self.request(environment, sls, &file, Document::Pillar, defaults);
        let whole = Part {
            environment,
            request: &request,
            steps: &[],
        };
        let rendered = self.environments.render(environment, &request);
        let place = format!("{file} of {environment}");
        let mut entries = match rendered {
            Ok(Value::Map(entries)) => entries,
            Ok(Value::Null) => Vec::new(),
            Ok(_) => {
                self.including.push(place);
                self.wrong_in(whole, "a file of a pillar is a mapping");
                self.including.pop();
                return Vec::new();
            }
            Err(error) => {
                // It is rendered with what it lacks where a condition lets the one that includes it do so.
                if self.is_unreached
                    && self.including.is_empty()
                    && let Some(variable) = undefined(&error.message)
                    && self.is_given(environment, sls, variable)
                {
                    return Vec::new();
                }
                let hint = self.grain_hint(&error);
                self.wrong(&format!("{error}{hint}"));
                return Vec::new();
            }
        };
        let include = entries.iter().position(|(key, _)| key == INCLUDE);
        let include = include.map(|at| entries.remove(at).1);
        files.entry(sls.to_owned()).or_default().own = entries.clone();
        let Some(include) = include else {
            return entries;
        };
        // What is included comes first, so that the file itself counts.
        let is_init = file.ends_with("/init.sls");
        let mut all = Vec::new();
        self.including.push(place);
        let members = match include {
            _ if self.including.len() > MAX_DEPTH => {
                let error = format!("more than {MAX_DEPTH} files include each other in a row");
                self.wrong_in(whole.at(&[Step::key(INCLUDE)]), &error);
                Vec::new()
            }
            Value::List(members) => members,
            _ => {
                let error = "`include` takes a list of files";
                self.wrong_in(whole.at(&[Step::key(INCLUDE)]), error);
                Vec::new()
            }
        };
        let mut includes = Vec::new();
        for (index, member) in members.into_iter().enumerate() {
            let steps = [Step::key(INCLUDE), Step::Index(index)];
            let Some(included) = Included::read(member, sls, is_init) else {
                self.wrong_in(
                    whole.at(&steps),
                    "`include` takes names of files, and mappings of a name to `key` and `defaults`",
                );
                continue;
            };
            let Included { sls, key, defaults } = included;
            for sls in self.expand(environment, &sls, whole.at(&steps)) {
                let found = match files.contains_key(&sls) {
                    true => self.again(&sls, files),
                    false => self.render(environment, &sls, &defaults, whole.at(&steps), files),
                };
                self.merge_included(&mut all, key.as_deref(), found);
                includes.push((sls, key.clone()));
            }
        }
        self.including.pop();
        files.entry(sls.to_owned()).or_default().includes = includes;
        self.merge(&mut all, entries);
        all
    }

    /// Returns what a file that was rendered says itself. What it includes has counted already, so that no files include each
    /// other without an end.
    fn again(&mut self, sls: &str, files: &Files) -> Vec<(String, Value)> {
        let Some(file) = files.get(sls) else {
            return Vec::new();
        };
        if self.again > MAX_AGAIN {
            return Vec::new();
        }
        self.again += bytes_of(&file.own);
        if self.again > MAX_AGAIN {
            self.errors.push(format!(
                "files that the pillar has already add more than {MAX_AGAIN} bytes to it: include them in fewer places"
            ));
            return Vec::new();
        }
        file.own.clone()
    }

    /// Puts what an included file says over `under`, below its key, such as `a:b`. A file that says nothing leaves no key.
    fn merge_included(
        &self,
        under: &mut Vec<(String, Value)>,
        key: Option<&str>,
        found: Vec<(String, Value)>,
    ) {
        if found.is_empty() {
            return;
        }
        let parts = key.iter().flat_map(|key| key.rsplit(':'));
        let found = parts.fold(found, |inner, key| {
            vec![(key.to_owned(), Value::Map(inner))]
        });
        self.merge(under, found);
    }
}

/// Returns the name of the variable of which an error says that it, or a part of it, is undefined.
fn undefined(error: &str) -> Option<&str> {
    let (before, _) = error.split_once("` is undefined")?;
    let (_, expression) = before.rsplit_once('`')?;
    expression.split(['.', '[']).next()
}

/// Returns about how many bytes entries take.
fn bytes_of(entries: &[(String, Value)]) -> usize {
    let each = size_of::<(String, Value)>();
    let of_entry = |(key, value): &(String, Value)| each + key.len() + bytes_of_value(value);
    each + entries.iter().map(of_entry).sum::<usize>()
}

fn bytes_of_value(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Map(entries) => bytes_of(entries),
        Value::List(values) => {
            let of_member = |value| size_of::<Value>() + bytes_of_value(value);
            values.iter().map(of_member).sum()
        }
        _ => 0,
    }
}
