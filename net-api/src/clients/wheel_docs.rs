//! What the functions of `wheel` do, for `doc.wheel`. These functions are the API's own: the master documents its runners alone.

use saline_data::Value;
use saline_messages::Arguments;
use saline_targeting::Glob;

use crate::error::ApiError;

/// The runner by which clients ask for these texts.
pub(super) const RUNNER: &str = "doc.wheel";

const MATCHED: &str = "match is a glob over the ids, or several with commas between them.";

/// Each function, with its text and whether it takes ids by globs.
const FUNCTIONS: [(&str, &str, bool); 11] = [
    (
        "config.values",
        "Returns the options of the master that applications may see, such as saltgui_* and nodegroups. It takes the rights of the runner of \
         this name.",
        false,
    ),
    (
        "key.accept",
        "Accepts the keys that wait, of the minions that match; with include_rejected and include_denied such keys too.",
        true,
    ),
    (
        "key.accept_dict",
        "Accepts the keys in match, a mapping of lists of ids such as {minions_pre: [web1]}. With finger, {ID: FINGERPRINT}, only keys that have \
         these fingerprints.",
        false,
    ),
    (
        "key.delete",
        "Deletes the keys of the minions that match, in whatever state.",
        true,
    ),
    (
        "key.delete_dict",
        "Deletes the keys in match, a mapping of lists of ids; with finger as key.accept_dict.",
        false,
    ),
    (
        "key.finger",
        "Returns the fingerprints of the keys of the minions that match, by state.",
        true,
    ),
    (
        "key.list",
        "Returns the keys in one state: match is all, accepted, pre, rejected or denied.",
        false,
    ),
    (
        "key.list_all",
        "Returns the keys in every state: minions, minions_pre, minions_rejected and minions_denied.",
        false,
    ),
    (
        "key.reject",
        "Rejects the keys that wait, of the minions that match; with include_accepted and include_denied such keys too.",
        true,
    ),
    (
        "key.reject_dict",
        "Rejects the keys in match, a mapping of lists of ids; with finger as key.accept_dict.",
        false,
    ),
    (
        "minions.connected",
        "Returns the minions that are present. It takes the rights of the runner manage.up.",
        false,
    ),
];

/// Returns the texts, by function. Names of functions or modules, or globs, choose among them.
///
/// # Errors
/// `BadRequest` when an argument is no such name.
pub(super) fn documentation(arguments: &Arguments) -> Result<Value, ApiError> {
    let mut wanted = Vec::new();
    for argument in &arguments.positional {
        let name = argument.as_str();
        let name = name.ok_or_else(|| {
            ApiError::BadRequest("doc.wheel takes names of functions or modules".to_owned())
        })?;
        let glob = Glob::compile(name);
        let glob = glob.map_err(|error| ApiError::BadRequest(error.to_string()))?;
        wanted.push((format!("{name}."), glob));
    }
    let chosen = FUNCTIONS.iter().filter(|(function, ..)| {
        let is_wanted = |(module, glob): &(String, Glob)| {
            function.starts_with(module.as_str()) || glob.matches(function)
        };
        wanted.is_empty() || wanted.iter().any(is_wanted)
    });
    let shown = chosen.map(|(function, text, takes_ids)| {
        let about_ids = if *takes_ids { MATCHED } else { "" };
        let text = format!("{text} {about_ids}");
        (*function, Value::from(text.trim_end()))
    });
    Ok(Value::map(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str]) -> Vec<String> {
        let positional = wanted.iter().map(|name| Value::from(*name)).collect();
        let arguments = Arguments {
            positional,
            ..Arguments::default()
        };
        let Value::Map(entries) = documentation(&arguments).unwrap() else {
            panic!("no mapping");
        };
        entries.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn every_function_has_its_text() {
        let known = super::super::keys::FUNCTIONS.split(", ");
        let mut known: Vec<String> = known.map(|name| name.trim().to_owned()).collect();
        known.extend(["config.values", "minions.connected"].map(str::to_owned));
        known.sort();
        assert_eq!(names(&[]), known);
        assert_eq!(names(&["minions"]), ["minions.connected"]);
        assert_eq!(names(&["key.l*", "nothing"]), ["key.list", "key.list_all"]);
    }
}
