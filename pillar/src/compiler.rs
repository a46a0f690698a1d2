//! Compiles the pillar of one minion.

mod check;
mod files;
mod given;
mod names;
mod top_files;
mod variables;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use saline_data::Value;
use saline_render::{Place, RenderError, Request, Step};
use saline_targeting::{Assignments, Grains, Nodegroups};

use self::files::Files;
use self::given::Given;
use crate::merge::{MergingStrategy, merge};
use crate::top::{self, Choice};
use crate::{MAX_ERRORS, MAX_PLACES};

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

    /// Whether an environment has a top file.
    ///
    /// # Errors
    /// A line for the operator when that cannot be found out, and when it had one that has gone.
    fn has_top(&self, environment: &str) -> Result<bool, String>;

    /// Returns what is wrong with none of these environments having a top file; none where that is an empty pillar.
    fn without_top(&self, environments: &[&str]) -> Option<String>;

    /// Returns the names of all files of an environment that a top file can name, such as `web.ports`, in their order.
    ///
    /// # Errors
    /// A line for the operator when they cannot be listed.
    fn sls_names(&self, environment: &str) -> Result<Vec<String>, String>;

    /// Returns the path of a file, as the operator knows it; none if it is not there.
    fn path_of(&self, environment: &str, name: &str) -> Option<String>;

    /// Returns the text of a file, before it is rendered; none if it is not there or cannot be read.
    fn text_of(&self, environment: &str, name: &str) -> Option<String>;

    /// Renders a file of an environment.
    ///
    /// # Errors
    /// When it cannot be rendered.
    fn render(&self, environment: &str, request: &Request) -> Result<Value, RenderError>;

    /// Returns the place from which a part of a rendered file comes; none where that cannot be told.
    fn place_of(&self, environment: &str, request: &Request, part: &[Step]) -> Option<Place>;
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
    let chosen = compiler.chosen(Choice::OfMinion);
    let names = chosen.into_iter().map(|chosen| {
        let files = chosen.files.into_iter().map(|file| file.sls);
        (chosen.environment, files.collect())
    });
    (names.collect(), compiler.errors)
}

/// Compiles the pillar of a minion.
pub fn compile(
    subject: Subject<'_>,
    options: &PillarOptions<'_>,
    environments: &dyn Environments,
) -> Pillar {
    let mut compiler = Compiler::new(subject, options, environments);
    let mut entries = Vec::new();
    for chosen in compiler.chosen(Choice::OfMinion) {
        let mut files = Files::new();
        for file in &chosen.files {
            let named = chosen.place_of(file);
            let found = compiler.named_file(&chosen.environment, &file.sls, named, &mut files);
            compiler.merge(&mut entries, found);
        }
    }
    Pillar {
        entries,
        errors: compiler.errors,
    }
}

/// What is done with each file that a top file names, for whichever minion it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It is looked for, and rendered without an error that counts.
    IsThere,
    /// It is rendered, with what it includes.
    Renders,
}

/// Checks all files that the top files name, also those whose targets do not include the minion, for which they are rendered, and
/// renders those that are reached from none of them. Returns what is wrong, a line each.
pub fn check_all(
    check: Check,
    subject: Subject<'_>,
    options: &PillarOptions<'_>,
    environments: &dyn Environments,
) -> Vec<String> {
    let mut compiler = Compiler::new(subject, options, environments);
    for chosen in compiler.chosen(Choice::All) {
        for file in &chosen.files {
            if compiler.errors.len() >= MAX_ERRORS {
                break;
            }
            let (environment, named) = (&chosen.environment, chosen.place_of(file));
            let before = compiler.errors.len();
            compiler.check_file(environment, &file.sls, named);
            if check == Check::IsThere {
                compiler.errors.truncate(before);
                compiler.find(environment, &file.sls, named);
            }
        }
    }
    compiler.check_others();
    let mut told = HashSet::new();
    compiler.errors.retain(|error| told.insert(error.clone()));
    compiler.errors
}

/// The files of an environment that top files choose.
struct Chosen {
    environment: String,
    /// The top files with a section for the environment.
    tops: Vec<Top>,
    files: Vec<top::Named>,
}

impl Chosen {
    /// Returns where the top file names a file.
    fn place_of<'a>(&'a self, file: &'a top::Named) -> Part<'a> {
        self.tops[file.section].part(&file.steps)
    }
}

/// A rendered top file.
#[derive(Clone)]
struct Top {
    /// The environment that it is of.
    environment: String,
    request: Rc<Request>,
    content: Rc<Value>,
}

impl Top {
    /// Returns a part of the file.
    fn part<'a>(&'a self, steps: &'a [Step]) -> Part<'a> {
        Part {
            environment: &self.environment,
            request: &self.request,
            steps,
        }
    }
}

/// A part of a rendered file.
#[derive(Clone, Copy)]
struct Part<'a> {
    environment: &'a str,
    request: &'a Request,
    steps: &'a [Step],
}

impl Part<'_> {
    /// Returns another part of the file.
    fn at<'b>(&'b self, steps: &'b [Step]) -> Part<'b> {
        Part { steps, ..*self }
    }
}

struct Compiler<'a> {
    subject: Subject<'a>,
    options: &'a PillarOptions<'a>,
    environments: &'a dyn Environments,
    errors: Vec<String>,
    rendered: usize,
    /// How many bytes the files have added that the pillar had already.
    again: usize,
    /// The files that include each other, up to the one that is being compiled.
    including: Vec<String>,
    /// How many errors had their places looked for.
    places: usize,
    /// The top files that were read and the files that were checked, with their environments.
    seen: HashSet<(String, String)>,
    /// Whether a file is being checked that no other one includes for the minion.
    is_unreached: bool,
    /// What the includes in the texts of environments give, once it was looked for.
    given: HashMap<String, Vec<Given>>,
}

/// The key under which a file names those that it includes.
const INCLUDE: &str = "include";

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
            again: 0,
            including: Vec::new(),
            places: 0,
            seen: HashSet::new(),
            is_unreached: false,
            given: HashMap::new(),
        }
    }

    fn merge(&self, under: &mut Vec<(String, Value)>, over: Vec<(String, Value)>) {
        merge(under, over, self.options.strategy, self.options.merge_lists);
    }

    /// Returns what is told beside the error of a template that uses a grain which is not there, since minions are not believed it.
    fn grain_hint(&self, error: &RenderError) -> &'static str {
        let Some(rest) = error.message.strip_prefix("`grains") else {
            return "";
        };
        let name = rest.trim_start_matches(['.', '[', '\'']);
        let name = name.split(['.', '[', ']', '\'', '`']).next();
        match name {
            Some(name) if !self.options.trusted_grains.contains(name) => {
                ": in a pillar a grain counts once the master's `trusted_grains` lists it"
            }
            _ => "",
        }
    }

    /// Notes what is wrong with the file that is being compiled, with those that include it.
    fn wrong(&mut self, error: &str) {
        let by = included_by(&self.including);
        self.errors.push(format!("{error}{by}"));
    }

    /// Notes what is wrong with a part of the last of the files that include each other, or of a top file.
    fn wrong_in(&mut self, part: Part<'_>, error: &str) {
        let place = match self.places < MAX_PLACES {
            true => self
                .environments
                .place_of(part.environment, part.request, part.steps),
            false => None,
        };
        self.places += 1;
        let place = match place {
            Some(place) => place.to_string(),
            None => format!("{} of {}", part.request.name, part.environment),
        };
        let others = self.including.len().saturating_sub(1);
        let by = included_by(&self.including[..others]);
        self.errors.push(format!("{place}: {error}{by}"));
    }
}

/// Returns what an error says of the files that include the one that it is about.
fn included_by(files: &[String]) -> String {
    let files = files.iter().rev();
    files.map(|file| format!(", included by {file}")).collect()
}
