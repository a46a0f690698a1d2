//! The variables that files give to those that they include, as far as their texts tell: also where a condition of the template
//! keeps the include from the minion at hand.

use saline_data::{Value, yaml};
use saline_targeting::Glob;

use super::names::paths;
use super::{Compiler, INCLUDE};
use crate::include::Included;

/// The variables that an include gives.
pub(super) struct Given {
    /// The names of the files that it includes.
    files: Glob,
    variables: Vec<String>,
}

impl Compiler<'_> {
    /// Whether the text of a file of the environment includes this one, with a variable of this name among the `defaults`.
    pub(super) fn is_given(&mut self, environment: &str, sls: &str, variable: &str) -> bool {
        if !self.given.contains_key(environment) {
            let given = self.given_in(environment);
            self.given.insert(environment.to_owned(), given);
        }
        let mut given = self.given[environment].iter();
        given.any(|given| {
            given.files.matches(sls) && given.variables.iter().any(|name| name == variable)
        })
    }

    fn given_in(&self, environment: &str) -> Vec<Given> {
        // Errors about the files are told where they are rendered.
        let names = self.environments.sls_names(environment).unwrap_or_default();
        let mut given = Vec::new();
        for sls in names {
            let [file, init] = paths(&sls);
            let text = |path| self.environments.text_of(environment, path);
            let found = match text(&file) {
                Some(text) => given_by(&text, &sls, false),
                None => text(&init).map_or_else(Vec::new, |text| given_by(&text, &sls, true)),
            };
            given.extend(found);
        }
        given
    }
}

/// What stands for the value of an expression of the template.
const ANY: &str = "__any__";

/// Returns what the includes in a text give. An include that cannot be read without rendering it gives nothing.
fn given_by(text: &str, sls: &str, is_init: bool) -> Vec<Given> {
    let text = without_template(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut given = Vec::new();
    for (at, _) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains("defaults"))
    {
        let is_outer = |other: &usize| *other == at || indent(lines[*other]) < indent(lines[at]);
        let is_entry = |other: &usize| {
            let line = lines[*other].trim_start();
            line.starts_with('-') || line.starts_with(INCLUDE)
        };
        let Some(first) = (0..=at).rev().find(|line| is_outer(line) && is_entry(line)) else {
            continue;
        };
        let is_inner = |line: &&&str| line.trim().is_empty() || indent(line) > indent(lines[first]);
        let inner = lines[first + 1..].iter().take_while(is_inner).count();
        let part = lines[first..=first + inner].join("\n");
        let members = match yaml::parse(&part) {
            Ok(Value::List(members)) => members,
            Ok(Value::Map(entries)) => match entries.into_iter().find(|(key, _)| key == INCLUDE) {
                Some((_, Value::List(members))) => members,
                _ => continue,
            },
            _ => continue,
        };
        for member in members {
            let Some(included) = Included::read(member, sls, is_init) else {
                continue;
            };
            if let Value::Map(defaults) = included.defaults
                && let Ok(files) = Glob::compile(&included.sls.replace(ANY, "*"))
            {
                let variables = defaults.into_iter().map(|(name, _)| name).collect();
                given.push(Given { files, variables });
            }
        }
    }
    given
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns a text without the tags and comments of the template engine, with a word in the place of each expression.
fn without_template(text: &str) -> String {
    let mut left = text;
    let mut without = String::with_capacity(text.len());
    while let Some(at) = left.find('{') {
        let (before, rest) = left.split_at(at);
        without.push_str(before);
        let (close, instead) = match rest.as_bytes().get(1) {
            Some(b'%') => ("%}", ""),
            Some(b'#') => ("#}", ""),
            Some(b'{') => ("}}", ANY),
            _ => {
                without.push('{');
                left = &rest[1..];
                continue;
            }
        };
        without.push_str(instead);
        left = rest.split_once(close).map_or("", |(_, behind)| behind);
    }
    without + left
}
