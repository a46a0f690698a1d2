//! The top file: which files are for which minions.

use std::collections::HashSet;

use saline_data::Value;
use saline_render::Step;
use saline_targeting::{Candidate, CompiledTarget, Inclusion, Target, TargetKind};

use crate::PillarOptions;

/// Which files of a top file are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Those whose targets include the minion.
    OfMinion,
    /// Those of all targets.
    All,
}

/// A file that a top file names.
pub(crate) struct Named {
    pub(crate) sls: String,
    /// The steps to the name in the top file.
    pub(crate) steps: Vec<Step>,
}

/// What is wrong with a part of a top file.
pub(crate) struct TopError {
    /// The steps to the part.
    pub(crate) steps: Vec<Step>,
    pub(crate) why: String,
}

/// The files that the section of an environment in a top file names, in its order, each once, and what is wrong with the
/// section. Other entries than the malformed ones count.
pub(crate) fn chosen(
    section: &Value,
    environment: &str,
    choice: Choice,
    minion: Candidate<'_>,
    options: &PillarOptions<'_>,
) -> (Vec<Named>, Vec<TopError>) {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    let Value::Map(entries) = section else {
        if *section != Value::Null {
            let why = "an environment of a top file takes a mapping of targets to lists of files";
            errors.push(TopError {
                steps: vec![Step::key(environment)],
                why: why.to_owned(),
            });
        }
        return (files, errors);
    };
    let mut seen = HashSet::new();
    for (expression, value) in entries {
        let steps = |last: Option<Step>| {
            let steps = [Step::key(environment), Step::key(expression)];
            steps.into_iter().chain(last).collect()
        };
        let mut wrong = |last: Option<Step>, why: String| {
            errors.push(TopError {
                steps: steps(last),
                why: format!("the target {expression:?}: {why}"),
            });
        };
        let entry = match Entry::read(value) {
            Ok(entry) => entry,
            Err((place, why)) => {
                wrong(place, why);
                continue;
            }
        };
        let includes = entry
            .compile(expression, options)
            .and_then(|target| match choice {
                Choice::All => Ok(true),
                Choice::OfMinion => match target.decide(minion) {
                    Ok(Inclusion::Included) => Ok(true),
                    Ok(Inclusion::Excluded | Inclusion::Unknown) => Ok(false),
                    Err(error) => Err(error.to_string()),
                },
            });
        match includes {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                wrong(None, why);
                continue;
            }
        }
        for (place, sls) in entry.names {
            if seen.insert(sls) {
                files.push(Named {
                    sls: sls.to_owned(),
                    steps: steps(place),
                });
            }
        }
    }
    (files, errors)
}

/// What a top file says of one target.
struct Entry<'a> {
    kind: TargetKind,
    /// The names of files, with the steps to them.
    names: Vec<(Option<Step>, &'a str)>,
}

impl<'a> Entry<'a> {
    /// # Errors
    /// The step to what is malformed, and why.
    fn read(value: &'a Value) -> Result<Self, (Option<Step>, String)> {
        const TAKES: &str =
            "takes a list of files, in which `match: grain` may say what kind of target it is";
        let mut entry = Self {
            kind: TargetKind::Compound,
            names: Vec::new(),
        };
        let members = match value {
            Value::List(members) => members,
            Value::Text(name) => {
                entry.names.push((None, name));
                return Ok(entry);
            }
            _ => return Err((None, TAKES.to_owned())),
        };
        for (index, member) in members.iter().enumerate() {
            let place = Some(Step::Index(index));
            match member {
                Value::Text(name) => entry.names.push((place, name)),
                Value::Map(options) => {
                    for (key, value) in options {
                        let ("match", Some(name)) = (key.as_str(), value.as_str()) else {
                            return Err((place, TAKES.to_owned()));
                        };
                        entry.kind = TargetKind::from_name(name).ok_or_else(|| {
                            let why = format!("`match: {name}` names no kind of target");
                            (place.clone(), why)
                        })?;
                    }
                }
                _ => return Err((place, TAKES.to_owned())),
            }
        }
        Ok(entry)
    }

    /// Returns the target, if a pillar may depend on it.
    fn compile(
        &self,
        expression: &str,
        options: &PillarOptions<'_>,
    ) -> Result<CompiledTarget, String> {
        let target = Target {
            kind: self.kind,
            expression: expression.to_owned(),
        };
        let expanded = target.expand(options.nodegroups, options.assignments);
        let compiled = expanded.and_then(|expanded| expanded.target.compile());
        let compiled = compiled.map_err(|error| error.to_string().replace('\n', " "))?;
        if compiled.needs_pillar() {
            return Err(
                "it looks at pillars (I@, J@), on which no pillar can depend: use ids, or roles and attributes of minions.d (A@)"
                    .to_owned(),
            );
        }
        if !compiled.looks_only_at(options.trusted_grains) {
            return Err(
                "it looks at grains that are not in `trusted_grains`, or at addresses, and a minion says of itself what these are"
                    .to_owned(),
            );
        }
        Ok(compiled)
    }
}
