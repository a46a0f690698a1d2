//! Compiles the pillar of one minion.

use std::collections::{BTreeSet, HashSet};

use saline_data::Value;
use saline_render::{Document, RenderError, Request};
use saline_targeting::{Assignments, Candidate, Grains, Nodegroups};

use crate::merge::{MergingStrategy, merge};
use crate::top;
use crate::{MAX_DEPTH, MAX_FILES};

/// The minion that a pillar is for, as root knows it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The id, under which its key is accepted.
    pub id: &'a str,
    /// The grains that it is believed; none while it has reported none.
    pub grains: Option<&'a dyn Grains>,
    /// What `minions.d` assigns to it: a mapping.
    pub assigned: &'a Value,
}

/// The options with which pillars are compiled.
pub struct PillarOptions<'a> {
    /// How files merge.
    pub strategy: MergingStrategy,
    /// Whether two lists are put together where mappings are merged: Salt's `pillar_merge_lists`.
    pub merge_lists: bool,
    /// The environment that comes first, and whose top file speaks for those that have none.
    pub base: &'a str,
    /// The names for targets.
    pub nodegroups: &'a Nodegroups,
    /// What root assigns to minions.
    pub assignments: &'a Assignments,
    /// The grains that minions are believed. A target that looks at others is an error, since nobody knows whom it is for.
    pub trusted_grains: &'a BTreeSet<String>,
    /// The minion's own environment, which is the only one for [`MergingStrategy::None`].
    pub saltenv: Option<&'a str>,
    /// The only environment of the pillar; none for all.
    pub pillarenv: Option<&'a str>,
}

/// The files of all environments.
pub trait Environments {
    /// Returns the names of the environments.
    fn names(&self) -> Vec<String>;

    /// Whether an environment has this file.
    ///
    /// # Errors
    /// A line for the operator when that cannot be found out.
    fn has(&self, environment: &str, name: &str) -> Result<bool, String>;

    /// Renders a file of an environment.
    ///
    /// # Errors
    /// When it cannot be rendered.
    fn render(&self, environment: &str, request: &Request) -> Result<Value, RenderError>;
}

/// A compiled pillar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pillar {
    /// The entries of all files, merged.
    pub entries: Vec<(String, Value)>,
    /// The errors, a line each: with any of these the pillar is not whole.
    pub errors: Vec<String>,
}

impl Pillar {
    /// Puts the entries of a further source over those of this pillar.
    pub fn merge(&mut self, over: Vec<(String, Value)>, options: &PillarOptions<'_>) {
        merge(
            &mut self.entries,
            over,
            options.strategy,
            options.merge_lists,
        );
    }
}

/// Returns the files that the top files choose for a minion, for each environment in the order in which they merge, and
/// what is wrong with the top files.
pub fn chosen_files(
    subject: Subject<'_>,
    options: &PillarOptions<'_>,
    environments: &dyn Environments,
) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let mut compiler = Compiler::new(subject, options, environments);
    let chosen = compiler.chosen();
    (chosen, compiler.errors)
}

/// Compiles the pillar of a minion.
pub fn compile(
    subject: Subject<'_>,
    options: &PillarOptions<'_>,
    environments: &dyn Environments,
) -> Pillar {
    let mut compiler = Compiler::new(subject, options, environments);
    let mut entries = Vec::new();
    for (environment, files) in compiler.chosen() {
        let mut seen = HashSet::new();
        for name in files {
            let found = compiler.file(&environment, &name, &Value::Null, &mut seen);
            compiler.merge(&mut entries, found);
        }
    }
    Pillar {
        entries,
        errors: compiler.errors,
    }
}

struct Compiler<'a> {
    subject: Subject<'a>,
    options: &'a PillarOptions<'a>,
    environments: &'a dyn Environments,
    errors: Vec<String>,
    rendered: usize,
    /// The files that include each other, up to the one that is being compiled.
    including: Vec<String>,
}

impl<'a> Compiler<'a> {
    fn new(
        subject: Subject<'a>,
        options: &'a PillarOptions<'a>,
        environments: &'a dyn Environments,
    ) -> Self {
        Self {
            subject,
            options,
            environments,
            errors: Vec::new(),
            rendered: 0,
            including: Vec::new(),
        }
    }

    /// Returns the files that the top files choose, for each environment in the order in which they merge.
    fn chosen(&mut self) -> Vec<(String, Vec<String>)> {
        let options = self.options;
        let mut names = self.environments.names();
        names.sort_by_key(|name| (name != options.base, name.clone()));
        let only = match options.strategy {
            MergingStrategy::None => options.pillarenv.or(options.saltenv).or(Some(options.base)),
            _ => options.pillarenv,
        };
        names.retain(|name| only.is_none_or(|only| name == only));
        let base = self.top(options.base);
        let mut chosen = Vec::new();
        for environment in names {
            let own = match environment == options.base {
                true => None,
                false => self.top(&environment),
            };
            // Its own top file speaks for an environment; without one, that of the base does.
            let Some(section) = own
                .as_ref()
                .or(base.as_ref())
                .and_then(|top| top.get(&environment))
            else {
                continue;
            };
            let minion = Candidate {
                id: self.subject.id,
                grains: self.subject.grains,
                pillar: None,
            };
            let (files, errors) = top::chosen(section, minion, options);
            let place = |error| format!("top.sls of {environment}: {error}");
            self.errors.extend(errors.into_iter().map(place));
            chosen.push((environment, files));
        }
        chosen
    }

    fn merge(&self, under: &mut Vec<(String, Value)>, over: Vec<(String, Value)>) {
        merge(under, over, self.options.strategy, self.options.merge_lists);
    }

    /// Returns the top file of an environment, if it has one.
    fn top(&mut self, environment: &str) -> Option<Value> {
        match self.environments.has(environment, "top.sls") {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                self.errors.push(error);
                return None;
            }
        }
        let request = self.request(environment, "top", "top.sls", Document::Top, &Value::Null);
        match self.environments.render(environment, &request) {
            Ok(top) => Some(top),
            Err(error) => {
                self.errors.push(error.to_string());
                None
            }
        }
    }

    fn request(
        &self,
        environment: &str,
        sls: &str,
        file: &str,
        document: Document,
        defaults: &Value,
    ) -> Request {
        let text = |text: &str| Value::from(text);
        let grains = self.subject.grains.map(|grains| grains.all().into_owned());
        let mut grains = match grains {
            Some(Value::Map(grains)) => grains,
            _ => Vec::new(),
        };
        grains.retain(|(name, _)| name != "id");
        grains.push(("id".to_owned(), text(self.subject.id)));
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut variables = match defaults {
            Value::Map(defaults) => defaults.clone(),
            _ => Vec::new(),
        };
        let saltenv = self.options.saltenv.unwrap_or(self.options.base);
        let own = [
            ("grains", Value::Map(grains)),
            ("assigned", self.subject.assigned.clone()),
            ("pillar", Value::Map(Vec::new())),
            (
                "opts",
                Value::map([
                    ("id", text(self.subject.id)),
                    ("saltenv", text(saltenv)),
                    (
                        "pillarenv",
                        self.options.pillarenv.map_or(Value::Null, text),
                    ),
                ]),
            ),
            ("minion_id", text(self.subject.id)),
            ("saltenv", text(environment)),
            ("pillarenv", text(environment)),
            ("sls", text(sls)),
            ("slspath", text(&sls.replace('.', "/"))),
            ("tplfile", text(file)),
            ("tpldir", text(folder)),
        ];
        variables.retain(|(name, _)| own.iter().all(|(own, _)| own != name));
        variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        Request {
            name: file.to_owned(),
            document,
            variables: Value::Map(variables),
        }
    }

    /// Renders the file with a name such as `web.ports`, after what it includes.
    fn file(
        &mut self,
        environment: &str,
        sls: &str,
        defaults: &Value,
        seen: &mut HashSet<String>,
    ) -> Vec<(String, Value)> {
        if !seen.insert(sls.to_owned()) {
            return Vec::new();
        }
        self.rendered += 1;
        if self.rendered > MAX_FILES {
            if self.rendered == MAX_FILES + 1 {
                let error = format!("the pillar has more than {MAX_FILES} files");
                self.errors.push(error);
            }
            return Vec::new();
        }
        let Some(file) = self.find(environment, sls) else {
            return Vec::new();
        };
        let request = self.request(environment, sls, &file, Document::Pillar, defaults);
        let mut entries = match self.environments.render(environment, &request) {
            Ok(Value::Map(entries)) => entries,
            Ok(Value::Null) => Vec::new(),
            Ok(_) => {
                self.wrong(&format!("{file} of {environment} is no mapping"));
                Vec::new()
            }
            Err(error) => {
                self.wrong(&error.to_string());
                Vec::new()
            }
        };
        let include = entries.iter().position(|(key, _)| key == "include");
        let Some(include) = include.map(|at| entries.remove(at).1) else {
            return entries;
        };
        // What is included comes first, so that the file itself counts.
        let is_init = file.ends_with("/init.sls");
        let mut all = Vec::new();
        if self.including.len() >= MAX_DEPTH {
            self.wrong(&format!(
                "{file} of {environment}: more than {MAX_DEPTH} files include each other in a row"
            ));
            return entries;
        }
        let place = format!("{file} of {environment}");
        let included = self.included(sls, &place, is_init, include);
        self.including.push(place);
        for Included { sls, key, defaults } in included {
            let found = self.file(environment, &sls, &defaults, seen);
            let found = key
                .iter()
                .flat_map(|key| key.rsplit(':'))
                .fold(found, |inner, key| {
                    vec![(key.to_owned(), Value::Map(inner))]
                });
            self.merge(&mut all, found);
        }
        self.including.pop();
        self.merge(&mut all, entries);
        all
    }

    /// Notes what is wrong with the file that is being compiled, with those that include it.
    fn wrong(&mut self, error: &str) {
        let by = self.including.iter().rev();
        let by: String = by.map(|file| format!(", included by {file}")).collect();
        self.errors.push(format!("{error}{by}"));
    }

    /// Returns the path of a file: `web/ports.sls` or `web/ports/init.sls`.
    fn find(&mut self, environment: &str, sls: &str) -> Option<String> {
        let is_named = !sls.is_empty()
            && sls.split('.').all(|part| !part.is_empty())
            && !sls.contains(['/', '\0', '\\']);
        if !is_named {
            self.wrong(&format!(
                "{sls:?} is no name of a file: `web.ports` is web/ports.sls"
            ));
            return None;
        }
        let path = sls.replace('.', "/");
        for name in [format!("{path}.sls"), format!("{path}/init.sls")] {
            match self.environments.has(environment, &name) {
                Ok(true) => return Some(name),
                Ok(false) => {}
                Err(error) => {
                    self.wrong(&error);
                    return None;
                }
            }
        }
        self.wrong(&format!(
            "{environment} has no file {path}.sls and no {path}/init.sls"
        ));
        None
    }

    /// Reads an `include`.
    fn included(&mut self, sls: &str, place: &str, is_init: bool, include: Value) -> Vec<Included> {
        let Value::List(members) = include else {
            self.wrong(&format!("{place}: `include` takes a list of files"));
            return Vec::new();
        };
        let mut read = Vec::new();
        for member in members {
            let included = match member {
                Value::Text(name) => Some(Included::plain(name)),
                Value::Map(entries) => Included::with_options(entries),
                _ => None,
            };
            match included {
                Some(mut included) => {
                    included.sls = absolute(&included.sls, sls, is_init);
                    read.push(included);
                }
                None => {
                    self.wrong(&format!(
                        "{place}: `include` takes names of files, and mappings of a name to `key` and `defaults`"
                    ));
                }
            }
        }
        read
    }
}

/// A file that another one includes.
struct Included {
    sls: String,
    /// The path, such as `a:b`, that its entries are put under.
    key: Option<String>,
    /// Variables of its template.
    defaults: Value,
}

impl Included {
    fn plain(sls: String) -> Self {
        Self {
            sls,
            key: None,
            defaults: Value::Null,
        }
    }

    /// Reads `name: {key: a:b, defaults: {x: 1}}`.
    fn with_options(entries: Vec<(String, Value)>) -> Option<Self> {
        let [(sls, options)] = <[_; 1]>::try_from(entries).ok()?;
        let mut included = Self::plain(sls);
        let Value::Map(options) = options else {
            return Some(included).filter(|_| options == Value::Null);
        };
        for (name, value) in options {
            match (name.as_str(), value) {
                ("key", Value::Text(key)) => included.key = Some(key),
                ("defaults", value @ Value::Map(_)) => included.defaults = value,
                _ => return None,
            }
        }
        Some(included)
    }
}

/// Returns the whole name of a file that `of` calls `.name`, or `..name` from one folder up.
fn absolute(name: &str, of: &str, is_init: bool) -> String {
    let rest = name.trim_start_matches('.');
    let dots = name.len() - rest.len();
    if dots == 0 {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = of.split('.').collect();
    // `web` is web/init.sls, which lies in web.
    let up = if is_init { dots - 1 } else { dots };
    parts.truncate(parts.len().saturating_sub(up));
    parts.push(rest);
    parts.join(".")
}
