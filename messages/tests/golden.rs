//! The bytes of every message, so that no change of the wire goes unnoticed. A new kind or variant gets
//! a line here; once a version is released, a line that changes breaks every deployed master and minion of it.
//!
//! One long file, because it is one list: an example of each variant of each message.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use saline_channel::publication::Body;
use saline_data::{Packed, Value};
use saline_messages::{
    ActAsRequest, Admission, ApiKeyAction, ArgumentPlace, Arguments, Batch, BatchRequest,
    BatchSize, CallerReply, CallerRequest, CallerReturn, EndedRun, Event, EventCursor, EventOrigin,
    EventsPage, EventsRequest, ExpiryAck, Extension, FileEntry, FileKind, FilePlace, FileRefusal,
    FileReply, FileRequest, FilesPage, FoundEntry, FunctionsReport, GrainsReport, GroupKeyMaterial,
    Heartbeat, HeartbeatReply, Introduction, Jid, Job, JobAccount, JobsPage, KeyAction, KeyEntry,
    KeyReply, KeyRequest, KeyState, Known, LastSeen, Lease, LoggedIn, LoginReply, LoginRequest,
    LoginToken, MineEntry, MinePage, MineRefusal, MineReply, MineRequest, MinionEvent,
    MinionEvents, MinionFunctions, MinionId, MinionJobState, MinionPillar, MinionReply,
    MinionRequest, MustClaim, NetapiClient, NewToken, OperatorReply, OperatorRequest, OrderWarning,
    Outgoing, Part, Password, PeerVersion, PendingRequest, PillarRefusal, PillarReply,
    PillarRequest, PlannedEnd, ProtocolVersions, PublicationAddress, PublishRequest, Published,
    Reconciliation, ReconciliationReply, RefusedVerb, RequestId, Return, ReturnPart, ReturnVerdict,
    ReturnsPage, RunKind, RunnerCall, RunnerEnd, RunnerReply, RunnerRequest, ScheduledReturn,
    ScheduledRun, Secrets, SeenFile, SessionId, SignedJob, StartId, StatesPage, StoredReturn,
    TargetMatches, TokenEntry, TokenName, TokenRefusal, TokenReply, TokenRequest, TransferId,
    UploadId, UploadReply, UploadRequest, Welcome, decode, encode,
};
use saline_targeting::{Target, TargetKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

const VERSION_1: ProtocolVersions = ProtocolVersions {
    lowest: 1,
    highest: 1,
};

fn jid() -> Jid {
    Jid::parse("20261121091409931549").unwrap()
}

fn not_audited() -> OrderWarning {
    OrderWarning::NotAudited("why".to_owned())
}

fn id() -> MinionId {
    MinionId::parse("m1").unwrap()
}

fn request_id() -> RequestId {
    RequestId([0xaa; 16])
}

fn minion_functions() -> MinionFunctions {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    MinionFunctions {
        built_in: names(&["test.ping"]),
        own: names(&["vhosts.enable"]),
        undescribed: names(&["backups"]),
        may_grow: true,
    }
}

fn arguments() -> Arguments {
    Arguments {
        positional: vec![Value::Int(1)],
        named: vec![("k".into(), Value::Null)],
    }
}

fn file_requests() -> Vec<(&'static str, FileRequest)> {
    let place = || FilePlace {
        environment: "base".into(),
        path: "a/b".into(),
    };
    let part = Part {
        transfer: TransferId([0xbb; 32]),
        total: 5,
        offset: 3,
        bytes: vec![1, 2].into(),
    };
    let list = |after| FileRequest::List {
        environment: "base".into(),
        below: "a".into(),
        after,
        bytes: 300,
    };
    vec![
        ("Environments", FileRequest::Environments),
        ("List.None", list(None)),
        ("List.Some", list(Some("a/b".into()))),
        ("Look", FileRequest::Look(place())),
        (
            "Part",
            FileRequest::Part {
                place: place(),
                transfer: TransferId([0xbb; 32]),
                offset: 3,
                bytes: 300,
            },
        ),
        (
            "Push",
            FileRequest::Push {
                path: "a".into(),
                part,
            },
        ),
    ]
}

fn pillar_requests() -> [(&'static str, PillarRequest); 3] {
    let compile = |environment: Option<String>, known| PillarRequest::Compile {
        saltenv: environment.clone(),
        pillarenv: environment,
        known,
        bytes: 300,
    };
    let transfer = TransferId([0xbb; 32]);
    let part = PillarRequest::Part {
        transfer,
        offset: 3,
        bytes: 300,
    };
    [
        ("Compile.None", compile(None, None)),
        ("Compile.Some", compile(Some("dev".into()), Some(transfer))),
        ("Part", part),
    ]
}

fn pillar_replies() -> [(&'static str, PillarReply); 5] {
    let part = Part {
        transfer: TransferId([0xbb; 32]),
        total: 5,
        offset: 3,
        bytes: vec![1, 2].into(),
    };
    let no_environment = PillarReply::Refused(PillarRefusal::NoEnvironment);
    [
        ("Unchanged", PillarReply::Unchanged),
        ("Part", PillarReply::Part(part)),
        ("Changed", PillarReply::Changed),
        ("Refused.NoEnvironment", no_environment),
        (
            "Refused.Failed",
            PillarReply::Refused(PillarRefusal::Failed),
        ),
    ]
}

fn mine_requests() -> [(&'static str, MineRequest); 7] {
    let web = || Target {
        kind: TargetKind::Grain,
        expression: "role:web".to_owned(),
    };
    let get = |after| MineRequest::Get {
        target: web(),
        functions: vec!["a".into(), "b".into()],
        after,
        bytes: 300,
    };
    let entry = |allowed| MineEntry {
        name: "a".into(),
        value: packed(),
        allowed,
    };
    let offer = MineRequest::Offer {
        entries: vec![("a".into(), [0xbb; 32])],
        forget_others: true,
    };
    [
        ("Offer", offer),
        ("Store.All", MineRequest::Store(vec![entry(None)])),
        ("Store.Some", MineRequest::Store(vec![entry(Some(web()))])),
        ("Delete", MineRequest::Delete("a".into())),
        ("Flush", MineRequest::Flush),
        ("Get.First", get(None)),
        ("Get.After", get(Some((1, id())))),
    ]
}

fn mine_replies() -> [(&'static str, MineReply); 8] {
    let entry = FoundEntry {
        function: 1,
        minion: id(),
        value: packed(),
    };
    let page = MinePage {
        entries: vec![entry],
        more: true,
    };
    let allowed = MineRefusal::Allowed {
        name: "a".into(),
        why: "why".into(),
    };
    let refused = MineReply::Refused;
    [
        ("Done", MineReply::Done),
        ("Wanted", MineReply::Wanted(vec![0, 300])),
        ("Found", MineReply::Found(page)),
        ("Refused.NoRoom", refused(MineRefusal::NoRoom)),
        ("Refused.Allowed", refused(allowed)),
        ("Refused.Target", refused(MineRefusal::Target("why".into()))),
        ("Refused.NotAllowed", refused(MineRefusal::NotAllowed)),
        ("Refused.Failed", refused(MineRefusal::Failed)),
    ]
}

fn file_replies() -> Vec<(String, FileReply)> {
    let transfer = TransferId([0xbb; 32]);
    let kinds = [FileKind::File, FileKind::Folder, FileKind::EmptyFolder];
    let entries = kinds.map(|kind| FileEntry {
        path: "a".into(),
        kind,
        is_link: true,
    });
    let page = FilesPage {
        entries: entries.to_vec(),
        more: true,
    };
    let seen = SeenFile {
        size: 300,
        mode: 0o644,
        transfer,
    };
    let part = Part {
        transfer,
        total: 5,
        offset: 3,
        bytes: vec![1, 2].into(),
    };
    let mut replies = vec![
        (
            "Environments".to_owned(),
            FileReply::Environments(vec!["base".into()]),
        ),
        ("Listed".to_owned(), FileReply::Listed(page)),
        ("Seen".to_owned(), FileReply::Seen(seen)),
        ("Part".to_owned(), FileReply::Part(part)),
        ("Changed".to_owned(), FileReply::Changed),
        ("Received".to_owned(), FileReply::Received(300)),
    ];
    for why in [
        FileRefusal::NoEnvironment,
        FileRefusal::NoFile,
        FileRefusal::BadPath,
        FileRefusal::TooLarge,
        FileRefusal::TooMany,
        FileRefusal::Failed,
        FileRefusal::NotTaken,
        FileRefusal::NoRoom,
    ] {
        replies.push((format!("Refused.{why:?}"), FileReply::Refused(why)));
    }
    replies
}

fn job() -> Job {
    Job {
        jid: jid(),
        target: Target {
            kind: TargetKind::Pcre,
            expression: "m.".into(),
        },
        fun: "test.arg".into(),
        arg: arguments().pack(),
        user: "root".into(),
        created: 1,
        expires: 300,
        claims: MustClaim::These(vec![id()]),
    }
}

fn batch() -> Batch {
    Batch {
        size: 300,
        wait_ms: 301,
        timeout_ms: 302,
        failhard: true,
        queues: false,
    }
}

fn heartbeat() -> Heartbeat {
    Heartbeat {
        running: vec![jid()],
        waiting: 302,
        epoch: 5,
        heartbeats_noted: 300,
        expiry: ExpiryAck {
            after: 300,
            until: 301,
            begun: vec![jid()],
        },
    }
}

fn signed() -> SignedJob {
    SignedJob {
        job: job(),
        signature: vec![0xbb; 2],
        secrets: None,
    }
}

fn secrets() -> Secrets {
    let values = vec![(ArgumentPlace::named("password"), packed())];
    decode(&encode(&([0xdd_u8; 32], values))).unwrap()
}

fn group() -> GroupKeyMaterial {
    GroupKeyMaterial {
        epoch: 5,
        key: [0xcc; 32],
        last_number: 6,
    }
}

fn packed() -> Packed {
    Packed::pack(&Value::Bool(true))
}

/// Adds a line `name hex`, after holding that the bytes are read back.
fn line<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    lines: &mut String,
    name: &str,
    message: &T,
) {
    let bytes = encode(message);
    assert_eq!(&decode::<T>(&bytes).unwrap(), message);
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    lines.push_str(&format!("{name} {hex}\n"));
}

fn authentication(lines: &mut String) {
    let version = PeerVersion {
        protocol: 1,
        software: "0.1.0".into(),
    };
    let extensions = vec![Extension {
        number: 0x1234,
        bytes: vec![0xee; 3],
    }];
    let introduction = Introduction {
        id: "m1".into(),
        identity: [1; 32],
        issued: 1_700_000_000_000_000_000,
        signature: vec![2; 2],
        versions: ProtocolVersions {
            lowest: 1,
            highest: 2,
        },
        software: "0.1.0".into(),
        extensions: extensions.clone(),
    };
    line(lines, "Introduction", &introduction);
    line(
        lines,
        "Extension.AttemptTime",
        &Extension::attempt_time(1_700_000_000_000_000_000),
    );
    let successors = Extension::successors(vec![0xdd; 2]);
    line(lines, "Extension.Successors", &successors);
    let welcome = |publications, group| {
        Admission::Accepted(Welcome {
            clock: 1,
            heartbeat_ms: 15_000,
            max_message: 1 << 26,
            publications,
            group,
            master: version.clone(),
            extensions: extensions.clone(),
        })
    };
    line(
        lines,
        "Accepted.Port",
        &welcome(PublicationAddress::Port(4505), Some(group())),
    );
    line(
        lines,
        "Accepted.SameConnection",
        &welcome(PublicationAddress::SameConnection, None),
    );
    line(
        lines,
        "Accepted.Path",
        &welcome(PublicationAddress::Path("/p".into()), None),
    );
    let token = Extension::token(vec![0xdd; 2]);
    line(lines, "Extension.Token", &token);
    line(lines, "Pending", &Admission::<Welcome>::Pending(None));
    for why in [
        TokenRefusal::Unknown,
        TokenRefusal::Expired,
        TokenRefusal::Used,
        TokenRefusal::OtherId,
        TokenRefusal::Unavailable,
    ] {
        let pending = Admission::<Welcome>::Pending(Some(why));
        line(lines, &format!("Pending.{why:?}"), &pending);
    }
    line(lines, "Rejected", &Admission::<Welcome>::Rejected);
    line(lines, "Denied", &Admission::<Welcome>::Denied);
    line(lines, "Full", &Admission::<Welcome>::Full);
    let refused = Admission::<Welcome>::NoCommonVersion {
        versions: VERSION_1,
        software: "0.1.0".into(),
    };
    line(lines, "NoCommonVersion", &refused);
    let old = Admission::<Welcome>::OldNoiseKey;
    line(lines, "OldNoiseKey", &old);
    line(lines, "PendingRequest.Poll", &PendingRequest::Poll);
}

fn minion(lines: &mut String) {
    let request = |lines: &mut String, name: &str, request: MinionRequest| {
        line(lines, &format!("MinionRequest.{name}"), &request);
    };
    request(lines, "Poll", MinionRequest::Poll);
    request(lines, "Heartbeat", MinionRequest::Heartbeat(heartbeat()));
    request(lines, "Started", MinionRequest::Started(vec![jid()]));
    let returned = Return {
        jid: jid(),
        fun: "test.arg".into(),
        retcode: -1,
        success: false,
        payload: packed(),
    };
    request(lines, "Returns", MinionRequest::Returns(vec![returned]));
    let returned_part = ReturnPart {
        jid: jid(),
        retcode: 3,
        success: false,
        part: part(),
    };
    request(
        lines,
        "ReturnPart",
        MinionRequest::ReturnPart(returned_part),
    );
    request(lines, "Declined", MinionRequest::Declined { jid: jid() });
    request(lines, "Claim", MinionRequest::Claim { jid: jid() });
    let pending = MinionRequest::PendingJobs {
        after: Some(jid()),
        bytes: 8_192,
    };
    request(lines, "PendingJobs", pending);
    let events = MinionEvents {
        start: StartId([9; 16]),
        first: 300,
        events: vec![MinionEvent {
            tag: "start".into(),
            data: packed(),
        }],
    };
    request(lines, "FireEvents", MinionRequest::FireEvents(events));
    request(lines, "Goodbye", MinionRequest::Goodbye(None));
    for end in [PlannedEnd::Reboot, PlannedEnd::PowerOff] {
        let goodbye = MinionRequest::Goodbye(Some(end));
        request(lines, &format!("Goodbye.{end:?}"), goodbye);
    }
    let reconciliation = Reconciliation {
        start: StartId([9; 16]),
        predecessors: vec![StartId([8; 16])],
        predecessor_ended: false,
        power_lost: true,
        heartbeats_before: 299,
        heartbeat: heartbeat(),
        accounts: Vec::new(),
    };
    request(lines, "Reconcile", MinionRequest::Reconcile(reconciliation));
    for known in [
        Known::No,
        Known::Running,
        Known::Finished,
        Known::Delivered,
        Known::Barred,
        Known::Forgotten,
    ] {
        let account = JobAccount { jid: jid(), known };
        let accounts = MinionRequest::Accounts(vec![account]);
        request(lines, &format!("Accounts.{known:?}"), accounts);
    }
    for (name, grains) in [("None", None), ("Some", Some(packed()))] {
        let digest = GrainsReport::digest_of(&packed());
        let report = MinionRequest::Grains(GrainsReport { digest, grains });
        request(lines, &format!("Grains.{name}"), report);
    }
    for (name, asked) in file_requests() {
        let asked = MinionRequest::Files(asked);
        request(lines, &format!("Files.{name}"), asked);
    }
    for (name, asked) in pillar_requests() {
        let asked = MinionRequest::Pillar(asked);
        request(lines, &format!("Pillar.{name}"), asked);
    }
    let functions = minion_functions().to_bytes();
    for (name, functions) in [("None", None), ("Some", Some(functions.clone()))] {
        let digest = FunctionsReport::digest_of(&minion_functions().to_bytes());
        let report = MinionRequest::Functions(FunctionsReport { digest, functions });
        request(lines, &format!("Functions.{name}"), report);
    }
    for (name, asked) in mine_requests() {
        let asked = MinionRequest::Mine(asked);
        request(lines, &format!("Mine.{name}"), asked);
    }

    let scheduled = ScheduledReturn {
        run: ScheduledRun {
            request_id: RequestId([7; 16]),
            schedule: "ping".to_owned(),
            fun: "test.ping".to_owned(),
            arg: Arguments::default().pack(),
            metadata: Some(packed()),
        },
        retcode: 0,
        success: true,
        part: Outgoing::new(packed().into_bytes()).part(0, usize::MAX),
    };
    request(lines, "Scheduled", MinionRequest::Scheduled(scheduled));

    let reply = |lines: &mut String, name: &str, reply: MinionReply| {
        line(lines, &format!("MinionReply.{name}"), &reply);
    };
    reply(lines, "Auth", MinionReply::Auth(Admission::Pending(None)));
    let heartbeat = HeartbeatReply {
        clock: 1,
        heartbeat_ms: 2,
        epoch: 3,
        group: Some(group()),
        last_all: 4,
        last_own: 5,
        lease: Lease { after: 6, until: 7 },
        expiry_acked_until: 8,
        cancelled: vec![jid()],
        reconcile: true,
    };
    reply(
        lines,
        "Heartbeat",
        MinionReply::Heartbeat(heartbeat.clone()),
    );
    let reconciled = ReconciliationReply {
        heartbeat,
        asked: vec![jid()],
    };
    reply(lines, "Reconciled", MinionReply::Reconciled(reconciled));
    reply(lines, "Done", MinionReply::Done);
    reply(lines, "SendAll", MinionReply::SendAll);
    for (name, told) in file_replies() {
        reply(lines, &format!("Files.{name}"), MinionReply::Files(told));
    }
    for (name, told) in pillar_replies() {
        reply(lines, &format!("Pillar.{name}"), MinionReply::Pillar(told));
    }
    for (name, told) in mine_replies() {
        reply(lines, &format!("Mine.{name}"), MinionReply::Mine(told));
    }
    for (name, entries) in [("None", None), ("Some", Some(packed()))] {
        let errors = vec!["why".to_owned()];
        let pillar = MinionPillar { entries, errors };
        line(lines, &format!("MinionPillar.{name}"), &pillar);
    }
    for verdict in [
        ReturnVerdict::Stored,
        ReturnVerdict::Duplicate,
        ReturnVerdict::UnknownJob,
        ReturnVerdict::NotOffered,
        ReturnVerdict::Disputed,
    ] {
        reply(
            lines,
            &format!("Verdicts.{verdict:?}"),
            MinionReply::Verdicts(vec![verdict]),
        );
    }
    reply(lines, "Received", MinionReply::Received(300));
    let with_secrets = SignedJob {
        secrets: Some(secrets()),
        ..signed()
    };
    let jobs = JobsPage {
        jobs: vec![signed(), with_secrets],
        more: true,
    };
    reply(lines, "Jobs", MinionReply::Jobs(jobs));
    reply(lines, "Claimed", MinionReply::Claimed(true));
    reply(lines, "Busy", MinionReply::Busy { after_ms: 300 });
    for why in [
        RefusedVerb::Malformed,
        RefusedVerb::Replaced,
        RefusedVerb::KeyGone,
        RefusedVerb::ShuttingDown,
    ] {
        reply(
            lines,
            &format!("Refused.{why:?}"),
            MinionReply::Refused(why),
        );
    }
    line(lines, "Body.Job", &Body::Job(signed()));
    for claims in [MustClaim::EverybodyOnTopic, MustClaim::Everybody] {
        line(lines, &format!("MustClaim.{claims:?}"), &claims);
    }
    line(lines, "Body.GroupKey", &Body::GroupKey(group()));
    line(lines, "Body.HeartbeatRequest", &Body::HeartbeatRequest);
}

fn operator(lines: &mut String) {
    let request = |lines: &mut String, name: &str, request: OperatorRequest| {
        line(lines, &format!("OperatorRequest.{name}"), &request);
    };
    let publish = OperatorRequest::Publish(PublishRequest {
        request_id: request_id(),
        target: Target::glob("*"),
        include_unknown: false,
        fun: "test.ping".into(),
        arg: Arguments::default().pack(),
        secrets: None,
        user: "root".into(),
        ttl_ms: Some(300),
        private: false,
        subset: Some(300),
        batch: BatchRequest::default(),
        metadata: None,
        jid: None,
        returners: Box::default(),
        allow_unknown_functions: false,
    });
    request(lines, "Publish", publish);
    for kind in TargetKind::ALL {
        let target = Target {
            kind,
            expression: "x".into(),
        };
        let matching = OperatorRequest::MatchTarget {
            target,
            include_unknown: true,
        };
        request(lines, &format!("MatchTarget.{kind:?}"), matching);
    }
    for size in [BatchSize::Minions(300), BatchSize::Percent(10)] {
        let batch = BatchRequest {
            size: Some(size),
            wait_ms: 300,
            timeout_ms: 301,
            failhard: true,
            safe_limit: Some(100),
            safe_size: Some(8),
        };
        line(lines, &format!("BatchRequest.{size:?}"), &batch);
    }
    request(lines, "Cancel", OperatorRequest::Cancel { jid: jid() });
    let returns = OperatorRequest::JobReturns {
        jid: jid(),
        after: 300,
    };
    request(lines, "JobReturns", returns);
    let states = OperatorRequest::JobStates {
        jid: jid(),
        after: Some(id()),
    };
    request(lines, "JobStates", states);
    request(lines, "Keys.List", OperatorRequest::Keys(KeyRequest::List));
    let rotate = OperatorRequest::Keys(KeyRequest::RotateIdentity);
    request(lines, "Keys.RotateIdentity", rotate);
    for action in [KeyAction::Accept, KeyAction::Reject, KeyAction::Delete] {
        let act = KeyRequest::Act {
            request_id: request_id(),
            action,
            keys: vec![KeyEntry {
                id: id(),
                state: KeyState::Pending,
                identity: [1; 32],
            }],
        };
        request(
            lines,
            &format!("Keys.{action:?}"),
            OperatorRequest::Keys(act),
        );
    }
    for action in [ApiKeyAction::Accept, ApiKeyAction::Delete] {
        let act = KeyRequest::ActOnApis {
            request_id: request_id(),
            action,
            keys: vec![KeyEntry {
                id: id(),
                state: KeyState::Pending,
                identity: [1; 32],
            }],
        };
        let name = format!("Keys.ActOnApis.{action:?}");
        request(lines, &name, OperatorRequest::Keys(act));
    }
    runner_requests(lines);
    let publish = PublishRequest {
        request_id: request_id(),
        target: job().target,
        include_unknown: true,
        fun: "test.arg".into(),
        arg: arguments().pack(),
        secrets: Some(secrets()),
        user: "root".into(),
        ttl_ms: Some(300),
        private: true,
        subset: Some(301),
        batch: BatchRequest::default(),
        metadata: Some(packed()),
        jid: Some(jid()),
        returners: Box::new(["postgres".to_owned()]),
        allow_unknown_functions: true,
    };
    request(lines, "Publish.Options", OperatorRequest::Publish(publish));
    request(lines, "LastSeen", OperatorRequest::LastSeen(vec![id()]));
    request(lines, "RotateGroupKey", OperatorRequest::RotateGroupKey);
    let name = TokenName([1, 2, 3, 4]);
    let made = NewToken {
        name,
        digest: [5; 32],
        minions: "web*".into(),
        valid_ms: 300,
        uses: 301,
    };
    for (verb, tokens) in [
        ("Make", TokenRequest::Make(made)),
        ("List", TokenRequest::List),
        ("Revoke", TokenRequest::Revoke(name)),
    ] {
        let tokens = OperatorRequest::Tokens(tokens);
        request(lines, &format!("Tokens.{verb}"), tokens);
    }
    let upload = UploadId::parse(&"0a".repeat(16)).unwrap();
    let part = Part {
        transfer: TransferId([0xbb; 32]),
        total: 5,
        offset: 3,
        bytes: vec![1, 2].into(),
    };
    let begin = UploadRequest::Begin {
        upload,
        files: 300,
        bytes: 301,
    };
    let hands_in = UploadRequest::Part {
        upload,
        number: 1,
        part,
    };
    for (verb, asked) in [
        ("Begin", begin),
        ("Part", hands_in),
        ("End", UploadRequest::End { upload }),
    ] {
        let asked = OperatorRequest::Upload(asked);
        request(lines, &format!("Upload.{verb}"), asked);
    }
    request(lines, "Ping", OperatorRequest::Ping);
    let token = LoginToken([9; 32]);
    let login = LoginRequest {
        user: "alice".into(),
        password: Password::new("pw".into()),
        eauth: "file".into(),
        token,
    };
    request(lines, "Login", OperatorRequest::Login(login));
    request(lines, "Logout", OperatorRequest::Logout(token));
    let act = ActAsRequest {
        token,
        client: Some(NetapiClient::RunnerAsync),
        request: encode(&OperatorRequest::Ping).into(),
    };
    request(lines, "ActAs", OperatorRequest::ActAs(act));
    let cursor = EventCursor {
        start: 300,
        number: 301,
    };
    let events = EventsRequest {
        after: Some(cursor),
        prefixes: vec!["salt/job/".into()],
        wait_ms: 302,
    };
    request(lines, "Events", OperatorRequest::Events(events));
    let reply = |lines: &mut String, name: &str, reply: OperatorReply| {
        line(lines, &format!("OperatorReply.{name}"), &reply);
    };
    for (verb, said) in [
        ("Begun", UploadReply::Begun(vec![not_audited()])),
        ("Received", UploadReply::Received(300)),
        ("Ended", UploadReply::Ended),
    ] {
        let said = OperatorReply::Upload(said);
        reply(lines, &format!("Upload.{verb}"), said);
    }
    reply(lines, "Pong", OperatorReply::Pong("alice".into()));
    let logged_in = LoggedIn {
        start: 300,
        expire: 301,
        permissions: Packed::pack(&Value::List(vec![".*".into()])),
    };
    for (end, said) in [
        ("LoggedIn", LoginReply::LoggedIn(logged_in)),
        ("Refused", LoginReply::Refused),
        ("Later", LoginReply::Later { after_ms: 302 }),
    ] {
        reply(lines, &format!("Login.{end}"), OperatorReply::Login(said));
    }
    reply(lines, "LoggedOut", OperatorReply::LoggedOut);
    reply(lines, "NotLoggedIn", OperatorReply::NotLoggedIn);
    let page = EventsPage {
        events: vec![(302, vec![1, 2].into())],
        next: cursor,
        gap: true,
    };
    reply(lines, "Events", OperatorReply::Events(page));
    runner_replies(lines);
    let holder = LastSeen {
        minion: id(),
        identity: [1; 32],
        is_accepted: true,
        address: Some("192.0.2.1".into()),
        heard_ms: Some(300),
    };
    reply(lines, "LastSeen", OperatorReply::LastSeen(vec![holder]));
    reply(lines, "Busy", OperatorReply::Busy { after_ms: 1 });
    reply(
        lines,
        "Rotated",
        OperatorReply::Rotated(vec![not_audited()]),
    );
    let tokens = TokenReply {
        tokens: vec![TokenEntry {
            name: TokenName([1, 2, 3, 4]),
            minions: "web*".into(),
            until: 300,
            uses: 2,
            used: 1,
            last: Some(id()),
        }],
        master: [1; 32],
        warnings: vec![not_audited()],
    };
    reply(lines, "Tokens", OperatorReply::Tokens(tokens));
    reply(lines, "Invalid", OperatorReply::Invalid("x".into()));
    reply(lines, "NotAllowed", OperatorReply::NotAllowed("x".into()));
    let published = Published {
        jid: Some(jid()),
        expires: 300,
        minions: MinionJobState::ALL.map(|state| (id(), state)).to_vec(),
        unknown: vec!["x".into()],
        without_grains: vec![id()],
        without_pillar: vec![id()],
        batch: Some(batch()),
        warnings: vec![OrderWarning::SecretsByClaims, not_audited()],
    };
    reply(lines, "Published", OperatorReply::Published(published));
    let page = ReturnsPage {
        returns: vec![StoredReturn {
            receipt: 300,
            minion: id(),
            retcode: 0,
            success: true,
            payload: packed(),
        }],
        more: true,
    };
    reply(lines, "Returns", OperatorReply::Returns(page));
    let page = StatesPage {
        planned: vec![(id(), PlannedEnd::Reboot)],
        disputed: vec![id()],
        states: vec![(id(), MinionJobState::Returned)],
        more: true,
        silent: vec![id()],
        busy: vec![id()],
        clock: 1,
        expires: 2,
        unconfirmed_since: vec![(id(), 3)],
        duplicates: vec![id()],
    };
    reply(lines, "States", OperatorReply::States(page));
    let keys = KeyState::ALL.map(|state| KeyEntry {
        id: id(),
        state,
        identity: [1; 32],
    });
    let keys = KeyReply {
        keys: keys.to_vec(),
        master: [2; 32],
        next_master: Some([3; 32]),
        duplicates: vec![(id(), vec!["192.0.2.1:1".into()])],
        missing: vec![id()],
        apis: vec![KeyEntry {
            id: id(),
            state: KeyState::Accepted,
            identity: [4; 32],
        }],
        warnings: vec![not_audited()],
    };
    reply(lines, "Keys", OperatorReply::Keys(keys));
    let matches = TargetMatches {
        minions: vec![id()],
        without_grains: vec![id()],
        without_pillar: vec![id()],
        unknown: vec!["x".into()],
    };
    reply(lines, "Matched", OperatorReply::Matched(matches));
    reply(
        lines,
        "Cancelling",
        OperatorReply::Cancelling(vec![not_audited()]),
    );
    reply(lines, "NoSuchJob", OperatorReply::NoSuchJob);
    reply(lines, "BadTarget", OperatorReply::BadTarget("why".into()));
    reply(
        lines,
        "Refused",
        OperatorReply::Refused(RefusedVerb::Malformed),
    );
    reply(lines, "Failed", OperatorReply::Failed("why".into()));
}

fn runner_requests(lines: &mut String) {
    let (request_id, offset) = (request_id(), 300);
    let call = RunnerCall {
        request_id,
        kind: RunKind::Runner,
        fun: "jobs.active".into(),
        arg: arguments().pack(),
        user: "root".into(),
        timeout_ms: Some(300),
        is_async: true,
    };
    for (name, request) in [
        ("Run", RunnerRequest::Run(call)),
        ("Part", RunnerRequest::Part { request_id, offset }),
        ("Kill", RunnerRequest::Kill { request_id }),
        ("Keep", RunnerRequest::Keep { request_id }),
    ] {
        let name = format!("OperatorRequest.Runner.{name}");
        line(lines, &name, &OperatorRequest::Runner(request));
    }
}

fn part() -> Part {
    Part {
        transfer: TransferId::of(b"whole"),
        total: 300,
        offset: 200,
        bytes: vec![1, 2].into(),
    }
}

fn runner_replies(lines: &mut String) {
    let ended = EndedRun {
        jid: jid(),
        part: part(),
    };
    for (name, reply) in [
        ("Begun", RunnerReply::Begun(jid())),
        ("Ended", RunnerReply::Ended(ended)),
        ("Part", RunnerReply::Part(part())),
        ("Ending", RunnerReply::Ending(vec![not_audited()])),
        ("Kept", RunnerReply::Kept(jid())),
        ("NoSuchRun", RunnerReply::NoSuchRun),
        ("Refused", RunnerReply::Refused("why".into())),
    ] {
        let name = format!("OperatorReply.Runner.{name}");
        line(lines, &name, &OperatorReply::Runner(reply));
    }
    let end = RunnerEnd {
        success: true,
        error: Some("why".into()),
        notes: vec!["x".into()],
        payload: packed(),
    };
    line(lines, "RunnerEnd", &end);
}

fn caller(lines: &mut String) {
    let request = |lines: &mut String, name: &str, request: CallerRequest| {
        line(lines, &format!("CallerRequest.{name}"), &request);
    };
    let returned = CallerReturn {
        request_id: request_id(),
        fun: "test.ping".into(),
        arg: Arguments::default().pack(),
        user: "root".into(),
        retcode: 0,
        success: true,
        payload: packed(),
        returners: vec!["local".into()],
    };
    request(lines, "Return", CallerRequest::Return(returned));
    let events = MinionEvents {
        start: StartId([9; 16]),
        first: 1,
        events: vec![MinionEvent {
            tag: "called".into(),
            data: packed(),
        }],
    };
    request(lines, "FireEvents", CallerRequest::FireEvents(events));
    for (name, asked) in pillar_requests() {
        let asked = CallerRequest::Pillar(asked);
        request(lines, &format!("Pillar.{name}"), asked);
    }
    for (name, asked) in mine_requests() {
        let asked = CallerRequest::Mine(asked);
        request(lines, &format!("Mine.{name}"), asked);
    }
    let asked = CallerRequest::CheckReturners(vec!["local".into()]);
    request(lines, "CheckReturners", asked);

    let reply = |lines: &mut String, name: &str, reply: CallerReply| {
        line(lines, &format!("CallerReply.{name}"), &reply);
    };
    reply(lines, "Stored", CallerReply::Stored(jid()));
    reply(lines, "Done", CallerReply::Done);
    reply(lines, "Busy", CallerReply::Busy { after_ms: 300 });
    let refused = CallerReply::Refused(RefusedVerb::Malformed);
    reply(lines, "Refused", refused);
    reply(lines, "Failed", CallerReply::Failed("why".into()));
    for (name, told) in pillar_replies() {
        reply(lines, &format!("Pillar.{name}"), CallerReply::Pillar(told));
    }
    for (name, told) in mine_replies() {
        reply(lines, &format!("Mine.{name}"), CallerReply::Mine(told));
    }
}

/// Returns the bytes of every message, a line each.
fn lines() -> String {
    let mut lines = String::new();
    authentication(&mut lines);
    minion(&mut lines);
    operator(&mut lines);
    caller(&mut lines);
    let event = Event {
        tag: "salt/key".into(),
        origin: EventOrigin::operator("root").in_session(SessionId([7; 16])),
        data: Value::map([("id", Value::from("m1")), ("raw", Value::Bytes(vec![0xff]))]),
    };
    let hex: String = event.encode().iter().map(|b| format!("{b:02x}")).collect();
    lines.push_str(&format!("Event {hex}\n"));
    lines
}

#[test]
fn the_bytes_of_every_message_are_known() {
    let lines = lines();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt");
    if std::env::var_os("SALINE_WRITE_DOCS").is_some() {
        std::fs::write(path, &lines).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    for (now, then) in lines.lines().zip(known.lines()) {
        assert_eq!(now, then, "the wire has changed");
    }
    assert_eq!(lines.lines().count(), known.lines().count());
}
