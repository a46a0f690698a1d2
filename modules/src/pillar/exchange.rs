//! Brings a pillar from the master, in parts if it is large: which request comes next, and what the replies make. It sends nothing
//! itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use saline_messages::{
    Incoming, MAX_PILLAR, MinionPillar, PillarRefusal, PillarReply, PillarRequest, TransferId,
};

/// How often a pillar is started over that changes while it is sent.
const ATTEMPTS: usize = 20;

/// The environments that a pillar is compiled for. Without both it is the minion's own pillar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environments {
    /// `saltenv`, as templates see it.
    pub saltenv: Option<String>,
    /// The environment whose files alone make the pillar.
    pub pillarenv: Option<String>,
}

/// What the master sent.
#[derive(Debug)]
pub enum Exchanged {
    /// The pillar is the one that the minion named.
    Unchanged,
    /// Another pillar.
    Whole(ReceivedPillar),
}

/// A pillar as it was received.
#[derive(Debug)]
pub struct ReceivedPillar {
    /// The pillar.
    pub(super) sent: MinionPillar,
    /// The bytes that it was read from.
    pub(super) bytes: Bytes,
    /// Identifies it from now on.
    pub(super) known: TransferId,
    /// Says in which order pillars began to arrive. The master compiles one at a time for a minion, so it is the order in which it
    /// compiled them.
    pub(super) number: u64,
}

/// Bytes that have secrets in them.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} B", self.0.len())
    }
}

/// The reason why the master's replies make no pillar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The master does not compile it.
    #[error("{0}")]
    Refused(PillarRefusal),
    /// The master has none of these environments for the minion.
    #[error("the master has no environment {0} in pillar_roots, or this minion may not read it")]
    NoEnvironment(String),
    /// The pillar is too large.
    #[error("the pillar has {0} bytes, and a minion takes {MAX_PILLAR}")]
    TooLarge(u64),
    /// The pillar changes faster than it is sent.
    #[error("the pillar changes all the time: it was begun {ATTEMPTS} times")]
    Unsteady,
    /// The reply is none to the request, or is damaged.
    #[error("the master sent something that is not a pillar")]
    Unexpected,
}

/// The exchange that brings one pillar.
#[derive(Debug)]
pub struct PillarExchange {
    environments: Environments,
    known: Option<TransferId>,
    incoming: Option<(TransferId, Incoming)>,
    begun: usize,
    /// The number of the last pillar that began to arrive, of all exchanges.
    arrivals: Arc<AtomicU64>,
    /// The number of the pillar that arrives.
    number: u64,
}

impl PillarExchange {
    /// Begins an exchange. The pillar that the minion has is `known`.
    pub(super) fn new(
        environments: Environments,
        known: Option<TransferId>,
        arrivals: Arc<AtomicU64>,
    ) -> Self {
        Self {
            arrivals,
            number: 0,
            environments,
            known,
            incoming: None,
            begun: 1,
        }
    }

    /// Returns the request to send now, for a part of at most so many bytes.
    pub fn request(&self, bytes: u32) -> PillarRequest {
        match &self.incoming {
            Some((transfer, incoming)) => PillarRequest::Part {
                transfer: *transfer,
                offset: incoming.received(),
                bytes,
            },
            None => PillarRequest::Compile {
                saltenv: self.environments.saltenv.clone(),
                pillarenv: self.environments.pillarenv.clone(),
                known: self.known,
                bytes,
            },
        }
    }

    /// Takes the reply to the request. Returns what the master sent when that is all of it.
    ///
    /// # Errors
    /// See [`ExchangeError`]; the exchange is over.
    pub fn take(&mut self, reply: PillarReply) -> Result<Option<Exchanged>, ExchangeError> {
        let part = match (reply, &self.incoming) {
            (PillarReply::Part(part), _) => part,
            (PillarReply::Unchanged, None) if self.known.is_some() => {
                return Ok(Some(Exchanged::Unchanged));
            }
            // It was compiled again meanwhile.
            (PillarReply::Changed, Some(_)) if self.begun < ATTEMPTS => {
                self.begun += 1;
                self.incoming = None;
                return Ok(None);
            }
            (PillarReply::Changed, Some(_)) => return Err(ExchangeError::Unsteady),
            (PillarReply::Refused(why), _) => return Err(self.refused(why)),
            (PillarReply::Unchanged | PillarReply::Changed, _) => {
                return Err(ExchangeError::Unexpected);
            }
        };
        if part.total > MAX_PILLAR as u64 {
            return Err(ExchangeError::TooLarge(part.total));
        }
        let (known, incoming) = match &mut self.incoming {
            Some((known, incoming)) => (*known, incoming),
            empty => {
                let incoming = Incoming::of(&part).map_err(|_| ExchangeError::Unexpected)?;
                self.number = self.arrivals.fetch_add(1, Ordering::Relaxed) + 1;
                let begun = empty.insert((part.transfer, incoming));
                (begun.0, &mut begun.1)
            }
        };
        let is_next = incoming.take(&part);
        if incoming.is_whole() {
            let bytes = incoming.whole().ok_or(ExchangeError::Unexpected)?;
            let sent = MinionPillar::from_bytes(bytes);
            return Ok(Some(Exchanged::Whole(ReceivedPillar {
                sent: sent.map_err(|_| ExchangeError::Unexpected)?,
                bytes: Bytes(bytes.to_vec()),
                known,
                number: self.number,
            })));
        }
        match is_next {
            Ok(true) => Ok(None),
            Ok(false) | Err(_) => Err(ExchangeError::Unexpected),
        }
    }

    fn refused(&self, why: PillarRefusal) -> ExchangeError {
        let named = [&self.environments.pillarenv, &self.environments.saltenv];
        let named = named.into_iter().flatten();
        let mut named: Vec<String> = named.map(|name| format!("{name:?}")).collect();
        named.dedup();
        match why {
            PillarRefusal::NoEnvironment if !named.is_empty() => {
                ExchangeError::NoEnvironment(named.join(" or "))
            }
            why => ExchangeError::Refused(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use saline_data::{Packed, Value};
    use saline_messages::{Outgoing, Part};

    use super::*;

    fn pillar(text: &str) -> MinionPillar {
        MinionPillar {
            entries: Some(Packed::pack(&Value::map([("a", Value::from(text))]))),
            errors: Vec::new(),
        }
    }

    fn own(known: Option<TransferId>) -> PillarExchange {
        PillarExchange::new(Environments::default(), known, Arc::default())
    }

    #[test]
    fn a_small_pillar_comes_with_the_first_reply() {
        let outgoing = Outgoing::new(pillar("x").to_bytes());
        let mut exchange = own(None);
        let first = PillarReply::Part(outgoing.part(0, 1_000));
        match exchange.take(first).unwrap() {
            Some(Exchanged::Whole(received)) => {
                assert_eq!(received.sent, pillar("x"));
                assert_eq!(received.known, TransferId::of(outgoing.bytes()));
                let shown = format!("{received:?}");
                assert!(!shown.contains("\"x\""), "{shown}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pillar_that_changes_is_begun_anew_and_not_for_ever() {
        let outgoing = Outgoing::new(pillar("long text").to_bytes());
        let mut exchange = own(None);
        let first = || PillarReply::Part(outgoing.part(0, 3));
        for _ in 1..ATTEMPTS {
            assert!(exchange.take(first()).unwrap().is_none());
            assert!(matches!(
                exchange.request(9),
                PillarRequest::Part { offset: 3, .. }
            ));
            assert!(exchange.take(PillarReply::Changed).unwrap().is_none());
            assert!(matches!(exchange.request(9), PillarRequest::Compile { .. }));
        }
        exchange.take(first()).unwrap();
        let over = exchange.take(PillarReply::Changed).unwrap_err();
        assert_eq!(over, ExchangeError::Unsteady);
    }

    #[test]
    fn replies_that_do_not_fit_are_refused() {
        let outgoing = Outgoing::new(pillar("some text").to_bytes());
        let refused = |exchange: &mut PillarExchange, reply| exchange.take(reply).unwrap_err();
        let unexpected = [
            PillarReply::Unchanged,
            PillarReply::Changed,
            PillarReply::Part(outgoing.part(0, 0)),
            PillarReply::Part(outgoing.part(1, 3)),
            PillarReply::Part(Part {
                total: 1,
                ..outgoing.part(0, 9)
            }),
            PillarReply::Part(Outgoing::new(vec![0xff; 4]).part(0, 4)),
            PillarReply::Part(Outgoing::new(Vec::new()).part(0, 4)),
        ];
        for reply in unexpected {
            let shown = format!("{reply:?}");
            assert_eq!(
                refused(&mut own(None), reply),
                ExchangeError::Unexpected,
                "{shown}"
            );
        }
        let too_large = Part {
            total: MAX_PILLAR as u64 + 1,
            ..outgoing.part(0, 3)
        };
        let error = refused(&mut own(None), PillarReply::Part(too_large));
        assert_eq!(error, ExchangeError::TooLarge(MAX_PILLAR as u64 + 1));
        let error = refused(&mut own(None), PillarReply::Refused(PillarRefusal::Failed));
        assert_eq!(error, ExchangeError::Refused(PillarRefusal::Failed));
        // A part of another pillar.
        let mut exchange = own(None);
        exchange
            .take(PillarReply::Part(outgoing.part(0, 3)))
            .unwrap();
        let other = Outgoing::new(pillar("other text").to_bytes());
        let error = refused(&mut exchange, PillarReply::Part(other.part(3, 3)));
        assert_eq!(error, ExchangeError::Unexpected);
        // Bytes that were changed.
        let mut exchange = own(None);
        let mut changed = outgoing.part(0, 1_000);
        let mut bytes = changed.bytes.to_vec();
        bytes[5] ^= 1;
        changed.bytes = bytes.into();
        let error = refused(&mut exchange, PillarReply::Part(changed));
        assert_eq!(error, ExchangeError::Unexpected);
    }

    #[test]
    fn what_the_minion_has_is_not_sent_again() {
        let known = TransferId([1; 32]);
        let mut exchange = own(Some(known));
        match exchange.request(5) {
            PillarRequest::Compile { known: told, .. } => assert_eq!(told, Some(known)),
            other => panic!("{other:?}"),
        }
        let done = exchange.take(PillarReply::Unchanged).unwrap();
        assert!(matches!(done, Some(Exchanged::Unchanged)));
    }

    proptest! {
        #[test]
        fn parts_of_any_size_make_the_whole(text in "[a-z]{0,3000}", sizes in prop::collection::vec(1_usize..700, 1..20)) {
            let outgoing = Outgoing::new(pillar(&text).to_bytes());
            let mut exchange = own(None);
            let mut sizes = sizes.iter().cycle();
            let received = loop {
                let most = *sizes.next().unwrap();
                let offset = match exchange.request(1) {
                    PillarRequest::Compile { .. } => 0,
                    PillarRequest::Part { offset, .. } => offset,
                };
                if let Some(done) = exchange.take(PillarReply::Part(outgoing.part(offset, most))).unwrap() {
                    break done;
                }
            };
            match received {
                Exchanged::Whole(received) => prop_assert_eq!(received.sent, pillar(&text)),
                Exchanged::Unchanged => prop_assert!(false),
            }
        }
    }
}
