//! The rules of one principal, and what they decide.

use std::borrow::Cow;

use saline_config::{AccessRule, FunctionRule, RuleScope};
use saline_messages::{Arguments, MinionId, PackedArguments, is_secret};
use saline_targeting::TooManySteps;

use super::api::fires_hook;
use super::job_functions::shown;
use super::{
    About, Action, Allowed, ExternalUser, JobFunction, LocalUser, Principal, Reached, Refusal,
};
use crate::settings::AccessSettings;

/// How many minions a refusal names.
const NAMED: usize = 3;

/// The rule that lets everybody who is named reach what it ordered.
const OWN_JOBS: &str = "its own jobs";

/// The rule that lets every user who logs in fire the events of hooks: whoever has a login may post one.
const HOOKS: &str = "events of hooks";

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

/// The rules of one principal.
pub(super) struct Rules<'a> {
    /// The option that has them.
    pub(super) option: &'static str,
    pub(super) own: Vec<&'a AccessRule>,
}

/// Whether a rule allows everything.
pub(super) fn has_everything<'a>(mut rules: impl Iterator<Item = &'a AccessRule>) -> bool {
    rules.any(|rule| matches!(rule.scope, RuleScope::Everything))
}

impl<'a> Rules<'a> {
    pub(super) fn of_user(access: &'a AccessSettings, user: &'a LocalUser) -> Self {
        Self {
            option: "publisher_acl",
            own: access
                .publisher_acl
                .of(&user.name, &user.groups, access.permissive_acl)
                .collect(),
        }
    }

    pub(super) fn of_external(access: &'a AccessSettings, user: &'a ExternalUser) -> Self {
        Self {
            option: "external_auth",
            own: access.external_rules(user.way, &user.name, &user.groups),
        }
    }

    pub(super) fn judge(
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
        let is_external = matches!(principal, Principal::ExternalUser(_));
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
                About::Function { fun, arguments, .. }
                    if is_named && is_external && fires_hook(fun, arguments) =>
                {
                    Ok(self.allowed(HOOKS))
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
            Action::CallWheel
            | Action::ListKeys
            | Action::ChangeKeys
            | Action::ReadLastSeen
            | Action::RotateGroupKey
            | Action::RotateIdentity => {
                let mut rules = self.own.iter();
                match rules.any(|rule| matches!(rule.scope, RuleScope::Keys)) {
                    true => Ok(self.allowed("@wheel")),
                    false => match about {
                        About::Function { fun, .. } => refuse(&format!("call wheel.{fun}")),
                        _ => refuse(action.name()),
                    },
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
pub(super) fn covering<'a>(rules: &[&'a AccessRule], id: &MinionId) -> Option<&'a AccessRule> {
    let covers = |rule: &&&AccessRule| match &rule.scope {
        RuleScope::AllMinions | RuleScope::Everything => true,
        RuleScope::Minions(ids) => ids.matches(id.as_str()) == Ok(true),
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
