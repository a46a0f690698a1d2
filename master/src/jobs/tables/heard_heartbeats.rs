//! How many heartbeats of a minion the master had heard of when it handed a job over. The records of minions are written
//! later than jobs are: after a crash this tells that the disk of a minion was put back to before the job was handed over.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use saline_messages::{MinionId, MinionJobState, decode, encode};

use crate::disk::{StoreError, columns};
use crate::jobs::memory::minion_record::MinionRecord;
use crate::jobs::memory::states::States;

/// The largest number of each minion.
pub(crate) type HeardHeartbeats = HashMap<MinionId, u64>;

/// Returns the value of a job's row: the numbers of all its minions in their order, zero for those to which the job is not
/// offered; nothing if all are zero.
pub(crate) fn published(
    states: &States,
    records: &HashMap<MinionId, MinionRecord>,
) -> Option<Vec<u8>> {
    let number = |(minion, state): &(MinionId, MinionJobState)| match state {
        MinionJobState::Offered => records
            .get(minion)
            .map_or(0, |record| record.heartbeats_noted),
        _ => 0,
    };
    let numbers: Vec<_> = states.iter().map(number).collect();
    let has_any = numbers.iter().any(|number| *number > 0);
    has_any.then(|| encode(&numbers))
}

/// Notes the numbers of the minions to which a job is offered still. `states` are as the disk has them, and `row` has the
/// value in this column.
pub(crate) fn read(
    connection: &Connection,
    job: i64,
    states: &States,
    row: &Row<'_>,
    column: usize,
    heard: &mut HeardHeartbeats,
) -> Result<(), StoreError> {
    let mut note = |minion: &MinionId, number: u64| {
        if number > 0 {
            let most = heard.entry(minion.clone()).or_default();
            *most = number.max(*most);
        }
    };
    if let ValueRef::Blob(bytes) = row.get_ref(column)? {
        let numbers: Vec<u64> = decode(bytes)
            .map_err(|_| StoreError::corrupt("numbers of heartbeats", "other bytes"))?;
        for ((minion, state), number) in states.iter().zip(numbers) {
            if *state == MinionJobState::Offered {
                note(minion, number);
            }
        }
    }
    let mut statement = connection.prepare_cached(
        "SELECT minion, heartbeats FROM state_changes WHERE jid = ?1 AND state = ?2",
    )?;
    let mut found = statement.query(params![job, MinionJobState::Offered as u8])?;
    while let Some(row) = found.next()? {
        note(&columns::minion(row, 0)?, columns::time(row, 1)?);
    }
    Ok(())
}
