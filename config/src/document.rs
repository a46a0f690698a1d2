//! `docs/configuration.md`, written from the tables that the loader reads by.

use std::fmt::Write;
use std::path::PathBuf;

use crate::role::Role;
use crate::{ApiConfig, MasterConfig, MinionConfig, OptionDoc};

/// The variable that has the tests write the generated files.
pub(crate) const REWRITE: &str = "SALINE_WRITE_DOCS";

const INTRODUCTION: &str = "\
# Configuration

<!-- Written from the tables in config/src/options: SALINE_WRITE_DOCS=1 cargo test -p saline-config -->

A master reads `/etc/saline/master`, a minion `/etc/saline/minion`, and the HTTP API `/etc/saline/api` or, where there
is none, the master's file; `-c DIR` names another folder. The
files are YAML as Salt reads it, and the options have Salt's names where Salt has them. A file that is
absent leaves every option at its default; an absent folder is an error.

- Files of `master.d/*.conf`, `minion.d/*.conf` or `api.d/*.conf` are read after the main one, in the order of their
  names, then those of `include`. A file beside them that looks like one of them (`x.yaml`) is
  told and not read. Later files override earlier ones; entries of `grains` and of a
  transport's section are merged.
- What a master takes for true of minions stands beside its configuration, in `minions.d/*.yaml`: see
  *Roles and attributes* in [targeting.md](targeting.md).
- Options of Salt's that Saline does not have cause one warning in the log, which names them. A daemon
  does not start with one that restricts what it does, such as `disable_modules` or, for a
  minion, a `user` that it does not run as. Unknown names, duplicate names in one file, and invalid values are
  errors with file, line and column, of which one error names the first, and how many more there are.
- Times are seconds where the table does not say another unit, and may have a fraction (`0.5`) or a unit
  (`90s`, `15m`, `1h`, `2d`). Numbers of bytes may have a unit (`64K`, `10M`, `10G`). Numbers may be
  quoted. Texts that look like numbers or truth values must be quoted (`id: '1234'`).
- Transport options go in a section named after the transport:

  ```yaml
  transport: [zeromq, tcp]
  tcp:
    ret_port: 4507
    connections: 20000
  ```

  `ret_port` and `publish_port` in a section are the ports of that transport alone, and so is
  `master_port` in the section of a minion or an API. Two transports cannot listen on one port, except one over
  UDP (quic) and one over TCP. `connections` in a section of the master is the largest number of connections that it
  holds over that transport, 65536 if it is not set. Where each takes descriptors, the master's limit of open files
  allows fewer if it is too small for them; the log says at the start for how many minions there is room.
- A running daemon reads its files again on SIGHUP. Options with ↻ are taken over, on a minion also
  `transport` and the sections of transports; the log names the others that have changed, which need a
  restart. If a file is wrong, nothing changes.
";

fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    section::<MasterConfig>(&mut text, "The master");
    section::<MinionConfig>(&mut text, "The minion");
    section::<ApiConfig>(&mut text, "The API");
    text
}

fn section<C: Role>(text: &mut String, title: &str) {
    let head = "| option | takes | default | what it does |\n|---|---|---|---|\n";
    let _ = write!(text, "\n## {title}\n\n{head}");
    let mut options: Vec<_> = C::OPTIONS.iter().collect();
    options.sort_by_key(|option| option.name);
    for option in options {
        let default = match option.default {
            "" => "not set".to_owned(),
            default => format!("`{default}`"),
        };
        let OptionDoc {
            name, unit, help, ..
        } = option;
        let mark = if C::RELOADED.contains(name) {
            " ↻"
        } else {
            ""
        };
        let _ = writeln!(text, "| `{name}`{mark} | {unit} | {default} | {help} |");
    }
}

#[test]
fn the_documentation_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let written = document();
    if std::env::var_os(REWRITE).is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &written).unwrap();
    }
    let stands = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stands == written,
        "docs/configuration.md is stale: run {REWRITE}=1 cargo test -p saline-config"
    );
}

#[test]
fn every_default_is_the_one_that_the_loader_starts_from() {
    fn check<C: Role + PartialEq + std::fmt::Debug>() {
        for option in C::OPTIONS {
            assert!(!option.help.is_empty() && !option.unit.is_empty());
            let names = C::OPTIONS.iter().filter(|other| other.name == option.name);
            assert_eq!(names.count(), 1, "{}", option.name);
            // A value that no option takes shows that the loader asks this one.
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(C::FILE);
            std::fs::write(&file, format!("{}: [[]]\n", option.name)).unwrap();
            let error = crate::load::load::<C>(folder.path(), &[])
                .map(|_| ())
                .unwrap_err();
            let named = format!("option {:?} takes ", option.name);
            assert!(error.to_string().contains(&named), "{error}");
            if !option.default.is_empty() {
                let line = format!("{}: {:?}\n", option.name, option.default);
                let line = match option.default {
                    "True" | "False" | "{}" => line.replace('"', ""),
                    _ => line,
                };
                std::fs::write(&file, line).unwrap();
                let loaded = crate::load::load::<C>(folder.path(), &[]).unwrap();
                assert_eq!(loaded.config, C::default(), "{}", option.name);
                assert_eq!(loaded.warnings, [""; 0], "{}", option.name);
            }
        }
    }
    check::<MasterConfig>();
    check::<MinionConfig>();
    check::<ApiConfig>();
}

#[test]
fn what_is_said_not_to_be_set_is_not() {
    let (master, minion) = (MasterConfig::default(), MinionConfig::default());
    assert!(master.transport.is_empty() && minion.transport.is_empty());
    assert_eq!((master.ipc_transport, master.worker_threads), (None, None));
    assert_eq!((minion.id, minion.master_finger), (None, None));
    assert_eq!((master.paths.pid_file, master.logging.file), (None, None));
    assert_eq!((minion.paths.pid_file, minion.logging.file), (None, None));
}
