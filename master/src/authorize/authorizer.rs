//! The decision: who may do what.

use std::borrow::Cow;
use std::sync::Arc;

use saline_config::{AccessRule, RuleScope};
use saline_messages::{MinionId, PackedArguments, calls, is_compound};

use super::api::judge_api;
use super::rules::{Rules, covering, has_everything};
use super::{About, Action, Admits, Allowed, LocalUser, Principal, Reached, Refusal};
use crate::settings::{AccessSettings, LiveSettings};

/// Decides who may do what, by the rules of the configuration that is in force.
#[derive(Debug, Clone)]
pub(crate) struct Authorizer {
    settings: LiveSettings,
}

impl Authorizer {
    pub(crate) fn new(settings: LiveSettings) -> Self {
        Self { settings }
    }

    /// Decides whether the principal may do this. What no rule allows is refused.
    ///
    /// # Errors
    /// The refusal, with a line for the one who asked.
    pub(crate) fn authorize(
        &self,
        principal: &Principal,
        action: Action,
        about: About<'_>,
    ) -> Result<Allowed, Refusal> {
        match about {
            About::Function {
                fun,
                arguments,
                minions,
                ..
            } if action == Action::Publish && is_compound(fun) => {
                self.authorize_each(principal, (fun, arguments), minions)
            }
            about => self.authorize_one(principal, action, about),
        }
    }

    /// Decides whether the principal may run each function of a job of several. None of them reaches jobs, unless the
    /// principal sees all: the arguments name one job for one function alone.
    fn authorize_each(
        &self,
        principal: &Principal,
        (fun, arguments): (&str, &PackedArguments),
        minions: Reached<'_>,
    ) -> Result<Allowed, Refusal> {
        let malformed = || Refusal {
            rule: Cow::Borrowed("malformed arguments"),
            line: format!("{principal} may not run {fun}: its arguments cannot be read"),
        };
        let arguments = arguments.unpack().map_err(|_| malformed())?;
        let calls = calls(fun, arguments).map_err(|_| malformed())?;
        let mut rules: Vec<String> = Vec::new();
        for (fun, arguments) in calls {
            let about = About::Function {
                fun: &fun,
                arguments: &arguments.pack(),
                minions,
                job: None,
            };
            let allowed = self.authorize_one(principal, Action::Publish, about)?;
            if !rules.iter().any(|rule| *rule == allowed.rule) {
                rules.push(allowed.rule.into_owned());
            }
        }
        Ok(Allowed {
            rule: Cow::Owned(rules.join(" and ")),
        })
    }

    fn authorize_one(
        &self,
        principal: &Principal,
        action: Action,
        about: About<'_>,
    ) -> Result<Allowed, Refusal> {
        let by = |rule: &'static str| {
            Ok(Allowed {
                rule: Cow::Borrowed(rule),
            })
        };
        let is_operators = is_of_operators(action);
        match principal {
            Principal::LocalRoot if is_operators => by("local root"),
            Principal::MasterUser if is_operators => by("the master's user"),
            Principal::Operator(name) if is_operators => {
                let access = self.settings.access();
                match &access.operators {
                    None => by("operators is not set"),
                    Some(rules) => Rules {
                        option: "operators",
                        own: rules.of(name, &[], false).collect(),
                    }
                    .judge(principal, action, about),
                }
            }
            Principal::Api(_) if is_operators => judge_api(principal, action, about),
            Principal::LocalUser(user) if is_operators => {
                let access = self.settings.access();
                if let Some(refusal) = blacklisted(&access, principal, &user.name, about) {
                    return Err(refusal);
                }
                Rules::of_user(&access, user).judge(principal, action, about)
            }
            Principal::ExternalUser(user) if is_of_external_users(action) => {
                let access = self.settings.access();
                if let Some(refusal) = blacklisted(&access, principal, &user.name, about) {
                    return Err(refusal);
                }
                Rules::of_external(&access, user).judge(principal, action, about)
            }
            Principal::Schedule(_) if is_of_schedules(action) => by("schedule"),
            Principal::Reaction(_) if is_of_reactions(action) => {
                let access = self.settings.access();
                match &access.reactor_acl {
                    None => by("reactor_acl is not set"),
                    Some(rules) => Rules {
                        option: "reactor_acl",
                        own: rules.iter().collect(),
                    }
                    .judge(principal, action, about),
                }
            }
            Principal::Minion(_) if action == Action::ActAsMinion => by("its own session"),
            Principal::Minion(_) if action == Action::PollOwnKey => by("its own key"),
            Principal::Caller(_) if action == Action::ActAsCaller => by("its own session"),
            Principal::LocalRoot
            | Principal::MasterUser
            | Principal::Operator(_)
            | Principal::Api(_)
            | Principal::LocalUser(_)
            | Principal::ExternalUser(_)
            | Principal::Schedule(_)
            | Principal::Reaction(_)
            | Principal::Minion(_)
            | Principal::Caller(_) => Err(Refusal {
                rule: Cow::Borrowed("verbs of another audience"),
                line: format!("{principal} may not {action}"),
            }),
        }
    }

    /// Whether the principal sees what others ordered: root, and operators and users with all rights. Others see and
    /// cancel their own.
    pub(crate) fn sees_all(&self, principal: &Principal) -> bool {
        let access = self.settings.access();
        own_rules(&access, principal).is_none_or(|own| has_everything(own.into_iter()))
    }

    /// Whether the principal gets all events: whoever sees all, and those to whom a rule gives them, or lets run every
    /// function on all minions. Others get the events of what they ordered.
    pub(crate) fn gets_all_events(&self, principal: &Principal) -> bool {
        let access = self.settings.access();
        let gives = |rule: &&AccessRule| match rule.scope {
            RuleScope::Everything | RuleScope::Events => true,
            RuleScope::AllMinions => rule.has_all_functions(),
            RuleScope::Minions(_) | RuleScope::Runners | RuleScope::Keys => false,
        };
        own_rules(&access, principal).is_none_or(|own| own.iter().any(gives))
    }

    /// Leaves those of the minions about which the principal has rules: of others, which its target does not include, it
    /// does not learn.
    pub(crate) fn known_to(
        &self,
        principal: &Principal,
        mut minions: Vec<MinionId>,
    ) -> Vec<MinionId> {
        let access = self.settings.access();
        if let Some(own) = own_rules(&access, principal) {
            minions.retain(|id| covering(&own, id).is_some());
        }
        minions
    }

    /// Decides whether this user of the machine may have a session: some rule is for it, or anybody may log in, and the blacklist does
    /// not name it.
    pub(crate) fn admits(&self, user: &Arc<LocalUser>) -> Admits {
        let access = self.settings.access();
        let principal = Principal::LocalUser(Arc::clone(user));
        if let Some(refusal) = blacklisted(&access, &principal, &user.name, About::Nothing) {
            return Admits::Blacklisted(refusal);
        }
        let rules = Rules::of_user(&access, user);
        // A local user without a rule may still log in as somebody who has rules.
        match rules.own.is_empty() && !access.external_auth.names_anybody() {
            false => Admits::Yes,
            true => Admits::NoRule(Refusal {
                rule: Cow::Owned(format!("no rule of {}", rules.option)),
                line: format!(
                    "{principal} may not give orders: no rule of publisher_acl is for it"
                ),
            }),
        }
    }
}

/// Returns the rules of a principal; none for one that needs no rules.
fn own_rules<'a>(
    access: &'a AccessSettings,
    principal: &'a Principal,
) -> Option<Vec<&'a AccessRule>> {
    match principal {
        Principal::LocalRoot | Principal::MasterUser | Principal::Schedule(_) => None,
        Principal::Operator(name) => {
            let rules = access.operators.as_ref()?;
            Some(rules.of(name, &[], false).collect())
        }
        Principal::LocalUser(user) => Some(Rules::of_user(access, user).own),
        Principal::ExternalUser(user) => Some(Rules::of_external(access, user).own),
        Principal::Reaction(_) => {
            let rules = access.reactor_acl.as_ref()?;
            Some(rules.iter().collect())
        }
        Principal::Minion(_) | Principal::Caller(_) | Principal::Api(_) => Some(Vec::new()),
    }
}

/// Whether an action belongs to those who give orders.
fn is_of_operators(action: Action) -> bool {
    match action {
        Action::Publish
        | Action::CancelJob
        | Action::ReadJob
        | Action::BeginRun
        | Action::CallWheel
        | Action::OwnRun
        | Action::ListKeys
        | Action::ChangeKeys
        | Action::MatchTarget
        | Action::ReadLastSeen
        | Action::RotateGroupKey
        | Action::RotateIdentity
        | Action::UploadFiles
        | Action::Ping
        | Action::ActForUsers
        | Action::ReadEvents => true,
        Action::ActAsMinion | Action::ActAsCaller | Action::PollOwnKey => false,
    }
}

/// Whether a user who logged in may do this: what those who give orders may, but act for others.
fn is_of_external_users(action: Action) -> bool {
    action != Action::ActForUsers && is_of_operators(action)
}

/// Whether a job of the master's schedule may do this: root wrote it, so it runs every runner, and a runner does what it is for.
/// It has no session, so no verb comes from it that needs one.
fn is_of_schedules(action: Action) -> bool {
    match action {
        Action::BeginRun
        | Action::Publish
        | Action::CancelJob
        | Action::ReadJob
        | Action::MatchTarget => true,
        Action::CallWheel
        | Action::OwnRun
        | Action::ListKeys
        | Action::ChangeKeys
        | Action::ReadLastSeen
        | Action::RotateGroupKey
        | Action::RotateIdentity
        | Action::UploadFiles
        | Action::Ping
        | Action::ActForUsers
        | Action::ReadEvents
        | Action::ActAsMinion
        | Action::ActAsCaller
        | Action::PollOwnKey => false,
    }
}

/// Whether a file of the reactor may do this: it gives orders, runs runners and wheels, and decides about keys by these. It has no
/// session.
fn is_of_reactions(action: Action) -> bool {
    matches!(action, Action::CallWheel | Action::ChangeKeys) || is_of_schedules(action)
}

/// Refuses what `publisher_acl_blacklist` names. A pattern that takes too many steps refuses too.
fn blacklisted(
    access: &AccessSettings,
    principal: &Principal,
    user: &str,
    about: About<'_>,
) -> Option<Refusal> {
    let list = &access.publisher_acl_blacklist;
    let refusal = |kind: &str, pattern: &str, what: String| Refusal {
        rule: Cow::Owned(format!("publisher_acl_blacklist: {kind}: {pattern}")),
        line: format!(
            "{principal} may not {what}: publisher_acl_blacklist of the master's configuration names {pattern:?} in {kind}"
        ),
    };
    let mut users = list.users.iter();
    if let Some(found) = users.find(|pattern| pattern.matches(user) != Ok(false)) {
        return Some(refusal("users", found.as_str(), "give orders".to_owned()));
    }
    let About::Function { fun, .. } = about else {
        return None;
    };
    let mut modules = list.modules.iter();
    let found = modules.find(|pattern| pattern.matches(fun) != Ok(false))?;
    Some(refusal("modules", found.as_str(), format!("run {fun}")))
}
