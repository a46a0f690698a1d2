//! A server of PostgreSQL for one test, from the packages of the system.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

/// Where Debian has the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The user and the group `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;

/// The port after which the socket is named: that of PostgreSQL.
const PORT: u16 = 5_432;

/// The name of the role, its password, and the database.
pub const NAME: &str = "salt";

/// A server on a Unix socket in a temporary folder, with the role `salt`, whose password is `salt`, and the database `salt`. It is
/// stopped when this is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    folder: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
    /// Further options of the server.
    options: String,
}

impl PostgresServer {
    /// Starts a server. Returns none, and says so, where PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        Self::start_on(PORT, |_| "-c listen_addresses=".to_owned())
    }

    /// Starts a server whose socket is that of a port, with the options that `options` returns, which may put files into the
    /// folder that it gets.
    pub fn start_on(port: u16, options: impl FnOnce(&Path) -> String) -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!(
                "SKIPPED: PostgreSQL is not installed (Debian: apt-get install postgresql), so nothing is delivered to it"
            );
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = options(folder.path());
        let server = Self {
            folder,
            programs,
            port,
            options,
        };
        let path = server.folder.path();
        fs::write(path.join("password"), NAME).expect("a file with a password");
        if geteuid().is_root() {
            for entry in fs::read_dir(path).expect("the folder").flatten() {
                chown(entry.path(), Some(NOBODY), Some(NOBODY)).expect("a file for nobody");
            }
            chown(path, Some(NOBODY), Some(NOBODY)).expect("a folder for nobody");
        }
        fs::set_permissions(path, Permissions::from_mode(0o711)).expect("a mode of the folder");
        let (data, password) = (server.data(), path.join("password"));
        server.run("initdb", |command| {
            command
                .arg("-D")
                .arg(&data)
                .args(["-U", NAME, "-E", "UTF8", "--no-locale", "--no-sync"])
                .args(["--auth=scram-sha-256"])
                .arg(format!("--pwfile={}", password.display()));
        });
        server.restart();
        server.query_in("postgres", &format!("CREATE DATABASE {NAME}"));
        Some(server)
    }

    /// Returns the folder of the socket.
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server again after [`kill`](Self::kill), and waits until it takes connections.
    pub fn restart(&self) {
        let options = format!(
            "-k {} -p {} -c fsync=off {}",
            self.folder.path().display(),
            self.port,
            self.options
        );
        self.control(&["start", "-w", "-o", &options]);
    }

    /// Ends the server at once, as a crash does.
    pub fn kill(&self) {
        self.control(&["stop", "-w", "-m", "immediate"]);
    }

    /// Runs a statement in the database, and returns its rows: a line each, with `|` between the columns.
    pub fn query(&self, sql: &str) -> String {
        self.query_in(NAME, sql)
    }

    fn query_in(&self, database: &str, sql: &str) -> String {
        self.run("psql", |command| {
            command
                .env("PGPASSWORD", NAME)
                .arg("-h")
                .arg(self.folder.path())
                .args(["-p", &self.port.to_string()])
                .args([
                    "-U",
                    NAME,
                    "-d",
                    database,
                    "-AtXq",
                    "-v",
                    "ON_ERROR_STOP=1",
                    "-c",
                    sql,
                ]);
        })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn control(&self, arguments: &[&str]) {
        let log = self.folder.path().join("log");
        self.run("pg_ctl", |command| {
            command
                .arg("-D")
                .arg(self.data())
                .arg("-l")
                .arg(log)
                .args(arguments);
        });
    }

    /// Runs one of the programs to its end, and returns its output.
    fn run(&self, program: &str, describe: impl FnOnce(&mut Command)) -> String {
        let mut command = Command::new(self.programs.join(program));
        describe(&mut command);
        command.current_dir("/").stdin(Stdio::null());
        // Its output is a file: the server inherits it, and a pipe would not end before the server.
        let (out, error) = (
            tempfile::tempfile().expect("a file for the output"),
            tempfile::tempfile().expect("a file for the errors"),
        );
        let copy = |file: &fs::File| file.try_clone().expect("another descriptor");
        command.stdout(copy(&out)).stderr(copy(&error));
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let ended = command.status().expect("a program of PostgreSQL");
        let said = |file| {
            use std::io::{Read, Seek};
            let (mut file, mut text): (fs::File, _) = (file, String::new());
            file.rewind().expect("the beginning of the output");
            file.read_to_string(&mut text).expect("text");
            text
        };
        assert!(
            ended.success(),
            "{program}: {ended}: {}{}",
            said(copy(&out)),
            said(error)
        );
        said(out).trim_end().to_owned()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let mut command = Command::new(self.programs.join("pg_ctl"));
        command
            .arg("-D")
            .arg(self.data())
            .args(["stop", "-w", "-m", "immediate"])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        // One that was killed before is not there.
        let _ = command.status();
    }
}

/// Returns the folder of the programs of the newest version.
fn programs() -> Option<PathBuf> {
    let version = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
    let entries = fs::read_dir(VERSIONS).ok()?.flatten();
    let found = entries.filter_map(|entry| {
        let programs = entry.path().join("bin");
        let is_whole = ["initdb", "pg_ctl", "psql"]
            .iter()
            .all(|name| programs.join(name).exists());
        Some((version(&entry.file_name())?, programs)).filter(|_| is_whole)
    });
    found.max().map(|(_, programs)| programs)
}
