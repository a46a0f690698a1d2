//! Names and passwords checked by the PAM of this machine, with services of the test's own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use saline_client::{Client, ClientError, JobSpec, Progress};
use saline_config::MasterConfig;
use saline_data::Value;
use saline_messages::{LoginRequest, LoginToken, Password};
use saline_pam::{PamError, PamHelper, PamProcess, Verdict};
use saline_testing::Fleet;

/// Writes the file of the service, whose module for passwords runs a script, and starts the program.
fn helper(folder: &Path, script: &str, account: &str) -> PamHelper {
    let path = folder.join("check");
    fs::write(
        &path,
        format!("#!/bin/sh\npassword=$(tr -d '\\0')\n{script}\n"),
    )
    .unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let service = format!(
        "auth sufficient pam_exec.so expose_authtok quiet {}\nauth required pam_deny.so\naccount required {account}\n",
        path.display()
    );
    fs::write(folder.join(saline_pam::SERVICE), service).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_saline-pam"));
    PamHelper::new(PamProcess::start(program, Some(folder)).unwrap()).unwrap()
}

/// Whether the library is there; says so where it is not.
fn has_pam() -> bool {
    let found = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"]
        .iter()
        .any(|folder| {
            let folders = fs::read_dir(folder).into_iter().flatten().flatten();
            let inner = folders.map(|entry| entry.path().join("libpam.so.0"));
            inner
                .chain([Path::new(folder).join("libpam.so.0")])
                .any(|path| path.exists())
        });
    if !found {
        eprintln!("SKIPPED: libpam is not installed, so nothing is checked by PAM");
    }
    found
}

const ALICE: &str = r#"[ "$PAM_USER" = alice ] && [ "$password" = "right one" ]"#;

#[test]
fn pam_decides_about_the_password_and_the_account() {
    if !has_pam() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pam = helper(folder.path(), ALICE, "pam_permit.so");
    assert_eq!(pam.log_in("alice", "right one").unwrap(), Verdict::Right);
    for (user, password) in [
        ("alice", "wrong"),
        ("alice", ""),
        ("bob", "right one"),
        ("", "right one"),
        ("../alice", "right one"),
    ] {
        let verdict = pam.log_in(user, password).unwrap();
        assert_eq!(verdict, Verdict::Wrong, "{user} {password}");
    }
    assert_eq!(pam.may_use("alice").unwrap(), Verdict::Right);
    assert!(matches!(pam.log_in("a\0b", ""), Err(PamError::Unsuitable)));
    // The account is locked from now on: each check reads the service again.
    let _locked = helper(folder.path(), ALICE, "pam_deny.so");
    assert_eq!(pam.log_in("alice", "right one").unwrap(), Verdict::Wrong);
    assert_eq!(pam.may_use("alice").unwrap(), Verdict::Wrong);
}

#[test]
fn checks_run_at_a_time_and_one_that_breaks_is_alone() {
    if !has_pam() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    for fifo in [&ready, &go] {
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
        )
        .unwrap();
    }
    // The check of `slow` ends when it is told to, and that of `broken` kills the process of PAM.
    let script = format!(
        "case $PAM_USER in slow) echo >{}; read -r line <{};; broken) kill -9 $PPID;; esac",
        ready.display(),
        go.display()
    );
    let pam = helper(folder.path(), &script, "pam_permit.so");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| pam.log_in("slow", "x"));
        fs::read(&ready).unwrap();
        assert!(matches!(pam.log_in("broken", "x"), Err(PamError::Failed)));
        assert_eq!(pam.log_in("quick", "x").unwrap(), Verdict::Right);
        fs::write(&go, "\n").unwrap();
        assert_eq!(slow.join().unwrap().unwrap(), Verdict::Right);
    });
}

#[test]
fn a_check_has_no_socket_by_which_it_could_answer_for_others() {
    if !has_pam() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let listed = folder.path().join("descriptors");
    let script = format!("ls -l /proc/$PPID/fd > {}", listed.display());
    let pam = helper(folder.path(), &script, "pam_permit.so");
    assert_eq!(pam.log_in("alice", "x").unwrap(), Verdict::Right);
    let listed = fs::read_to_string(listed).unwrap();
    assert!(listed.contains(" 0 -> pipe:"), "{listed}");
    assert!(!listed.contains("socket:"), "{listed}");
}

#[test]
fn the_program_ends_with_whoever_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_saline-pam"));
    let process = PamProcess::start(program, Some(folder.path())).unwrap();
    drop(PamHelper::new(process).unwrap());
    assert!(PamProcess::start(Path::new("/nonexistent/saline-pam"), None).is_err());
    let alone = std::process::Command::new(program).output().unwrap();
    assert_eq!(alone.status.code(), Some(64));
    let said = String::from_utf8(alone.stderr).unwrap();
    assert!(said.contains("is started by saline-master"), "{said}");
}

/// Logs somebody in, and returns the token if that succeeded.
async fn log_in(client: &Client, user: &str, password: &str) -> Option<LoginToken> {
    let token = LoginToken([user.len() as u8; 32]);
    let request = LoginRequest {
        user: user.to_owned(),
        password: Password::new(password.to_owned()),
        eauth: "pam".to_owned(),
        token,
    };
    client.log_in(request).await.unwrap().map(|_| token)
}

/// The master has no right of root's when it is asked: it runs as `nobody`.
#[test]
fn a_master_without_the_rights_of_root_logs_users_in_by_pam() {
    if !has_pam() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can put a service of PAM in the place of another");
        return;
    }
    let services = tempfile::tempdir().unwrap();
    let asked = services.path().join("asked");
    let script = format!("echo $PAM_USER >>{}; {ALICE}", asked.display());
    drop(helper(services.path(), &script, "pam_permit.so"));
    let options = "user: nobody\nauto_accept: True\nexternal_auth: {pam: {alice: [test.ping]}}\n";
    let mut fleet = Fleet::new("tcp", options);
    fs::set_permissions(fleet.root(), Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("mount --bind \"$1\" /etc/pam.d && shift && exec \"$@\"")
        .arg("sh")
        .arg(services.path())
        .arg(env!("CARGO_BIN_EXE_saline-master"))
        .arg("-c")
        .arg(fleet.config());
    fleet.start_master_by(command);
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let registry = saline_transports::registry();
    let schemes: Vec<&str> = registry.schemes().collect();
    let config = MasterConfig::load(&fleet.config(), &schemes)
        .unwrap()
        .config;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let asked_about = || fs::read_to_string(&asked).unwrap();
    runtime.block_on(async {
        let client = Client::connect(&config, &registry).await.unwrap();
        assert!(log_in(&client, "alice", "wrong").await.is_none());
        assert!(log_in(&client, "carol", "right one").await.is_none());
        // Who has no rule costs no question: nobody's account is locked by strangers.
        assert_eq!(asked_about(), "alice\n");
        let token = log_in(&client, "alice", "right one").await.unwrap();
        let alice = client.acting(token, None);
        let mut run = alice
            .run(JobSpec::glob("*", "test.ping").unwrap())
            .await
            .unwrap();
        let mut returned = Vec::new();
        while let Some(progress) = run.next().await.unwrap() {
            if let Progress::Returned(answer) = progress {
                returned.push((answer.minion.to_string(), answer.value));
            }
        }
        assert_eq!(returned, [("m1".to_owned(), Value::Bool(true))]);
        let refused = alice.run(JobSpec::glob("*", "cmd.run").unwrap()).await;
        assert!(
            matches!(refused, Err(ClientError::NotAllowed(_))),
            "{refused:?}"
        );
        client.shutdown().await;
    });
}
