//! What minions leave in the mine, and which of them may get it.

use std::time::Duration;

use saline_data::Value;
use saline_data::nearest;
use saline_messages::{Arguments, MAX_MINE_ALLOWED_BYTES, is_function_name, is_mine_name};
use saline_targeting::{Target, TargetKind, TargetProblem, TextPattern};

/// The keyword of a definition that names the function behind an alias.
const FUNCTION: &str = "mine_function";

/// The keyword of a definition that names the minions that may get the value.
const ALLOWED: &str = "allow_tgt";

/// The keyword of a definition with the kind of that target.
const ALLOWED_KIND: &str = "allow_tgt_type";

/// Every keyword of a definition. No function has a parameter with a similar name.
const KEYWORDS: [&str; 3] = [FUNCTION, ALLOWED, ALLOWED_KIND];

/// What the minion's configuration says about the mine.
#[derive(Debug, Clone, PartialEq)]
pub struct MineConfig {
    /// `mine_functions`: the functions whose values the minion leaves in the mine.
    pub functions: Vec<MineFunction>,
    /// `mine_interval`, in minutes in the file: how often it does. 60 minutes
    pub interval: Duration,
    /// `mine_enabled`: whether it does so by itself.
    pub enabled: bool,
}

impl Default for MineConfig {
    fn default() -> Self {
        Self {
            functions: Vec::new(),
            interval: Duration::from_secs(3_600),
            enabled: true,
        }
    }
}

/// A function whose value a minion leaves in the mine.
#[derive(Debug, Clone, PartialEq)]
pub struct MineFunction {
    /// The name of the value: an alias, or that of the function.
    pub name: String,
    /// The function, if the name is an alias.
    pub function: Option<String>,
    /// The arguments of the function.
    pub arguments: Arguments,
    /// The minions that may get the value; none for all.
    pub allowed: Option<Target>,
}

impl MineFunction {
    /// Reads `mine_functions`: a list of functions, or a mapping of names to definitions. Returns the reason for each that cannot
    /// be read, which quotes names alone and no values.
    ///
    /// # Errors
    /// When it is neither a list of names nor a mapping.
    pub fn read_all(value: &Value) -> Result<Vec<Result<Self, String>>, NoMineFunctions> {
        match value {
            Value::Null => Ok(Vec::new()),
            Value::List(names) => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                let names = names.ok_or(NoMineFunctions)?.into_iter();
                Ok(names.map(|name| Self::read(name, &Value::Null)).collect())
            }
            Value::Map(entries) => Ok(entries
                .iter()
                .map(|(name, definition)| Self::read(name, definition))
                .collect()),
            _ => Err(NoMineFunctions),
        }
    }

    /// Reads one definition: the arguments of the function as a list or as a mapping, with `mine_function`, `allow_tgt` and
    /// `allow_tgt_type` among the named ones.
    ///
    /// # Errors
    /// The reason in one line, which quotes no values.
    pub fn read(name: &str, definition: &Value) -> Result<Self, String> {
        let mut arguments = Arguments::default();
        match definition {
            Value::Null => {}
            Value::Map(named) => arguments.named.clone_from(named),
            Value::List(items) => {
                for item in items {
                    match item {
                        Value::Map(named) => arguments.named.extend(named.iter().cloned()),
                        other => arguments.positional.push(other.clone()),
                    }
                }
            }
            _ => {
                return Err(format!("{name:?} takes a list or a mapping of arguments"));
            }
        }
        Self::of(name, arguments)
    }

    /// Makes a definition of a name and of the arguments of a function, with the keywords of a definition among the named
    /// ones.
    ///
    /// # Errors
    /// The reason in one line, which quotes no values.
    pub fn of(name: &str, mut arguments: Arguments) -> Result<Self, String> {
        if !is_mine_name(name) {
            return Err(format!(
                "{name:?} cannot be a name in the mine: it is too long, or has a comma or a control character"
            ));
        }
        let names = arguments.named.iter().map(|(name, _)| name.as_str());
        for wrong in names.filter(|name| !KEYWORDS.contains(name)) {
            if let Some(near) = nearest(wrong, KEYWORDS) {
                return Err(format!("{name:?} has {wrong:?}; did you mean {near:?}?"));
            }
        }
        let function = match take(&mut arguments, FUNCTION) {
            None | Some(Value::Null) => None,
            Some(Value::Text(function)) => Some(function),
            Some(_) => {
                return Err(format!(
                    "mine_function of {name:?} takes the name of a function"
                ));
            }
        };
        let runs = function.as_deref().unwrap_or(name);
        if !is_function_name(runs) || !runs.contains('.') {
            return Err(format!(
                "{name:?} is not a function: a function is MODULE.NAME, and an alias needs mine_function"
            ));
        }
        if runs.starts_with("mine.") {
            return Err(format!("{name:?} runs a function of the mine itself"));
        }
        let allowed = allowed(
            take(&mut arguments, ALLOWED),
            take(&mut arguments, ALLOWED_KIND),
        );
        Ok(Self {
            allowed: allowed.map_err(|why| format!("{name:?}: {why}"))?,
            name: name.to_owned(),
            function,
            arguments,
        })
    }

    /// Returns the function that makes the value.
    pub fn runs(&self) -> &str {
        self.function.as_deref().unwrap_or(&self.name)
    }
}

/// `mine_functions` is neither a list nor a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("mine_functions takes a list of functions, or a mapping of names to their arguments")]
pub struct NoMineFunctions;

/// Takes a named argument out of the others; the last of several counts.
fn take(arguments: &mut Arguments, name: &str) -> Option<Value> {
    let mut found = None;
    arguments.named.retain(|(own, value)| {
        let is_it = own == name;
        if is_it {
            found = Some(value.clone());
        }
        !is_it
    });
    found
}

/// Reads `allow_tgt` and `allow_tgt_type`. As an error, what is wrong.
fn allowed(target: Option<Value>, kind: Option<Value>) -> Result<Option<Target>, String> {
    let kind = match kind {
        None | Some(Value::Null) => None,
        Some(Value::Text(name)) => {
            Some(TargetKind::from_name(&name).ok_or_else(|| no_kind(&name))?)
        }
        Some(_) => return Err("allow_tgt_type takes the name of a kind of target".to_owned()),
    };
    let (expression, default) = match target {
        None | Some(Value::Null) if kind.is_some() => {
            return Err("allow_tgt is missing beside allow_tgt_type".to_owned());
        }
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Text(text)) => (text, TargetKind::Glob),
        Some(Value::List(ids)) => {
            let ids: Option<Vec<&str>> = ids.iter().map(Value::as_str).collect();
            let ids = ids.ok_or("a list in allow_tgt has ids alone")?;
            (ids.join(","), TargetKind::List)
        }
        Some(_) => return Err("allow_tgt takes a target".to_owned()),
    };
    if expression.len() > MAX_MINE_ALLOWED_BYTES {
        return Err("allow_tgt is too long".to_owned());
    }
    let kind = kind.unwrap_or(default);
    let target = Target { kind, expression };
    match target.clone().compile() {
        Ok(_) => Ok(Some(target)),
        // The text is a value, so it is not shown.
        Err(error) if matches!(error.problem, TargetProblem::Compound { .. }) => {
            Err("allow_tgt is a compound target: set allow_tgt_type to compound".to_owned())
        }
        Err(_) => Err(format!(
            "allow_tgt is malformed as a target of the kind {}, which allow_tgt_type names or which is the default",
            kind.name()
        )),
    }
}

/// Returns what is wrong with a kind of target, without its name: that is a value.
fn no_kind(name: &str) -> String {
    let known = TargetKind::ALL.map(TargetKind::name);
    match nearest(name, known) {
        Some(near) => {
            format!("allow_tgt_type is not a valid kind of target; did you mean {near:?}?")
        }
        None => format!(
            "allow_tgt_type is not a valid kind of target; these are: {}",
            known.join(", ")
        ),
    }
}

/// A rule of the master's `mine_get`.
#[derive(Debug, Clone, PartialEq)]
pub struct MineRule {
    /// The ids of the minions that the rule is about.
    pub minions: TextPattern,
    /// The names of what these may get.
    pub functions: Vec<TextPattern>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Vec<Result<MineFunction, String>> {
        MineFunction::read_all(&saline_data::yaml::parse(yaml).unwrap()).unwrap()
    }

    fn one(yaml: &str) -> Result<MineFunction, String> {
        let mut all = read(yaml);
        assert_eq!(all.len(), 1, "{yaml}");
        all.remove(0)
    }

    #[test]
    fn salts_shapes_are_read() {
        let listed: Vec<_> = read("[test.ping, network.ip_addrs]")
            .into_iter()
            .map(|read| read.unwrap().name)
            .collect();
        assert_eq!(listed, ["test.ping", "network.ip_addrs"]);
        assert!(read("null").is_empty());
        assert_eq!(one("test.ping: []"), one("test.ping:"));
        let named = one("network.ip_addrs: {interface: eth0, cidr: 10.0.0.0/8}").unwrap();
        assert_eq!(named.runs(), "network.ip_addrs");
        assert_eq!(named.arguments.named.len(), 2);
        let mixed = one("network.ip_addrs: [eth0, cidr: 10.0.0.0/8]").unwrap();
        assert_eq!(mixed.arguments.positional, ["eth0".into()]);
        assert_eq!(mixed.arguments.named.len(), 1);
        for alias in [
            "ips: {mine_function: network.ip_addrs, cidr: 10.0.0.0/8}",
            "ips: [mine_function: network.ip_addrs, cidr: 10.0.0.0/8]",
            "ips: [{mine_function: network.ip_addrs, cidr: 10.0.0.0/8}]",
        ] {
            let alias = one(alias).unwrap();
            assert_eq!(
                (alias.name.as_str(), alias.runs()),
                ("ips", "network.ip_addrs")
            );
            let cidr = [("cidr".to_owned(), Value::from("10.0.0.0/8"))];
            assert_eq!(alias.arguments.named, cidr);
        }
    }

    #[test]
    fn an_entry_says_who_may_get_it() {
        let allowed = |yaml: &str| one(yaml).unwrap().allowed;
        assert_eq!(
            allowed("a.b: [allow_tgt: 'web*']"),
            Some(Target::glob("web*"))
        );
        assert_eq!(
            allowed("a.b: {allow_tgt: 'G@role:web', allow_tgt_type: compound}"),
            Some(Target {
                kind: TargetKind::Compound,
                expression: "G@role:web".to_owned()
            })
        );
        assert_eq!(
            allowed("a.b: [allow_tgt: [web1, web2], x: 1]"),
            Some(Target::list(["web1", "web2"]))
        );
        assert_eq!(allowed("a.b: [x: 1]"), None);
    }

    #[test]
    fn what_is_no_definition_is_refused_without_its_values() {
        for wrong in [
            "a: []",
            "a: {mine_function: 3}",
            "a: {mine_function: hunter2}",
            "a.b: hunter2",
            "'a,b': {mine_function: a.b}",
            "mine.update: []",
            "a: {mine_function: mine.send}",
            "a: {mine_function: 'a.b,mine.send'}",
            "a.b: {allow_tgt: {hunter2: 1}}",
            "a.b: {allow_tgt: x, allow_tgt_type: hunter2}",
            "a.b: {allow_tgt_type: glob}",
            "a.b: {allow_tgt: 'hunter2 and', allow_tgt_type: compound}",
            "a.b: {allow_tgt: 'G@hunter2:x'}",
            "a.b: {allow_tgt: '(hunter2', allow_tgt_type: pcre}",
            "[hunter2]",
        ] {
            let error = one(wrong).unwrap_err();
            assert!(
                !error.contains("hunter2") || wrong == "[hunter2]",
                "{error}"
            );
            // The name may come from an argument of mine.send as well.
            assert!(!error.contains("mine_functions"), "{error}");
        }
        let advice = "allow_tgt is a compound target: set allow_tgt_type to compound";
        let error = one("a.b: {allow_tgt: 'G@os:x'}").unwrap_err();
        assert_eq!(error, format!("\"a.b\": {advice}"));
        let error = one("a.b: {allow_tgt: x, allow_tgt_type: zzz}").unwrap_err();
        assert!(
            error.contains("these are: ") && error.contains("compound"),
            "{error}"
        );
        for wrong in ["x".into(), Value::List(vec![Value::Int(3)])] {
            assert_eq!(MineFunction::read_all(&wrong), Err(NoMineFunctions));
        }
    }
}
