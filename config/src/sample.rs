//! The sample configuration of packages, written from the tables that the loader reads by: every option, commented out.

use std::fmt::Write;
use std::path::PathBuf;

use crate::document::REWRITE;
use crate::role::Role;
use crate::{MasterConfig, MinionConfig, OptionDoc};

/// The width of a line of the sample.
const WIDTH: usize = 100;

/// The options that packages set, with their values.
fn set_by_packages<C: Role>() -> &'static [(&'static str, &'static str)] {
    match C::FILE {
        "master" => &[("user", "saline")],
        _ => &[],
    }
}

fn sample<C: Role>() -> String {
    let mut text = format!(
        "# The configuration of the Saline {role}: every option, with its default.\n\
         # docs/configuration.md explains how the file is read. saline-{role} --check finds mistakes in it.\n\
         # Files in /etc/saline/{role}.d/*.conf are read after this one.\n\
         # \"Reloaded\": systemctl reload saline-{role} is enough. Other options need a restart.\n",
        role = C::FILE
    );
    let mut options: Vec<_> = C::OPTIONS.iter().collect();
    options.sort_by_key(|option| option.name);
    for option in options {
        let OptionDoc {
            name,
            unit,
            default,
            help,
            ..
        } = option;
        let reloaded = match C::RELOADED.contains(name) {
            true => " Reloaded.",
            false => "",
        };
        text.push('\n');
        // Tables of Markdown have their bars escaped.
        let help = help.replace("\\|", "|");
        for line in wrapped(&format!("{help} Takes {unit}.{reloaded}")) {
            let _ = writeln!(text, "# {line}");
        }
        let set = set_by_packages::<C>().iter().find(|(set, _)| set == name);
        let _ = match (set, *default) {
            (Some((_, value)), _) => writeln!(text, "{name}: {value}"),
            (None, "") => writeln!(text, "#{name}:"),
            (None, default) => writeln!(text, "#{name}: {}", scalar(default)),
        };
    }
    text
}

/// Returns a default as YAML: quoted where it is no plain scalar.
fn scalar(default: &str) -> String {
    match default.contains(['*', ':', '[']) {
        true => format!("'{default}'"),
        false => default.to_owned(),
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().unwrap();
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH - 2 {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

fn check<C: Role>() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../packaging/etc")
        .join(C::FILE);
    let written = sample::<C>();
    if std::env::var_os(REWRITE).is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &written).unwrap();
    }
    let stands = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stands == written,
        "packaging/etc/{} is stale: run {REWRITE}=1 cargo test -p saline-config",
        C::FILE
    );
}

#[test]
fn the_samples_are_up_to_date() {
    check::<MasterConfig>();
    check::<MinionConfig>();
}

#[test]
fn the_samples_change_nothing_also_when_every_default_is_uncommented() {
    fn load<C: Role>(text: &str) -> C {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(C::FILE), text).unwrap();
        let loaded = crate::load::load::<C>(folder.path(), &[]).unwrap();
        assert_eq!(loaded.warnings, [""; 0]);
        loaded.config
    }
    fn check<C: Role + PartialEq + std::fmt::Debug>(packaged: C) {
        let sample = sample::<C>();
        assert_eq!(load::<C>(&sample), packaged);
        let is_option = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
        let options = sample.lines().filter(is_option).map(|line| &line[1..]);
        let uncommented: Vec<&str> = options.collect();
        let commented = C::OPTIONS.len() - set_by_packages::<C>().len();
        assert_eq!(uncommented.len(), commented);
        // Those without a default wait for a value.
        let defaults = uncommented.iter().filter(|line| !line.ends_with(':'));
        let defaults: Vec<&str> = defaults.copied().collect();
        assert_eq!(load::<C>(&defaults.join("\n")), C::default());
    }
    check(MasterConfig {
        user: Some("saline".to_owned()),
        ..MasterConfig::default()
    });
    check(MinionConfig::default());
}
