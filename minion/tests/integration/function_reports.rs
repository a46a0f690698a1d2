//! What a minion tells its master of its functions, and when, with a master whose replies a test prescribes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use saline_messages::{FunctionsReport, MinionRequest};

use crate::scripted_master::{Fixture, ScriptedMaster, job};

/// How often a report is put off before the test looks whether the job has returned.
const PUT_OFF: usize = 20;

/// Adds an executable that describes nothing, so that the functions are others than before.
fn add_module(folder: &Path, name: &str) {
    let path = folder.join(name);
    std::fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
}

/// Returns the reports of functions, each with the number of returns that came before it.
fn reports(master: &ScriptedMaster) -> Vec<(FunctionsReport, usize)> {
    let (mut reports, mut returns) = (Vec::new(), 0);
    for request in master.said() {
        match request {
            MinionRequest::Functions(report) => reports.push((report, returns)),
            MinionRequest::Returns(some) => returns += some.len(),
            _ => {}
        }
    }
    reports
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_returns_when_the_master_knows_what_there_is_then() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    let folder = tempfile::tempdir().unwrap();
    let mut config = fixture.config();
    config.module_dirs = vec![folder.path().to_owned()];
    let minion = fixture.start(config).await;
    master
        .wait("the first report", |master| !reports(master).is_empty())
        .await;
    add_module(folder.path(), "later");
    master.set(|state| state.is_busy_with_functions = true);
    let sync = master.sign(job(1, "saltutil.sync_modules", &[]));
    master.to_all(sync, true).await;
    let put_off = |master: &ScriptedMaster| master.functions_put_off() >= PUT_OFF;
    master.wait("reports that are put off", put_off).await;
    assert_eq!(master.returns(), []);
    master.set(|state| state.is_busy_with_functions = false);
    let returns = master.wait_for_returns(1).await;
    assert!(returns[0].success, "{returns:?}");
    let reports = reports(master);
    let [(first, 0), (second, 0), ..] = &reports[..] else {
        panic!("{reports:?}");
    };
    assert_ne!(first.digest, second.digest);
    assert_eq!(first.functions, None, "the master did not ask for them");

    // Nothing has changed, so that there is nothing to tell.
    let again = master.sign(job(2, "saltutil.sync_modules", &[]));
    master.to_all(again, true).await;
    master.wait_for_returns(2).await;
    assert_eq!(self::reports(master).len(), reports.len());
    minion.stop().await;
}
