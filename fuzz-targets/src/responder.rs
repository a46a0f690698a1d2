//! The master's side of handshakes.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use saline_channel::noise::{MAX_HANDSHAKE, VerifiedPeer};
use saline_messages::{encode, is_presentable};

use crate::golden::golden;
use crate::hostile_noise::{self, MINION, vouched_for};
use crate::peers::{MINION_NOISE, PEERS};

/// The bytes that the MAC and the role take before a message of a resumption.
const BEFORE_RESUME: usize = 32 + 1;

/// The first byte says which message the others are, or which authentic message has them as its payload.
pub(crate) fn responder(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else {
        return;
    };
    match mode % 7 {
        0 => raw_first(rest),
        1 => raw_finish(rest),
        2 => authentic_finish(rest),
        3 => vouched_finish(rest),
        4 => raw_resume(rest),
        5 => resume_with_mac(rest),
        _ => vouched_resume(rest),
    }
}

fn raw_first(body: &[u8]) {
    if let Ok((half, reply)) = PEERS.responder.first(body) {
        assert!(body.len() <= MAX_HANDSHAKE + 1);
        assert!(reply.len() <= MAX_HANDSHAKE);
        // What began may come again as the end.
        assert!(half.finish(body).is_err());
    }
}

fn raw_finish(body: &[u8]) {
    let mut state = hostile_noise::first(&MINION_NOISE);
    let message = hostile_noise::write(&mut state, &[]).unwrap_or_default();
    let first = [&[MINION], &message[..]].concat();
    let (half, _) = PEERS.responder.first(&first).expect("a first message");
    assert!(half.finish(body).is_err(), "it is not encrypted");
}

/// Finishes a first contact with this payload, in which the peer can put what it likes.
fn finish_with(payload: &[u8]) -> Option<VerifiedPeer> {
    let mut state = hostile_noise::first(&MINION_NOISE);
    let message = hostile_noise::write(&mut state, &[])?;
    let first = [&[MINION], &message[..]].concat();
    let (half, reply) = PEERS.responder.first(&first).expect("a first message");
    hostile_noise::read(&mut state, &reply);
    let body = hostile_noise::write(&mut state, payload)?;
    let finished = half.finish(&body).ok()?;
    assert!(body.len() <= MAX_HANDSHAKE);
    Some(finished.0)
}

fn authentic_finish(payload: &[u8]) {
    // Nobody has signed it.
    assert!(finish_with(payload).is_none());
}

fn vouched_finish(payload: &[u8]) {
    let peer = &PEERS.minion;
    let Some(introduction) = vouched_for(payload, MINION, &peer.identity, &peer.noise) else {
        return;
    };
    let payload = encode(&introduction);
    let proven = finish_with(&payload);
    // The keys and the tags take some of the longest message.
    let is_short = payload.len() + 256 <= MAX_HANDSHAKE;
    if is_short {
        assert_eq!(proven.is_some(), is_presentable(&introduction.software));
    }
    if let Some(proven) = proven {
        assert_eq!(proven.id, introduction.id);
        assert_eq!(proven.identity, peer.identity.public());
        assert!(is_presentable(&proven.software));
    }
}

fn raw_resume(body: &[u8]) {
    assert!(PEERS.responder.resume(body).is_err(), "it has no MAC");
}

/// Returns the body of a resumption with the MAC that whoever knows the master can make.
fn with_mac(rest: &[u8]) -> Vec<u8> {
    let secret = [&b"saline/1 resume"[..], &PEERS.master_noise.public()].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, digest(&SHA256, &secret).as_ref());
    [hmac::sign(&key, rest).as_ref(), rest].concat()
}

fn resume_with_mac(rest: &[u8]) {
    let body = with_mac(rest);
    assert!(
        PEERS.responder.resume(&body).is_err(),
        "it is not encrypted"
    );
}

fn vouched_resume(payload: &[u8]) {
    let peer = &PEERS.minion;
    let introduction = vouched_for(payload, MINION, &peer.identity, &peer.noise);
    let payload = match &introduction {
        Some(introduction) => encode(introduction),
        None => payload.to_vec(),
    };
    let mut state = hostile_noise::resume(&MINION_NOISE, &PEERS.master_noise.public());
    let Some(message) = hostile_noise::write(&mut state, &payload) else {
        return;
    };
    let body = with_mac(&[&[MINION], &message[..]].concat());
    let Ok(resuming) = PEERS.responder.resume(&body) else {
        let fits = body.len() <= MAX_HANDSHAKE + BEFORE_RESUME;
        let is_ours = |software: &str| is_presentable(software) && fits;
        assert!(introduction.is_none_or(|introduction| !is_ours(&introduction.software)));
        return;
    };
    let introduction = introduction.expect("nobody has signed another payload");
    assert_eq!(resuming.proven.id, introduction.id);
    assert!(is_presentable(&resuming.proven.software));
    let (reply, _) = resuming.reply(b"welcome").expect("a short payload");
    hostile_noise::read(&mut state, &reply);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for introduction in golden(&["Introduction"]) {
        for mode in [2, 3, 6] {
            seeds.push([&[mode], &introduction[..]].concat());
        }
    }
    let first = [&[0, MINION], &[9; 32][..]].concat();
    seeds.push(first);
    seeds.push([&[1], &[9; 64][..]].concat());
    seeds.push([&[4], &[9; 100][..]].concat());
    seeds.push([&[5, MINION], &[9; 96][..]].concat());
    seeds
}
