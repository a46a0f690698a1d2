//! The messages inside envelopes: every request and every reply.

use std::fmt::Debug;

use saline_channel::publication::Body;
use saline_data::{Packed, Value};
use saline_messages::{
    Admission, CallerReply, CallerRequest, Event, FunctionsReport, Introduction, MineRequest,
    MinionEvents, MinionFunctions, MinionReply, MinionRequest, OperatorReply, OperatorRequest,
    PackedArguments, PendingRequest, Return, RunnerEnd, RunnerReply, RunnerRequest, Secrets,
    SignedJob, decode, encode,
};
use saline_targeting::Target;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::golden::golden;

/// Decodes a message. One that decodes must be encoded and decoded to the same.
pub(crate) fn decoded<T>(bytes: &[u8]) -> Option<T>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let message: T = decode(bytes).ok()?;
    let again = encode(&message);
    assert_eq!(decode::<T>(&again).as_ref(), Ok(&message));
    let trailing = [again.as_slice(), &[0]].concat();
    assert!(decode::<T>(&trailing).is_err(), "a byte behind it");
    Some(message)
}

/// Reads what a minion or an operator reads of arguments.
fn read_arguments(arguments: &PackedArguments) {
    let _ = arguments.unpack();
    let _ = arguments.as_packed().unpack_or_show();
}

fn read_job(signed: &SignedJob) {
    read_arguments(&signed.job.arg);
    if let Ok(mut arguments) = signed.job.arg.unpack() {
        let _ = Secrets::put_in(signed.secrets.as_ref(), &mut arguments);
    }
    read_target(&signed.job.target);
}

/// Reads a target expression. What it takes to compile one is for the target `target_expressions`, since that may hold
/// more memory than a message.
fn read_target(target: &Target) {
    let _ = target.parse();
}

fn read_return(returned: &Return) {
    let _ = returned.payload.unpack_or_show();
}

pub(crate) fn handshake(bytes: &[u8]) {
    decoded::<Introduction>(bytes);
    decoded::<Admission>(bytes);
    decoded::<Admission<()>>(bytes);
    decoded::<PendingRequest>(bytes);
}

pub(crate) fn handshake_seeds() -> Vec<Vec<u8>> {
    golden(&[
        "Introduction",
        "Accepted",
        "Pending",
        "Rejected",
        "Denied",
        "Full",
        "NoCommon",
    ])
}

pub(crate) fn minion_requests(bytes: &[u8]) {
    match decoded::<MinionRequest>(bytes) {
        Some(MinionRequest::Returns(returns)) => returns.iter().for_each(read_return),
        Some(MinionRequest::ReturnPart(sent)) => {
            let _ = sent.part.end();
            let _ = Packed::from_bytes(sent.part.bytes).unpack_or_show();
        }
        Some(MinionRequest::FireEvents(events)) => read_events(events),
        Some(MinionRequest::Mine(request)) => read_mine(&request),
        Some(MinionRequest::Functions(FunctionsReport {
            functions: Some(bytes),
            ..
        })) => read_functions(&bytes),
        _ => {}
    }
}

fn read_mine(request: &MineRequest) {
    let _ = request.stored_bytes();
    if request.is_within_bounds()
        && let MineRequest::Store(entries) = request
    {
        for entry in entries {
            let _ = (entry.digest(), entry.value.unpack_or_show());
        }
    }
}

fn read_functions(bytes: &[u8]) {
    if let Ok(functions) = MinionFunctions::from_bytes(bytes) {
        assert!(functions.names().all(|name| functions.may_know(name)));
        assert_eq!(
            MinionFunctions::from_bytes(&functions.to_bytes()),
            Ok(functions)
        );
    }
}

fn read_events(sent: MinionEvents) {
    for event in sent.events {
        let _ = event.data.unpack();
        let _ = Event::topic(&event.tag);
    }
}

pub(crate) fn minion_request_seeds() -> Vec<Vec<u8>> {
    golden(&["MinionRequest."])
}

pub(crate) fn minion_replies(bytes: &[u8]) {
    if let Some(MinionReply::Jobs(page)) = decoded::<MinionReply>(bytes) {
        page.jobs.iter().for_each(read_job);
    }
    if let Some(Body::Job(signed)) = decoded::<Body>(bytes) {
        read_job(&signed);
    }
}

pub(crate) fn minion_reply_seeds() -> Vec<Vec<u8>> {
    golden(&["MinionReply.", "Body."])
}

pub(crate) fn caller_requests(bytes: &[u8]) {
    match decoded::<CallerRequest>(bytes) {
        Some(CallerRequest::Return(called)) => {
            read_arguments(&called.arg);
            let _ = called.payload.unpack_or_show();
        }
        Some(CallerRequest::FireEvents(events)) => read_events(events),
        Some(CallerRequest::Pillar(request)) => drop(request.is_within_bounds()),
        Some(CallerRequest::Mine(request)) => read_mine(&request),
        Some(CallerRequest::CheckReturners(_)) | None => {}
    }
}

pub(crate) fn caller_request_seeds() -> Vec<Vec<u8>> {
    golden(&["CallerRequest."])
}

pub(crate) fn caller_replies(bytes: &[u8]) {
    let _ = decoded::<CallerReply>(bytes);
}

pub(crate) fn caller_reply_seeds() -> Vec<Vec<u8>> {
    golden(&["CallerReply."])
}

pub(crate) fn operator_requests(bytes: &[u8]) {
    match decoded(bytes) {
        Some(OperatorRequest::Publish(publish)) => {
            read_arguments(&publish.arg);
            read_target(&publish.target);
            let _ = publish.metadata.map(|packed| packed.unpack_or_show());
        }
        Some(OperatorRequest::Runner(RunnerRequest::Run(call))) => read_arguments(&call.arg),
        _ => {}
    }
}

pub(crate) fn operator_request_seeds() -> Vec<Vec<u8>> {
    golden(&["OperatorRequest."])
}

pub(crate) fn operator_replies(bytes: &[u8]) {
    match decoded::<OperatorReply>(bytes) {
        Some(OperatorReply::Returns(page)) => {
            for returned in page.returns {
                let _ = returned.payload.unpack_or_show();
            }
        }
        Some(OperatorReply::Runner(RunnerReply::Ended(ended))) => {
            if let Some(end) = decoded::<RunnerEnd>(&ended.part.bytes) {
                let _ = end.value();
            }
        }
        _ => {}
    }
}

pub(crate) fn operator_reply_seeds() -> Vec<Vec<u8>> {
    golden(&["OperatorReply."])
}

pub(crate) fn events(bytes: &[u8]) {
    let Ok(event) = Event::decode(bytes) else {
        return;
    };
    let again = event.encode();
    let read = Event::decode(&again).expect("an event that was encoded");
    // Encoded, since a float may be none of the numbers.
    assert_eq!(read.encode(), again);
    let _ = Event::topic(&event.tag);
    let _ = event.data.get("_stamp").and_then(Value::as_str);
}

pub(crate) fn event_seeds() -> Vec<Vec<u8>> {
    golden(&["Event"])
}
