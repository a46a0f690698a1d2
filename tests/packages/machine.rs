//! A copy of this machine that only the test sees: an overlay over the root of the file system, in which nothing that is written
//! reaches the machine itself, with a network of its own.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use saline_testing::{CommandOutput, Process};

use crate::built::which;

/// Makes the copy below the folder `$1`, says so, waits for a line, and becomes `$2`.
const MAKE: &str = r#"
set -e
root=$1/root
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
ip link set lo up
for folder in etc/saline var/lib/saline var/cache/saline var/log/saline; do rm -rf "$root/$folder"; done
if [ "$2" = systemd ]; then
    # Nothing of the machine's own is started, and nothing is set in the kernel, which is the machine's.
    rm -rf "$root"/etc/systemd/system/*.wants "$root/usr/sbin/policy-rc.d"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount --bind "$root/proc/sys" "$root/proc/sys"
    mount -o remount,bind,ro "$root/proc/sys"
    for unit in modprobe@ systemd-modules-load systemd-binfmt systemd-udevd systemd-udev-trigger; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
    done
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    else
        mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
        mkdir "$root/sys/fs/cgroup/systemd"
        mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
    fi
fi
echo made
read -r line
case $2 in
systemd) exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test NOTIFY_SOCKET=/notify chroot "$root" /lib/systemd/systemd --unit=multi-user.target ;;
*) exec cat ;;
esac
"#;

/// What the copy takes beside root.
const NEEDED: [&str; 5] = ["dpkg", "unshare", "nsenter", "ip", "systemd-analyze"];

/// How long systemd may take to start nothing.
const BOOT: Duration = Duration::from_secs(60);

/// A copy of this machine. It is gone when this is dropped.
#[derive(Debug)]
pub struct Machine {
    /// Holds the copy, and ends all of its processes when it is killed.
    _keeper: Process,
    /// The first process in the copy.
    pid: String,
    /// The options of `unshare` and `nsenter` that name its namespaces.
    spaces: &'static [&'static str],
    root: PathBuf,
    input: ChildStdin,
    folder: tempfile::TempDir,
}

impl Machine {
    /// Makes a copy in which no service runs.
    ///
    /// # Errors
    /// What this machine lacks for it.
    pub fn start() -> Result<Self, String> {
        let mut machine = Self::make("nothing", &["--mount", "--net"])?;
        writeln!(machine.input).unwrap();
        Ok(machine)
    }

    /// Makes a copy in which systemd runs, and nothing else. Its processes have numbers of their own.
    ///
    /// # Errors
    /// What this machine lacks for it.
    pub fn boot() -> Result<Self, String> {
        if !Path::new("/lib/systemd/systemd").exists() {
            return Err("this machine has no systemd".to_owned());
        }
        let mut machine = Self::make("systemd", &["--mount", "--net", "--cgroup", "--pid"])?;
        let told = UnixDatagram::bind(machine.root.join("notify")).unwrap();
        told.set_read_timeout(Some(BOOT)).unwrap();
        writeln!(machine.input).unwrap();
        let mut line = [0; 4096];
        loop {
            match told.recv(&mut line) {
                Ok(read) if line[..read].starts_with(b"READY=1") => break,
                Ok(_) => {}
                Err(error) => return Err(format!("systemd does not start in a copy: {error}")),
            }
        }
        // The first process has made the copy its own root.
        machine.root = Path::new("/proc").join(&machine.pid).join("root");
        Ok(machine)
    }

    /// Makes the copy, and the namespaces that `spaces` names.
    fn make(first: &str, spaces: &'static [&'static str]) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can make a copy of the machine".to_owned());
        }
        if let Some(missing) = NEEDED.into_iter().find(|needed| which(needed).is_none()) {
            return Err(format!("this machine has no {missing}"));
        }
        let folder = tempfile::tempdir().unwrap();
        let mut unshare = Command::new("unshare");
        unshare.args(spaces);
        let forks = spaces.contains(&"--pid");
        if forks {
            unshare.args(["--fork", "--kill-child", "--mount-proc"]);
        }
        let mut keeper: Child = unshare
            .args(["sh", "-c", MAKE, "sh"])
            .arg(folder.path())
            .arg(first)
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
        let mut pid = keeper.pid().to_string();
        if forks {
            let children = format!("/proc/{pid}/task/{pid}/children");
            pid = std::fs::read_to_string(children).unwrap().trim().to_owned();
        }
        // As this process sees it, which is not in the namespace of the copy.
        let inside = folder.path().strip_prefix("/").unwrap().join("root");
        Ok(Self {
            root: Path::new("/proc").join(&pid).join("root").join(inside),
            _keeper: keeper,
            pid,
            spaces,
            input,
            folder,
        })
    }

    /// Returns the root of the copy, as the test sees it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a command on the copy, not started yet.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(self.spaces)
            .args(["--target", &self.pid])
            .arg("chroot")
            .arg(self.folder.path().join("root"))
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
