//! Each destination with the real thing behind it.

mod executable;
mod files;
mod http;
mod job_cache;
mod postgres;

use saline_config::{ReturnerConfig, ReturnerName};
use saline_data::Value;
use saline_exec::{Launcher, Program};
use saline_protocol::transport::Context;

use crate::{Content, Destination, Record, open};

/// The arguments that make this program run the test below, and nothing else.
const ENTRY: [&str; 4] = ["--exact", "tests::saline_exec", "--ignored", "--nocapture"];

#[test]
#[ignore = "not a test: it is the program saline-exec, which starts the programs of other tests"]
fn saline_exec() {
    std::process::exit(i32::from(
        saline_exec::main() != std::process::ExitCode::SUCCESS,
    ));
}

/// The number of the first record: 2026-11-21 10:13:20 UTC.
const FIRST: i64 = 1_795_256_000_000_000;

fn destination(
    name: ReturnerName,
    change: impl FnOnce(&mut ReturnerConfig),
) -> Box<dyn Destination> {
    let mut config = ReturnerConfig::default();
    change(&mut config);
    let launcher = Launcher::new(Program::this_one(&ENTRY), Vec::new());
    open(name, &config, &launcher, &Context::default()).unwrap()
}

fn job(number: i64) -> Record {
    let jid = format!("20261121{number:012}");
    Record {
        number: FIRST + number,
        content: Content::Job {
            data: Value::map([
                ("arg", Value::List(vec![Value::from("a b"), Value::Int(7)])),
                ("fun", Value::from("test.echo")),
                ("jid", Value::from(jid.as_str())),
                ("minions", Value::texts(["web1", "web2"])),
                ("operator", Value::from("root")),
                ("tgt", Value::from("web*")),
                ("tgt_type", Value::from("glob")),
                ("user", Value::from("anna")),
            ]),
            jid,
        },
    }
}

fn later_return(minion: &str) -> Record {
    returned(20, minion, Some(Value::from("later")))
}

fn returned(number: i64, minion: &str, value: Option<Value>) -> Record {
    let Content::Job { jid, .. } = job(0).content else {
        unreachable!()
    };
    let mut data = vec![
        ("fun".to_owned(), Value::from("test.echo")),
        ("id".to_owned(), Value::from(minion)),
        ("jid".to_owned(), Value::from(jid.as_str())),
        ("retcode".to_owned(), Value::Int(0)),
        ("success".to_owned(), Value::Bool(true)),
        (
            "fun_args".to_owned(),
            Value::List(vec![Value::from("a b"), Value::Int(7)]),
        ),
    ];
    data.extend(value.map(|value| ("return".to_owned(), value)));
    Record {
        number: FIRST + number,
        content: Content::Return {
            jid,
            minion: minion.to_owned(),
            data: Value::Map(data),
        },
    }
}

fn event(number: i64, tag: &str) -> Record {
    Record {
        number: FIRST + number,
        content: Content::Event {
            tag: tag.to_owned(),
            origin: Value::map([("kind", Value::from("master"))]),
            data: Value::map([("act", Value::from("accept"))]),
        },
    }
}

/// Returns two events that differ in their tags alone, as those of two stores of the master can.
fn events_with_one_number(number: i64) -> [Record; 2] {
    [event(number, "salt/job/new"), event(number, "salt/key")]
}

/// One record of each kind, and a return whose value no column takes as it is.
fn batch() -> Vec<Record> {
    vec![
        job(0),
        returned(1, "web1", Some(Value::from("nul \0 and ünïcode"))),
        returned(2, "web2", Some(Value::Bytes(vec![0xff, 0]))),
        event(3, "salt/auth"),
        returned(4, "web3", None),
    ]
}
