//! `key`: the keys of minions.

use saline_channel::PublicIdentity;
use saline_data::Value;
use saline_functions::{Failure, FromValue, Mapping, Mismatch, function};
use saline_messages::{KeyAction, KeyEntry, KeyRequest, KeyState, OperatorReply, RequestId};

use crate::keys::KeyStore;
use crate::runners::Functions;
use crate::runners::job_filters::Globs;
use crate::runners::run::Run;

pub(super) const FUNCTIONS: Functions = &[
    &ACCEPT,
    &ACCEPT_DICT,
    &DELETE,
    &DELETE_DICT,
    &FINGER,
    &LIST,
    &LIST_ALL,
    &REJECT,
    &REJECT_DICT,
];

type Result<T, E = Failure> = std::result::Result<T, E>;

/// The name under which the master's own key stands among those of minions.
const OWN_KEY: &str = "master.pub";

/// Returns the ids of all keys by their states, and the names of the files of the master's own keys under `local`.
///
/// CLI Example:
///
///     pepper --client=wheel key.list_all
#[function(nonblocking)]
async fn list_all(run: &Run) -> Result<Value> {
    Ok(listed(&all(run).await?))
}

/// Returns the ids of the keys in one state.
///
/// match
///     The state: `accepted`, `pre`, `rejected`, `denied`, or `all`, which returns what `key.list_all` does.
///
/// CLI Example:
///
///     pepper --client=wheel key.list match=pre
#[function(nonblocking)]
async fn list(run: &Run, r#match: ListedState) -> Result<Value> {
    let keys = all(run).await?;
    let ListedState::Of(state) = r#match else {
        return Ok(listed(&keys));
    };
    Ok(Value::map([(state.folder(), ids_in(&keys, state))]))
}

/// Returns the fingerprints of keys by their states, and that of the master under `local` if `master.pub` is among the names.
///
/// match
///     The ids: globs with commas between them, or a list.
///
/// CLI Example:
///
///     pepper --client=wheel key.finger match='web*'
#[function(nonblocking)]
async fn finger(run: &Run, r#match: Globs) -> Result<Value> {
    let own = run.parts.key_order.master;
    Ok(fingers(&all(run).await?, own, &r#match))
}

/// Accepts the keys that wait. Returns the ids of the keys that it has accepted, by their state.
///
/// match
///     The ids: globs with commas between them, or a list.
///
/// include_rejected
///     Accept keys too that were rejected.
///
/// include_denied
///     Accept keys too that were denied.
///
/// CLI Example:
///
///     pepper --client=wheel key.accept match=web1
#[function(acts_once, nonblocking)]
async fn accept(
    run: &Run,
    r#match: Globs,
    #[default(false)] include_rejected: Flag,
    #[default(false)] include_denied: Flag,
) -> Result<Value> {
    let states = [
        (KeyState::Pending, true),
        (KeyState::Rejected, include_rejected.0),
        (KeyState::Denied, include_denied.0),
    ];
    act(run, KeyAction::Accept, meant(&states, &r#match)).await
}

/// Rejects the keys that wait. Returns the ids of the keys that it has rejected, by their state.
///
/// match
///     The ids: globs with commas between them, or a list.
///
/// include_accepted
///     Reject keys too that were accepted.
///
/// include_denied
///     Reject keys too that were denied.
///
/// CLI Example:
///
///     pepper --client=wheel key.reject match=web1
#[function(acts_once, nonblocking)]
async fn reject(
    run: &Run,
    r#match: Globs,
    #[default(false)] include_accepted: Flag,
    #[default(false)] include_denied: Flag,
) -> Result<Value> {
    let states = [
        (KeyState::Pending, true),
        (KeyState::Accepted, include_accepted.0),
        (KeyState::Denied, include_denied.0),
    ];
    act(run, KeyAction::Reject, meant(&states, &r#match)).await
}

/// Deletes keys, whatever their states. Returns an empty mapping.
///
/// match
///     The ids: globs with commas between them, or a list.
///
/// CLI Example:
///
///     pepper --client=wheel key.delete match=web1
#[function(acts_once, nonblocking)]
async fn delete(run: &Run, r#match: Globs) -> Result<Value> {
    let states = KeyState::ALL.map(|state| (state, true));
    act(run, KeyAction::Delete, meant(&states, &r#match)).await
}

/// Accepts the keys that a mapping names. Returns the ids of the keys that it has accepted, by their state.
///
/// match
///     Lists of ids by the states of their keys: `{minions_pre: [web1]}`. No other keys are meant.
///
/// finger
///     The fingerprints that were compared, by id. A key with another one, or of an id that is not there, is left alone.
///
/// CLI Example:
///
///     pepper --client=wheel key.accept_dict match='{"minions_pre": ["web1"]}'
#[function(acts_once, nonblocking)]
async fn accept_dict(run: &Run, r#match: IdsByState, finger: Option<Mapping>) -> Result<Value> {
    act(run, KeyAction::Accept, named(&r#match, finger.as_ref())).await
}

/// Rejects the keys that a mapping names. Returns the ids of the keys that it has rejected, by their state.
///
/// match
///     Lists of ids by the states of their keys: `{minions_pre: [web1]}`. No other keys are meant.
///
/// finger
///     The fingerprints that were compared, by id. A key with another one, or of an id that is not there, is left alone.
///
/// CLI Example:
///
///     pepper --client=wheel key.reject_dict match='{"minions_pre": ["web1"]}'
#[function(acts_once, nonblocking)]
async fn reject_dict(run: &Run, r#match: IdsByState, finger: Option<Mapping>) -> Result<Value> {
    act(run, KeyAction::Reject, named(&r#match, finger.as_ref())).await
}

/// Deletes the keys that a mapping names. Returns an empty mapping.
///
/// match
///     Lists of ids by the states of their keys: `{minions: [web1]}`. No other keys are meant.
///
/// finger
///     The fingerprints that were compared, by id. A key with another one, or of an id that is not there, is left alone.
///
/// CLI Example:
///
///     pepper --client=wheel key.delete_dict match='{"minions": ["web1"]}'
#[function(acts_once, nonblocking)]
async fn delete_dict(run: &Run, r#match: IdsByState, finger: Option<Mapping>) -> Result<Value> {
    act(run, KeyAction::Delete, named(&r#match, finger.as_ref())).await
}

/// Returns all keys.
async fn all(run: &Run) -> Result<Vec<KeyEntry>> {
    run.parts.read_minion_keys(KeyStore::list).await
}

/// Applies an action to the chosen ones of all keys. Returns those that it has changed, by their states.
async fn act(run: &Run, action: KeyAction, chosen: impl Fn(&KeyEntry) -> bool) -> Result<Value> {
    let mut keys = all(run).await?;
    keys.retain(chosen);
    if keys.is_empty() {
        return Ok(Value::Map(Vec::new()));
    }
    let request_id = RequestId::random()
        .map_err(|_| Failure::Execution("the system has no randomness".to_owned()))?;
    let request = KeyRequest::Act {
        request_id,
        action,
        keys,
    };
    let changed = run.parts.key_order.carry_out(&run.principal, request);
    let reply = match changed.await? {
        OperatorReply::Keys(reply) => reply,
        OperatorReply::NotAllowed(why) | OperatorReply::Failed(why) => {
            return Err(Failure::Execution(why));
        }
        other => {
            return Err(Failure::Execution(format!(
                "the keys were not changed: {other:?}"
            )));
        }
    };
    for warning in &reply.warnings {
        run.note(format!("WARNING: {warning}"));
    }
    Ok(match action {
        KeyAction::Delete => Value::Map(Vec::new()),
        KeyAction::Accept | KeyAction::Reject => by_states(&reply.keys),
    })
}

/// Chooses the keys in some of these states whose ids match.
fn meant(states: &[(KeyState, bool)], ids: &Globs) -> impl Fn(&KeyEntry) -> bool {
    move |key| states.contains(&(key.state, true)) && matches(ids, key.id.as_str())
}

/// Chooses the keys that are named with their states and, where fingerprints were compared, have these.
fn named(ids: &IdsByState, compared: Option<&Mapping>) -> impl Fn(&KeyEntry) -> bool {
    move |key| {
        let id = key.id.as_str();
        let is_compared = compared.is_none_or(|fingers| {
            let mut fingers = fingers.iter();
            let shown = fingers.find(|(of, _)| of == id);
            shown.is_some_and(|(_, finger)| finger.as_str() == Some(finger_of(key).as_str()))
        });
        let mut named = ids.0.iter();
        is_compared
            && named.any(|(state, own)| *state == key.state && own.iter().any(|own| own == id))
    }
}

fn matches(ids: &Globs, id: &str) -> bool {
    ids.0.iter().any(|glob| glob.matches(id))
}

/// Returns the ids of all keys by their states, also of states without keys, and the names of the master's own.
fn listed(keys: &[KeyEntry]) -> Value {
    let states = KeyState::ALL.map(|state| (state.folder(), ids_in(keys, state)));
    let own = ("local", Value::texts(["master.pem", OWN_KEY]));
    Value::map(states.into_iter().chain([own]))
}

/// Returns the ids of keys by those states that some are in.
fn by_states(keys: &[KeyEntry]) -> Value {
    let has_keys = |state: &KeyState| keys.iter().any(|key| key.state == *state);
    let states = KeyState::ALL.into_iter().filter(has_keys);
    Value::map(states.map(|state| (state.folder(), ids_in(keys, state))))
}

/// Returns the ids of the keys in a state.
fn ids_in(keys: &[KeyEntry], state: KeyState) -> Value {
    let ids = keys.iter().filter(|key| key.state == state);
    Value::texts(ids.map(|key| key.id.as_str()))
}

/// Returns the fingerprint of a key; empty for a file without one.
fn finger_of(key: &KeyEntry) -> String {
    match key.holds_key() {
        true => PublicIdentity(key.identity).fingerprint(),
        false => String::new(),
    }
}

/// Returns the fingerprint of each of the keys whose ids match, by its state and its id.
fn fingers(keys: &[KeyEntry], own: PublicIdentity, ids: &Globs) -> Value {
    let states = KeyState::ALL.into_iter().filter_map(|state| {
        let keys = keys.iter();
        let keys = keys.filter(|key| key.state == state && matches(ids, key.id.as_str()));
        let fingers: Vec<(&str, Value)> = keys
            .map(|key| (key.id.as_str(), Value::from(finger_of(key))))
            .collect();
        (!fingers.is_empty()).then(|| (state.folder(), Value::map(fingers)))
    });
    let own = matches(ids, OWN_KEY)
        .then(|| Value::map([(OWN_KEY, Value::from(own.fingerprint()))]))
        .map(|own| ("local", own));
    Value::map(states.chain(own))
}

/// A truth value, which pepper and forms send as a text.
#[derive(Debug, Clone, Copy)]
struct Flag(bool);

impl FromValue for Flag {
    const TAKES: &'static str = "True or False";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let read = match &value {
            Value::Bool(yes) => Some(*yes),
            Value::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            _ => None,
        };
        read.map(Self).ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

/// The keys that `key.list` returns.
#[derive(Debug, Clone, Copy)]
enum ListedState {
    Of(KeyState),
    All,
}

impl FromValue for ListedState {
    const TAKES: &'static str = "accepted, pre, rejected, denied or all";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value.as_str() {
            Some("accepted" | "acc") => Ok(Self::Of(KeyState::Accepted)),
            Some("pre" | "un" | "unaccepted") => Ok(Self::Of(KeyState::Pending)),
            Some("rejected" | "rej") => Ok(Self::Of(KeyState::Rejected)),
            Some("denied" | "den") => Ok(Self::Of(KeyState::Denied)),
            Some("all") => Ok(Self::All),
            _ => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

/// Ids by the states of their keys.
#[derive(Debug)]
struct IdsByState(Vec<(KeyState, Vec<String>)>);

impl FromValue for IdsByState {
    const TAKES: &'static str =
        "a mapping of minions, minions_pre, minions_rejected or minions_denied to lists of ids";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let read = |(folder, ids): &(String, Value)| {
            let mut states = KeyState::ALL.into_iter();
            let state = states.find(|state| state.folder() == folder)?;
            let Value::List(ids) = ids else {
                return None;
            };
            let ids = ids.iter().map(|id| id.as_str().map(str::to_owned));
            Some((state, ids.collect::<Option<_>>()?))
        };
        let ids: Option<Vec<_>> = match &value {
            Value::Map(entries) => entries.iter().map(read).collect(),
            _ => None,
        };
        ids.map(Self).ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

#[cfg(test)]
mod tests {
    use saline_messages::MinionId;

    use super::*;

    fn keys() -> Vec<KeyEntry> {
        let key = |id: &str, state, identity| KeyEntry {
            id: MinionId::parse(id).unwrap(),
            state,
            identity: [identity; 32],
        };
        vec![
            key("web1", KeyState::Accepted, 1),
            key("web2", KeyState::Pending, 2),
            key("db1", KeyState::Pending, 3),
        ]
    }

    fn globs(value: impl Into<Value>) -> Globs {
        Globs::from_value(value.into()).unwrap()
    }

    #[test]
    fn every_list_is_there_also_when_it_is_empty() {
        let listed = listed(&keys());
        assert_eq!(listed.get("minions"), Some(&Value::texts(["web1"])));
        let pending = Value::texts(["web2", "db1"]);
        assert_eq!(listed.get("minions_pre"), Some(&pending));
        for empty in ["minions_rejected", "minions_denied"] {
            assert_eq!(listed.get(empty), Some(&Value::List(Vec::new())));
        }
        assert!(listed.get("local").is_some());
        assert!(ListedState::from_value("others".into()).is_err());
    }

    #[test]
    fn fingers_are_those_of_the_ids_that_match() {
        let fingers_of = |ids: Value| fingers(&keys(), PublicIdentity([9; 32]), &globs(ids));
        let web = fingers_of("web*".into());
        assert!(web.get("minions").unwrap().get("web1").is_some());
        assert!(web.get("minions_pre").unwrap().get("db1").is_none());
        assert!(web.get("local").is_none());
        assert!(fingers_of("*".into()).get("local").is_some());
        for list in [Value::from("db1, web1"), Value::texts(["db1", "web1"])] {
            let list = fingers_of(list);
            assert!(list.get("minions_pre").unwrap().get("db1").is_some());
            assert!(list.get("minions").unwrap().get("web1").is_some());
        }
        assert_eq!(fingers_of("".into()), Value::Map(Vec::new()));
    }

    #[test]
    fn keys_are_chosen_by_their_states_their_ids_and_what_was_compared() {
        let chosen = |is_meant: &dyn Fn(&KeyEntry) -> bool| {
            let keys = keys().into_iter().filter(|key| is_meant(key));
            keys.map(|key| key.id.to_string()).collect::<Vec<_>>()
        };
        let waiting = [(KeyState::Pending, true), (KeyState::Accepted, false)];
        assert_eq!(chosen(&meant(&waiting, &globs("web*"))), ["web2"]);
        let all = KeyState::ALL.map(|state| (state, true));
        let list = globs(Value::texts(["web1", "db*"]));
        assert_eq!(chosen(&meant(&all, &list)), ["web1", "db1"]);

        let pending = Value::map([("minions_pre", Value::texts(["web1", "web2", "db1"]))]);
        let pending = IdsByState::from_value(pending).unwrap();
        assert_eq!(chosen(&named(&pending, None)), ["web2", "db1"]);
        let finger = PublicIdentity([2; 32]).fingerprint();
        let compared = vec![
            ("web2".to_owned(), Value::from(finger.as_str())),
            ("db1".to_owned(), Value::from(finger.as_str())),
        ];
        assert_eq!(chosen(&named(&pending, Some(&compared))), ["web2"]);
        for wrong in [
            Value::from("web2"),
            Value::map([("minions_pre", Value::from("web2"))]),
            Value::map([("pending", Value::texts(["web2"]))]),
            Value::map([("minions", Value::List(vec![Value::Int(1)]))]),
        ] {
            assert!(IdsByState::from_value(wrong.clone()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn flags_may_be_texts_as_pepper_and_forms_send_them() {
        for (value, is_set) in [
            (Value::from("True"), Some(true)),
            (Value::Bool(true), Some(true)),
            (Value::from("false"), Some(false)),
            (Value::from("perhaps"), None),
        ] {
            let flag = Flag::from_value(value).ok();
            assert_eq!(flag.map(|flag| flag.0), is_set);
        }
    }
}
