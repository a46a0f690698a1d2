//! State machines without a disk: the jobs that are under way, the slots of batches, the states of minions, the
//! payloads that come in parts, and the numbers of receipts.

pub(super) mod batch_progress;
pub(super) mod batch_slots;
pub(super) mod minion_record;
pub(super) mod open_jobs;
pub(crate) mod receipts;
pub(super) mod states;
pub(super) mod transfers;
