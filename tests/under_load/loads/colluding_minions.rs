//! Two accepted minions that work together against a master with ten thousand keys: orders go out and large returns come in
//! all the same, while they do what their keys allow, and after a restart of the master.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saline_channel::{Credentials, Established, Identity, MasterTrust, NoiseKey, establish};
use saline_client::{Client, JobSpec};
use saline_config::MasterConfig;
use saline_data::{Packed, Value};
use saline_messages::{
    Arguments, CallerReply, CallerRequest, CallerReturn, Class, ExpiryAck, Heartbeat, Jid,
    JobAccount, Known, MAX_EVENTS, MAX_RUNNING, MAX_STARTED, MinionEvent, MinionEvents,
    MinionReply, MinionRequest, Part, ProtocolVersions, Reconciliation, RequestId, ReturnPart,
    Role, StartId, TransferId,
};
use saline_protocol::transport::{Clock, Context, Endpoint, HostPort};
use saline_testing::Fleet;

/// The accepted keys, but for those of the three minions that are there.
const KEYS: usize = 10_000;
/// The jobs for all of them. The minions of 500 such jobs once filled the bound of what a master keeps.
const JOBS: usize = 510;
/// What each colluder says that it returns of each job.
const ANNOUNCED: u64 = 64 << 20;
/// The output that the minion which does as it should returns, in bytes. It travels in parts.
const OUTPUT: usize = 400_000;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Accepts keys that nobody has, in the folder of a master that has not started yet.
fn accept_keys(pki_dir: &Path) {
    let folder = pki_dir.join("minions");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..KEYS {
        let key = Identity::generate().unwrap().public();
        fs::write(folder.join(format!("away{number:05}")), key.to_pem()).unwrap();
    }
}

/// A minion that says of every job that it runs it, and returns none.
struct Colluder {
    client: Arc<dyn saline_protocol::transport::Client>,
    established: Established,
    /// A session of `saline-call` with the same key.
    caller: Established,
    start: StartId,
    /// The last job that it has seen.
    last: Option<Jid>,
    running: Vec<Jid>,
    /// The events that it has fired.
    fired: u64,
}

impl Colluder {
    async fn come(id: &str, port: u16) -> Self {
        let at = Endpoint::network("tcp", HostPort::new("127.0.0.1", port));
        let registry = saline_transports::registry();
        let tcp = registry.get("tcp").unwrap();
        let client = tcp.connect(&at, Context::default()).await.unwrap();
        let mut credentials = Credentials {
            role: Role::Minion,
            id: id.to_owned(),
            identity: Arc::new(Identity::generate().unwrap()),
            noise: NoiseKey::generate().unwrap(),
            versions: ProtocolVersions::OURS,
        };
        let trust = MasterTrust::FirstUse { finger: None };
        let session = async |credentials: &Credentials| {
            let deadline = Clock.after(TIMEOUT);
            let established = establish(&*client, credentials, &trust, deadline).await;
            let established = established.unwrap();
            assert!(established.answer.is_accepted());
            established
        };
        let established = session(&credentials).await;
        credentials.role = Role::Caller;
        let caller = session(&credentials).await;
        let mut colluder = Self {
            client: Arc::clone(&client),
            established,
            caller,
            start: StartId(
                Identity::generate().unwrap().public().0[..16]
                    .try_into()
                    .unwrap(),
            ),
            last: None,
            running: Vec::new(),
            fired: 0,
        };
        colluder.reconcile().await;
        colluder
    }

    /// Asks once. What the master says is taken as it is.
    async fn ask(&self, request: MinionRequest) -> MinionReply {
        let deadline = Clock.after(TIMEOUT);
        let session = &self.established.session;
        let asked = session.ask(&*self.client, Class::Event, &request, deadline);
        asked.await.unwrap()
    }

    fn heartbeat(&self) -> Heartbeat {
        let newest = self.running.len().saturating_sub(MAX_RUNNING);
        Heartbeat {
            running: self.running[newest..].to_vec(),
            waiting: 0,
            epoch: 0,
            heartbeats_noted: 0,
            expiry: ExpiryAck::default(),
        }
    }

    async fn reconcile(&mut self) {
        let mut accounts = Vec::new();
        loop {
            let request = MinionRequest::Reconcile(Reconciliation {
                start: self.start,
                predecessors: Vec::new(),
                predecessor_ended: false,
                power_lost: false,
                heartbeats_before: 0,
                heartbeat: self.heartbeat(),
                accounts: std::mem::take(&mut accounts),
            });
            let MinionReply::Reconciled(reply) = self.ask(request).await else {
                continue;
            };
            if reply.asked.is_empty() {
                return;
            }
            accounts.extend(reply.asked.into_iter().map(|jid| JobAccount {
                jid,
                known: Known::Running,
            }));
        }
    }

    /// Does everything that its key allows once.
    async fn misbehave(&mut self) {
        let request = MinionRequest::PendingJobs {
            after: self.last.clone(),
            bytes: u64::MAX,
        };
        let page = match self.ask(request).await {
            MinionReply::Jobs(page) => page.jobs,
            _ => Vec::new(),
        };
        let offered: Vec<Jid> = page.into_iter().map(|signed| signed.job.jid).collect();
        for jids in offered.chunks(MAX_STARTED) {
            self.ask(MinionRequest::Started(jids.to_vec())).await;
        }
        for jid in &offered {
            self.begin_to_return(jid).await;
        }
        self.last = offered.last().cloned().or(self.last.take());
        self.running.extend(offered);
        let made_up = Jid::parse("20200101000000000000").unwrap();
        self.begin_to_return(&made_up).await;
        self.ask(MinionRequest::Heartbeat(self.heartbeat())).await;
        self.fire().await;
        self.call().await;
    }

    /// Delivers the first byte of a return that has no end.
    async fn begin_to_return(&self, jid: &Jid) {
        let part = Part {
            transfer: TransferId([7; 32]),
            total: ANNOUNCED,
            offset: 0,
            bytes: vec![0].into(),
        };
        let part = ReturnPart {
            jid: jid.clone(),
            retcode: 0,
            success: true,
            part,
        };
        self.ask(MinionRequest::ReturnPart(part)).await;
    }

    async fn fire(&mut self) {
        let event = MinionEvent {
            tag: "noise".to_owned(),
            data: Packed::pack(&Value::Map(Vec::new())),
        };
        let events = MinionEvents {
            start: self.start,
            first: self.fired,
            events: vec![event; MAX_EVENTS],
        };
        if self.ask(MinionRequest::FireEvents(events)).await == MinionReply::Done {
            self.fired += MAX_EVENTS as u64;
        }
    }

    /// Stores a call that nobody asked for.
    async fn call(&self) {
        let call = CallerRequest::Return(CallerReturn {
            request_id: RequestId::random().unwrap(),
            fun: "test.version".to_owned(),
            arg: Arguments::default().pack(),
            user: "root".to_owned(),
            retcode: 0,
            success: true,
            payload: Packed::pack(&Value::from("x".repeat(60_000))),
            returners: Vec::new(),
        });
        let session = &self.caller.session;
        let deadline = Clock.after(TIMEOUT);
        let asked = session.ask(&*self.client, Class::Event, &call, deadline);
        let _: CallerReply = asked.await.unwrap();
    }
}

/// The orders of the operator, and their answers.
fn orders_are_carried_out(fleet: &Fleet) {
    fleet.saline(&["good", "test.ping"]).expect(0);
    let command = format!("head -c {OUTPUT} /dev/zero | tr '\\0' x");
    let output = fleet.saline(&["good", "cmd.run", &command]).expect(0);
    assert!(output.stdout.len() > OUTPUT, "{}", output.stderr);
    let listed = fleet.run("saline-run", &["jobs.list_jobs", "limit=5"]);
    let listed = listed.expect(0).stdout;
    let is_order = listed.contains("cmd.run") && !listed.contains("test.version");
    assert!(is_order, "{listed}");
}

#[test]
fn two_minions_that_collude_stop_no_order_and_no_return_of_others() {
    let _turn = crate::alone();
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.write_master_config();
    let registry = saline_transports::registry();
    let schemes: Vec<&str> = registry.schemes().collect();
    let config = MasterConfig::load(&fleet.config(), &schemes)
        .unwrap()
        .config;
    accept_keys(&config.paths.pki_dir);
    fleet.start_master();
    fleet.start_minion("good");
    fleet.minions["good"].log.wait_for("subscribed", 1);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let port = fleet.port();
    let collude = |id: &'static str| {
        let is_over = Arc::clone(&is_over);
        async move {
            let mut colluder = Colluder::come(id, port).await;
            while !is_over.load(Ordering::SeqCst) {
                colluder.misbehave().await;
            }
            colluder
        }
    };
    let mut colluders = tokio::task::JoinSet::new();
    for id in ["bad1", "bad2"] {
        colluders.spawn_on(collude(id), runtime.handle());
    }
    fleet.master().log.wait_for("minion bad1 is connected", 1);
    fleet.master().log.wait_for("minion bad2 is connected", 1);
    runtime.block_on(async {
        let client = Client::connect(&config, &registry).await.unwrap();
        for _ in 0..JOBS {
            let job = JobSpec::glob("*", "test.ping").unwrap();
            let published = client.run_async(job).await.unwrap();
            assert_eq!(published.minions.len(), KEYS + 3);
        }
        client.shutdown().await;
    });
    orders_are_carried_out(&fleet);
    is_over.store(true, Ordering::SeqCst);
    let colluders = runtime.block_on(colluders.join_all());
    for colluder in &colluders {
        assert!(colluder.running.len() >= JOBS, "{}", colluder.running.len());
        assert!(colluder.fired > 0);
    }
    // They have gone, and their jobs stay with the master.
    fleet.kill_master();
    fleet.start_master();
    fleet.minions["good"].log.wait_for("subscribed", 2);
    orders_are_carried_out(&fleet);
}
