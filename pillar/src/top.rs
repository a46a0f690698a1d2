//! The top file: which files are for which minions.

use std::collections::HashMap;

use saline_data::Value;
use saline_render::Step;
use saline_targeting::{Candidate, CompiledTarget, Inclusion, Target, TargetKind};

use crate::PillarOptions;
use crate::sls_name::sls_name;

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
    /// The number of the section that names it.
    pub(crate) section: usize,
    pub(crate) sls: String,
    /// The steps to the name in the top file.
    pub(crate) steps: Vec<Step>,
    /// Whether it is left out when it is not there: `ignore_missing`.
    pub(crate) may_be_missing: bool,
}

/// What is wrong with a part of a top file.
pub(crate) struct TopError {
    /// The number of the section that has the part.
    pub(crate) section: usize,
    /// The steps to the part.
    pub(crate) steps: Vec<Step>,
    pub(crate) why: String,
}

/// What is said of one target.
struct OfTarget<'a> {
    section: usize,
    expression: &'a str,
    value: &'a Value,
}

/// The files that the sections of an environment in top files name, in their order, each once, and what is wrong with the
/// sections. Of two sections with the same target the later one counts, in the place of the earlier. Other entries than the
/// malformed ones count.
pub(crate) fn chosen(
    sections: &[&Value],
    environment: &str,
    choice: Choice,
    minion: Candidate<'_>,
    options: &PillarOptions<'_>,
) -> (Vec<Named>, Vec<TopError>) {
    let mut errors = Vec::new();
    let mut by_order: Vec<(i64, Vec<Named>)> = Vec::new();
    for OfTarget {
        section,
        expression,
        value,
    } in merged(sections, environment, &mut errors)
    {
        let steps = |last: Option<Step>| {
            let steps = [Step::key(environment), Step::key(expression)];
            steps.into_iter().chain(last).collect()
        };
        let mut wrong = |last: Option<Step>, why: String| {
            errors.push(TopError {
                section,
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
        let named = entry.names.into_iter().map(|(place, sls)| Named {
            section,
            sls: sls_name(sls),
            steps: steps(place),
            may_be_missing: entry.ignore_missing,
        });
        by_order.push((entry.order, named.collect()));
    }
    // Those of one order stay as they are.
    by_order.sort_by_key(|(order, _)| *order);
    let named = by_order.into_iter().flat_map(|(_, named)| named);
    (each_once(named), errors)
}

/// Returns the files, each where it is named first.
fn each_once(named: impl Iterator<Item = Named>) -> Vec<Named> {
    let mut files: Vec<Named> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for file in named {
        match places.get(&file.sls) {
            Some(place) => files[*place].may_be_missing |= file.may_be_missing,
            None => {
                places.insert(file.sls.clone(), files.len());
                files.push(file);
            }
        }
    }
    files
}

/// Puts the sections of an environment together.
fn merged<'a>(
    sections: &[&'a Value],
    environment: &str,
    errors: &mut Vec<TopError>,
) -> Vec<OfTarget<'a>> {
    let mut merged: Vec<OfTarget<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (section, content) in sections.iter().copied().enumerate() {
        let entries = match content {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => {
                let why =
                    "an environment of a top file takes a mapping of targets to lists of files";
                errors.push(TopError {
                    section,
                    steps: vec![Step::key(environment)],
                    why: why.to_owned(),
                });
                &[]
            }
        };
        for (expression, value) in entries {
            let of_target = OfTarget {
                section,
                expression,
                value,
            };
            match places.get(expression.as_str()) {
                Some(place) => merged[*place] = of_target,
                None => {
                    places.insert(expression, merged.len());
                    merged.push(of_target);
                }
            }
        }
    }
    merged
}

/// What a top file says of one target.
struct Entry<'a> {
    kind: TargetKind,
    /// The files of targets with a lower number come first.
    order: i64,
    /// Whether files that are not there are left out.
    ignore_missing: bool,
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
            order: 0,
            ignore_missing: false,
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
                        entry.set(key, value).map_err(|why| (place.clone(), why))?;
                    }
                }
                _ => return Err((place, TAKES.to_owned())),
            }
        }
        Ok(entry)
    }

    /// Reads an option of the target.
    ///
    /// # Errors
    /// When there is no such option, or it does not take the value.
    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match (key, value) {
            ("match", Value::Text(name)) => {
                let kind = TargetKind::from_name(name);
                self.kind =
                    kind.ok_or_else(|| format!("`match: {name}` names no kind of target"))?;
            }
            ("match", _) => return Err("`match` takes the name of a kind of target".to_owned()),
            ("order", value) => {
                let number = match value {
                    Value::Int(number) => Some(*number),
                    Value::Text(text) => text.parse().ok(),
                    _ => None,
                };
                self.order = number.ok_or("`order` takes a whole number")?;
            }
            ("ignore_missing", Value::Bool(flag)) => self.ignore_missing = *flag,
            ("ignore_missing", _) => {
                return Err("`ignore_missing` takes True or False".to_owned());
            }
            _ => {
                return Err(format!(
                    "`{key}` is unknown: beside names of files there are `match`, `order` and `ignore_missing`"
                ));
            }
        }
        Ok(())
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
