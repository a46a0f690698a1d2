//! The state of a master in a folder of its own, for the tests of its parts.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

use saline_channel::Identity;
use saline_config::{MasterConfig, Paths};
use saline_inproc::InProc;
use saline_protocol::transport::{Context, Endpoint, Registry, Requests, ServeAt, ServerControl};
use tracing::subscriber::DefaultGuard;

use super::MasterParts;
use crate::job_signer::JobSigner;
use crate::keys::{KeyAccess, KeyStore, OperatorStore};
use crate::pillar::PillarPrograms;
use crate::stores::Stores;

/// A master without gates: its parts are asked directly.
pub(crate) struct TestMaster {
    pub(crate) state: MasterParts,
    pub(crate) identity: Arc<Identity>,
    pub(crate) control: Arc<dyn ServerControl>,
    pub(crate) context: Context,
    pub(crate) pki_dir: PathBuf,
    /// Without it the server of the event bus would end.
    _requests: Box<dyn Requests>,
    root: tempfile::TempDir,
}

impl TestMaster {
    /// Starts one with the default configuration and these changes.
    pub(crate) async fn start(change: impl FnOnce(&mut MasterConfig)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut config = MasterConfig::default();
        config.paths = Paths::master().under(root.path());
        change(&mut config);
        let context = Context::default();
        let pki_dir = config.paths.pki_dir.clone();
        let stores = Stores::open(&config, &context).unwrap();
        let registry = Registry::new().with(InProc::new());
        let at = ServeAt {
            requests: Endpoint::local("inproc", root.path().join("requests")),
            publications: None,
        };
        let transport = registry.get("inproc").unwrap();
        let server = transport.serve(at, context.clone()).await.unwrap();
        let identity = Arc::new(Identity::generate().unwrap());
        let state = MasterParts::start(
            config,
            JobSigner {
                identity: Arc::clone(&identity),
                predecessors: Arc::default(),
            },
            stores,
            vec![Arc::clone(&server.publisher)],
            Arc::from([Arc::clone(&server.control)]),
            server.publisher,
            Arc::from([]),
            Registry::new(),
            PillarPrograms::in_this_test(),
            &context,
        )
        .unwrap();
        Self {
            state,
            identity,
            control: server.control,
            context,
            pki_dir,
            _requests: server.requests,
            root,
        }
    }

    /// Returns the folder that has all of its files.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Opens its keys once more, as at a start: nothing has been seen of them.
    pub(crate) fn open_keys(&self) -> KeyAccess {
        let minions = KeyStore::open(&self.pki_dir, self.context.clock).unwrap();
        let operators = OperatorStore::open(&self.pki_dir, [0; 32]).unwrap();
        KeyAccess::new(minions, operators, self.context.clone())
    }
}

impl Drop for TestMaster {
    fn drop(&mut self) {
        self.context.cancel.cancel();
    }
}

/// Returns the configuration with these options of a file.
pub(crate) fn configuration(options: &str) -> MasterConfig {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("master"), options).unwrap();
    MasterConfig::load(folder.path(), &[]).unwrap().config
}

/// Polls a future once, and returns whether it is not ready.
pub(crate) fn is_waiting<T>(future: Pin<&mut impl Future<Output = T>>) -> bool {
    let mut context = TaskContext::from_waker(Waker::noop());
    matches!(future.poll(&mut context), Poll::Pending)
}

/// Collects the warnings and errors that are logged.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Collects what this thread logs until the guard is dropped.
    pub(crate) fn from_now_on() -> (Self, DefaultGuard) {
        let logged = Self::default();
        let writer = logged.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || writer.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        (logged, guard)
    }

    /// Returns what was logged.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for CapturedLog {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
