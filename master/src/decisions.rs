//! Decides about orders, and has a line of each decision in the audit file before the order is carried out.

use saline_messages::{MinionId, OrderWarning, RunnerCall};

pub(crate) use crate::audit::Details;
use crate::audit::{Audit, AuditError, Outcome, Pending, Record};
use crate::authorize::{
    About, Action, Allowed, Authorizer, Principal, Reached, Refusal, fired_hook,
};

/// Decides about orders.
#[derive(Debug, Clone)]
pub(crate) struct Decisions {
    pub(crate) authorizer: Authorizer,
    pub(crate) audit: Audit,
}

/// An order that is allowed, and whose line is in the audit file.
#[derive(Debug)]
#[must_use = "the line has to be synced before the order shows"]
pub(crate) struct AllowedOrder {
    /// The line, if it is not synced yet.
    line: Option<Pending>,
    /// The reason why the file has no line of it; none if it has. Only orders of local root go on without one.
    missing: Option<AuditError>,
}

impl AllowedOrder {
    /// An order whose line needs no waiting for.
    const NOTED: Self = Self {
        line: None,
        missing: None,
    };

    /// Returns what the operator is warned of.
    pub(crate) fn warnings(&self) -> Vec<OrderWarning> {
        self.missing.iter().map(not_audited).collect()
    }

    /// Waits until the line is on the disk. That it is not is logged: only orders of local root come here without it. Returns
    /// what the operator is warned of.
    pub(crate) async fn synced(self) -> Vec<OrderWarning> {
        let warnings = self.warnings();
        if let Some(pending) = self.line {
            // The thread of the audit file has logged why.
            let _ = pending.synced().await;
        }
        warnings
    }
}

impl Decisions {
    /// Decides about an order, and writes its line. An order of local root is carried out without one if it cannot be
    /// written.
    ///
    /// # Errors
    /// One line for the one who asked: it is not allowed, or its line cannot be written.
    pub(crate) async fn decide(
        &self,
        principal: &Principal,
        action: Action,
        about: About<'_>,
        details: Details<'_>,
    ) -> Result<AllowedOrder, String> {
        let decided = self.authorizer.authorize(principal, action, about);
        let function = details.function.unwrap_or_default();
        let outcome = match &decided {
            Ok(Allowed { rule }) => Outcome::Allowed { rule },
            Err(Refusal { rule, .. }) => Outcome::Refused { rule },
        };
        let pending = self.audit.append(Record {
            principal: principal.to_string(),
            action: action.name(),
            details,
            outcome,
            goes_on_without: principal.is_local_root() && decided.is_ok(),
        });
        let pending = pending.await;
        if let Err(refusal) = decided {
            log_refusal(&refusal, pending.as_ref());
            return Err(refusal.line);
        }
        let Some(mut pending) = pending else {
            return Ok(AllowedOrder::NOTED);
        };
        if principal.is_local_root() {
            // The thread of the audit file logs why.
            let missing = pending.written().await.err();
            if missing.is_some() {
                tracing::error!("{principal}: {action} {function} has no line in the audit file");
            }
            return Ok(AllowedOrder {
                line: Some(pending),
                missing,
            });
        }
        match pending.synced().await {
            Ok(()) => Ok(AllowedOrder::NOTED),
            Err(error) => Err(format!(
                "{error}: the order is refused, have root mend that"
            )),
        }
    }

    /// Decides about a run that is to begin, and has it in the audit file. Returns what the operator is warned of.
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    pub(crate) async fn decide_run(
        &self,
        principal: &Principal,
        call: &RunnerCall,
    ) -> Result<Vec<OrderWarning>, String> {
        let about = About::Function {
            fun: &call.fun,
            arguments: &call.arg,
            minions: Reached::NONE,
            job: None,
        };
        let details = Details {
            function: Some(&call.fun),
            arguments: Some(&call.arg),
            subject: fired_hook(&call.fun, &call.arg),
            request: Some(call.request_id),
            ..Details::default()
        };
        let decided = self.decide(principal, Action::of_run(call.kind), about, details);
        Ok(decided.await?.synced().await)
    }

    /// Notes that the master itself accepted or rejected a key, by the option `rule`.
    pub(crate) async fn note_own_act(&self, rule: &str, details: Details<'_>) {
        let pending = self.audit.append(Record {
            principal: "the master".to_owned(),
            action: Action::ChangeKeys.name(),
            details,
            outcome: Outcome::Allowed { rule },
            goes_on_without: true,
        });
        if let Some(pending) = pending.await {
            // The thread of the audit file logs why it failed.
            let _ = pending.synced().await;
        }
    }

    /// Notes that the master itself denied the key of a minion, or removed one that waited, by this rule. Strangers
    /// cause such acts, so the lines have the budget of refusals, and nobody waits until they are written.
    pub(crate) async fn note_key_refused(&self, minion: &MinionId, subject: String, rule: &str) {
        let noted = self.audit.append(Record {
            principal: "the master".to_owned(),
            action: Action::ChangeKeys.name(),
            details: Details {
                minions: Some(std::slice::from_ref(minion)),
                subject: Some(subject),
                ..Details::default()
            },
            outcome: Outcome::Refused { rule },
            goes_on_without: true,
        });
        drop(noted.await);
    }

    /// Notes that the principal brought a login, `subject`, which was right or not.
    ///
    /// # Errors
    /// One line for the one who asked: the line cannot be written.
    pub(crate) async fn note_login(
        &self,
        principal: &Principal,
        subject: String,
        is_right: bool,
    ) -> Result<(), String> {
        let outcome = match is_right {
            true => Outcome::Allowed {
                rule: "external_auth",
            },
            false => Outcome::Refused {
                rule: "wrong name, password or way, or no rule of external_auth",
            },
        };
        let pending = self.audit.append(Record {
            principal: principal.to_string(),
            action: "log in",
            details: Details {
                subject: Some(subject),
                ..Details::default()
            },
            outcome,
            goes_on_without: false,
        });
        match pending.await {
            Some(pending) if is_right => pending
                .synced()
                .await
                .map_err(|error| format!("{error}: the login is refused, have root mend that")),
            _ => Ok(()),
        }
    }

    /// Notes that the principal ended something, as `rule` allows it: a run of its own, or the login of a user. That has ended also when it
    /// cannot be noted. Returns what the principal is warned of.
    pub(crate) async fn note_end(
        &self,
        principal: &Principal,
        action: &str,
        rule: &str,
        details: Details<'_>,
    ) -> Vec<OrderWarning> {
        let pending = self.audit.append(Record {
            principal: principal.to_string(),
            action,
            details,
            outcome: Outcome::Allowed { rule },
            goes_on_without: true,
        });
        let Some(pending) = pending.await else {
            return Vec::new();
        };
        // The thread of the audit file logs why it failed.
        pending
            .synced()
            .await
            .err()
            .iter()
            .map(not_audited)
            .collect()
    }

    /// Notes that a user of this machine got no session.
    pub(crate) async fn note_user_refused(&self, principal: &Principal, refusal: &Refusal) {
        let noted = self.audit.append(Record {
            principal: principal.to_string(),
            action: "begin a session",
            details: Details::default(),
            outcome: Outcome::Refused {
                rule: &refusal.rule,
            },
            goes_on_without: false,
        });
        log_refusal(refusal, noted.await.as_ref());
    }
}

/// Returns the warning that an order has no line in the audit file.
fn not_audited(AuditError(why): &AuditError) -> OrderWarning {
    OrderWarning::NotAudited(why.clone())
}

/// Logs a refusal as a warning, unless it has no line in the audit file: then it is only counted there.
fn log_refusal(refusal: &Refusal, line: Option<&Pending>) {
    match line {
        Some(_) => tracing::warn!("{refusal}"),
        None => tracing::debug!("{refusal}"),
    }
}
