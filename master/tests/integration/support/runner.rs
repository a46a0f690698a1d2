//! Runners, as an operator's program asks for them.
#![allow(
    dead_code,
    reason = "each test binary compiles this for itself and uses a part of it"
)]

use saline_data::Value;
use saline_messages::{
    Arguments, Incoming, OperatorReply, OperatorRequest, RequestId, RunKind, RunnerCall, RunnerEnd,
    RunnerReply, RunnerRequest, decode,
};

use super::Peer;

pub fn call(fun: &str, positional: &[&str]) -> RunnerCall {
    RunnerCall {
        request_id: RequestId::random().unwrap(),
        kind: RunKind::Runner,
        fun: fun.to_owned(),
        arg: Arguments {
            positional: positional.iter().map(|text| Value::from(*text)).collect(),
            named: Vec::new(),
        }
        .pack(),
        user: "ann".to_owned(),
        timeout_ms: None,
        is_async: false,
    }
}

pub async fn ask(operator: &Peer, request: RunnerRequest) -> RunnerReply {
    match operator.order(OperatorRequest::Runner(request)).await {
        OperatorReply::Runner(reply) => reply,
        other => panic!("{other:?}"),
    }
}

/// Runs to the end. Returns it, and in how many parts it came.
pub async fn end(operator: &Peer, call: RunnerCall) -> (RunnerEnd, usize) {
    let request_id = call.request_id;
    let ended = loop {
        match ask(operator, RunnerRequest::Run(call.clone())).await {
            RunnerReply::Begun(_) => {}
            RunnerReply::Ended(ended) => break ended,
            other => panic!("{other:?}"),
        }
    };
    let mut incoming = Incoming::of(&ended.part).unwrap();
    incoming.take(&ended.part).unwrap();
    let mut parts = 1;
    while !incoming.is_whole() {
        let offset = incoming.received();
        match ask(operator, RunnerRequest::Part { request_id, offset }).await {
            RunnerReply::Part(part) => assert!(incoming.take(&part).unwrap()),
            other => panic!("{other:?}"),
        }
        parts += 1;
    }
    (decode(incoming.whole().unwrap()).unwrap(), parts)
}

pub async fn value(operator: &Peer, fun: &str, positional: &[&str]) -> Value {
    let (end, _) = end(operator, call(fun, positional)).await;
    assert_eq!(end.error, None);
    end.value().unwrap()
}
