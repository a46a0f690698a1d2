//! The decision: who may do what.

use std::borrow::Cow;
use std::sync::Arc;

use saline_config::{AccessRule, FunctionRule, RuleScope};
use saline_messages::{Arguments, MinionId, PackedArguments, calls, is_compound, is_secret};
use saline_targeting::TooManySteps;

use super::api::judge_api;
use super::job_functions::shown;
use super::{
    About, Action, Admits, Allowed, ExternalUser, JobFunction, LocalUser, Principal, Reached,
    Refusal,
};
use crate::settings::{AccessSettings, LiveSettings};

/// How many minions a refusal names.
const NAMED: usize = 3;

/// The rule that lets everybody who is named reach what it ordered.
const OWN_JOBS: &str = "its own jobs";

/// The functions of the master that show, cancel and end jobs. Each leaves out or refuses those of others itself, so
/// they take no rule.
const OWN_JOB_RUNNERS: [&str; 13] = [
    "batch.list_active",
    "batch.status",
    "batch.stop",
    "jobs.active",
    "jobs.cancel",
    "jobs.exit_success",
    "jobs.kill",
    "jobs.last_run",
    "jobs.list_job",
    "jobs.list_jobs",
    "jobs.lookup_jid",
    "jobs.master",
    "jobs.print_job",
];

/// Decides who may do what, by the rules of the configuration that is in force.
#[derive(Debug, Clone)]
pub(crate) struct Authorizer {
    settings: LiveSettings,
}

/// The rules of one principal.
struct Rules<'a> {
    /// The option that has them.
    option: &'static str,
    own: Vec<&'a AccessRule>,
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
        // Whoever may log in has rules then.
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
        Action::OwnRun
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

/// Whether a file of the reactor may do this: it gives orders, runs runners and decides about keys. It has no session.
fn is_of_reactions(action: Action) -> bool {
    action == Action::ChangeKeys || is_of_schedules(action)
}

fn has_everything<'a>(mut rules: impl Iterator<Item = &'a AccessRule>) -> bool {
    rules.any(|rule| matches!(rule.scope, RuleScope::Everything))
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

impl<'a> Rules<'a> {
    fn of_user(access: &'a AccessSettings, user: &'a LocalUser) -> Self {
        Self {
            option: "publisher_acl",
            own: access
                .publisher_acl
                .of(&user.name, &user.groups, access.permissive_acl)
                .collect(),
        }
    }

    fn of_external(access: &'a AccessSettings, user: &'a ExternalUser) -> Self {
        Self {
            option: "external_auth",
            own: access.external_rules(user.way, &user.name, &user.groups),
        }
    }

    fn judge(
        &self,
        principal: &Principal,
        action: Action,
        about: About<'_>,
    ) -> Result<Allowed, Refusal> {
        if has_everything(self.own.iter().copied()) {
            return Ok(self.allowed("@all"));
        }
        if let About::Function { minions, .. } | About::Minions(minions) = about
            && minions.by_pillar
        {
            return Err(Refusal {
                rule: Cow::Borrowed("pillar takes @all"),
                line: format!(
                    "{principal} may not choose minions by pillar: whoever does finds out the values, so that takes @all; \
                     nodegroups of the master's configuration may have such terms for others"
                ),
            });
        }
        let refuse = |what: &str| {
            Err(Refusal {
                rule: Cow::Owned(format!("no rule of {}", self.option)),
                line: format!(
                    "{principal} may not {what}: no rule of {} in the master's configuration allows it",
                    self.option
                ),
            })
        };
        let is_named = !self.own.is_empty();
        match action {
            Action::Publish => match about {
                About::Function {
                    fun,
                    arguments,
                    minions,
                    job,
                } => {
                    let own = job.filter(|job| is_named && job.owner == principal.owner());
                    match (JobFunction::of(fun), own) {
                        (Some(function), None) => {
                            return Err(Refusal {
                                rule: Cow::Borrowed("its own jobs alone"),
                                line: format!("{principal} may not {}", function.refused(fun)),
                            });
                        }
                        (Some(JobFunction::Signals), Some(own)) if own.has_all(minions.minions) => {
                            return Ok(self.allowed(OWN_JOBS));
                        }
                        _ => {}
                    }
                    self.judge_job(fun, arguments, minions).or_else(|denied| {
                        refuse(&match denied {
                            None => format!("run {fun}"),
                            Some(names) => format!("run {fun} on {names}"),
                        })
                    })
                }
                _ => refuse("publish this"),
            },
            Action::BeginRun => match about {
                About::Function { fun, .. } if is_named && OWN_JOB_RUNNERS.contains(&fun) => {
                    Ok(self.allowed(OWN_JOBS))
                }
                About::Function { fun, arguments, .. } => {
                    let mut runners = self
                        .own
                        .iter()
                        .filter(|rule| matches!(rule.scope, RuleScope::Runners));
                    let arguments = arguments.unpack().ok();
                    match runners.find(|rule| allows_function(rule, fun, arguments.as_ref())) {
                        Some(rule) => Ok(self.allowed(&rule.text)),
                        None => refuse(&format!("run {fun} on the master")),
                    }
                }
                _ => refuse("run this on the master"),
            },
            Action::CancelJob | Action::ReadJob => match about {
                About::Owner(owner) if is_named && owner == principal.owner() => {
                    Ok(self.allowed(OWN_JOBS))
                }
                About::Owner(owner) => refuse(&format!("{action} of {owner}")),
                _ => refuse(action.name()),
            },
            // Each has its own alone in them.
            Action::OwnRun if is_named => Ok(self.allowed("its own")),
            Action::MatchTarget => match about {
                About::Minions(minions) if is_named => match outside(&self.own, minions) {
                    None => Ok(self.allowed("minions of its rules")),
                    Some(names) => refuse(&format!("match a target with {names}")),
                },
                _ => refuse(action.name()),
            },
            // The job that fetches the files is decided about by itself, with its arguments and its minions.
            Action::UploadFiles => match about {
                About::Function { fun, .. } => {
                    let mut rules = self.own.iter().filter(|rule| is_about_minions(rule));
                    match rules.find(|rule| names_function(rule, fun)) {
                        Some(rule) => Ok(self.allowed(&rule.text)),
                        None => refuse(&format!("run {fun}")),
                    }
                }
                _ => refuse(action.name()),
            },
            Action::ListKeys
            | Action::ChangeKeys
            | Action::ReadLastSeen
            | Action::RotateGroupKey
            | Action::RotateIdentity => {
                let mut rules = self.own.iter();
                match rules.any(|rule| matches!(rule.scope, RuleScope::Keys)) {
                    true => Ok(self.allowed("@wheel")),
                    false => refuse(action.name()),
                }
            }
            // The password decides, and then the rules of the user.
            Action::Ping | Action::ActForUsers => Ok(self.allowed("everybody who has a session")),
            // Which ones it gets is judged for each.
            Action::ReadEvents if is_named => Ok(self.allowed(OWN_JOBS)),
            Action::OwnRun
            | Action::ReadEvents
            | Action::ActAsMinion
            | Action::ActAsCaller
            | Action::PollOwnKey => refuse(action.name()),
        }
    }

    /// Decides about a job.
    ///
    /// # Errors
    /// The minions on which it may not run, or none if it may run nowhere.
    fn judge_job(
        &self,
        fun: &str,
        arguments: &PackedArguments,
        reached: Reached<'_>,
    ) -> Result<Allowed, Option<String>> {
        let arguments = arguments.unpack().ok();
        let rules: Vec<&AccessRule> = self
            .own
            .iter()
            .copied()
            .filter(|rule| is_about_minions(rule))
            .filter(|rule| allows_function(rule, fun, arguments.as_ref()))
            .collect();
        let Some(first) = rules.first() else {
            return Err(None);
        };
        match outside(&rules, reached) {
            Some(names) => Err(Some(names)),
            None => {
                let decided = reached.minions.first().and_then(|id| covering(&rules, id));
                Ok(self.allowed(&decided.unwrap_or(first).text))
            }
        }
    }

    fn allowed(&self, rule: &str) -> Allowed {
        Allowed {
            rule: Cow::Owned(format!("{}: {rule}", self.option)),
        }
    }
}

fn is_about_minions(rule: &AccessRule) -> bool {
    matches!(rule.scope, RuleScope::AllMinions | RuleScope::Minions(_))
}

/// Returns the first of the rules that is about a minion.
fn covering<'a>(rules: &[&'a AccessRule], id: &MinionId) -> Option<&'a AccessRule> {
    let covers = |rule: &&&AccessRule| match &rule.scope {
        RuleScope::AllMinions | RuleScope::Everything => true,
        RuleScope::Minions(glob) => glob.matches(id.as_str()),
        RuleScope::Runners | RuleScope::Keys | RuleScope::Events => false,
    };
    rules.iter().find(covers).copied()
}

/// Names the first of the minions that no rule is about, or says that there are some; none if there is none.
fn outside(rules: &[&AccessRule], reached: Reached<'_>) -> Option<String> {
    let minions = reached.minions.iter();
    let mut outside = minions.filter(|id| covering(rules, id).is_none());
    if !reached.may_be_named {
        let some = "minions that the target reaches outside of its rules";
        return outside.next().map(|_| some.to_owned());
    }
    let named: Vec<&str> = outside.by_ref().take(NAMED).map(MinionId::as_str).collect();
    let left = outside.count();
    match (named.is_empty(), left) {
        (true, _) => None,
        (false, 0) => Some(named.join(", ")),
        (false, _) => Some(format!("{} and {left} more", named.join(", "))),
    }
}

/// Whether a rule allows a function with some arguments.
fn names_function(rule: &AccessRule, fun: &str) -> bool {
    let mut functions = rule.functions.iter();
    functions.any(|function| function.name.matches(fun) == Ok(true))
}

/// Whether a rule allows a function with these arguments; none if they cannot be read. A pattern that takes too many
/// steps allows nothing.
fn allows_function(rule: &AccessRule, fun: &str, arguments: Option<&Arguments>) -> bool {
    let allows = |function: &FunctionRule| -> Result<bool, TooManySteps> {
        Ok(function.name.matches(fun)? && allows_arguments(function, arguments)?)
    };
    rule.functions
        .iter()
        .any(|function| allows(function) == Ok(true))
}

fn allows_arguments(
    rule: &FunctionRule,
    arguments: Option<&Arguments>,
) -> Result<bool, TooManySteps> {
    if rule.args.is_empty() && rule.kwargs.is_empty() {
        return Ok(true);
    }
    let Some(arguments) = arguments else {
        return Ok(false);
    };
    for (number, pattern) in rule.args.iter().enumerate() {
        match arguments.positional.get(number) {
            // The master does not read secrets, so no rule can be about the value of one.
            Some(value) if !is_secret(value) && pattern.matches(&shown(value))? => {}
            _ => return Ok(false),
        }
    }
    for (name, pattern) in &rule.kwargs {
        match arguments.named.iter().find(|(own, _)| own == name) {
            Some((_, value)) if !is_secret(value) && pattern.matches(&shown(value))? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
