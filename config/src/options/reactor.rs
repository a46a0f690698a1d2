//! The options about the reactor.

use saline_data::Value;
use saline_data::yaml::{Content, Key, Node, YamlError};
use saline_targeting::Glob;

use super::access_rules;
use crate::given::Given;
use crate::reactor::{Reaction, ReactionFile};
use crate::{MasterConfig, OptionDoc, Secrecy};

const TAKES: &str = "a list of mappings, each of one tag to a list of files";

/// The most reactions that a configuration has.
const MAX_REACTIONS: usize = 1_000;

pub(super) const fn reactor() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "reactor",
        secrecy: Secrecy::Public,
        unit: TAKES,
        default: "",
        help: "What the master does about events: `- 'salt/minion/*/start': [/srv/reactor/start.sls]`. A tag is a glob whose \
               `*` crosses slashes, so that it may stand for what a minion chose; a file is an absolute path, whose last part may be a glob, or `salt://PATH`. Events that \
               match are kept as those of `durable_events` are. Not set: nothing. See `docs/reactor.md`.",
        read: |config, given| {
            config.reactor.reactions = given.optional(reactions)?.unwrap_or_default();
            Ok(())
        },
    }
}

pub(super) const fn reactor_acl() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "reactor_acl",
        secrecy: Secrecy::Rules,
        unit: "a list of rules",
        default: "",
        help: "What reactions may do, as rules of `publisher_acl`; `@wheel` is needed for wheels. Not set: everything.",
        read: |config, given| {
            config.reactor.acl = given.optional(access_rules::list)?;
            Ok(())
        },
    }
}

pub(super) const fn reactor_worker_threads() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "reactor_worker_threads",
        secrecy: Secrecy::Public,
        unit: "a number, 1 to 256",
        default: "10",
        help: "How many events reactions work on at a time. Those of one minion are worked on one after the other.",
        read: |config, given| {
            config.reactor.workers = given.whole(1..=256, "a number from 1 to 256")?;
            Ok(())
        },
    }
}

pub(super) const fn reactor_worker_hwm() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "reactor_worker_hwm",
        secrecy: Secrecy::Public,
        unit: "a number, 1 to 1000000",
        default: "10000",
        help: "How many events wait for reactions in memory. Further ones wait on the disk, so none is lost for it.",
        read: |config, given| {
            config.reactor.most_events =
                given.whole(1..=1_000_000, "a number from 1 to 1000000")?;
            Ok(())
        },
    }
}

fn reactions(given: &Given<'_>) -> Result<Vec<Reaction>, YamlError> {
    let nodes = match &given.node.content {
        Content::List(nodes) => nodes,
        _ => return Err(given.wrong(TAKES)),
    };
    if nodes.len() > MAX_REACTIONS {
        return Err(given.refuse(format!("has more than {MAX_REACTIONS} entries")));
    }
    nodes.iter().map(|node| reaction(given, node)).collect()
}

fn reaction(given: &Given<'_>, node: &Node) -> Result<Reaction, YamlError> {
    let Content::Map(entries) = &node.content else {
        return Err(given.refuse_at(node, format!("takes {TAKES}")));
    };
    let [(tag, files)] = entries.as_slice() else {
        let more = entries
            .get(1)
            .map_or(node.position, |(key, _)| key.position);
        return Err(more.error(format!(
            "option {:?} takes mappings of one tag each: begin each tag with `- `",
            given.name
        )));
    };
    let glob = glob(given, tag)?;
    let nodes = match &files.content {
        Content::List(nodes) => nodes.as_slice(),
        Content::Scalar(Value::Text(_)) => std::slice::from_ref(files),
        _ => return Err(given.refuse_at(files, format!("takes {TAKES}"))),
    };
    let files: Result<Vec<ReactionFile>, YamlError> =
        nodes.iter().map(|node| file(given, node)).collect();
    Ok(Reaction {
        tag: tag.name.clone(),
        glob,
        files: files?,
    })
}

fn glob(given: &Given<'_>, tag: &Key) -> Result<Glob, YamlError> {
    Glob::compile(&tag.name).map_err(|error| {
        tag.position.error(format!(
            "option {:?} has the tag {:?}, which is {error}",
            given.name, tag.name
        ))
    })
}

fn file(given: &Given<'_>, node: &Node) -> Result<ReactionFile, YamlError> {
    let Content::Scalar(Value::Text(text)) = &node.content else {
        return Err(given.refuse_at(node, format!("takes {TAKES}")));
    };
    ReactionFile::read(text)
        .map_err(|why| given.refuse_at(node, format!("names the file {text:?}, which {why}")))
}
