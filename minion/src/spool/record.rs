//! The records of the spool, each behind the file's marker, its length and a checksum.

use std::io::{self, Read};

use bytes::Bytes;
use saline_data::Packed;
use saline_messages::{Jid, MasterTime, Return, StartId, decode, encode_behind};
use saline_modules::job::ScheduledCall;
use serde::{Deserialize, Serialize};

use crate::spool_location::SpoolLocation;

/// Random bytes in front of every record of one file, so that records are found again behind damaged
/// ones. What a job prints cannot look like a record, since it does not know them.
pub type Marker = [u8; 8];

/// The marker, and length and checksum, four bytes each, little-endian.
pub const FRAME_HEADER: usize = 16;

/// The size in bytes from which a payload is not copied to be written.
const LARGE: usize = 64 * 1024;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A job was begun.
    Started {
        /// The job.
        jid: Jid,
        /// The function.
        fun: String,
        /// The time until which the job may come again.
        expires: MasterTime,
    },
    /// A job returned.
    Return(Return),
    /// The master has stored the return.
    Done {
        /// The job.
        jid: Jid,
    },
    /// A job was begun before; what a compaction leaves of it.
    Seen {
        /// The job.
        jid: Jid,
        /// The time until which the job may come again.
        expires: MasterTime,
    },
    /// Every job up to this one counts as seen.
    Floor {
        /// The last of these jobs.
        jid: Jid,
    },
    /// The minion started.
    Start {
        /// The id of this start of the minion.
        start: StartId,
        /// The starts before it from the last one that was reconciled with a master on.
        predecessors: Vec<StartId>,
        /// The boot and the folder in which it runs.
        place: SpoolLocation,
        /// The number of heartbeats that were noted before.
        heartbeats_noted: u64,
        /// Whether the machine lost power, or the spool was damaged, after that start.
        power_lost: bool,
        /// Whether every beginning of a job is synced to the disk from here on.
        is_synced: bool,
    },
    /// The last start was reconciled with a master.
    Reconciled,
    /// The minion stopped in order: everything before is on the disk.
    Stopped,
    /// A master refused the return of a job for good; it is kept for the operator.
    Aside {
        /// The job.
        jid: Jid,
    },
    /// Jobs that expired until then are forgotten once they were done.
    Forgotten {
        /// The expiry.
        until: MasterTime,
        /// The latest time of a master at which jobs were forgotten.
        at: MasterTime,
    },
    /// The minion will not begin this job.
    Barred {
        /// The job.
        jid: Jid,
        /// The time until which the job may come again.
        expires: MasterTime,
    },
    /// A heartbeat is about to be sent.
    Heartbeat,
    /// A job of the minion's own schedule was begun. The master knows nothing of it before it has the return.
    Scheduled {
        /// The job.
        jid: Jid,
        /// What the master is to have of it.
        call: ScheduledCall,
    },
}

/// Encodes a record with its header, as two pieces: the second is the payload of a large return, which is not copied, and empty
/// otherwise.
pub fn frame(marker: Marker, record: &Record) -> io::Result<(Vec<u8>, Bytes)> {
    let encode = |record: &Record| {
        postcard::to_extend(record, vec![0; FRAME_HEADER])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    };
    let (mut head, payload) = match record {
        Record::Return(returned) if returned.payload.as_bytes().len() >= LARGE => {
            let payload = returned.payload.clone().into_bytes();
            let without = Return {
                payload: Packed::from_bytes(Bytes::new()),
                ..returned.clone()
            };
            let mut head = encode(&Record::Return(without))?;
            // The payload comes last, and here as a length of zero: it gets its own.
            head.pop();
            (encode_behind(head, &payload.len()), payload)
        }
        _ => (encode(record)?, Bytes::new()),
    };
    let body = &head[FRAME_HEADER..];
    let length = u32::try_from(body.len() + payload.len())
        .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "a record above 4 GiB"))?;
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(body);
    checksum.update(&payload);
    head[..8].copy_from_slice(&marker);
    head[8..12].copy_from_slice(&length.to_le_bytes());
    head[12..FRAME_HEADER].copy_from_slice(&checksum.finalize().to_le_bytes());
    Ok((head, payload))
}

/// Decodes the record of a frame.
pub fn unframe(marker: Marker, bytes: &[u8]) -> Option<Record> {
    let (header, body) = bytes.split_first_chunk::<FRAME_HEADER>()?;
    let (found, length, checksum) = split_header(header);
    (found == marker && body.len() as u64 == u64::from(length) && crc32fast::hash(body) == checksum)
        .then(|| decode(body).ok())?
}

fn split_header(header: &[u8; FRAME_HEADER]) -> (Marker, u32, u32) {
    let [m0, m1, m2, m3, m4, m5, m6, m7, a, b, c, d, e, f, g, h] = *header;
    (
        [m0, m1, m2, m3, m4, m5, m6, m7],
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    )
}

/// Reads the record of a file at whose beginning the reader stands, and of which `left` bytes remain.
/// Returns the record and its length; none at the end, and where the bytes are no record.
///
/// # Errors
/// When reading fails.
pub fn next(marker: Marker, file: &mut impl Read, left: u64) -> io::Result<Option<(Record, u64)>> {
    if left < FRAME_HEADER as u64 {
        return Ok(None);
    }
    let mut header = [0; FRAME_HEADER];
    file.read_exact(&mut header)?;
    let (found, length, checksum) = split_header(&header);
    // Checked before anything is reserved for it.
    if found != marker || u64::from(length) > left - FRAME_HEADER as u64 {
        return Ok(None);
    }
    let mut body = vec![0; length as usize];
    file.read_exact(&mut body)?;
    if crc32fast::hash(&body) != checksum {
        return Ok(None);
    }
    let record = decode(&body).ok();
    Ok(record.map(|record| (record, FRAME_HEADER as u64 + u64::from(length))))
}

/// Whether the rest of a file, of which `left` bytes remain, is the beginning of a record, as a crash leaves
/// it.
///
/// # Errors
/// When reading fails.
pub fn is_torn(marker: Marker, file: &mut impl Read, left: u64) -> io::Result<bool> {
    let mut header = Vec::new();
    file.take(FRAME_HEADER as u64).read_to_end(&mut header)?;
    let begins = header
        .iter()
        .zip(marker)
        .all(|(found, byte)| *found == byte);
    let whole: Option<&[u8; FRAME_HEADER]> = header.first_chunk();
    let is_cut = whole.is_none_or(|header| {
        let (_, length, _) = split_header(header);
        u64::from(length) > left - FRAME_HEADER as u64
    });
    Ok(begins && is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKER: Marker = *b"a marker";

    proptest! {
        #[test]
        fn any_bytes_are_read_or_end_the_reading(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes: Vec<u8> = MARKER.into_iter().chain(bytes).collect();
            let mut file = bytes.as_slice();
            let mut left = bytes.len() as u64;
            while let Some((_, taken)) = next(MARKER, &mut file, left).unwrap() {
                left -= taken;
            }
            let _ = unframe(MARKER, &bytes);
        }

        #[test]
        fn a_changed_byte_is_noticed(index in 0usize..40, flip in 1u8..) {
            let jid = Jid::parse("20261121091409931549").unwrap();
            let record = Record::Seen { jid, expires: 7 };
            let mut bytes = frame(MARKER, &record).unwrap().0;
            prop_assert_eq!(unframe(MARKER, &bytes), Some(record));
            let index = index % bytes.len();
            bytes[index] ^= flip;
            prop_assert_eq!(unframe(MARKER, &bytes), None);
        }
    }

    #[test]
    fn a_large_return_is_written_as_any_other_record() {
        for size in [LARGE - 1, LARGE, LARGE + 1, 3 * LARGE] {
            let record = Record::Return(Return {
                jid: Jid::parse("20261121091409931549").unwrap(),
                fun: "cmd.run".to_owned(),
                retcode: 3,
                success: false,
                payload: Packed::from_bytes(vec![7; size]),
            });
            let (head, payload) = frame(MARKER, &record).unwrap();
            assert_eq!(payload.len(), if size < LARGE { 0 } else { size });
            let bytes = [&head, &payload[..]].concat();
            assert_eq!(bytes[FRAME_HEADER..], saline_messages::encode(&record));
            assert_eq!(unframe(MARKER, &bytes), Some(record));
        }
    }
}
