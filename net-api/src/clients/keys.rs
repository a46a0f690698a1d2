//! The functions of `wheel` about keys.

use saline_channel::PublicIdentity;
use saline_client::Client;
use saline_data::Value;
use saline_messages::{Arguments, KeyAction, KeyEntry, KeyReply, KeyRequest, KeyState, RequestId};
use saline_targeting::Glob;

use crate::error::ApiError;
use crate::lowstate;

/// The names of all functions.
pub(super) const FUNCTIONS: &str = "key.list_all, key.list, key.finger, key.accept, key.reject, key.delete, key.accept_dict, \
                                    key.reject_dict, key.delete_dict";

/// Carries out a function about keys.
pub(super) async fn call(
    client: &Client,
    function: &str,
    arguments: &Arguments,
) -> Result<Value, ApiError> {
    match function {
        "list_all" => Ok(listed(&all(client).await?)),
        "list" => {
            let state = text(argument(arguments, "match", 0)?)?;
            list(&all(client).await?, state)
        }
        "finger" => {
            let wanted = Names::read(text(argument(arguments, "match", 0)?)?)?;
            Ok(fingers(&all(client).await?, &wanted))
        }
        "accept" | "reject" | "delete" => {
            let wanted = Names::read(text(argument(arguments, "match", 0)?)?)?;
            let action = action(function);
            let flag = |name| is_set(arguments, name);
            let states: Vec<KeyState> = match action {
                KeyAction::Delete => KeyState::ALL.to_vec(),
                _ => [
                    (KeyState::Pending, true),
                    (KeyState::Accepted, flag("include_accepted")?),
                    (KeyState::Rejected, flag("include_rejected")?),
                    (KeyState::Denied, flag("include_denied")?),
                ]
                .into_iter()
                .filter_map(|(state, is_meant)| is_meant.then_some(state))
                .collect(),
            };
            let chosen =
                |key: &KeyEntry| states.contains(&key.state) && wanted.has(key.id.as_str());
            act(client, action, chosen).await
        }
        "accept_dict" | "reject_dict" | "delete_dict" => {
            let wanted = by_state(argument(arguments, "match", 0)?)?;
            // Saline's own: the fingerprints that were compared, so that no key is meant that came into the place of one.
            let compared = arguments.named.iter().find(|(name, _)| name == "finger");
            let is_compared = |key: &KeyEntry| {
                compared.is_none_or(|(_, fingers)| {
                    let shown = fingers.get(key.id.as_str()).and_then(Value::as_str);
                    shown == Some(finger_of(key).as_str())
                })
            };
            let chosen = |key: &KeyEntry| {
                let mut wanted = wanted.iter();
                wanted.any(|(state, ids)| {
                    *state == key.state && ids.iter().any(|id| id == key.id.as_str())
                }) && is_compared(key)
            };
            act(client, action(function.trim_end_matches("_dict")), chosen).await
        }
        _ => Err(bad(format!(
            "there is no wheel function key.{function}; there are {FUNCTIONS}"
        ))),
    }
}

/// Lists the keys for `/keys`.
pub(crate) async fn list_all(client: &Client) -> Result<Value, ApiError> {
    Ok(listed(&all(client).await?))
}

/// Returns the fingerprints of the keys of one minion for `/keys/ID`.
pub(crate) async fn finger(client: &Client, id: &str) -> Result<Value, ApiError> {
    let one = Names {
        globs: vec![Glob::compile(&escaped(id)).map_err(|error| bad(error.to_string()))?],
    };
    Ok(fingers(&all(client).await?, &one))
}

/// Returns a glob that matches this text alone.
fn escaped(text: &str) -> String {
    let characters = text.chars();
    let escaped = characters.map(|one| match one {
        '*' | '?' | '[' => format!("[{one}]"),
        one => one.to_string(),
    });
    escaped.collect()
}

async fn all(client: &Client) -> Result<KeyReply, ApiError> {
    Ok(client.keys(KeyRequest::List).await?)
}

/// Applies an action to the chosen ones of all keys. Returns those of them that are left, by their states.
async fn act(
    client: &Client,
    action: KeyAction,
    chosen: impl Fn(&KeyEntry) -> bool,
) -> Result<Value, ApiError> {
    let keys: Vec<KeyEntry> = all(client).await?.keys.into_iter().filter(chosen).collect();
    if keys.is_empty() {
        return Ok(Value::Map(Vec::new()));
    }
    let request_id = RequestId::random()
        .map_err(|_| ApiError::Failed("the system has no randomness".to_owned()))?;
    let request = KeyRequest::Act {
        request_id,
        action,
        keys,
    };
    let changed = client.keys(request).await?.keys;
    Ok(match action {
        KeyAction::Delete => Value::Map(Vec::new()),
        _ => grouped(&changed, |key| Value::from(key.id.as_str()), false),
    })
}

/// Returns the ids of all keys by their states, also of states without keys, and the names of the master's own.
fn listed(reply: &KeyReply) -> Value {
    let Value::Map(mut entries) = grouped(&reply.keys, |key| Value::from(key.id.as_str()), true)
    else {
        return Value::Null;
    };
    let own = Value::texts(["master.pem", "master.pub"]);
    entries.push(("local".to_owned(), own));
    Value::Map(entries)
}

/// Returns the ids of the keys in one state.
fn list(reply: &KeyReply, state: &str) -> Result<Value, ApiError> {
    let state = match state {
        "accepted" | "acc" => KeyState::Accepted,
        "pre" | "un" | "unaccepted" => KeyState::Pending,
        "rejected" | "rej" => KeyState::Rejected,
        "denied" | "den" => KeyState::Denied,
        "all" => return Ok(listed(reply)),
        _ => {
            return Err(bad(format!(
                "there is no list of keys {state:?}: there are accepted, pre, rejected, denied and all"
            )));
        }
    };
    let ids = reply.keys.iter().filter(|key| key.state == state);
    let ids = Value::texts(ids.map(|key| key.id.as_str()));
    Ok(Value::map([(state.folder(), ids)]))
}

/// Returns the fingerprint of a key; empty for a file without one.
fn finger_of(key: &KeyEntry) -> String {
    match key.holds_key() {
        true => PublicIdentity(key.identity).fingerprint(),
        false => String::new(),
    }
}

/// Returns the fingerprint of each key of these minions, by its state and its id.
fn fingers(reply: &KeyReply, wanted: &Names) -> Value {
    let states = KeyState::ALL.into_iter().filter_map(|state| {
        let keys = reply.keys.iter();
        let keys = keys.filter(|key| key.state == state && wanted.has(key.id.as_str()));
        let fingers: Vec<(String, Value)> = keys
            .map(|key| (key.id.to_string(), Value::from(finger_of(key))))
            .collect();
        (!fingers.is_empty()).then(|| (state.folder().to_owned(), Value::Map(fingers)))
    });
    let mut entries: Vec<(String, Value)> = states.collect();
    if wanted.has("master.pub") {
        let finger = PublicIdentity(reply.master).fingerprint();
        let own = Value::map([("master.pub", Value::from(finger))]);
        entries.push(("local".to_owned(), own));
    }
    Value::Map(entries)
}

fn grouped(keys: &[KeyEntry], shown: impl Fn(&KeyEntry) -> Value, also_empty: bool) -> Value {
    let states = KeyState::ALL.into_iter().filter_map(|state| {
        let keys = keys.iter().filter(|key| key.state == state);
        let keys: Vec<Value> = keys.map(&shown).collect();
        (also_empty || !keys.is_empty()).then(|| (state.folder().to_owned(), Value::List(keys)))
    });
    Value::Map(states.collect())
}

fn action(function: &str) -> KeyAction {
    match function {
        "accept" => KeyAction::Accept,
        "reject" => KeyAction::Reject,
        _ => KeyAction::Delete,
    }
}

/// Ids, as globs with commas between them.
struct Names {
    globs: Vec<Glob>,
}

impl Names {
    fn read(text: &str) -> Result<Self, ApiError> {
        let names = text.split(',').map(str::trim);
        let globs = names.filter(|name| !name.is_empty()).map(Glob::compile);
        let globs: Result<Vec<Glob>, _> = globs.collect();
        let globs = globs.map_err(|error| bad(format!("match: {error}")))?;
        Ok(Self { globs })
    }

    fn has(&self, id: &str) -> bool {
        self.globs.iter().any(|glob| glob.matches(id))
    }
}

/// Reads ids by the states of their keys: `{minions_pre: [web1]}`.
fn by_state(value: &Value) -> Result<Vec<(KeyState, Vec<String>)>, ApiError> {
    let refusal = || {
        bad("match has to be a mapping of minions, minions_pre, minions_rejected or minions_denied to lists of ids".to_owned())
    };
    let Value::Map(entries) = value else {
        return Err(refusal());
    };
    let states = entries.iter().map(|(folder, ids)| {
        let state = KeyState::ALL
            .into_iter()
            .find(|state| state.folder() == folder);
        let Value::List(ids) = ids else {
            return Err(refusal());
        };
        let ids = ids.iter().map(|id| id.as_str().map(str::to_owned));
        let ids: Option<Vec<String>> = ids.collect();
        state.zip(ids).ok_or_else(refusal)
    });
    states.collect()
}

/// Returns an argument by its name, or by its place.
fn argument<'a>(arguments: &'a Arguments, name: &str, place: usize) -> Result<&'a Value, ApiError> {
    let mut named = arguments.named.iter();
    let named = named
        .find(|(known, _)| known == name)
        .map(|(_, value)| value);
    let found = named.or_else(|| arguments.positional.get(place));
    found.ok_or_else(|| bad(format!("{name} is missing")))
}

fn text(value: &Value) -> Result<&str, ApiError> {
    let text = value.as_str();
    text.ok_or_else(|| bad("match has to be a text".to_owned()))
}

fn is_set(arguments: &Arguments, name: &str) -> Result<bool, ApiError> {
    let mut named = arguments.named.iter();
    let found = named.find(|(known, _)| known == name);
    found.map_or(Ok(false), |(_, value)| lowstate::flag(name, value))
}

fn bad(why: String) -> ApiError {
    ApiError::BadRequest(why)
}

#[cfg(test)]
mod tests {
    use saline_messages::MinionId;

    use super::*;

    fn reply() -> KeyReply {
        let entry = |id: &str, state, identity| KeyEntry {
            id: MinionId::parse(id).unwrap(),
            state,
            identity: [identity; 32],
        };
        KeyReply {
            keys: vec![
                entry("web1", KeyState::Accepted, 1),
                entry("web2", KeyState::Pending, 2),
                entry("db1", KeyState::Pending, 3),
            ],
            master: [9; 32],
            next_master: None,
            duplicates: Vec::new(),
            missing: Vec::new(),
            apis: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn every_list_is_there_also_when_it_is_empty() {
        let listed = listed(&reply());
        assert_eq!(listed.get("minions"), Some(&Value::texts(["web1"])));
        assert_eq!(
            listed.get("minions_pre"),
            Some(&Value::texts(["web2", "db1"]))
        );
        assert_eq!(
            listed.get("minions_rejected"),
            Some(&Value::List(Vec::new()))
        );
        assert_eq!(listed.get("minions_denied"), Some(&Value::List(Vec::new())));
        assert!(listed.get("local").is_some());
        let pending = list(&reply(), "pre").unwrap();
        assert_eq!(
            pending,
            Value::map([("minions_pre", Value::texts(["web2", "db1"]))])
        );
        assert!(list(&reply(), "others").is_err());
    }

    #[test]
    fn fingers_are_those_of_the_ids_that_match() {
        let names = |text| Names::read(text).unwrap();
        let fingers_of = |text| fingers(&reply(), &names(text));
        let web = fingers_of("web*");
        assert!(web.get("minions").unwrap().get("web1").is_some());
        assert!(web.get("minions_pre").unwrap().get("db1").is_none());
        assert!(web.get("local").is_none());
        assert!(fingers_of("*").get("local").is_some());
        let list = fingers_of("db1, web1");
        assert!(list.get("minions_pre").unwrap().get("db1").is_some());
        assert!(list.get("minions").unwrap().get("web1").is_some());
        assert_eq!(fingers_of(""), Value::Map(Vec::new()));
    }

    #[test]
    fn keys_are_chosen_by_their_state_too() {
        let dict = Value::map([("minions_pre", Value::texts(["web2"]))]);
        let read = by_state(&dict).unwrap();
        assert_eq!(read, [(KeyState::Pending, vec!["web2".to_owned()])]);
        for wrong in [
            Value::from("web2"),
            Value::map([("minions_pre", Value::from("web2"))]),
            Value::map([("pending", Value::texts(["web2"]))]),
            Value::map([("minions", Value::List(vec![Value::Int(1)]))]),
        ] {
            assert!(by_state(&wrong).is_err(), "{wrong:?}");
        }
        let included = |value: Value| {
            let arguments = Arguments {
                named: vec![("include_accepted".to_owned(), value)],
                ..Arguments::default()
            };
            is_set(&arguments, "include_accepted").ok()
        };
        // Pepper and forms send texts.
        for (value, is_included) in [
            (Value::from("True"), Some(true)),
            (Value::Bool(true), Some(true)),
            (Value::from("false"), Some(false)),
            (Value::from("perhaps"), None),
        ] {
            assert_eq!(included(value), is_included);
        }
        let glob = Glob::compile(&escaped("a*[b]")).unwrap();
        assert!(glob.matches("a*[b]") && !glob.matches("ab"));
    }
}
