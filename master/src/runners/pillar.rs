//! `pillar`: the pillars of minions, as the master compiles them now.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use saline_data::{Value, masked};
use saline_functions::{Failure, function};
use saline_messages::MinionId;
use saline_pillar::Check;
use saline_targeting::Target;

use super::run::Run;
use super::{Functions, Returned};
use crate::keys::KeyStore;
use crate::pillar::{AskedEnvironments, LintedFile, NotCompiled};

pub(super) const FUNCTIONS: Functions = &[&LINT, &SHOW_PILLAR, &SHOW_TOP];

/// The key under which Salt has what went wrong.
const ERRORS: &str = "_errors";

/// How long `pillar.lint` compiles the pillars of minions.
const LINT_TIMEOUT: Duration = Duration::from_secs(30);

/// The most minions that are named for one error.
const MAX_NAMED: usize = 20;

impl From<NotCompiled> for Failure {
    fn from(error: NotCompiled) -> Self {
        Self::Execution(error.to_string())
    }
}

/// Compiles the pillar of a minion and returns it. The minion is not told, and keeps what it has. Values are masked; with
/// `unmask=True` they are shown to an operator with all rights, and neither stored nor on the event bus. What went
/// wrong stands under `_errors`; a pillar with errors is not given to its minion.
///
/// CLI Example:
///
///     saline-run pillar.show_pillar web1
///     saline-run pillar.show_pillar web1 pillarenv=dev unmask=True
#[function]
async fn show_pillar(
    run: &Run,
    minion: String,
    saltenv: Option<String>,
    pillarenv: Option<String>,
    #[default(false)] unmask: bool,
) -> Result<Returned, Failure> {
    let minion = checked(run, &minion).await?;
    if unmask {
        run.check_sees_all("pillar.show_pillar unmask=True")?;
    }
    let asked = AskedEnvironments { saltenv, pillarenv };
    let (shown, success) = compiled(run, &minion, &asked, unmask).await?;
    Ok(Returned {
        success,
        is_secret: unmask,
        ..Returned::from(shown)
    })
}

/// Compiles the pillar of a minion. Returns it, with what went wrong under `_errors`, and whether nothing did. Its values are masked unless
/// they are to be shown.
pub(super) async fn compiled(
    run: &Run,
    minion: &MinionId,
    asked: &AskedEnvironments,
    unmask: bool,
) -> Result<(Value, bool), Failure> {
    let pillar = run.parts.pillars.compile(minion, asked).await?;
    let success = pillar.errors.is_empty();
    let entries = Value::Map(pillar.entries);
    let mut shown = match unmask {
        true => entries,
        false => masked(entries),
    };
    if !success && let Value::Map(entries) = &mut shown {
        entries.retain(|(name, _)| name != ERRORS);
        entries.push((ERRORS.to_owned(), Value::texts(pillar.errors)));
    }
    Ok((shown, success))
}

/// Returns the files that the top files choose for a minion, for each environment.
///
/// CLI Example:
///
///     saline-run pillar.show_top web1
#[function]
async fn show_top(
    run: &Run,
    minion: String,
    saltenv: Option<String>,
    pillarenv: Option<String>,
) -> Result<Returned, Failure> {
    let minion = checked(run, &minion).await?;
    let asked = AskedEnvironments { saltenv, pillarenv };
    let (chosen, errors) = run.parts.pillars.top(&minion, &asked).await?;
    let success = errors.is_empty();
    let chosen = chosen.into_iter();
    let mut shown: Vec<(String, Value)> = chosen
        .map(|(environment, files)| (environment, Value::texts(files)))
        .collect();
    if !success {
        shown.push((ERRORS.to_owned(), Value::texts(errors)));
    }
    Ok(Returned {
        success,
        ..Returned::from(Value::Map(shown))
    })
}

/// Looks through the files of `pillar_roots` for what will not render, without rendering them: syntax errors, filters and
/// functions that are absent, other renderers such as `#!py`; and for PGP messages, which stay as they are. Then compiles the pillar of
/// each minion with an accepted key, for half a minute at most; no minion is told. Files that no top file reaches are rendered for a
/// minion that is made up. Where there is no accepted minion, or `grains` are given, so is each file that top files name, for whichever
/// minion it is. Returns the files with findings, each as `LINE:COLUMN: what`, and under `_errors` what is wrong with pillars, each with
/// the minions that it is wrong for. Fails if there is anything. `saltenv` names one environment; otherwise all are looked through.
///
/// grains
///     The grains of the made-up minion, a mapping, which may also have its `id`. It is believed all of them. Those of
///     `trusted_grains` that are not given are those of a Debian machine.
///
/// CLI Example:
///
///     saline-run pillar.lint
///     saline-run pillar.lint grains='{id: web1, os_family: RedHat}'
#[function]
async fn lint(
    run: &Run,
    saltenv: Option<String>,
    #[default(None)] grains: Value,
) -> Result<Returned, Failure> {
    run.check_sees_all("pillar.lint")?;
    let grains = match grains {
        Value::Null => None,
        Value::Map(grains) => Some(grains),
        _ => {
            let why = "pillar.lint: grains take a mapping of names to values";
            return Err(Failure::Invocation(why.to_owned()));
        }
    };
    let believed = grains.iter().flatten().map(|(name, _)| name.clone());
    let believed = believed.collect();
    let files = run.parts.pillars.lint(saltenv.clone(), believed).await?;
    let lines = files.iter().flat_map(|LintedFile { path, findings }| {
        let findings = findings.iter();
        findings.map(move |finding| format!("{path}:{finding}"))
    });
    let told: HashSet<String> = lines.collect();
    let shown = files.into_iter().map(|LintedFile { path, findings }| {
        let findings = findings.into_iter();
        (path, Value::texts(findings))
    });
    let mut shown: Vec<(String, Value)> = shown.collect();
    let accepted = run.parts.read_minion_keys(KeyStore::accepted_ids).await?;
    let (check, wrong_for) = match grains.is_some() || accepted.is_empty() {
        true => (Check::Renders, "a made-up minion"),
        false => (Check::IsThere, "no accepted minion"),
    };
    let mut errors = errors_of_minions(run, &accepted, saltenv.clone()).await?;
    let grains = grains.unwrap_or_default();
    for error in run.parts.pillars.check_all(check, saltenv, grains).await? {
        if told.contains(&error) {
            continue;
        }
        let found = errors.entry(error).or_default();
        if found.named.is_empty() {
            found.named.push(wrong_for.to_owned());
        }
    }
    if !errors.is_empty() {
        let errors = errors.into_iter();
        let errors = errors.map(|(error, minions)| (error, minions.into_value()));
        shown.push((ERRORS.to_owned(), Value::map(errors)));
    }
    Ok(Returned {
        success: shown.is_empty(),
        ..Returned::from(Value::Map(shown))
    })
}

/// The minions that something is wrong for.
#[derive(Default)]
struct WrongFor {
    named: Vec<String>,
    others: usize,
}

impl WrongFor {
    fn add(&mut self, minion: &MinionId) {
        match self.named.len() < MAX_NAMED {
            true => self.named.push(minion.to_string()),
            false => self.others += 1,
        }
    }

    fn into_value(mut self) -> Value {
        if self.others > 0 {
            self.named.push(format!("and {} more", self.others));
        }
        Value::texts(self.named)
    }
}

/// Compiles the pillars of all minions, and returns the errors with the minions that have them.
async fn errors_of_minions(
    run: &Run,
    accepted: &[MinionId],
    pillarenv: Option<String>,
) -> Result<BTreeMap<String, WrongFor>, Failure> {
    let asked = AskedEnvironments {
        saltenv: None,
        pillarenv,
    };
    let clock = run.parts.context.clock;
    let until = clock.after(LINT_TIMEOUT);
    let mut found: BTreeMap<String, WrongFor> = BTreeMap::new();
    for (number, minion) in accepted.iter().enumerate() {
        if clock.now() > until {
            run.note(format!(
                "the pillars of {number} of {} minions were compiled: {} s are over",
                accepted.len(),
                LINT_TIMEOUT.as_secs()
            ));
            break;
        }
        let errors = match run.parts.pillars.compile(minion, &asked).await {
            Ok(pillar) => pillar.errors,
            // It was deleted meanwhile.
            Err(NotCompiled::NoKey(_)) => continue,
            Err(error) => vec![error.to_string()],
        };
        for error in errors {
            found.entry(error).or_default().add(minion);
        }
    }
    Ok(found)
}

/// Returns the minion with this id, if the principal has a rule about it.
async fn checked(run: &Run, id: &str) -> Result<MinionId, Failure> {
    let minion = MinionId::parse(id).map_err(|error| Failure::Execution(error.to_string()))?;
    let target = Target::list([id]);
    let minions = std::slice::from_ref(&minion);
    run.check_minions(&target, minions).await?;
    Ok(minion)
}
