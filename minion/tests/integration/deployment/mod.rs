//! A master, minions and an operator in one process, over the in-memory transport.

use std::sync::Arc;
use std::time::Duration;

use saline_client::{Client, JobSpec, MinionReturn, Progress};
use saline_config::{MasterConfig, MinionConfig, Paths};
use saline_data::Value;
use saline_exec::Program;
use saline_inproc::InProc;
use saline_master::Master;
use saline_messages::{
    Arguments, Jid, KeyAction, KeyRequest, KeyState, MinionId, ProtocolVersions, RequestId,
};
use saline_minion::Minion;
use saline_minion::modules::Modules;
use saline_protocol::transport::{Clock, HostPort, Registry};
use tokio_util::sync::CancellationToken;

/// How long a test waits for anything before it fails.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The arguments that make a test program run the test below, and nothing else.
const SALINE_EXEC: [&str; 4] = [
    "--exact",
    "deployment::saline_exec",
    "--ignored",
    "--nocapture",
];

#[test]
#[ignore = "not a test: it is the program saline-exec, which starts the commands of minions"]
fn saline_exec() {
    std::process::exit(i32::from(
        saline_exec::main() != std::process::ExitCode::SUCCESS,
    ));
}

pub struct Deployment {
    pub root: tempfile::TempDir,
    pub registry: Registry,
    pub config: MasterConfig,
    pub master: Option<Master>,
    /// The protocol versions that the master speaks from its next start on.
    pub versions: ProtocolVersions,
}

pub struct RunningMinion {
    pub minion: Arc<Minion>,
    pub config: MinionConfig,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Deployment {
    /// Starts a master that accepts every key.
    pub async fn new() -> Self {
        let mut deployment = Self::without_master();
        deployment.start_master().await;
        deployment
    }

    pub fn without_master() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut config = MasterConfig::default();
        config.paths = Paths::master().under(root.path());
        config.auto_accept = true;
        config.heartbeat_interval = Duration::from_millis(500);
        Self {
            registry: Registry::new().with(InProc::new()),
            root,
            config,
            master: None,
            versions: ProtocolVersions::OURS,
        }
    }

    pub async fn start_master(&mut self) {
        let config = self.config.clone();
        let master = Master::start_with_versions(config, &self.registry, self.versions).await;
        self.master = Some(master.unwrap());
    }

    pub async fn stop_master(&mut self) {
        if let Some(master) = self.master.take() {
            master.shutdown(Duration::from_millis(200)).await;
        }
    }

    pub fn minion_config(&self, id: &str) -> MinionConfig {
        let mut config = MinionConfig::default();
        config.paths = Paths::minion().under(&self.root.path().join(id));
        config.id = Some(MinionId::parse(id).unwrap());
        config.master = vec![HostPort::new(&self.config.interface, self.config.ret_port)];
        config.acceptance_wait = Duration::from_millis(100);
        config.acceptance_wait_max = Duration::from_millis(200);
        config.reconnect_first = Duration::from_millis(20);
        config.reconnect_max = Duration::from_millis(200);
        config
    }

    /// Starts a minion, without waiting for its session.
    pub fn start(&self, config: MinionConfig) -> RunningMinion {
        self.start_with_versions(config, ProtocolVersions::OURS)
    }

    /// Starts a minion that speaks these protocol versions.
    pub fn start_with_versions(
        &self,
        config: MinionConfig,
        versions: ProtocolVersions,
    ) -> RunningMinion {
        let modules = Modules::built_in();
        let program = Program::this_one(&SALINE_EXEC);
        let minion =
            Minion::with(config.clone(), &self.registry, modules, program, versions).unwrap();
        let stop = CancellationToken::new();
        let context = saline_protocol::transport::Context::default();
        let serving = context.spawn(Arc::clone(&minion).serve(stop.clone()));
        RunningMinion {
            minion,
            config,
            stop,
            serving,
        }
    }

    /// Starts a minion, and waits until it answers.
    pub async fn minion(&self, id: &str) -> RunningMinion {
        let running = self.start(self.minion_config(id));
        running.wait_for("connected, ").await;
        self.wait_until_it_answers(id).await;
        running
    }

    pub async fn wait_until_it_answers(&self, id: &str) {
        let client = self.client().await;
        wait("a minion that answers", async || {
            let spec = spec(id, "test.ping", &[]).with_timeout(Some(Duration::from_secs(5)));
            returns(&client, spec).await.len() == 1
        })
        .await;
        client.shutdown().await;
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.config, &self.registry).await.unwrap()
    }

    /// Runs `fun` on one minion.
    pub async fn ask(&self, id: &str, fun: &str, positional: &[Value]) -> MinionReturn {
        let client = self.client().await;
        let mut found = returns(&client, spec(id, fun, positional)).await;
        client.shutdown().await;
        assert_eq!(found.len(), 1, "{fun} on {id}: {found:?}");
        found.remove(0)
    }

    /// Publishes and does not wait.
    pub async fn publish(&self, id: &str, fun: &str, positional: &[Value]) -> Jid {
        let client = self.client().await;
        let published = client.run_async(spec(id, fun, positional)).await.unwrap();
        client.shutdown().await;
        published.jid.unwrap()
    }

    /// Waits until the master has the return of the only minion of that job.
    pub async fn stored(&self, jid: &Jid) -> MinionReturn {
        let client = self.client().await;
        let mut found = None;
        wait("a stored return", async || {
            let page = client.job_returns(jid, 0).await.unwrap();
            found = page.returns.into_iter().next();
            found.is_some()
        })
        .await;
        client.shutdown().await;
        found.unwrap().into()
    }

    pub async fn key(&self, id: &str, from: KeyState, action: KeyAction) {
        let client = self.client().await;
        let listed = client.keys(KeyRequest::List).await.unwrap().keys;
        let mut listed = listed.into_iter();
        let shown = listed.find(|key| key.state == from && key.id.as_str() == id);
        let request = KeyRequest::Act {
            request_id: RequestId::random().unwrap(),
            action,
            keys: vec![shown.unwrap()],
        };
        let reply = client.keys(request).await.unwrap();
        client.shutdown().await;
        assert_eq!(reply.keys.len(), 1, "{reply:?}");
    }
}

impl RunningMinion {
    pub async fn wait_for(&self, state: &str) {
        wait(state, async || {
            self.minion.connection_state().contains(state)
        })
        .await;
    }

    /// As SIGTERM does.
    pub async fn stop(self) -> MinionConfig {
        self.stop.cancel();
        self.serving.await.unwrap();
        self.config
    }
}

pub fn spec(id: &str, fun: &str, positional: &[Value]) -> JobSpec {
    let arguments = Arguments {
        positional: positional.to_vec(),
        named: Vec::new(),
    };
    JobSpec::glob(id, fun).unwrap().with_arguments(arguments)
}

pub async fn returns(client: &Client, spec: JobSpec) -> Vec<MinionReturn> {
    let mut run = client.run(spec).await.unwrap();
    let mut found = Vec::new();
    while let Some(progress) = run.next().await.unwrap() {
        if let Progress::Returned(returned) = progress {
            found.push(returned);
        }
    }
    found
}

/// Polls a condition that no event reports.
pub async fn wait(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Clock.after(TEST_TIMEOUT);
    while !is_so().await {
        assert!(Clock.now() < deadline, "waited in vain for: {what}");
        Clock.pause(Duration::from_millis(20)).await;
    }
}
