//! The options about pillar.

use std::path::PathBuf;

use saline_data::Value;
use saline_data::nearest;
use saline_data::yaml::{Content, Key, Node, YamlError};

use super::file_roots::environments;
use crate::given::Given;
use crate::master::may_be_shown;
use crate::pillar_sources::{ExternalPillar, MERGING_STRATEGIES, ShownOptions};
use crate::{MasterConfig, OptionDoc, Secrecy};

/// The kind of value that `ext_pillar` takes.
const EXTERNAL_TAKES: &str = "a list of `cmd_json: COMMAND` and `file_tree: {root_dir: PATH}`";

/// The sources of `ext_pillar`, and the keywords of one of them.
const SOURCES: [&str; 2] = ["cmd_json", "file_tree"];
const FILE_TREE_KEYS: [&str; 2] = ["root_dir", "keep_newline"];

pub(super) const fn pillar_roots() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "pillar_roots",
        secrecy: Secrecy::Public,
        unit: "a mapping of environments to lists of absolute paths",
        default: "",
        help: "The folders with the top files and the files of pillars. The first folder of an environment that has a file \
               counts. Each has to be there, and at least one environment has to have a top file, which may be empty. The paths \
               are not taken under `root_dir`. They must not lie below `file_roots`, whose files every minion may read. Not set: \
               `base` with `/srv/pillar`. See `docs/pillar.md`.",
        read: |config, given| {
            config.pillar.roots = given.optional(environments)?;
            Ok(())
        },
    }
}

pub(super) const fn pillar_source_merging_strategy() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "pillar_source_merging_strategy",
        secrecy: Secrecy::Public,
        unit: "smart, recurse, overwrite or none",
        default: "smart",
        help: "How the files of a pillar become one. `recurse` merges mappings at every depth, and `smart` does the same here; \
               with `overwrite` the later value of a key counts as a whole; `none` merges as `recurse`, and takes the files of \
               the minion's own environment alone.",
        read: |config, given| {
            config.pillar.strategy = given.checked("the name of a strategy", |text| {
                let known = MERGING_STRATEGIES.into_iter().find(|name| *name == text);
                known.ok_or_else(|| match text {
                    "aggregate" => "takes smart, recurse, overwrite or none: aggregate needs Salt's renderer yamlex, which \
                                    Saline does not have"
                        .to_owned(),
                    _ => format!("takes smart, recurse, overwrite or none, not {text:?}"),
                })
            })?;
            Ok(())
        },
    }
}

pub(super) const fn pillar_merge_lists() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "pillar_merge_lists",
        secrecy: Secrecy::Public,
        unit: "True or False",
        default: "False",
        help: "Whether two lists under one key are put together where mappings are merged. Otherwise the later one counts.",
        read: |config, given| {
            config.pillar.merge_lists = given.flag()?;
            Ok(())
        },
    }
}

pub(super) const fn ext_pillar() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "ext_pillar",
        // A command may have a password in it.
        secrecy: Secrecy::Secret,
        unit: EXTERNAL_TAKES,
        default: "",
        help: "Further sources, merged over the files in their order. `cmd_json` runs a command with `/bin/sh`, in which `%s` \
               is the id of the minion, and which prints a JSON mapping within ten seconds. `file_tree` takes the files below \
               `root_dir/hosts/ID` and `root_dir/nodegroups/NAME` as values; `keep_newline: True` keeps the line break at \
               their ends. Not set: none.",
        read: |config, given| {
            let sources = given.optional(external)?;
            config.pillar.external = sources.unwrap_or_default();
            Ok(())
        },
    }
}

pub(super) const fn pillar_opts() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "pillar_opts",
        secrecy: Secrecy::Public,
        unit: "True, False or a list of options",
        default: "False",
        help: "The options of the master that stand under `master` in the pillar of every minion, where `config.get` finds them: \
               a list of their names, or `True` for all. Secrets, rules about who may do or get what, `ext_pillar`, \
               `schedule`, the options of returners, sections of transports, `pki_dir` and `ssl` are never among them.",
        read: |config, given| {
            config.pillar.shown_options = match &given.node.content {
                Content::Scalar(Value::Null | Value::Bool(false)) => ShownOptions::Nothing,
                Content::Scalar(Value::Bool(true)) => ShownOptions::All,
                Content::List(nodes) if nodes.is_empty() => ShownOptions::Nothing,
                _ => {
                    let names = given.texts("True, False or a list of options", shown_option)?;
                    ShownOptions::Named(names.into_iter().collect())
                }
            };
            Ok(())
        },
    }
}

/// Checks the name of an option that minions are to see.
fn shown_option(name: &str) -> Result<String, String> {
    if may_be_shown(name) {
        return Ok(name.to_owned());
    }
    let known = || MasterConfig::OPTIONS.iter().map(|option| option.name);
    if known().any(|option| option == name) {
        return Err(format!(
            "has {name:?}, which minions never see: it is a secret or may contain one, has rules about who may do or get what, or has the path of a key"
        ));
    }
    Err(match nearest(name, known()) {
        Some(near) => {
            format!("has {name:?}, which is not an option of the master; did you mean {near:?}?")
        }
        None => format!("has {name:?}, which is not an option of the master"),
    })
}

fn external(given: &Given<'_>) -> Result<Vec<ExternalPillar>, YamlError> {
    let Content::List(nodes) = &given.node.content else {
        return Err(given.wrong(EXTERNAL_TAKES));
    };
    nodes.iter().map(|node| source(given, node)).collect()
}

/// Refuses a name that is none of those that are known. What stands in the place of a name and does not look like one is not shown:
/// it may be a part of a command.
fn known_name(given: &Given<'_>, key: &Key, known: &[&str], what: &str) -> Result<(), YamlError> {
    let name = key.name.as_str();
    let is_name = name.len() <= 40 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    if known.contains(&name) || !is_name {
        return Ok(());
    }
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => format!(": there are {}", known.join(" and ")),
    };
    Err(given.refuse_openly(
        key.position,
        format!("has the {what} {name:?}, which is unknown{hint}"),
    ))
}

fn source(given: &Given<'_>, node: &Node) -> Result<ExternalPillar, YamlError> {
    let wrong = || given.refuse_at(node, format!("takes {EXTERNAL_TAKES}"));
    let Content::Map(entries) = &node.content else {
        return Err(wrong());
    };
    let [(name, value)] = entries.as_slice() else {
        return Err(wrong());
    };
    known_name(given, name, &SOURCES, "source")?;
    match (name.name.as_str(), &value.content) {
        ("cmd_json", Content::Scalar(Value::Text(command))) if !command.contains('\0') => {
            Ok(ExternalPillar::CmdJson(command.clone()))
        }
        ("file_tree", Content::Map(entries)) => {
            let (mut root, mut keep_newline) = (None, false);
            for (key, value) in entries {
                known_name(given, key, &FILE_TREE_KEYS, "keyword of file_tree")?;
                match (key.name.as_str(), &value.content) {
                    ("root_dir", Content::Scalar(Value::Text(path)))
                        if path.starts_with('/') && !path.contains('\0') =>
                    {
                        root = Some(PathBuf::from(path));
                    }
                    ("keep_newline", Content::Scalar(Value::Bool(flag))) => keep_newline = *flag,
                    _ => return Err(wrong()),
                }
            }
            let root = root.ok_or_else(wrong)?;
            Ok(ExternalPillar::FileTree { root, keep_newline })
        }
        _ => Err(wrong()),
    }
}
