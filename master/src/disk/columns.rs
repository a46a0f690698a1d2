//! Reads and writes the columns of a row.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use saline_messages::{MasterTime, MinionId};

use super::StoreError;

pub(crate) fn minion(row: &Row<'_>, column: usize) -> Result<MinionId, StoreError> {
    let text = text(row, column)?;
    MinionId::parse(text).map_err(|_| StoreError::corrupt("a minion's id", text))
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<MasterTime, StoreError> {
    let time: i64 = row.get(column)?;
    // A time before 1970 is read as 1970: both are long past.
    Ok(MasterTime::try_from(time).unwrap_or(0))
}

/// Converts a time for a column; a time beyond the column's range becomes the largest one.
pub(crate) fn from_time(time: MasterTime) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

pub(crate) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, StoreError> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| StoreError::corrupt("text", String::from_utf8_lossy(bytes))),
        other => Err(StoreError::corrupt("text", other.data_type().to_string())),
    }
}

pub(crate) fn blob<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], StoreError> {
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) => Ok(bytes),
        other => Err(StoreError::corrupt("bytes", other.data_type().to_string())),
    }
}
