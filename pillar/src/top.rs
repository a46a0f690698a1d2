//! The top file: which files are for which minions.

use saline_data::Value;
use saline_targeting::{Candidate, Inclusion, Target, TargetKind};

use crate::PillarOptions;

/// The files that a section of a top file names for one minion, in its order, each once.
///
/// # Errors
/// A line for each entry that is malformed. The other entries count.
pub(crate) fn chosen(
    section: &Value,
    minion: Candidate<'_>,
    options: &PillarOptions<'_>,
) -> (Vec<String>, Vec<String>) {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    let Value::Map(entries) = section else {
        if *section != Value::Null {
            errors.push(
                "an environment of a top file takes a mapping of targets to lists of files"
                    .to_owned(),
            );
        }
        return (files, errors);
    };
    for (expression, named) in entries {
        match names(expression, named, minion, options) {
            Ok(names) => {
                for name in names {
                    if !files.contains(&name) {
                        files.push(name);
                    }
                }
            }
            Err(why) => errors.push(format!("the target {expression:?}: {why}")),
        }
    }
    (files, errors)
}

/// Returns the files of one target, none if it does not include the minion.
fn names(
    expression: &str,
    named: &Value,
    minion: Candidate<'_>,
    options: &PillarOptions<'_>,
) -> Result<Vec<String>, String> {
    const TAKES: &str =
        "takes a list of files, in which `match: grain` may say what kind of target it is";
    let listed = match named {
        Value::List(members) => members.as_slice(),
        Value::Text(_) => std::slice::from_ref(named),
        _ => return Err(TAKES.to_owned()),
    };
    let (mut kind, mut names) = (TargetKind::Compound, Vec::new());
    for member in listed {
        match member {
            Value::Text(name) => names.push(name.clone()),
            Value::Map(entries) => {
                for (key, value) in entries {
                    match (key.as_str(), value.as_str()) {
                        ("match", Some(name)) => {
                            kind = TargetKind::from_name(name).ok_or_else(|| {
                                format!("`match: {name}` names no kind of target")
                            })?;
                        }
                        _ => return Err(TAKES.to_owned()),
                    }
                }
            }
            _ => return Err(TAKES.to_owned()),
        }
    }
    let target = Target {
        kind,
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
    match compiled.decide(minion) {
        Ok(Inclusion::Included) => Ok(names),
        Ok(Inclusion::Excluded | Inclusion::Unknown) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}
