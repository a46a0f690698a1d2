//! A copy of this machine that only the test sees: an overlay over the root of the file system, in which nothing that is written
//! reaches the machine itself, with a network of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use saline_testing::{CommandOutput, Process};

use crate::built::which;

/// Makes the copy below the folder `$1`, says so, and keeps it until its standard input ends. No service is started in it.
const MAKE: &str = r#"
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
mount -t tmpfs tmpfs "$1/root/tmp"
ip link set lo up
for folder in etc/saline var/lib/saline var/cache/saline var/log/saline; do rm -rf "$1/root/$folder"; done
echo made
exec cat
"#;

/// What the copy takes beside root.
const NEEDED: [&str; 5] = ["dpkg", "unshare", "nsenter", "ip", "systemd-analyze"];

/// A copy of this machine. It is gone when this is dropped.
#[derive(Debug)]
pub struct Machine {
    keeper: Process,
    root: PathBuf,
    _input: ChildStdin,
    folder: tempfile::TempDir,
}

impl Machine {
    /// Makes the copy.
    ///
    /// # Errors
    /// What this machine lacks for it.
    pub fn start() -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can make a copy of the machine".to_owned());
        }
        if let Some(missing) = NEEDED.into_iter().find(|needed| which(needed).is_none()) {
            return Err(format!("this machine has no {missing}"));
        }
        let folder = tempfile::tempdir().unwrap();
        let mut keeper: Child = Command::new("unshare")
            .args(["--mount", "--net", "sh", "-c", MAKE, "sh"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (keeper.stdin.take().unwrap(), keeper.stdout.take().unwrap());
        let keeper = Process::from(keeper);
        let mut made = String::new();
        BufReader::new(output).read_line(&mut made).unwrap();
        if made != "made\n" {
            return Err("this machine cannot mount an overlay over its root".to_owned());
        }
        // As this process sees it, which is not in the namespace of the copy.
        let inside = folder.path().strip_prefix("/").unwrap().join("root");
        let root = Path::new("/proc")
            .join(keeper.pid().to_string())
            .join("root")
            .join(inside);
        Ok(Self {
            keeper,
            root,
            _input: input,
            folder: folder,
        })
    }

    /// Returns the root of the copy, as the test sees it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a command on the copy, not started yet.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let inside = self.folder.path().join("root");
        command
            .args([
                "--mount",
                "--net",
                "--target",
                &self.keeper.pid().to_string(),
            ])
            .arg("chroot")
            .arg(inside)
            .arg(program)
            .args(arguments)
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command on the copy and waits for it.
    pub fn run(&self, program: &str, arguments: &[&str]) -> CommandOutput {
        CommandOutput::from(self.command(program, arguments).output().unwrap())
    }
}
