//! What a tour starts and shows: a few minions, or a worked example with files of its own.

use std::fs;
use std::io;
use std::path::Path;

/// A fleet, and the commands that show it.
#[derive(Debug)]
pub struct Example {
    /// The ids of the minions.
    pub minions: Vec<String>,
    /// What is added to the configuration file of the master.
    pub master_options: &'static str,
    /// The files below the root of the master, and those of `minions.d`.
    files: &'static [(&'static str, &'static str)],
    /// The commands in their order.
    pub steps: &'static [Step],
}

/// A command of the tour.
#[derive(Debug)]
pub struct Step {
    /// The program and its arguments, as they are typed.
    pub words: &'static [&'static str],
    /// What happens because of the command, and is waited for.
    pub consequence: Option<Consequence>,
}

/// Events that come some time after a command has ended.
#[derive(Debug, Clone, Copy)]
pub struct Consequence {
    /// What the tour says that it waits for.
    pub description: &'static str,
    /// The minion whose returns are waited for.
    pub minion: &'static str,
    /// How many returns are waited for.
    pub returns: usize,
}

/// Returns the step that runs `words`, and has no consequence.
const fn step(words: &'static [&'static str]) -> Step {
    Step {
        words,
        consequence: None,
    }
}

/// The names of the worked examples.
pub const NAMES: [&str; 1] = ["web-fleet"];

impl Example {
    /// Returns so many minions, `m1` and on, without files.
    pub fn plain(minions: u16) -> Self {
        Self {
            minions: (1..=minions).map(|number| format!("m{number}")).collect(),
            master_options: "",
            files: &[],
            steps: &PLAIN,
        }
    }

    /// Returns the example with a name of [`NAMES`]: there is one.
    pub fn web_fleet() -> Self {
        let minions = ["lb1", "web1", "web2", "web3", "db1"];
        Self {
            minions: minions.map(str::to_owned).into(),
            master_options: include_str!("../../../examples/web-fleet/master"),
            files: &WEB_FLEET_FILES,
            steps: &WEB_FLEET,
        }
    }

    /// Writes the files of the example: those of `minions.d` into the configuration folder of the master, and all others
    /// below its root.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write(&self, config: &Path, root: &Path) -> io::Result<()> {
        for (name, text) in self.files {
            let folder = match name.starts_with("minions.d/") {
                true => config,
                false => root,
            };
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        Ok(())
    }
}

/// The tour without an example.
static PLAIN: [Step; 3] = [
    step(&["saline", "*", "test.ping"]),
    step(&["saline", "*", "cmd.run", "echo hello from $(uname -s)"]),
    step(&["saline", "*", "grains.item", "os"]),
];

/// Returns the path of a file of the example `web-fleet`, and its text.
macro_rules! web_fleet_files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../examples/web-fleet/", $name)))),*]
    };
}

/// The files of the example `web-fleet` but for the configuration file of its master and its page.
static WEB_FLEET_FILES: [(&str, &str); 9] = web_fleet_files![
    "minions.d/fleet.yaml",
    "srv/pillar/top.sls",
    "srv/pillar/common.sls",
    "srv/pillar/web.sls",
    "srv/pillar/database.sls",
    "srv/saline/site/deploy.sh",
    "srv/saline/balancer/add.sh",
    "srv/saline/balancer/show.sh",
    "srv/saline/reactor/deployed.sls",
];

/// The tour of `web-fleet`. `examples/web-fleet/README.md` explains each command.
static WEB_FLEET: [Step; 10] = [
    step(&["saline", "-C", "A@roles:web", "test.ping"]),
    step(&["saline-run", "pillar.show_top", "web1"]),
    step(&["saline", "db1", "pillar.items"]),
    step(&[
        "saline",
        "-C",
        "A@roles:web",
        "cmd.script",
        "salt://site/deploy.sh",
        "template=jinja",
    ]),
    step(&[
        "saline-run",
        "reactor.test",
        "salt/minion/web1/fleet/deployed",
    ]),
    Step {
        words: &[
            "saline",
            "-C",
            "A@roles:web",
            "event.send",
            "fleet/deployed",
        ],
        consequence: Some(Consequence {
            description: "the reactor to tell the load balancer",
            minion: "lb1",
            returns: 3,
        }),
    },
    step(&[
        "saline",
        "lb1",
        "cmd.script",
        "salt://balancer/show.sh",
        "template=jinja",
    ]),
    step(&["saline", "-C", "A@roles:web", "mine.update"]),
    step(&["saline", "lb1", "mine.get", "web*", "host"]),
    step(&["saline", "web1", "schedule.list", "where=pillar"]),
];
