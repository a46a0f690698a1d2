//! Reports the minion's functions to the master, which refuses a job that no minion can run.

use std::sync::Arc;
use std::time::Duration;

use saline_config::MinionConfig;
use saline_messages::{FunctionsReport, MinionFunctions, MinionRequest};

use super::session_loop::ActiveSession;

/// How often the folders of own modules are looked at: operators change them, and so does `saline-call saltutil.sync_modules`.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

impl ActiveSession {
    /// Reports the functions when the session begins, and whenever they may have changed. Executables are asked for theirs after
    /// the first report, which says that they may have any: nobody waits for them.
    pub(super) async fn function_reports(&self) {
        let mut changes = self.parts.host.function_changes.subscribe();
        let mut reported = None;
        loop {
            let number = *changes.borrow_and_update();
            let Some((functions, folders)) = self.known_functions().await else {
                return;
            };
            let has_undescribed = !functions.undescribed.is_empty();
            self.report_functions(functions, &mut reported).await;
            self.parts.host.function_changes.set_told(number);
            if has_undescribed {
                self.describe_executables().await;
                if let Some((functions, _)) = self.known_functions().await {
                    self.report_functions(functions, &mut reported).await;
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    // The minion ends.
                    return;
                },
                () = self.folders_changed(&folders) => {}
            }
        }
    }

    /// Reports these functions, unless they were reported last.
    async fn report_functions(
        &self,
        functions: MinionFunctions,
        reported: &mut Option<MinionFunctions>,
    ) {
        if reported.as_ref() == Some(&functions) {
            return;
        }
        let bytes = functions.to_bytes();
        let digest = FunctionsReport::digest_of(&bytes);
        let report = |functions| MinionRequest::Functions(FunctionsReport { digest, functions });
        let all = || Some(report(Some(bytes.clone())));
        self.report("functions", report(None), all).await;
        *reported = Some(functions);
    }

    /// Returns the functions as far as they are known, and when the folders of own modules had changed before they were looked
    /// at. None means that the runtime is going down.
    async fn known_functions(&self) -> Option<(MinionFunctions, Vec<Option<(i64, i64)>>)> {
        let (modules, host) = (self.parts.jobs.modules(), Arc::clone(&self.parts.host));
        let look = move || {
            let folders = modules.folder_changes();
            let synced = MinionConfig::synced_modules_in(&host.cache_dir);
            (modules.known_functions(&synced), folders)
        };
        self.parts.context.spawn_blocking(look).await.ok()
    }

    async fn describe_executables(&self) {
        let (modules, host) = (self.parts.jobs.modules(), Arc::clone(&self.parts.host));
        let describe = move || modules.describe_executables(&host);
        // An error means that the runtime is going down.
        let _ = self.parts.context.spawn_blocking(describe).await;
    }

    /// Waits until a folder of own modules has changed since then.
    async fn folders_changed(&self, before: &[Option<(i64, i64)>]) {
        loop {
            self.parts.context.clock.pause(LOOK_AGAIN).await;
            let modules = self.parts.jobs.modules();
            let look = move || modules.folder_changes();
            match self.parts.context.spawn_blocking(look).await {
                Ok(now) if now == before => {}
                _ => return,
            }
        }
    }
}
