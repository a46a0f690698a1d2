//! The options about users who log in: `external_auth` and those beside it.
//!
//! ```yaml
//! external_auth:
//!   file:
//!     ^filename: /etc/saline/users
//!     alice: [test.ping, 'web*': [state.apply]]
//!     ops%: ['@jobs']
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use saline_data::Value;
use saline_data::yaml::{Content, Key, Node, YamlError};
use saline_messages::NetapiClient;

use super::access_rules;
use crate::access_rules::{AccessRules, Subject};
use crate::external_auth::LoginWay;
use crate::given::Given;
use crate::{MasterConfig, OptionDoc, Secrecy, Secret};

const TAKES: &str =
    "a mapping of ways to log in (pam, file, sharedsecret, auto) to users with their rules";

/// The key below `file` that names the file of users.
const FILE_NAME: &str = "^filename";

/// The shortest `token_expire`.
const SHORTEST_LOGIN: Duration = Duration::from_secs(1);

pub(super) const fn sharedsecret() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "sharedsecret",
        secrecy: Secrecy::Secret,
        unit: "a password, which is not empty",
        default: "",
        help: "The password of all users below `sharedsecret` of `external_auth`. Not set: none, and nobody logs in with it.",
        read: |config, given| {
            // An empty one is refused: it would let everybody in.
            config.external_auth.shared_secret = match &given.node.content {
                Content::Scalar(Value::Null) => None,
                _ => Some(Secret::from(given.text("a password, which is not empty")?)),
            };
            Ok(())
        },
    }
}

pub(super) const fn external_auth() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "external_auth",
        secrecy: Secrecy::Rules,
        unit: TAKES,
        default: "{}",
        help: "Who may log in with a name and a password, by which way, and what they may do then, as rules of \
               `publisher_acl`. `pam` takes the passwords of this machine's users, by the service `saline` (`/etc/pam.d/saline`; needs a \
               restart); `file` has `^filename`, the path of a file with a line `user:HASH` or `user:HASH:group,group` for \
               each user (`saline-key --hash-password` makes the hash); `sharedsecret` takes the password of that option; `auto` \
               takes any password and is for tests. A subject is a user, `group%` (with `pam` and `file`), or `*` for everybody \
               else whom the way lets in. See `docs/security.md`.",
        read: |config, given| {
            let (ways, user_file) = read(given)?;
            let has_secret = config.external_auth.shared_secret.is_some();
            if ways.contains_key(&LoginWay::SharedSecret) && !has_secret {
                return Err(given.refuse(
                    "has `sharedsecret`, and the option `sharedsecret` is not set: set it, or remove the way",
                ));
            }
            config.external_auth.ways = ways;
            config.external_auth.user_file = user_file;
            Ok(())
        },
    }
}

pub(super) const fn permissive_acl() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "permissive_acl",
        secrecy: Secrecy::Rules,
        unit: "True or False",
        default: "False",
        help: "Whether the rules of `*` below `external_auth` and `publisher_acl` are also for those who are named, beside their own.",
        read: |config, given| {
            config.permissive_acl = given.flag()?;
            Ok(())
        },
    }
}

pub(super) const fn token_expire() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "token_expire",
        secrecy: Secrecy::Public,
        unit: "seconds, 1 or more",
        default: "43200",
        help: "How long a login is valid. Another value is for logins from then on.",
        read: |config, given| {
            config.external_auth.token_expire = given.seconds_at_least(SHORTEST_LOGIN)?;
            Ok(())
        },
    }
}

pub(super) const fn netapi_enable_clients() -> OptionDoc<MasterConfig> {
    OptionDoc {
        name: "netapi_enable_clients",
        secrecy: Secrecy::Public,
        unit: "a list of local, local_async, local_batch, local_subset, runner, runner_async, wheel and wheel_async",
        default: "",
        help: "The clients by which users of the HTTP API may ask for something. The master checks it for each request of theirs. \
               Not set: none.",
        read: |config, given| {
            let is_empty = matches!(&given.node.content, Content::List(nodes) if nodes.is_empty());
            let known = NetapiClient::ALL.map(NetapiClient::name).join(", ");
            let read = |given: &Given<'_>| {
                given.texts("the name of a client or a list of them", |name| {
                    NetapiClient::parse(name).ok_or_else(|| {
                        format!("names {name:?}, which is not a client: there are {known}")
                    })
                })
            };
            let clients = match is_empty {
                true => None,
                false => given.optional(read)?,
            };
            config.external_auth.enabled_clients =
                clients.unwrap_or_default().into_iter().collect();
            Ok(())
        },
    }
}

type Ways = BTreeMap<LoginWay, AccessRules>;

fn read(given: &Given<'_>) -> Result<(Ways, Option<PathBuf>), YamlError> {
    let (mut ways, mut user_file) = (Ways::new(), None);
    let entries = match &given.node.content {
        Content::Map(entries) => entries.as_slice(),
        Content::Scalar(Value::Null) => &[],
        _ => return Err(given.wrong(TAKES)),
    };
    for (key, node) in entries {
        let way = way(given, key)?;
        let rules = match way {
            LoginWay::File => {
                let (file, users) = take_file_name(given, node)?;
                user_file = file;
                access_rules::read_at(given, &users, true)?
            }
            LoginWay::Pam => access_rules::read_at(given, node, true)?,
            LoginWay::SharedSecret | LoginWay::Auto => access_rules::read_at(given, node, false)?,
        };
        let names_everybody = rules
            .subjects
            .iter()
            .any(|(subject, _)| *subject == Subject::Everybody);
        if way == LoginWay::SharedSecret && names_everybody {
            return Err(given.refuse_at(
                node,
                "has '*' below `sharedsecret`: whoever has that password could log in by any name, so name each user",
            ));
        }
        if way == LoginWay::Auto && !rules.is_empty() {
            given.warn("has `auto`, with which any password logs in: it is for tests");
        }
        ways.insert(way, rules);
    }
    Ok((ways, user_file))
}

fn way(given: &Given<'_>, key: &Key) -> Result<LoginWay, YamlError> {
    let refuse = |why: &str| {
        let message = format!("option {:?} has {:?}: {why}", given.name, key.name);
        key.position.error(message)
    };
    LoginWay::parse(&key.name).ok_or_else(|| {
        refuse("this is not a way to log in; there are pam, file, sharedsecret and auto")
    })
}

/// Takes the path of the file of users out of what stands below `file`. Returns it, and the rest.
fn take_file_name(given: &Given<'_>, node: &Node) -> Result<(Option<PathBuf>, Node), YamlError> {
    let Content::Map(entries) = &node.content else {
        return Err(given.refuse_at(
            node,
            "has `file` without a mapping of `^filename` and users",
        ));
    };
    let (mut path, mut users) = (None, Vec::new());
    for (key, value) in entries {
        match (key.name.as_str(), &value.content) {
            (FILE_NAME, Content::Scalar(Value::Text(text))) if text.starts_with('/') => {
                path = Some(PathBuf::from(text));
            }
            (FILE_NAME, _) => {
                return Err(given.refuse_at(value, "takes an absolute path below `^filename`"));
            }
            (name, _) if name.starts_with('^') => {
                let message = format!(
                    "option {:?} has {name:?}, and there is `^filename` alone: passwords are hashed with Argon2, as \
                     saline-key --hash-password does",
                    given.name
                );
                return Err(key.position.error(message));
            }
            _ => users.push((key.clone(), value.clone())),
        }
    }
    if path.is_none() {
        return Err(given.refuse_at(
            node,
            "has `file` without `^filename`, which names the file of users",
        ));
    }
    let users = Node {
        content: Content::Map(users),
        ..node.clone()
    };
    Ok((path, users))
}
