//! Who may come in: Salt's `_auth`, after the keys have been proven.

use std::sync::Arc;

use saline_protocol::channel::PublicIdentity;
use saline_protocol::channel::noise::Proven;
use saline_protocol::message::{KeyState, MinionId, Role, tag};

use crate::gate::named;
use crate::keys::{KeyAnswer, LOCAL_OPERATOR, Policy, Verdict};
use crate::rooms::Rooms;
use crate::sessions::{Principal, Session};

/// What is decided about somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Come in.
    Accepted(Role),
    /// Wait.
    Pending,
    /// Rejected.
    Rejected,
    /// Denied.
    Denied,
    /// No room.
    Full,
}

/// A decision and whom it is about.
#[derive(Debug)]
pub struct Decided {
    /// Whom.
    pub principal: Principal,
    /// What.
    pub answer: Answer,
}

/// Recognises one who is let in already, and changes nothing. `None` for everybody else.
pub async fn recognise(rooms: &Rooms, proven: &Proven, local: bool) -> Option<Decided> {
    if proven.role != Role::Minion {
        return Some(decide(rooms, proven, local).await);
    }
    let id = MinionId::parse(&proven.id).ok()?;
    if !is_accepted(rooms, &id, proven.identity).await {
        return None;
    }
    let answer = if is_full(rooms, &id) {
        Answer::Full
    } else {
        Answer::Accepted(Role::Minion)
    };
    Some(Decided {
        principal: Principal::Minion(id),
        answer,
    })
}

/// Whether that key of that minion is accepted now.
pub async fn is_accepted(rooms: &Rooms, id: &MinionId, identity: PublicIdentity) -> bool {
    let asked = id.clone();
    let known = rooms.with_keys(move |keys| keys.lookup(&asked)).await;
    known.flatten() == Some((KeyState::Accepted, identity.0))
}

fn is_full(rooms: &Rooms, id: &MinionId) -> bool {
    let most = rooms.config.max_minions;
    most > 0 && rooms.sessions.alive(id).is_none() && rooms.sessions.minions() >= most
}

/// Decides about one whose keys have been proven in a handshake over a `local` endpoint or the network.
pub async fn decide(rooms: &Rooms, proven: &Proven, local: bool) -> Decided {
    match proven.role {
        Role::Minion => match MinionId::parse(&proven.id) {
            Ok(id) => {
                let answer = minion(rooms, &id, proven.identity.0, true).await;
                Decided {
                    principal: Principal::Minion(id),
                    answer,
                }
            }
            Err(error) => {
                // Anybody can say this, as often as they like: not at the usual level.
                tracing::debug!("refused {}: {error}", named(&proven.identity));
                Decided {
                    principal: Principal::Operator(String::new()),
                    answer: Answer::Rejected,
                }
            }
        },
        Role::Operator => {
            let (operators, name) = (Arc::clone(&rooms.operators), proven.id.clone());
            let known = rooms
                .context
                .spawn_blocking(move || operators.lookup(&name));
            let known = known.await.ok().flatten();
            let answer =
                if known == Some(proven.identity.0) && (local || proven.id != LOCAL_OPERATOR) {
                    Answer::Accepted(Role::Operator)
                } else {
                    match MinionId::parse(&proven.id) {
                        Ok(name) if rooms.auth_rate.allows(&name) => {
                            let key = named(&proven.identity);
                            tracing::warn!("refused operator {name} with key {key}");
                        }
                        // Not a name, or said a moment ago.
                        _ => tracing::debug!("refused an operator: {}", named(&proven.identity)),
                    }
                    Answer::Rejected
                };
            Decided {
                principal: Principal::Operator(proven.id.clone()),
                answer,
            }
        }
        // Callers come with `saline-call`.
        Role::Caller => Decided {
            principal: Principal::Operator(String::new()),
            answer: Answer::Rejected,
        },
    }
}

/// Decides again about one who waits and polls.
pub async fn decide_again(rooms: &Rooms, session: &Arc<Session>) -> Answer {
    match &session.principal {
        Principal::Minion(id) => minion(rooms, id, session.identity.0, false).await,
        Principal::Operator(_) => Answer::Rejected,
    }
}

async fn minion(rooms: &Rooms, id: &MinionId, identity: [u8; 32], first: bool) -> Answer {
    if is_full(rooms, id) {
        if rooms.auth_rate.allows(id) {
            let most = rooms.config.max_minions;
            tracing::warn!("minion {id}: refused, there are max_minions ({most}) already");
            rooms
                .fire_key_event(tag::AUTH, id.as_str(), "full", false, Some(&identity))
                .await;
        }
        return Answer::Full;
    }
    let policy = Policy {
        auto_accept: rooms.config.auto_accept,
        open_mode: rooms.config.open_mode,
        max_pending: rooms.config.max_pending_keys,
    };
    let asked = id.clone();
    let verdict = rooms
        .with_keys(move |keys| keys.authenticate(&asked, identity, policy))
        .await;
    let Some(verdict) = verdict else {
        return Answer::Full;
    };
    tell_of(rooms, id, identity, &verdict, first).await;
    match verdict.answer {
        KeyAnswer::Accepted => Answer::Accepted(Role::Minion),
        KeyAnswer::Pending => Answer::Pending,
        KeyAnswer::Rejected => Answer::Rejected,
        KeyAnswer::Denied => Answer::Denied,
        KeyAnswer::Full => Answer::Full,
    }
}

/// A poll that changes nothing is told to nobody, and a contact that changes nothing once in a while.
async fn tell_of(rooms: &Rooms, id: &MinionId, identity: [u8; 32], verdict: &Verdict, first: bool) {
    let news = verdict.changed || (first && rooms.auth_rate.allows(id));
    if !news {
        return;
    }
    tracing::info!("minion {id}: {} (key {})", verdict.act, {
        named(&PublicIdentity(identity))
    });
    rooms
        .fire_key_event(
            tag::AUTH,
            id.as_str(),
            verdict.act,
            verdict.result,
            Some(&identity),
        )
        .await;
}
