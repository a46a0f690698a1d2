//! The options `publisher_acl`, `publisher_acl_blacklist`, `operators` and `reactor_acl`: rules in Salt's form.
//!
//! ```yaml
//! publisher_acl:
//!   fred:
//!     - test.ping                 # on all minions
//!     - 'web*':                   # on these minions
//!         - pkg.install:
//!             args: ['vim.*']
//!             kwargs: {refresh: 'True'}
//!   admins%: ['@all']
//! ```

use std::collections::BTreeMap;

use saline_data::Value;
use saline_data::yaml::{self, Content, Key, Node, YamlError};
use saline_targeting::{PatternError, TextPattern};

use crate::Secrecy;
use crate::access_rules::{
    AccessBlacklist, AccessRule, AccessRules, FunctionRule, RuleScope, Subject,
};
use crate::given::Given;

const TAKES: &str = "a mapping of names to lists of rules";
const RULE: &str = "a rule is a function, or a mapping of minions to a list of functions";
const FUNCTION: &str = "a function is a name, or a mapping of one name to `args` and `kwargs`";

/// Reads rules; `with_groups` if names may be those of groups.
pub(super) fn read(given: &Given<'_>, with_groups: bool) -> Result<AccessRules, YamlError> {
    match &given.node.content {
        Content::Map(_) | Content::Scalar(Value::Null) => read_at(given, given.node, with_groups),
        _ => Err(given.wrong(TAKES)),
    }
}

/// Reads the rules that a part of the value has.
pub(super) fn read_at(
    given: &Given<'_>,
    node: &Node,
    with_groups: bool,
) -> Result<AccessRules, YamlError> {
    let entries = match &node.content {
        Content::Map(entries) => entries,
        Content::Scalar(Value::Null) => return Ok(AccessRules::default()),
        _ => return Err(given.refuse_at(node, format!("takes {TAKES}"))),
    };
    let mut subjects = Vec::new();
    for (key, node) in entries {
        let subject = subject(&key.name, with_groups)
            .map_err(|why| key.position.error(format!("option {:?} {why}", given.name)))?;
        let mut rules = Vec::new();
        for item in items(node) {
            rules_of(given, item, &mut rules)?;
        }
        subjects.push((subject, rules));
    }
    Ok(AccessRules { subjects })
}

/// Reads rules that are for nobody in particular.
pub(super) fn list(given: &Given<'_>) -> Result<Vec<AccessRule>, YamlError> {
    const TAKES: &str = "a list of rules";
    let items = match &given.node.content {
        Content::List(items) => items.as_slice(),
        Content::Scalar(Value::Null) => &[],
        _ => return Err(given.wrong(TAKES)),
    };
    let mut rules = Vec::new();
    for item in items {
        if matches!(item.content, Content::List(_)) {
            return Err(given.wrong(TAKES));
        }
        rules_of(given, item, &mut rules)?;
    }
    Ok(rules)
}

/// Reads `publisher_acl_blacklist`.
pub(super) fn blacklist(given: &Given<'_>) -> Result<AccessBlacklist, YamlError> {
    const TAKES: &str = "a mapping with `users` and `modules`, which are lists of patterns";
    let entries = match &given.node.content {
        Content::Map(entries) => entries,
        Content::Scalar(Value::Null) => return Ok(AccessBlacklist::default()),
        _ => return Err(given.wrong(TAKES)),
    };
    let mut read = AccessBlacklist::default();
    for (key, node) in entries {
        let list = match key.name.as_str() {
            "users" => &mut read.users,
            "modules" => &mut read.modules,
            _ => {
                let message = format!("option {:?} takes {TAKES}", given.name);
                return Err(key.position.error(message));
            }
        };
        for item in items(node) {
            let text = text(item).ok_or_else(|| given.refuse_at(item, format!("takes {TAKES}")))?;
            // What is refused is refused in either reading.
            list.push(pattern(given, item, &text, TextPattern::glob_or_regex)?);
        }
    }
    Ok(read)
}

fn subject(name: &str, with_groups: bool) -> Result<Subject, String> {
    let (plain, is_group) = match name.strip_suffix('%') {
        Some(group) => (group, true),
        None => (name, false),
    };
    if name == "*" {
        return Ok(Subject::Everybody);
    }
    let is_name = |c: char| c.is_alphanumeric() || "_.-@$+\\ ".contains(c);
    if plain.is_empty() || !plain.chars().all(is_name) {
        return Err(format!(
            "names {name:?}, which is neither a name nor `*` for everybody else"
        ));
    }
    match (is_group, with_groups) {
        (true, true) => Ok(Subject::Group(plain.to_owned())),
        (true, false) => Err(format!("names {name:?}: this option takes no groups")),
        (false, _) => Ok(Subject::Name(plain.to_owned())),
    }
}

/// Returns the nodes of a list, or the node itself; none of nothing.
fn items(node: &Node) -> &[Node] {
    match &node.content {
        Content::List(nodes) => nodes,
        Content::Scalar(Value::Null) => &[],
        _ => std::slice::from_ref(node),
    }
}

/// Returns a scalar as text.
fn text(node: &Node) -> Option<String> {
    match &node.content {
        Content::Scalar(Value::Null) | Content::List(_) | Content::Map(_) => None,
        Content::Scalar(Value::Text(text)) if text.trim().is_empty() => None,
        Content::Scalar(Value::Text(text)) => Some(text.clone()),
        Content::Scalar(other) => Some(yaml::as_key(other.clone())),
    }
}

fn pattern(
    given: &Given<'_>,
    node: &Node,
    text: &str,
    compile: fn(&str) -> Result<TextPattern, PatternError>,
) -> Result<TextPattern, YamlError> {
    compile(text).map_err(|error| {
        given.refuse_at(
            node,
            format!("has {text:?}, which is not a valid pattern of names: {error}"),
        )
    })
}

/// Reads one item of a list of rules.
fn rules_of(given: &Given<'_>, item: &Node, rules: &mut Vec<AccessRule>) -> Result<(), YamlError> {
    if let Some(text) = text(item) {
        let (scope, functions) = match text.as_str() {
            "@all" => (RuleScope::Everything, Vec::new()),
            "@wheel" => (RuleScope::Keys, Vec::new()),
            "@events" => (RuleScope::Events, Vec::new()),
            "@runner" => (RuleScope::Runners, vec![function(given, item, "*")?]),
            "@jobs" => (
                RuleScope::Runners,
                vec![function(given, item, r"jobs\..*")?],
            ),
            text if text.starts_with('@') => return Err(unknown_word(given, item, text)),
            text => (RuleScope::AllMinions, vec![function(given, item, text)?]),
        };
        rules.push(AccessRule {
            written: text.as_str().into(),
            text,
            scope,
            functions,
        });
        return Ok(());
    }
    let Content::Map(entries) = &item.content else {
        return Err(given.refuse_at(item, RULE));
    };
    for (key, node) in entries {
        rules.push(match &node.content {
            Content::Map(arguments) => AccessRule {
                text: key.name.clone(),
                written: written(key, node),
                scope: RuleScope::AllMinions,
                functions: vec![with_arguments(given, (key, item), arguments)?],
            },
            Content::Scalar(Value::Null) => return Err(given.refuse_at(item, RULE)),
            _ => on_minions(given, key, item, node)?,
        });
    }
    Ok(())
}

/// Returns a rule as the file has it, with its secrets hidden.
fn written(key: &Key, node: &Node) -> Value {
    Secrecy::Rules.shown(Value::map([(key.name.clone(), Value::from(node.clone()))]))
}

/// Reads a rule that names minions, or `@runner`. The other words take no functions: what Salt allows of the keys by
/// function names, we allow as a whole.
fn on_minions(
    given: &Given<'_>,
    key: &Key,
    item: &Node,
    node: &Node,
) -> Result<AccessRule, YamlError> {
    let scope = match key.name.as_str() {
        "@runner" => RuleScope::Runners,
        word @ ("@all" | "@events" | "@jobs" | "@wheel") => {
            let message = format!(
                "has a list of functions below {word:?}, which takes none: write '{word}' alone, as a rule"
            );
            return Err(given.refuse_at(item, message));
        }
        word if word.starts_with('@') => return Err(unknown_word(given, item, word)),
        ids => RuleScope::Minions(pattern_of_ids(ids).map_err(|error| {
            let message = format!("option {:?} names minions {ids:?}: {error}", given.name);
            key.position.error(message)
        })?),
    };
    let mut functions = Vec::new();
    for item in items(node) {
        if let Some(text) = text(item) {
            functions.push(function(given, item, &text)?);
            continue;
        }
        match &item.content {
            Content::Map(entries) => {
                for (key, node) in entries {
                    let Content::Map(arguments) = &node.content else {
                        return Err(given.refuse_at(node, FUNCTION));
                    };
                    functions.push(with_arguments(given, (key, item), arguments)?);
                }
            }
            _ => return Err(given.refuse_at(item, FUNCTION)),
        }
    }
    let names: Vec<&str> = functions.iter().map(|f| f.name.as_str()).collect();
    Ok(AccessRule {
        text: format!("{}: {}", key.name, names.join(", ")),
        written: written(key, node),
        scope,
        functions,
    })
}

/// Compiles a pattern of ids, which is a regular expression over whole ids if it can be no glob: it begins with `.*`, or has a
/// character that no id has and that means nothing in a glob. Otherwise it is a glob, and not both: `[!1]` means the contrary as a
/// regular expression.
fn pattern_of_ids(text: &str) -> Result<TextPattern, PatternError> {
    let of_regex = |c: char| r"|()^$\+{}".contains(c);
    match text.starts_with(".*") || text.contains(of_regex) {
        true => TextPattern::regex(text),
        false => TextPattern::glob(text),
    }
}

fn unknown_word(given: &Given<'_>, node: &Node, word: &str) -> YamlError {
    given.refuse_at(
        node,
        format!("does not know {word:?}: there are @all, @events, @jobs, @runner and @wheel"),
    )
}

fn function(given: &Given<'_>, node: &Node, name: &str) -> Result<FunctionRule, YamlError> {
    Ok(FunctionRule {
        name: pattern(given, node, name, TextPattern::glob_else_regex)?,
        args: Vec::new(),
        kwargs: BTreeMap::new(),
    })
}

/// Reads a function with patterns of its arguments.
fn with_arguments(
    given: &Given<'_>,
    (name, node): (&Key, &Node),
    arguments: &[(Key, Node)],
) -> Result<FunctionRule, YamlError> {
    let mut rule = function(given, node, &name.name)?;
    let of_argument = |node: &Node| {
        let text = match &node.content {
            // Salt's way to leave one out.
            Content::Scalar(Value::Null) => Some(".*".to_owned()),
            _ => text(node),
        };
        let text = text.ok_or_else(|| given.refuse_at(node, "an argument is a pattern"))?;
        TextPattern::regex(&text).map_err(|error| {
            given.refuse_at(
                node,
                format!("has {text:?}, which is not a valid regular expression: {error}"),
            )
        })
    };
    for (key, node) in arguments {
        match (key.name.as_str(), &node.content) {
            ("args", Content::List(nodes)) => {
                rule.args = nodes.iter().map(of_argument).collect::<Result<_, _>>()?;
            }
            ("kwargs", Content::Map(entries)) => {
                for (key, node) in entries {
                    rule.kwargs.insert(key.name.clone(), of_argument(node)?);
                }
            }
            _ => {
                let message = format!(
                    "option {:?} takes `args` (a list) and `kwargs` (a mapping) of a function, not {:?}",
                    given.name, key.name
                );
                return Err(key.position.error(message));
            }
        }
    }
    Ok(rule)
}
