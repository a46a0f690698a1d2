//! An example of every verb. Each names the next one, so that a verb that is added does not compile before it
//! stands here.

use saline_data::{Packed, Value};
use saline_messages::{
    ActAsRequest, Arguments, EventsRequest, ExpiryAck, FileRequest, FunctionsReport, GrainsReport,
    Heartbeat, Jid, JobAccount, KeyRequest, Known, LoginRequest, LoginToken, MineRequest,
    MinionEvent, MinionEvents, MinionFunctions, MinionId, MinionRequest, OperatorRequest, Outgoing,
    Password, PillarRequest, PublishRequest, Reconciliation, RequestId, Return, ReturnPart,
    RunKind, RunnerCall, RunnerRequest, ScheduledReturn, ScheduledRun, StartId, TokenRequest,
    UploadId, UploadRequest, encode,
};
use saline_targeting::Target;

/// The start of the minion that the examples name.
pub const START: [u8; 16] = [9; 16];

fn heartbeat(jid: &Jid) -> Heartbeat {
    Heartbeat {
        running: vec![jid.clone()],
        waiting: 0,
        epoch: 0,
        heartbeats_noted: 1,
        expiry: ExpiryAck::default(),
    }
}

fn returned(jid: &Jid) -> Return {
    Return {
        jid: jid.clone(),
        fun: "test.ping".into(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::from("forged")),
    }
}

/// Returns the verb after this one; none after the last.
fn next_of_minion(verb: &MinionRequest, jid: &Jid) -> Option<MinionRequest> {
    Some(match verb {
        MinionRequest::Poll => MinionRequest::Heartbeat(heartbeat(jid)),
        MinionRequest::Heartbeat(_) => MinionRequest::Started(vec![jid.clone()]),
        MinionRequest::Started(_) => MinionRequest::Returns(vec![returned(jid)]),
        MinionRequest::Returns(_) => MinionRequest::ReturnPart(ReturnPart {
            jid: jid.clone(),
            retcode: 0,
            success: true,
            part: Outgoing::new(encode(&returned(jid))).part(0, usize::MAX),
        }),
        MinionRequest::ReturnPart(_) => MinionRequest::Declined { jid: jid.clone() },
        MinionRequest::Declined { .. } => MinionRequest::Claim { jid: jid.clone() },
        MinionRequest::Claim { .. } => MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        },
        MinionRequest::PendingJobs { .. } => MinionRequest::FireEvents(MinionEvents {
            start: StartId(START),
            first: 1,
            events: vec![MinionEvent {
                tag: "forged".into(),
                data: Packed::pack(&Value::Map(vec![("id".into(), Value::from("victim"))])),
            }],
        }),
        MinionRequest::FireEvents(_) => MinionRequest::Reconcile(Reconciliation {
            start: StartId(START),
            predecessors: Vec::new(),
            predecessor_ended: false,
            power_lost: false,
            heartbeats_before: 0,
            heartbeat: heartbeat(jid),
            accounts: Vec::new(),
        }),
        MinionRequest::Reconcile(_) => MinionRequest::Accounts(vec![JobAccount {
            jid: jid.clone(),
            known: Known::No,
        }]),
        MinionRequest::Accounts(_) => MinionRequest::Grains(GrainsReport {
            digest: [7; 32],
            grains: Some(Packed::pack(&Value::map([("os", Value::from("forged"))]))),
        }),
        MinionRequest::Grains(_) => MinionRequest::Functions(functions_report(&["forged.run"])),
        MinionRequest::Functions(_) => MinionRequest::Scheduled(ScheduledReturn {
            run: ScheduledRun {
                request_id: RequestId([9; 16]),
                schedule: "forged".into(),
                fun: "test.ping".into(),
                arg: Arguments::default().pack(),
                metadata: None,
            },
            retcode: 0,
            success: true,
            part: Outgoing::new(Packed::pack(&Value::from("forged")).into_bytes())
                .part(0, usize::MAX),
        }),
        MinionRequest::Scheduled(_) => MinionRequest::Files(FileRequest::Push {
            path: "forged".into(),
            part: Outgoing::new(b"forged".to_vec()).part(0, usize::MAX),
        }),
        MinionRequest::Files(_) => MinionRequest::Pillar(pillar_request()),
        MinionRequest::Pillar(_) => MinionRequest::Mine(mine_request()),
        MinionRequest::Mine(_) => MinionRequest::Goodbye(None),
        MinionRequest::Goodbye(_) => return None,
    })
}

/// Returns the report of a minion that has these functions alone.
pub fn functions_report(names: &[&str]) -> FunctionsReport {
    let functions = MinionFunctions {
        built_in: names.iter().map(|name| (*name).to_owned()).collect(),
        ..MinionFunctions::default()
    };
    let bytes = functions.to_bytes();
    FunctionsReport {
        digest: FunctionsReport::digest_of(&bytes),
        functions: Some(bytes),
    }
}

/// Returns a request for the pillar.
pub fn pillar_request() -> PillarRequest {
    PillarRequest::Compile {
        saltenv: None,
        pillarenv: None,
        known: None,
        bytes: 1_000,
    }
}

/// Returns a request for what is in the mine.
pub fn mine_request() -> MineRequest {
    MineRequest::Get {
        target: Target::glob("*"),
        functions: vec!["forged".to_owned()],
        after: None,
        bytes: 1_000,
    }
}

/// Returns an example of every verb of minions about this job, the one that ends the session last.
pub fn of_minions(jid: &Jid) -> Vec<MinionRequest> {
    let first = MinionRequest::Poll;
    std::iter::successors(Some(first), |verb| next_of_minion(verb, jid)).collect()
}

/// Returns the verb after this one; none after the last.
fn next_of_operator(verb: &OperatorRequest, jid: &Jid) -> Option<OperatorRequest> {
    let request_id = RequestId([7; 16]);
    Some(match verb {
        OperatorRequest::Publish(_) => OperatorRequest::JobReturns {
            jid: jid.clone(),
            after: 0,
        },
        OperatorRequest::JobReturns { .. } => OperatorRequest::JobStates {
            jid: jid.clone(),
            after: None,
        },
        OperatorRequest::JobStates { .. } => OperatorRequest::Keys(KeyRequest::List),
        OperatorRequest::Keys(_) => OperatorRequest::MatchTarget {
            target: Target::glob("*"),
            include_unknown: false,
        },
        OperatorRequest::MatchTarget { .. } => OperatorRequest::Cancel { jid: jid.clone() },
        OperatorRequest::Cancel { .. } => OperatorRequest::Runner(RunnerRequest::Run(RunnerCall {
            request_id,
            kind: RunKind::Runner,
            fun: "jobs.cancel".into(),
            arg: Arguments {
                positional: vec![jid.as_str().into()],
                named: Vec::new(),
            }
            .pack(),
            user: "root".into(),
            timeout_ms: None,
            is_async: true,
        })),
        OperatorRequest::Runner(RunnerRequest::Run(_)) => {
            OperatorRequest::Runner(RunnerRequest::Keep { request_id })
        }
        OperatorRequest::Runner(RunnerRequest::Keep { .. }) => {
            let offset = 0;
            OperatorRequest::Runner(RunnerRequest::Part { request_id, offset })
        }
        OperatorRequest::Runner(RunnerRequest::Part { .. }) => {
            OperatorRequest::Runner(RunnerRequest::Kill { request_id })
        }
        OperatorRequest::Runner(RunnerRequest::Kill { .. }) => {
            OperatorRequest::LastSeen(vec![MinionId::parse("m1").unwrap()])
        }
        OperatorRequest::LastSeen(_) => OperatorRequest::RotateGroupKey,
        OperatorRequest::RotateGroupKey => OperatorRequest::Tokens(TokenRequest::List),
        OperatorRequest::Tokens(_) => {
            let upload = UploadId::parse(&"0a".repeat(16)).unwrap();
            OperatorRequest::Upload(UploadRequest::End { upload })
        }
        OperatorRequest::Upload(_) => OperatorRequest::Ping,
        OperatorRequest::Ping => OperatorRequest::Login(LoginRequest {
            user: "alice".into(),
            password: Password::new("forged".into()),
            eauth: "auto".into(),
            token: LoginToken([7; 32]),
        }),
        OperatorRequest::Login(_) => OperatorRequest::ActAs(ActAsRequest {
            token: LoginToken([7; 32]),
            client: None,
            request: encode(&OperatorRequest::Ping).into(),
        }),
        OperatorRequest::ActAs(_) => OperatorRequest::Logout(LoginToken([7; 32])),
        OperatorRequest::Logout(_) => OperatorRequest::Events(EventsRequest {
            after: None,
            prefixes: Vec::new(),
            wait_ms: 0,
        }),
        OperatorRequest::Events(_) => return None,
    })
}

fn forged() -> PublishRequest {
    PublishRequest {
        metadata: Some(Packed::pack(&Value::map([("forged", Value::Bool(true))]))),
        ..PublishRequest::new(RequestId([8; 16]), Target::glob("*"), "test.forged", "root")
    }
}

/// Returns an example of every verb of operators about this job.
pub fn of_operators(jid: &Jid) -> Vec<OperatorRequest> {
    let first = OperatorRequest::Publish(forged());
    std::iter::successors(Some(first), |verb| next_of_operator(verb, jid)).collect()
}
