//! The options about the mine.

use std::time::Duration;

use saline_data::Value;
use saline_data::yaml::{Content, Node, Position, YamlError};
use saline_targeting::TextPattern;

use crate::given::Given;
use crate::mine::{MineFunction, MineRule};
use crate::{MasterConfig, MinionConfig, OptionDoc, Secrecy};

/// The kind of value that `mine_get` takes.
const GET_TAKES: &str = "a mapping of patterns of ids to lists of patterns of functions";

/// The kind of value that `mine_functions` takes.
const FUNCTIONS_TAKE: &str = "a list of functions, or a mapping of names to arguments";

/// The longest `mine_interval`: a year.
const LONGEST: u64 = 365 * 24 * 60;

pub(super) const fn mine_functions() -> OptionDoc<MinionConfig> {
    OptionDoc {
        name: "mine_functions",
        secrecy: Secrecy::ByKeys,
        unit: FUNCTIONS_TAKE,
        default: "{}",
        help: "The functions whose values the minion leaves with the master for other minions (`mine.get`): a list of names, or \
               a mapping of each to its arguments. Under an alias, `mine_function` names the function; `allow_tgt` and \
               `allow_tgt_type` say which minions may get the value. The pillar may have `mine_functions` too; of two with one \
               name that of the configuration counts. See `docs/mine.md`.",
        read: |config, given| {
            config.mine.functions = functions(given)?;
            Ok(())
        },
    }
}

pub(super) const fn mine_interval() -> OptionDoc<MinionConfig> {
    OptionDoc {
        name: "mine_interval",
        secrecy: Secrecy::Public,
        unit: "minutes",
        default: "60",
        help: "How often the minion runs the `mine_functions`, and sends the values that have changed. It does so when it \
               starts, too.",
        read: |config, given| {
            let minutes: u64 =
                given.whole(1..=LONGEST.cast_signed(), "a number of minutes, 1 or more")?;
            config.mine.interval = Duration::from_secs(60 * minutes);
            Ok(())
        },
    }
}

pub(super) const fn mine_enabled() -> OptionDoc<MinionConfig> {
    OptionDoc {
        name: "mine_enabled",
        secrecy: Secrecy::Public,
        unit: "True or False",
        default: "True",
        help: "Whether the minion runs the `mine_functions` by itself. `mine.update` and `mine.send` work without it.",
        read: |config, given| {
            config.mine.enabled = given.flag()?;
            Ok(())
        },
    }
}

pub(super) const fn mine_get() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "mine_get",
        secrecy: Secrecy::Rules,
        unit: GET_TAKES,
        default: "",
        help: "Which minions may get what from the mine: `'web*': ['network.*', ips]`. A pattern is a glob, or a regular \
               expression, of the whole name. A minion that no pattern names gets nothing. Not set: every minion may get \
               everything whose `allow_tgt` names it. See `docs/mine.md`.",
        read: |config, given| {
            config.mine_get = given.optional(rules)?;
            Ok(())
        },
    }
}

fn functions(given: &Given<'_>) -> Result<Vec<MineFunction>, YamlError> {
    let read = |place: Position, name: &str, definition: &Value| {
        MineFunction::read(name, definition)
            .map_err(|why| place.error(format!("option {:?} is wrong: {why}", given.name)))
    };
    match &given.node.content {
        Content::Scalar(Value::Null) => Ok(Vec::new()),
        Content::List(nodes) => {
            let nodes = nodes.iter();
            let functions = nodes.map(|node| match &node.content {
                Content::Scalar(Value::Text(name)) => read(node.position, name, &Value::Null),
                _ => Err(given.refuse_at(node, format!("takes {FUNCTIONS_TAKE}"))),
            });
            functions.collect()
        }
        Content::Map(entries) => {
            let entries = entries.iter();
            let functions = entries
                .map(|(key, node)| read(key.position, &key.name, &Value::from(node.clone())));
            functions.collect()
        }
        Content::Scalar(_) => Err(given.wrong(FUNCTIONS_TAKE)),
    }
}

fn rules(given: &Given<'_>) -> Result<Vec<MineRule>, YamlError> {
    let Content::Map(entries) = &given.node.content else {
        return Err(given.wrong(GET_TAKES));
    };
    let read = entries.iter().map(|(key, node)| {
        let functions = match &node.content {
            Content::List(nodes) => nodes.as_slice(),
            Content::Scalar(Value::Null) => &[],
            _ => std::slice::from_ref(node),
        };
        let functions = functions.iter().map(|node| match &node.content {
            Content::Scalar(Value::Text(text)) => pattern(given, node, text),
            _ => Err(given.refuse_at(node, format!("takes {GET_TAKES}"))),
        });
        Ok(MineRule {
            minions: pattern(given, node, &key.name)?,
            functions: functions.collect::<Result<_, _>>()?,
        })
    });
    read.collect()
}

fn pattern(given: &Given<'_>, node: &Node, text: &str) -> Result<TextPattern, YamlError> {
    TextPattern::glob_else_regex(text).map_err(|error| {
        given.refuse_at(
            node,
            format!("has {text:?}, which is not a valid pattern of names: {error}"),
        )
    })
}
