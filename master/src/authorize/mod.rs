//! Decides who may do what. There is one question, `Authorizer::authorize`, and whatever is not allowed by a rule is
//! refused. It is asked after targets are resolved, so that a decision is about minions and not about expressions.
//!
//! | module | has |
//! |---|---|
//! | `principal` | who asks |
//! | `action` | what is asked for: one action for each verb of each audience |
//! | `about`, `answer` | what the question is about, and what it is answered |
//! | `authorizer` | the decision |
//! | `rules` | the rules of one principal, and what they decide |
//! | `api` | the decision about a host of the HTTP API |
//! | `job_functions` | the functions of minions that reach jobs, and whose job a call names |

mod about;
mod action;
mod answer;
mod api;
mod authorizer;
mod job_functions;
mod principal;
mod rules;
#[cfg(test)]
mod tests;

pub(crate) use about::{About, Reached};
pub use action::{Action, Verb};
pub(crate) use answer::{Admits, Allowed, Refusal};
pub(crate) use api::{fired_hook, fires_hook, names_hook};
pub(crate) use authorizer::Authorizer;
pub(crate) use job_functions::{AddressedJob, JobFunction};
pub use principal::{ExternalUser, LOCAL_OPERATOR, LocalUser, Principal};
pub(crate) use principal::{external_owner, is_own_run, origin_of_owner, scheduled_owner};
