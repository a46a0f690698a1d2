//! Every part of a description is shown by a real child. `saline-exec` is this test program, started again.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::user::Account;
use crate::*;

/// The arguments that make this program run the test below, and nothing else.
const ENTRY: [&str; 4] = ["--exact", "tests::saline_exec", "--ignored", "--nocapture"];

#[test]
#[ignore = "not a test: it is the program saline-exec, which the tests start"]
fn saline_exec() {
    std::process::exit(i32::from(main() != std::process::ExitCode::SUCCESS));
}

fn launcher() -> Launcher {
    Launcher::new(
        Program::this_one(&ENTRY),
        vec!["CARGO_MANIFEST_*".to_owned()],
    )
}

fn strings(words: &[&str]) -> Vec<CString> {
    words
        .iter()
        .map(|&word| CString::new(word).unwrap())
        .collect()
}

/// Describes a shell command.
fn shell(line: &str) -> Description {
    let (mut description, environment) = launcher().describe(strings(&["/bin/sh", "-c", line]));
    description.environment = environment.into_strings().unwrap();
    description
}

/// Returns streams whose outputs are both read by the reader.
fn streams() -> (Streams, PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    let streams = Streams {
        input: File::open("/dev/null").unwrap().into(),
        error: OwnedFd::from(writer.try_clone().unwrap()),
        output: writer.into(),
    };
    (streams, reader)
}

/// Runs a command to its end, and returns its output.
fn output(description: &Description) -> (String, End) {
    let (streams, mut reader) = streams();
    let process = launcher().start(description, streams).unwrap();
    let mut output = String::new();
    reader.read_to_string(&mut output).unwrap();
    let end = process.wait().unwrap();
    (output.trim_end().to_owned(), end)
}

/// Returns the step that fails, and the error number.
fn failure(description: &Description) -> (Step, Option<i32>) {
    match launcher().start(description, streams().0).unwrap_err() {
        LaunchError::Step { step, source } => (step, source.raw_os_error()),
        error => panic!("{error}"),
    }
}

/// Writes a program, by another process: one that this one starts meanwhile would hold the file open for writing, so
/// that it could not be executed.
fn write_program(path: &Path, text: &str) {
    let written = std::process::Command::new("sh")
        .args([
            "-c",
            "printf '%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"",
            "sh",
        ])
        .arg(path)
        .arg(text)
        .status();
    assert!(written.unwrap().success());
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root can do this");
    }
    root
}

#[test]
fn the_end_is_an_exit_code_or_a_signal() {
    assert_eq!(output(&shell("exit 7")).1, End::Exited(7));
    assert_eq!(output(&shell("exit 125")).1, End::Exited(125));
    assert_eq!(output(&shell("kill -KILL $$")).1, End::Killed(9));
    assert_eq!(End::Killed(9).retcode(), 137);
}

#[test]
fn a_command_inherits_its_three_streams_and_nothing_else() {
    let leaked = File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    assert!(leaked.as_raw_fd() > 2);
    // The last is that of the folder which ls reads.
    let seen = output(&shell("ls /proc/self/fd")).0;
    assert_eq!(seen.lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let seen = output(&shell("echo first; echo second >&2; cat")).0;
    assert_eq!(seen, "first\nsecond");
    let seen = output(&shell("readlink /proc/self/fd/0 /proc/self/fd/1")).0;
    let (input, output) = seen.split_once('\n').unwrap();
    assert_eq!(input, "/dev/null");
    assert!(output.starts_with("pipe:"), "{output}");
}

#[test]
fn the_environment_is_the_one_given() {
    let mut environment = Environment::default();
    environment.set("ADDED", "a b");
    environment.set("REMOVED", "x");
    environment.remove("REMOVED");
    let description = Description {
        argv: strings(&["/usr/bin/env"]),
        environment: environment.into_strings().unwrap(),
        ..Description::default()
    };
    assert_eq!(output(&description).0, "ADDED=a b");
    let (_, environment) = launcher().describe(Vec::new());
    let seen = environment.into_strings().unwrap();
    assert!(
        seen.iter()
            .any(|variable| variable.as_bytes().starts_with(b"PATH="))
    );
}

#[test]
fn a_program_is_searched_for_in_the_path_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hello");
    write_program(&program, "#!/bin/sh\necho \"hello $1\"");
    let mut description = Description {
        argv: strings(&["hello", "you"]),
        environment: strings(&[&format!("PATH=/nosuch:{}:/bin", folder.path().display())]),
        ..Description::default()
    };
    assert_eq!(output(&description).0, "hello you");
    description.environment.clear();
    assert_eq!(failure(&description), (Step::Program, Some(libc::ENOENT)));
    description.argv = strings(&["sh", "-c", "echo default"]);
    assert_eq!(output(&description).0, "default");
}

#[test]
fn a_program_that_cannot_be_executed_is_told_apart_from_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    write_program(&program, "no program");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o644)).unwrap();
    let mut description = Description {
        argv: strings(&[program.to_str().unwrap()]),
        ..Description::default()
    };
    assert_eq!(failure(&description), (Step::Program, Some(libc::EACCES)));
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(failure(&description), (Step::Program, Some(libc::ENOEXEC)));
    description.argv.clear();
    assert_eq!(failure(&description), (Step::Program, Some(libc::ENOENT)));
}

#[test]
fn the_working_folder_is_the_one_given() {
    let mut description = shell("pwd");
    description.folder = Folder::Given(c"/usr".to_owned());
    assert_eq!(output(&description).0, "/usr");
    description.folder = Folder::Given(c"/no/such".to_owned());
    assert_eq!(failure(&description), (Step::Folder, Some(libc::ENOENT)));
    description.folder = Folder::Preferred(c"/no/such".to_owned());
    assert_eq!(output(&description).0, "/");
    description.folder = Folder::Inherited;
    let own = std::env::current_dir().unwrap();
    assert_eq!(Path::new(&output(&description).0), own);
}

#[test]
fn the_umask_is_the_one_given() {
    let mut description = shell("umask");
    description.umask = Some(0o027);
    assert_eq!(output(&description).0, "0027");
}

#[test]
fn limits_are_those_given() {
    let limit = |resource, soft, hard| Limit {
        resource,
        soft: Some(soft),
        hard: Some(hard),
    };
    let mut description = shell("ulimit -Sn; ulimit -Hn; ulimit -c");
    description.limits = vec![
        limit(Resource::OpenFiles, 50, 60),
        limit(Resource::CoreFile, 0, 0),
    ];
    assert_eq!(output(&description).0, "50\n60\n0");
    description.limits = vec![limit(Resource::OpenFiles, 60, 50)];
    let refused = Step::Limit(Resource::OpenFiles);
    assert_eq!(failure(&description), (refused, Some(libc::EINVAL)));
}

#[test]
fn a_command_runs_as_a_user_with_its_groups_in_its_home() {
    if !is_root() {
        return;
    }
    let run_as = |name: &str, line: &str| {
        let launcher = launcher();
        let (mut description, mut environment) =
            launcher.describe(strings(&["/bin/sh", "-c", line]));
        launcher
            .run_as(name, &mut description, &mut environment)
            .unwrap();
        description.environment = environment.into_strings().unwrap();
        output(&description).0
    };
    let own = |options: &str| {
        let id = std::process::Command::new("id")
            .args(["nobody", options])
            .output();
        String::from_utf8(id.unwrap().stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    };
    assert_eq!(run_as("nobody", "id -u; id -g; id -G"), {
        format!("{}\n{}\n{}", own("-u"), own("-g"), own("-G"))
    });
    let mut description = shell("id -G");
    description.user = Some(User {
        uid: 65_534,
        gid: 65_534,
        groups: vec![65_534, 4711],
    });
    assert_eq!(output(&description).0, "65534 4711");
    // Nothing can be taken back.
    let capabilities = run_as("nobody", "grep -E 'Uid|CapEff|CapPrm' /proc/self/status");
    let uid = own("-u");
    assert!(capabilities.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}")));
    assert_eq!(capabilities.matches("0000000000000000").count(), 2);
    assert_eq!(run_as("nobody", "echo $USER $LOGNAME $HOME; pwd"), {
        let home = Account::named("nobody").unwrap().home;
        let home = home.to_str().unwrap();
        let pwd = if Path::new(home).is_dir() { home } else { "/" };
        format!("nobody nobody {home}\n{pwd}")
    });
    // The folder is entered as the user.
    let private = tempfile::tempdir().unwrap();
    std::fs::set_permissions(&private, PermissionsExt::from_mode(0o700)).unwrap();
    let mut description = shell("pwd");
    description.user = Some(Account::named("nobody").unwrap().user);
    let path = private.path().to_str().unwrap();
    description.folder = Folder::Given(CString::new(path).unwrap());
    assert_eq!(failure(&description), (Step::Folder, Some(libc::EACCES)));
}

#[test]
fn an_unknown_user_is_an_error() {
    let launcher = launcher();
    let (mut description, mut environment) = launcher.describe(strings(&["id"]));
    let error = launcher
        .run_as("no such user", &mut description, &mut environment)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no user \"no such user\" on this machine"
    );
}

#[test]
fn a_command_leads_a_process_group_of_its_own_and_is_killed_with_it() {
    let (streams, mut reader) = streams();
    let process = launcher()
        .start(
            &shell("echo $$ $(ps -o pgid= -p $$); sleep 600 & sleep 600"),
            streams,
        )
        .unwrap();
    let mut line = [0; 64];
    let read = reader.read(&mut line).unwrap();
    let line = std::str::from_utf8(&line[..read]).unwrap();
    let pid = process.pid().as_raw_nonzero().to_string();
    assert_eq!(line.trim_end(), format!("{pid} {pid}"));
    assert_eq!(process.try_wait().unwrap(), None);
    kill_process_group(process.pid(), Signal::TERM).unwrap();
    assert_eq!(process.wait().unwrap(), End::Killed(15));
    // Both others held the pipe.
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_command_leads_a_session_without_a_terminal() {
    // What follows the name: state, parent, process group, session, terminal.
    let (stat, _) = output(&shell("cut -d')' -f2 /proc/$$/stat; echo $$; : </dev/tty"));
    let mut lines = stat.lines();
    let fields: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let pid = lines.next().unwrap();
    assert_eq!(fields[2..5], [pid, pid, "0"], "{stat}");
    assert!(lines.next().unwrap().contains("/dev/tty"), "{stat}");
}

#[test]
fn a_pid_is_reserved_until_the_process_is_dropped() {
    let (streams, mut reader) = streams();
    let process = launcher().start(&shell("true"), streams).unwrap();
    reader.read_to_end(&mut Vec::new()).unwrap();
    process.wait().unwrap();
    let pid = process.pid();
    // One that does not wait for this process ends at once.
    let supervisor = pidfd_open(Pid::from_child(&process.supervisor), PidfdFlags::empty()).unwrap();
    let mut ended = [PollFd::new(&supervisor, PollFlags::IN)];
    let shortly = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    assert_eq!(poll(&mut ended, Some(&shortly)), Ok(0));
    // A zombie takes signals, a free number does not.
    kill_process(pid, Signal::KILL).unwrap();
    drop(process);
    assert_eq!(
        kill_process(pid, Signal::KILL),
        Err(rustix::io::Errno::SRCH)
    );
}

#[test]
fn a_killed_supervisor_is_an_error_and_not_an_end() {
    let (streams, _reader) = streams();
    let process = launcher().start(&shell("exec sleep 600"), streams).unwrap();
    let parent = Pid::from_child(&process.supervisor);
    kill_process(parent, Signal::KILL).unwrap();
    let error = process.wait().unwrap_err();
    assert_eq!(error.to_string(), "saline-exec was killed");
    kill_process_group(process.pid(), Signal::KILL).unwrap();
}

#[test]
fn what_ends_a_service_does_not_keep_the_end_from_being_reported() {
    let (streams, _reader) = streams();
    let process = launcher().start(&shell("exec sleep 600"), streams).unwrap();
    let parent = Pid::from_child(&process.supervisor);
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        kill_process(parent, signal).unwrap();
    }
    kill_process_group(process.pid(), Signal::KILL).unwrap();
    assert_eq!(process.wait().unwrap(), End::Killed(9));
}

#[test]
fn signals_have_their_default_meaning() {
    // The standard library of this process ignores SIGPIPE, and so does saline-exec.
    let seen = output(&shell("grep -E 'SigBlk|SigIgn' /proc/self/status")).0;
    assert_eq!(seen.matches("0000000000000000").count(), 2, "{seen}");
}

#[test]
fn a_command_in_the_background_outlives_saline_exec() {
    let (streams, mut reader) = streams();
    let pid = launcher()
        .start_in_background(shell("echo begun; exec sleep 600"), streams)
        .unwrap();
    let mut line = [0; 6];
    reader.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"begun\n");
    kill_process_group(pid, Signal::KILL).unwrap();
    // The end of the command is the end of the pipe.
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_missing_program_is_named() {
    let launcher = Launcher::new(Program::beside_this_one(), Vec::new());
    let error = launcher.start(&shell("true"), streams().0).unwrap_err();
    let path = std::env::current_exe()
        .unwrap()
        .with_file_name("saline-exec");
    let path = path.display();
    assert_eq!(
        error.to_string(),
        format!(
            "{path} is missing, without which this program runs no command or job as it should; install it beside this program"
        )
    );
    assert!(Program::beside_this_one().check().is_err());
    assert!(Program::this_one(&ENTRY).check().is_ok());
}

#[test]
fn many_large_arguments_arrive() {
    let large = "x".repeat(100_000);
    let mut description = shell("true");
    description.argv = strings(&["/bin/sh", "-c", "echo $#; echo ${#9}", "sh"]);
    description.argv.extend(strings(&[large.as_str(); 10]));
    assert_eq!(output(&description).0, "10\n100000");
    let above = "x".repeat(200_000);
    description.argv.extend(strings(&[&above]));
    assert_eq!(failure(&description), (Step::Program, Some(libc::E2BIG)));
}

#[test]
fn a_command_is_moved_to_its_cgroup() {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let mount = mounts
        .into_iter()
        .find(|mount| mount.join("cgroup.procs").exists());
    let folder = mount.map(|mount| mount.join(format!("saline-exec-test-{}", std::process::id())));
    let Some(folder) = folder.filter(|folder| std::fs::create_dir(folder).is_ok()) else {
        eprintln!("skipped: this machine lets nobody make a cgroup");
        return;
    };
    let mut description = shell("cat /proc/self/cgroup");
    description.cgroup = Some(CString::new(folder.to_str().unwrap()).unwrap());
    let seen = output(&description).0;
    std::fs::remove_dir(&folder).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(seen.lines().any(|line| line.ends_with(name)), "{seen}");
    assert_eq!(failure(&description), (Step::Cgroup, Some(libc::ENOENT)));
}
