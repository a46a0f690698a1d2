//! The minion's spool, as it may stand on a disk that broke or that somebody wrote to.

use std::io::ErrorKind;

use saline_data::{Packed, Value};
use saline_messages::{Arguments, Jid, Job, MustClaim, Return};
use saline_minion::spool::Spool;
use saline_targeting::Target;

use crate::scratch_folder::ScratchFolder;

const MAGIC: &[u8] = b"saline-1";
const MARKER: &[u8; 8] = b"a marker";

/// The first byte says whether the others are a file, or records: each a length in one byte and a body,
/// which this function frames, so that the fuzzer need not guess a checksum.
pub(crate) fn spool(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else {
        return;
    };
    let file = match mode % 2 {
        0 => rest.to_vec(),
        _ => framed(rest),
    };
    let folder = ScratchFolder::new();
    let path = folder.write("spool.log", &file);
    let spool = match Spool::open(path.clone(), false) {
        // A spool of another version is left as it is.
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            assert_eq!(std::fs::read(path).expect("it is there"), file);
            return;
        }
        // Only a disk that fails, or a system without randomness, is another error.
        opened => opened.expect("any other bytes are read"),
    };
    let opened = || Spool::open(path.clone(), false).expect("it was opened before");
    let notes = spool.heartbeats_noted();
    let unsent = unsent(&spool);
    drop(spool);

    // What was read stands in the file, and is read again.
    let spool = opened();
    assert_eq!(spool.heartbeats_noted(), notes);
    assert_eq!(self::unsent(&spool), unsent);
    let job = job();
    if spool.begin(&job).is_ok() {
        spool.finish(returned(&job));
        assert!(spool.begin(&job).is_err(), "once");
        drop(spool);
        let spool = opened();
        assert!(spool.is_seen(&job.jid));
        let read = spool.read(&job.jid).expect("the file is there");
        assert_eq!(read, Some(returned(&job)));
    }
}

/// Returns the returns that wait to be sent, and gives them back.
fn unsent(spool: &Spool) -> Vec<(Jid, Option<Return>)> {
    let taken: Vec<Jid> = std::iter::from_fn(|| spool.take_unsent()).collect();
    taken
        .into_iter()
        .map(|jid| {
            let returned = spool.read(&jid).expect("what was read once");
            spool.put_back(&jid);
            (jid, returned)
        })
        .collect()
}

fn job() -> Job {
    Job {
        jid: Jid::parse("99991121091409931549").expect("twenty digits"),
        target: Target::glob("*"),
        fun: "test.ping".into(),
        arg: Arguments::default().pack(),
        user: "root".into(),
        created: 1,
        expires: u64::MAX,
        claims: MustClaim::NOBODY,
    }
}

fn returned(job: &Job) -> Return {
    Return {
        jid: job.jid.clone(),
        fun: job.fun.clone(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::Bool(true)),
    }
}

/// Returns a file of the records whose bodies are in `bytes`.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut file = [MAGIC, MARKER].concat();
    while let Some((length, rest)) = bytes.split_first() {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        file.extend_from_slice(MARKER);
        file.extend_from_slice(&(body.len() as u32).to_le_bytes());
        file.extend_from_slice(&crc32(body).to_le_bytes());
        file.extend_from_slice(body);
        bytes = rest;
    }
    file
}

/// Returns the CRC-32 that Ethernet and zip use, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let byte = |crc, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(u32::MAX, byte)
}

/// Returns the file of a minion that began three jobs, of which one returned and one is done.
fn lived_in() -> Vec<u8> {
    let folder = ScratchFolder::new();
    let path = folder.path().join("spool.log");
    if let Ok(spool) = Spool::open(path.clone(), false) {
        for number in 1..=3 {
            let jid = format!("2026112109140993154{number}");
            let mut job = job();
            job.jid = Jid::parse(&jid).expect("twenty digits");
            job.expires = 1000;
            let _ = spool.begin(&job);
            if number < 3 {
                spool.finish(returned(&job));
            }
            match number {
                1 => spool.done(&[job.jid], Some(500), 1),
                2 => spool.set_aside(&job.jid),
                _ => {}
            }
        }
        spool.reconciled();
        spool.stopped();
    }
    std::fs::read(path).unwrap_or_default()
}

/// Returns the bodies of the records of a file, each behind its length.
fn bodies(file: &[u8]) -> Vec<u8> {
    let (_, mut rest) = file.split_at(file.len().min(16));
    let mut bodies = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<16>() {
        let [.., a, b, c, d, _, _, _, _] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let (body, after) = after.split_at(after.len().min(length));
        if let Ok(length) = u8::try_from(body.len()) {
            bodies.push(length);
            bodies.extend_from_slice(body);
        }
        rest = after;
    }
    bodies
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let file = lived_in();
    let seed = |mode: u8, bytes: &[u8]| [&[mode], bytes].concat();
    vec![
        seed(0, &file),
        seed(0, &file[..file.len() * 2 / 3]),
        seed(0, b"saline/1 something else"),
        seed(0, b""),
        seed(1, &bodies(&file)),
        seed(1, &[1, 6, 1, 7]),
    ]
}
