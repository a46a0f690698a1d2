//! The packages, built of the programs of this test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::Machine;

/// The names of the packages.
pub const PACKAGES: [&str; 4] = [
    "saline-common",
    "saline-master",
    "saline-minion",
    "saline-api",
];

/// The programs in the packages.
const PROGRAMS: [&str; 12] = [
    env!("CARGO_BIN_EXE_saline"),
    env!("CARGO_BIN_EXE_saline-api"),
    env!("CARGO_BIN_EXE_saline-call"),
    env!("CARGO_BIN_EXE_saline-cp"),
    env!("CARGO_BIN_EXE_saline-exec"),
    env!("CARGO_BIN_EXE_saline-job"),
    env!("CARGO_BIN_EXE_saline-key"),
    env!("CARGO_BIN_EXE_saline-master"),
    env!("CARGO_BIN_EXE_saline-minion"),
    env!("CARGO_BIN_EXE_saline-pam"),
    env!("CARGO_BIN_EXE_saline-render"),
    env!("CARGO_BIN_EXE_saline-run"),
];

/// Returns a path in the sources.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The packages in two versions.
#[derive(Debug)]
pub struct Packages(tempfile::TempDir);

impl Packages {
    /// Builds the packages, with the programs as they were built for the tests: the profile of packages takes many minutes.
    ///
    /// # Errors
    /// What this machine lacks.
    pub fn build() -> Result<Self, String> {
        if which("cargo-deb").is_none() {
            return Err("cargo-deb is not installed (cargo install cargo-deb)".to_owned());
        }
        let folder = tempfile::tempdir().unwrap();
        let release = folder.path().join("release");
        fs::create_dir(&release).unwrap();
        for program in PROGRAMS {
            let name = Path::new(program).file_name().unwrap();
            std::os::unix::fs::symlink(program, release.join(name)).unwrap();
        }
        for version in ["first", "second"] {
            fs::create_dir(folder.path().join(version)).unwrap();
        }
        for package in PACKAGES {
            let variant = package.trim_start_matches("saline-");
            let deb = folder.path().join(format!("first/{package}.deb"));
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args([
                "deb",
                "--no-build",
                "--fast",
                "--variant",
                variant,
                "--output",
            ]);
            cargo.arg(&deb).current_dir(env!("CARGO_MANIFEST_DIR"));
            done(cargo.env("CARGO_TARGET_DIR", folder.path()));
            next_version(&deb, &folder.path().join(format!("second/{package}.deb")));
        }
        Ok(Self(folder))
    }

    /// Copies the packages of a version to a machine, and returns their folder there.
    pub fn copy_to(&self, machine: &Machine, version: &str) -> String {
        let folder = machine.root().join(version);
        fs::create_dir(&folder).unwrap();
        for package in PACKAGES {
            let name = format!("{package}.deb");
            fs::copy(self.0.path().join(version).join(&name), folder.join(&name)).unwrap();
        }
        format!("/{version}")
    }
}

/// Makes the package of a next version, which has the same files.
fn next_version(deb: &Path, next: &Path) {
    let unpacked = tempfile::tempdir().unwrap();
    done(
        Command::new("dpkg-deb")
            .arg("-R")
            .arg(deb)
            .arg(unpacked.path()),
    );
    let control = unpacked.path().join("DEBIAN/control");
    let text = fs::read_to_string(&control).unwrap();
    let raised = text.replace(
        concat!(env!("CARGO_PKG_VERSION"), "-1"),
        concat!(env!("CARGO_PKG_VERSION"), "-2"),
    );
    assert_ne!(raised, text);
    fs::write(&control, raised).unwrap();
    done(
        Command::new("dpkg-deb")
            .args(["-Znone", "-b"])
            .arg(unpacked.path())
            .arg(next),
    );
}

/// Returns where a program is.
pub fn which(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
}
