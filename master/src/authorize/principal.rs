//! Who asks.

use std::fmt;
use std::sync::Arc;

use saline_config::LoginWay;
use saline_messages::{EventOrigin, MinionId};

/// The name of the operator on this machine, who may read the root key `cachedir/.root_key`.
pub const LOCAL_OPERATOR: &str = "root";

/// The beginning of the name under which the store has the orders of a user of this machine.
const LOCAL_USER: &str = "local user ";

/// The beginning of the name under which the store has the orders of a user who logged in. The way and the name follow.
const EXTERNAL_USER: &str = "external user ";

/// The beginning of the name under which the store has what the master's schedule ordered.
const SCHEDULE: &str = "schedule ";

/// The beginning of the name under which the store has what a file of the reactor ordered.
const REACTION: &str = "reaction ";

/// The beginning of the name under which the store has what an API ordered in its own name.
const API: &str = "API ";

/// The beginning of the name under which the store has what `saline-call` ran on a minion's machine.
const CALLER: &str = "saline-call on ";

/// The beginning of the name under which the store has what the schedule of a minion ran.
const SCHEDULED: &str = "scheduled on ";

/// The one who asks, as proven by a session: by its keys, or by the credentials that the system tells of a local
/// connection, or by the token of a login in such a session. Nothing else in a body is authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// Root of this machine, with the root key over the local endpoint.
    LocalRoot,
    /// The user that the master runs as, with the root key over the local endpoint.
    MasterUser,
    /// A user of this machine over the access socket, by the credentials of its process.
    LocalUser(Arc<LocalUser>),
    /// An operator with a key in `pki_dir/operators`, by name. Its rules are looked up for each decision, so that a
    /// change of them reaches sessions that stand.
    Operator(String),
    /// A user who logged in, and for whom another principal brings the requests. Its rules are looked up for each decision.
    ExternalUser(Arc<ExternalUser>),
    /// A host of the HTTP API with a key in `pki_dir/apis`, by name, in its own name: it asks for users who log in, and may do
    /// next to nothing itself.
    Api(MinionId),
    /// A job of the master's schedule, by its name. Root owns the file that has it.
    Schedule(String),
    /// A file of the reactor, by its path. Root owns it, but what it does may be chosen by what a minion says: `reactor_acl`
    /// limits it.
    Reaction(String),
    /// A minion.
    Minion(MinionId),
    /// A program beside the minion with this id, which has its key.
    Caller(MinionId),
}

/// A user of this machine, as the system knows it when the session begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalUser {
    /// The number of the user.
    pub uid: u32,
    /// The name of the user.
    pub name: String,
    /// The names of the user's groups.
    pub groups: Vec<String>,
}

/// A user who logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalUser {
    /// The name of the user.
    pub name: String,
    /// The way by which the user logged in.
    pub way: LoginWay,
    /// The names of the user's groups when the user logged in.
    pub groups: Vec<String>,
    /// The principal of the session that brings the requests, in words.
    pub through: String,
}

impl Principal {
    /// Returns the minion's id; none for everybody else, callers too.
    pub fn minion(&self) -> Option<&MinionId> {
        match self {
            Self::Minion(id) => Some(id),
            Self::LocalRoot
            | Self::MasterUser
            | Self::LocalUser(_)
            | Self::ExternalUser(_)
            | Self::Operator(_)
            | Self::Api(_)
            | Self::Schedule(_)
            | Self::Reaction(_)
            | Self::Caller(_) => None,
        }
    }

    /// Returns the name under which the store has what this principal orders. No operator's name has spaces, so none is
    /// that of another kind of principal.
    pub fn owner(&self) -> String {
        match self {
            Self::LocalRoot | Self::MasterUser => LOCAL_OPERATOR.to_owned(),
            Self::LocalUser(user) => format!("{LOCAL_USER}{}", user.name),
            Self::ExternalUser(user) => external_owner(user.way, &user.name),
            Self::Operator(name) => name.clone(),
            Self::Api(name) => format!("{API}{name}"),
            Self::Schedule(name) => format!("{SCHEDULE}{name}"),
            Self::Reaction(file) => format!("{REACTION}{file}"),
            Self::Minion(id) => format!("minion {id}"),
            Self::Caller(id) => format!("{CALLER}{id}"),
        }
    }

    /// Returns the name alone, without the kind of the principal.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::LocalUser(user) => user.name.clone(),
            Self::ExternalUser(user) => user.name.clone(),
            Self::Api(name) => name.to_string(),
            Self::LocalRoot
            | Self::MasterUser
            | Self::Operator(_)
            | Self::Schedule(_)
            | Self::Reaction(_)
            | Self::Minion(_)
            | Self::Caller(_) => self.owner(),
        }
    }

    /// Returns the origin of the events that this principal causes.
    pub fn event_origin(&self) -> EventOrigin {
        match self {
            Self::Minion(id) => EventOrigin::minion(id),
            Self::Caller(id) => EventOrigin::caller(id),
            Self::LocalRoot
            | Self::MasterUser
            | Self::LocalUser(_)
            | Self::ExternalUser(_)
            | Self::Operator(_)
            | Self::Api(_)
            | Self::Schedule(_)
            | Self::Reaction(_) => origin_of_owner(&self.owner()),
        }
    }

    /// Returns the principal as the log names those who give orders: by the name of the key.
    pub(crate) fn log_name(&self) -> String {
        match self {
            Self::LocalRoot | Self::MasterUser | Self::Operator(_) => {
                format!("operator {}", self.owner())
            }
            Self::LocalUser(_)
            | Self::ExternalUser(_)
            | Self::Api(_)
            | Self::Schedule(_)
            | Self::Reaction(_)
            | Self::Minion(_)
            | Self::Caller(_) => self.to_string(),
        }
    }

    /// Whether this is the user of this name who logged in, by this way if one is given.
    pub(crate) fn logged_in_as(&self, name: &str, way: Option<LoginWay>) -> bool {
        match self {
            Self::ExternalUser(user) => user.name == name && way.is_none_or(|way| way == user.way),
            Self::LocalRoot
            | Self::MasterUser
            | Self::LocalUser(_)
            | Self::Operator(_)
            | Self::Api(_)
            | Self::Schedule(_)
            | Self::Reaction(_)
            | Self::Minion(_)
            | Self::Caller(_) => false,
        }
    }

    /// Whether the principal could do anything without the master, on this machine.
    pub fn is_local_root(&self) -> bool {
        matches!(self, Self::LocalRoot | Self::MasterUser)
    }
}

/// Returns the name under which the store has the orders of a user who logged in by this way.
pub(crate) fn external_owner(way: LoginWay, name: &str) -> String {
    format!("{EXTERNAL_USER}{way} {name}")
}

/// Returns the name under which the store has what the schedule of this minion ran.
pub(crate) fn scheduled_owner(id: &MinionId) -> String {
    format!("{SCHEDULED}{id}")
}

/// Whether the store has this owner for what a minion's machine ran by itself, with `saline-call` or by the minion's schedule: nobody
/// here gave an order for it.
pub(crate) fn is_own_run(owner: &str) -> bool {
    owner.starts_with(CALLER) || owner.starts_with(SCHEDULED)
}

/// Returns the origin of what those who give orders do, by the name under which the store has their orders:
/// [`Principal::owner`].
pub(crate) fn origin_of_owner(owner: &str) -> EventOrigin {
    if let Some(name) = owner.strip_prefix(LOCAL_USER) {
        return EventOrigin::local_user(name);
    }
    if let Some(user) = owner.strip_prefix(EXTERNAL_USER) {
        let name = user.split_once(' ').map_or(user, |(_, name)| name);
        return EventOrigin::external_user(name);
    }
    if let Some(name) = owner.strip_prefix(API) {
        return EventOrigin::api(name);
    }
    if let Some(file) = owner.strip_prefix(REACTION) {
        return EventOrigin::reaction(file);
    }
    match owner.strip_prefix(SCHEDULE) {
        Some(name) => EventOrigin::schedule(name),
        None => EventOrigin::operator(owner),
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LocalRoot => f.write_str("local root"),
            Self::MasterUser => f.write_str("the master's user"),
            Self::LocalUser(user) => write!(f, "local user {}", user.name),
            Self::ExternalUser(user) => {
                let ExternalUser {
                    name, way, through, ..
                } = &**user;
                write!(f, "external user {name} ({way}, through {through})")
            }
            Self::Operator(name) => write!(f, "operator {name}"),
            Self::Api(name) => write!(f, "API {name}"),
            Self::Schedule(name) => write!(f, "schedule {name}"),
            Self::Reaction(file) => write!(f, "reaction {file}"),
            Self::Minion(id) => write!(f, "minion {id}"),
            Self::Caller(id) => write!(f, "a caller on minion {id}"),
        }
    }
}
