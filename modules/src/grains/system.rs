//! The operating system, and the process.

use std::path::Path;

use saline_data::Value;

use super::{Entries, add, read};
use crate::accounts::{Account, Group};

/// Salt's names of distributions whose `NAME` in os-release is longer, by `ID`.
const NAMES: &[(&str, &str, &str)] = &[
    // ID, os, os_family
    ("debian", "Debian", "Debian"),
    ("ubuntu", "Ubuntu", "Debian"),
    ("raspbian", "Raspbian", "Debian"),
    ("linuxmint", "Mint", "Debian"),
    ("kali", "Kali", "Debian"),
    ("devuan", "Devuan", "Debian"),
    ("fedora", "Fedora", "RedHat"),
    ("rhel", "RedHat", "RedHat"),
    ("centos", "CentOS Stream", "RedHat"),
    ("rocky", "Rocky", "RedHat"),
    ("almalinux", "AlmaLinux", "RedHat"),
    ("ol", "OEL", "RedHat"),
    ("amzn", "Amazon", "RedHat"),
    ("opensuse-leap", "SUSE", "Suse"),
    ("opensuse-tumbleweed", "SUSE", "Suse"),
    ("sles", "SUSE", "Suse"),
    ("arch", "Arch", "Arch"),
    ("manjaro", "Manjaro", "Arch"),
    ("alpine", "Alpine", "Alpine"),
    ("gentoo", "Gentoo", "Gentoo"),
    ("nixos", "NixOS", "NixOS"),
    ("void", "Void", "Void"),
];

/// The families of other distributions, by `ID_LIKE`.
const FAMILIES: &[(&str, &str)] = &[
    ("debian", "Debian"),
    ("ubuntu", "Debian"),
    ("rhel", "RedHat"),
    ("fedora", "RedHat"),
    ("suse", "Suse"),
    ("arch", "Arch"),
];

pub fn add_to(found: &mut Entries) {
    let release = OsRelease::parse(&match read("/etc/os-release") {
        text if text.is_empty() => read("/usr/lib/os-release"),
        text => text,
    });
    let (os, family) = release.os_and_family();
    let version = release.get("VERSION_ID");
    add(found, "os", os.as_str());
    add(found, "os_family", family.as_str());
    add(found, "osfullname", release.get("NAME"));
    add(found, "osrelease", version);
    add(found, "oscodename", release.get("VERSION_CODENAME"));
    add(found, "osfinger", format!("{os}-{version}"));
    let major = version
        .split('.')
        .next()
        .and_then(|n| n.parse::<i64>().ok());
    if let Some(major) = major {
        add(found, "osmajorrelease", major);
    }
    let parts = version.split('.').filter(|part| !part.is_empty());
    let number = |part: &str| part.parse().map_or_else(|_| Value::from(part), Value::Int);
    add(
        found,
        "osrelease_info",
        Value::List(parts.map(number).collect()),
    );
    add(found, "lsb_distrib_id", release.get("NAME"));
    add(found, "lsb_distrib_release", version);
    add(
        found,
        "lsb_distrib_codename",
        release.get("VERSION_CODENAME"),
    );
    add(found, "lsb_distrib_description", release.get("PRETTY_NAME"));

    let uname = rustix::system::uname();
    let machine = uname.machine().to_string_lossy();
    add(found, "kernel", uname.sysname().to_string_lossy().as_ref());
    add(
        found,
        "kernelrelease",
        uname.release().to_string_lossy().as_ref(),
    );
    add(
        found,
        "kernelversion",
        uname.version().to_string_lossy().as_ref(),
    );
    add(found, "cpuarch", machine.as_ref());
    add(found, "osarch", package_architecture(&family, &machine));
    add(found, "init", init());
    add(found, "machine_id", read("/etc/machine-id"));
    add(
        found,
        "kernelparams",
        kernel_parameters(&read("/proc/cmdline")),
    );
    add(found, "selinux", selinux());
    add(found, "ps", "ps -efHww");
    let folder = std::env::current_dir().unwrap_or_default();
    add(found, "cwd", folder.display().to_string());
    add_locale(found);

    let variable = |name| std::env::var(name).unwrap_or_default();
    let path = variable("PATH");
    add(
        found,
        "systempath",
        Value::texts(path.split(':').filter(|p| !p.is_empty())),
    );
    add(found, "path", path);
    let shell = Some(variable("SHELL")).filter(|shell| !shell.is_empty());
    add(
        found,
        "shell",
        shell.unwrap_or_else(|| "/bin/sh".to_owned()),
    );
    add(found, "pid", u64::from(std::process::id()));
    add(found, "saltversion", env!("CARGO_PKG_VERSION"));
    let numbers = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|n| n.parse().unwrap_or(0));
    add(
        found,
        "saltversioninfo",
        Value::List(numbers.map(Value::Int).collect()),
    );

    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    add(found, "uid", u64::from(uid.as_raw()));
    add(found, "gid", u64::from(gid.as_raw()));
    add(found, "username", user_name(uid.as_raw()));
    add(found, "groupname", group_name(gid.as_raw()));
}

/// Returns the program that started the machine.
fn init() -> &'static str {
    if Path::new("/run/systemd/system").is_dir() {
        return "systemd";
    }
    match read("/proc/1/comm").as_str() {
        "init" if Path::new("/sbin/openrc").exists() => "openrc",
        "init" if Path::new("/etc/inittab").exists() => "sysvinit",
        "runit" | "runit-init" => "runit",
        "supervisord" => "supervisord",
        "tini" | "docker-init" => "tini",
        _ => "unknown",
    }
}

/// Returns the words that the kernel was started with, each a name and its value.
fn kernel_parameters(line: &str) -> Value {
    let pairs = line.split_whitespace().map(|word| {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Value::from(value.trim_matches('"'))),
            None => (word, Value::Null),
        };
        Value::List(vec![Value::from(name), value])
    });
    Value::List(pairs.collect())
}

fn selinux() -> Value {
    let enforced = match read("/sys/fs/selinux/enforce").as_str() {
        "1" => "Enforcing",
        "0" => "Permissive",
        _ => "Disabled",
    };
    let enabled = Value::Bool(enforced != "Disabled");
    Value::map([("enabled", enabled), ("enforced", enforced.into())])
}

/// Adds the language of the machine, and its time zone.
fn add_locale(found: &mut Entries) {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let set = variables.filter_map(|name| std::env::var(name).ok());
    let locale = set.into_iter().find(|value| !value.is_empty());
    let locale = locale.unwrap_or_else(|| "C".to_owned());
    let (language, encoding) = locale.split_once('.').unwrap_or((&locale, ""));
    let zone = std::fs::read_link("/etc/localtime").unwrap_or_default();
    let zone = zone.to_string_lossy();
    let zone = zone.split_once("zoneinfo/").map_or("UTC", |(_, name)| name);
    let locale_info = [
        ("defaultlanguage", Value::from(language)),
        ("defaultencoding", Value::from(encoding)),
        ("detectedencoding", Value::from("utf-8")),
        ("timezone", Value::from(zone)),
    ];
    add(found, "locale_info", Value::map(locale_info));
    add(found, "timezone", zone);
}

/// Returns the architecture as the distribution's packages name it.
fn package_architecture(family: &str, machine: &str) -> String {
    let debian = match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armv7l" => "armhf",
        "i586" | "i686" => "i386",
        "ppc64le" => "ppc64el",
        other => other,
    };
    if family == "Debian" { debian } else { machine }.to_owned()
}

/// Returns the name of a user; the number itself when it has no name.
fn user_name(uid: u32) -> String {
    let accounts = Account::local().into_iter();
    let mut named = accounts.filter(|account| account.uid == uid);
    named
        .next()
        .map_or_else(|| uid.to_string(), |account| account.name)
}

/// Returns the name of a group; the number itself when it has no name.
fn group_name(gid: u32) -> String {
    let groups = Group::local().into_iter();
    let mut named = groups.filter(|group| group.gid == gid);
    named
        .next()
        .map_or_else(|| gid.to_string(), |group| group.name)
}

/// The entries of `os-release`.
struct OsRelease(Vec<(String, String)>);

impl OsRelease {
    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| {
            let (name, value) = line.trim().split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            (!name.starts_with('#')).then(|| (name.to_owned(), value.to_owned()))
        });
        Self(pairs.collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    fn os_and_family(&self) -> (String, String) {
        let id = self.get("ID");
        if let Some((_, os, family)) = NAMES.iter().find(|(known, ..)| *known == id) {
            return ((*os).to_owned(), (*family).to_owned());
        }
        let name = self
            .get("NAME")
            .split_whitespace()
            .next()
            .unwrap_or("Linux");
        let family = self
            .get("ID_LIKE")
            .split_whitespace()
            .find_map(|like| FAMILIES.iter().find(|(known, _)| *known == like))
            .map_or(name, |(_, family)| family);
        (name.to_owned(), family.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_called_as_salt_calls_them() {
        for (text, os, family) in [
            ("ID=debian\nNAME=\"Debian GNU/Linux\"", "Debian", "Debian"),
            ("NAME='Rocky Linux'\nID=\"rocky\"", "Rocky", "RedHat"),
            (
                "ID=pop\nID_LIKE=\"ubuntu debian\"\nNAME=\"Pop!_OS\"",
                "Pop!_OS",
                "Debian",
            ),
            ("ID=new\nNAME=\"New Thing\"", "New", "New"),
            ("", "Linux", "Linux"),
        ] {
            let release = OsRelease::parse(text);
            assert_eq!(
                release.os_and_family(),
                (os.to_owned(), family.to_owned()),
                "{text}"
            );
        }
    }
}
