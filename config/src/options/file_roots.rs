//! The options about the files that a master serves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use saline_data::Value;
use saline_data::nearest;
use saline_data::yaml::{Content, Node, YamlError};
use saline_targeting::{Glob, Target, TextPattern};

use crate::file_roots::{BASE, Environments, access_rule, environment_name};
use crate::given::Given;
use crate::{MasterConfig, OptionDoc, Secrecy};

/// The kind of value that `file_roots` takes.
const TAKES: &str = "a mapping of environments to lists of absolute paths";

/// The kind of value that `file_env_access` takes.
const ACCESS_TAKES: &str =
    "a mapping of environments to compound expressions over ids, roles and attributes";

pub(super) const fn file_roots() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "file_roots",
        secrecy: Secrecy::Public,
        unit: TAKES,
        default: "",
        help: "The folders whose files minions get as `salt://PATH`. The first folder of an environment that has a file \
               serves it. The paths are not taken under `root_dir`. Not set: `base` with `/srv/saline`, and with `/srv/salt` \
               where it exists. See `docs/files.md`.",
        read: |config, given| {
            config.files.roots = given.optional(environments)?;
            Ok(())
        },
    }
}

pub(super) const fn file_env_access() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "file_env_access",
        secrecy: Secrecy::Rules,
        unit: ACCESS_TAKES,
        default: "{}",
        help: "Who may read an environment: `prod: 'web* or A@roles:db'`. To others it does not exist. An environment that is \
               not named here is everybody's. A rule looks at ids and at what `minions.d` assigns, and never at grains.",
        read: |config, given| {
            config.files.access = access(given)?;
            Ok(())
        },
    }
}

pub(super) const fn file_ignore_regex() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "file_ignore_regex",
        secrecy: Secrecy::Public,
        unit: "a regular expression or a list of them",
        default: "",
        help: "Files are not served whose paths below the root contain a match: `'/\\.git($|/)'`. Not set: none.",
        read: |config, given| {
            let patterns = given.optional(|given| {
                given.texts("a regular expression or a list of them", |text| {
                    match TextPattern::regex(text) {
                        Ok(_) => Ok(text.to_owned()),
                        Err(error) => Err(format!(
                            "takes regular expressions, and {text:?} is not one: {error}"
                        )),
                    }
                })
            })?;
            config.files.ignore_regex = patterns.unwrap_or_default();
            Ok(())
        },
    }
}

pub(super) const fn file_ignore_glob() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "file_ignore_glob",
        secrecy: Secrecy::Public,
        unit: "a glob or a list of them",
        default: "",
        help: "The same with globs over the whole path: `'*.pyc'`, `'*/.git/*'`. A `*` crosses slashes. Not set: none.",
        read: |config, given| {
            let globs = given.optional(|given| {
                given.texts("a glob or a list of them", |text| {
                    match Glob::compile(text) {
                        Ok(_) => Ok(text.to_owned()),
                        Err(error) => Err(format!("takes globs, and {text:?} is not one: {error}")),
                    }
                })
            })?;
            config.files.ignore_glob = globs.unwrap_or_default();
            Ok(())
        },
    }
}

pub(super) const fn file_buffer_size() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "file_buffer_size",
        secrecy: Secrecy::Public,
        unit: "bytes",
        default: "1048576",
        help: "Taken as Salt has it, and without effect: the parts in which files travel follow the speed of each link.",
        read: |_, given| {
            let _: u64 = given.bytes(1..=i64::MAX, "bytes")?;
            Ok(())
        },
    }
}

pub(super) const fn file_recv() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "file_recv",
        secrecy: Secrecy::Public,
        unit: "True or False",
        default: "False",
        help: "Whether minions may hand files in (`cp.push`), which are stored in `cachedir/minions/ID/files`.",
        read: |config, given| {
            config.files.receive = given.flag()?;
            Ok(())
        },
    }
}

pub(super) const fn file_recv_max_size() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "file_recv_max_size",
        secrecy: Secrecy::Public,
        unit: "MiB, 1 or more",
        default: "100",
        help: "The largest file that a minion may hand in. All files of one minion take at most ten times as much.",
        read: |config, given| {
            let size: u64 = given.whole(1..=1024 * 1024, "a number of MiB, 1 or more")?;
            config.files.receive_max = size * 1024 * 1024;
            Ok(())
        },
    }
}

pub(super) fn environments(given: &Given<'_>) -> Result<Environments, YamlError> {
    let Content::Map(entries) = &given.node.content else {
        return Err(given.wrong(TAKES));
    };
    let mut environments = Environments::new();
    for (key, node) in entries {
        environment_name(&key.name).map_err(|why| given.refuse_at(node, why))?;
        let nodes = match &node.content {
            Content::List(nodes) => nodes.as_slice(),
            Content::Scalar(Value::Null) => &[],
            _ => std::slice::from_ref(node),
        };
        let folder = |node: &Node| folder(given, node);
        let folders = nodes.iter().map(folder).collect::<Result<Vec<_>, _>>()?;
        environments.insert(key.name.clone(), folders);
    }
    Ok(environments)
}

fn folder(given: &Given<'_>, node: &Node) -> Result<PathBuf, YamlError> {
    match &node.content {
        Content::Scalar(Value::Text(text)) if text.starts_with('/') && !text.contains('\0') => {
            Ok(PathBuf::from(text))
        }
        _ => Err(given.refuse_at(node, format!("takes {TAKES}"))),
    }
}

fn access(given: &Given<'_>) -> Result<BTreeMap<String, Target>, YamlError> {
    let entries = match &given.node.content {
        Content::Map(entries) => entries,
        Content::Scalar(Value::Null) => return Ok(BTreeMap::new()),
        _ => return Err(given.wrong(ACCESS_TAKES)),
    };
    let read = entries.iter().map(|(key, node)| {
        environment_name(&key.name).map_err(|why| given.refuse_at(node, why))?;
        let Content::Scalar(Value::Text(text)) = &node.content else {
            return Err(given.refuse_at(node, format!("takes {ACCESS_TAKES}")));
        };
        let rule = access_rule(text).map_err(|why| given.refuse_at(node, why))?;
        Ok((key.name.clone(), rule))
    });
    read.collect()
}

/// Returns the environments with a rule that are neither in `file_roots` nor in `pillar_roots`, and what is wrong with each.
pub(super) fn unknown_environments(config: &MasterConfig) -> Vec<(String, String)> {
    let mut known: Vec<&str> = Vec::new();
    for roots in [&config.files.roots, &config.pillar.roots] {
        match roots {
            Some(roots) => known.extend(roots.keys().map(String::as_str)),
            None => known.push(BASE),
        }
    }
    let rules = config.files.access.keys();
    let unknown = rules.filter(|name| !known.contains(&name.as_str()));
    unknown
        .map(|name| {
            let hint = match nearest(name, known.iter().copied()) {
                Some(near) => format!("; did you mean {near:?}?"),
                None => String::new(),
            };
            let message = format!(
                "option \"file_env_access\" has a rule for the environment {name:?}, which neither file_roots nor pillar_roots \
                 has{hint}"
            );
            (name.clone(), message)
        })
        .collect()
}
