//! Reads the top files of all environments, and puts together what they choose.

use std::collections::HashSet;
use std::rc::Rc;

use saline_data::Value;
use saline_render::{Document, Step};
use saline_targeting::Candidate;

use super::{Chosen, Compiler, INCLUDE, Top};
use crate::merge::MergingStrategy;
use crate::sls_name::sls_name;
use crate::top::{self, Choice, Named};
use crate::{MAX_FILES, MAX_NAMED};

impl Compiler<'_> {
    /// Returns the files that the top files choose, for each environment in the order in which they merge.
    pub(super) fn chosen(&mut self, choice: Choice) -> Vec<Chosen> {
        let options = self.options;
        let mut names = self.environments.names();
        names.sort_by_key(|name| (name != options.base, name.clone()));
        let only = match options.strategy {
            MergingStrategy::None => options.pillarenv.or(options.saltenv).or(Some(options.base)),
            _ => options.pillarenv,
        };
        let wanted: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| only.is_none_or(|only| *name == only))
            .collect();
        let Some(tops) = self.tops(&wanted) else {
            return Vec::new();
        };
        let chosen = wanted.into_iter().map(|environment| {
            // Its own top file comes last, and so has the last word about a target.
            let is_own = |top: &&Top| top.environment == environment;
            let others = tops.iter().filter(|top| !is_own(top));
            let tops = others.chain(tops.iter().filter(is_own));
            self.chosen_of(environment, tops, choice)
        });
        chosen.filter(|chosen| !chosen.tops.is_empty()).collect()
    }

    /// Returns the files of one environment that top files choose.
    fn chosen_of<'a>(
        &mut self,
        environment: &str,
        tops: impl Iterator<Item = &'a Top>,
        choice: Choice,
    ) -> Chosen {
        let tops = tops.filter_map(|top| Some((top, top.content.get(environment)?)));
        let (tops, sections): (Vec<&Top>, Vec<&Value>) = tops.unzip();
        let minion = Candidate {
            id: self.subject.id,
            grains: self.subject.grains,
            pillar: None,
        };
        let (named, errors) = top::chosen(&sections, environment, choice, minion, self.options);
        for error in errors {
            self.wrong_in(tops[error.section].part(&error.steps), &error.why);
        }
        // A file that is named and that a glob stands for comes twice.
        let mut files = Vec::new();
        for file in named {
            if file.may_be_missing && self.is_missing(environment, &file.sls) {
                continue;
            }
            let part = tops[file.section].part(&file.steps);
            let names = self.expand(environment, &file.sls, part);
            if files.len() + names.len() > MAX_NAMED {
                let why = format!("the top files name more than {MAX_NAMED} files");
                self.wrong_in(part, &why);
                break;
            }
            files.extend(names.into_iter().map(|sls| Named {
                sls,
                steps: file.steps.clone(),
                ..file
            }));
        }
        Chosen {
            environment: environment.to_owned(),
            files,
            tops: tops.into_iter().cloned().collect(),
        }
    }

    /// Returns the top files of these environments, with those that they include. Where one environment alone is wanted and has no
    /// top file, that of the base speaks for it. None where they are unknown.
    fn tops(&mut self, environments: &[&str]) -> Option<Vec<Top>> {
        let base = self.options.base;
        let before = self.errors.len();
        let mut looked = environments.to_vec();
        let found: Vec<_> = environments
            .iter()
            .map(|environment| self.tops_of(environment))
            .collect();
        let found: Option<Vec<_>> = found.into_iter().collect();
        let mut tops = found?.concat();
        if let [only] = environments
            && *only != base
            && self.environments.names().iter().any(|name| name == base)
            && tops.is_empty()
            && self.errors.len() == before
        {
            looked.push(base);
            tops = self.tops_of(base)?;
        }
        if tops.is_empty() && !looked.is_empty() && self.errors.len() == before {
            self.errors.extend(self.environments.without_top(&looked));
        }
        Some(tops)
    }

    /// Returns the top file of an environment, if it has one, and those that it includes. None where that is unknown.
    fn tops_of(&mut self, environment: &str) -> Option<Vec<Top>> {
        match self.environments.has_top(environment) {
            Ok(true) => {}
            Ok(false) => return Some(Vec::new()),
            Err(error) => {
                self.errors.push(error);
                return None;
            }
        }
        let mut seen = HashSet::from(["top".to_owned()]);
        let mut tops = Vec::from_iter(self.top(environment, "top", "top.sls"));
        let mut next = 0;
        while let Some(top) = tops.get(next).cloned() {
            next += 1;
            for (index, sls) in included(&top) {
                if !seen.insert(sls.clone()) {
                    continue;
                }
                let steps = [Step::key(INCLUDE), Step::Index(index)];
                let part = top.part(&steps);
                if seen.len() > MAX_FILES {
                    let why = format!("there are more than {MAX_FILES} top files");
                    self.wrong_in(part, &why);
                    return Some(tops);
                }
                if let Some(file) = self.find(environment, &sls, part) {
                    tops.extend(self.top(environment, &sls, &file));
                }
            }
        }
        Some(tops)
    }

    /// Renders a top file.
    fn top(&mut self, environment: &str, sls: &str, file: &str) -> Option<Top> {
        let request = self.request(environment, sls, file, Document::Top, &Value::Null);
        match self.environments.render(environment, &request) {
            Ok(content) => {
                let top = Top {
                    environment: environment.to_owned(),
                    request: Rc::new(request),
                    content: Rc::new(content),
                };
                self.seen.insert((environment.to_owned(), sls.to_owned()));
                self.check_sections(&top);
                Some(top)
            }
            Err(error) => {
                let hint = self.grain_hint(&error);
                self.errors.push(format!("{error}{hint}"));
                None
            }
        }
    }

    /// Tells what a top file has that is of no environment, and would leave out what it names without a word.
    fn check_sections(&mut self, top: &Top) {
        let sections = match &*top.content {
            Value::Null => return,
            Value::Map(sections) => sections,
            _ => {
                let why = "a top file takes a mapping of environments to targets";
                return self.wrong_in(top.part(&[]), why);
            }
        };
        let known = self.environments.names();
        for (name, section) in sections {
            let steps = [Step::key(name)];
            match section {
                Value::List(members) if name == INCLUDE => {
                    for (index, member) in members.iter().enumerate() {
                        if !matches!(member, Value::Text(_)) {
                            let steps = [Step::key(INCLUDE), Step::Index(index)];
                            let why = "the `include` of a top file takes names of top files";
                            self.wrong_in(top.part(&steps), why);
                        }
                    }
                }
                _ if name == INCLUDE => {
                    self.wrong_in(top.part(&steps), "`include` takes a list of files");
                }
                _ if known.contains(name) => {}
                _ => {
                    let why = format!("`pillar_roots` has no environment {name:?}");
                    self.wrong_in(top.part(&steps), &why);
                }
            }
        }
    }
}

/// Returns the names of the top files that a top file includes, with their places in the list.
fn included(top: &Top) -> Vec<(usize, String)> {
    let members = match top.content.get(INCLUDE) {
        Some(Value::List(members)) => members.as_slice(),
        _ => &[],
    };
    // Another member was told.
    let names = members.iter().enumerate();
    let names = names.filter_map(|(index, member)| Some((index, sls_name(member.as_str()?))));
    names.collect()
}
