//! YAML: configuration files, and the arguments that operators type.

use std::fmt::Debug;

use saline_config::{
    ApiConfig, ConfigError, Loaded, MasterConfig, MinionConfig, parse_argument, parse_arguments,
};
use saline_data::yaml::{self, MAX_NESTING, MAX_NODES};
use saline_data::{Packed, Value};

use crate::names::text;
use crate::scratch_folder::ScratchFolder;

pub(crate) fn yaml(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    match yaml::parse(text) {
        Ok(value) => can_be_sent(&value),
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 1, "{error:?}");
            // A carriage return ends a line too.
            let breaks = text.chars().filter(|c| matches!(c, '\n' | '\r')).count() as u64;
            assert!((1..=breaks + 1).contains(&error.line), "{error:?}");
        }
    }
}

/// Holds that a value that was read can be sent and read again.
fn can_be_sent(value: &Value) {
    let packed = Packed::pack(value);
    let read = packed.unpack().expect("less nesting than messages allow");
    assert_eq!(Packed::pack(&read), packed);
    let (depth, count) = size(value);
    assert!(depth <= MAX_NESTING + 1 && count <= MAX_NODES);
}

fn size(value: &Value) -> (usize, usize) {
    let inner: Vec<(usize, usize)> = match value {
        Value::List(values) => values.iter().map(size).collect(),
        Value::Map(entries) => entries.iter().map(|(_, value)| size(value)).collect(),
        _ => return (0, 1),
    };
    let deepest = inner.iter().map(|(depth, _)| *depth).max();
    let count: usize = inner.iter().map(|(_, count)| *count).sum();
    (1 + deepest.unwrap_or_default(), 1 + count)
}

pub(crate) fn yaml_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "a: 1\nb: [x, 'y', \"z\\n\"]\nc:\n  - {d: ~}\n",
        "- yes\n- off\n- 0x1F\n- 0644\n- -0644\n- 1.5e+3\n- .inf\n- 1_000\n- 12:30\n",
        "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n",
        "a: !!str 1\nb: !!int '2'\nc: !!float 1\nd: ! x\n",
        "text: |\n  one\n  two\nfolded: >-\n  one\n  two\n",
        "? a\n: b\n",
        "--- a\n...\n--- b\n",
        "%YAML 1.1\n---\na: 1 # no\n",
        "a: b: c\n",
        "[[[[[[",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn command_line(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    can_be_sent(&parse_argument(text));
    let words: Vec<String> = text.split('\0').map(str::to_owned).collect();
    let arguments = parse_arguments(&words);
    assert!(arguments.positional.len() + arguments.named.len() <= words.len());
    let read = arguments
        .pack()
        .unpack()
        .expect("arguments that were packed");
    assert_eq!(read.pack(), arguments.pack());
}

pub(crate) fn command_line_seeds() -> Vec<Vec<u8>> {
    let lines = [
        "a|b=1|c={d: [e]}",
        "None|null|~|''",
        "a=1|a=2|a==b|_x=y",
        "a: b|- a|foo:|[1, 2|{x: y}",
        "1_000|007|0x1F|1e3|184467440737095516160",
        "&a|*a|!!python/object:os.system",
    ];
    let words = |line: &&str| line.replace('|', "\0").into_bytes();
    lines.iter().map(words).collect()
}

const SCHEMES: &[&str] = &["quic", "tcp", "zeromq"];

/// The bytes are the main file of a daemon, and a file that assigns something to minions.
pub(crate) fn files(bytes: &[u8]) {
    // It would read whatever files of this machine the input names.
    if bytes.windows(7).any(|part| part == b"include") {
        return;
    }
    let folder = ScratchFolder::new();
    folder.write("master", bytes);
    folder.write("minion", bytes);
    hold(MasterConfig::load(folder.path(), SCHEMES));
    folder.write("api", bytes);
    hold(MinionConfig::load(folder.path(), SCHEMES));
    hold(ApiConfig::load(folder.path(), SCHEMES));
    hold(assigned(bytes));
}

/// Reads the bytes as the only file of `minions.d`.
fn assigned(bytes: &[u8]) -> Result<Loaded<MasterConfig>, ConfigError> {
    let folder = ScratchFolder::new();
    let minions = folder.path().join("minions.d");
    std::fs::create_dir(&minions).expect("a target cannot run without its files");
    folder.write("minions.d/a.yaml", bytes);
    let mut loaded = MasterConfig::load(folder.path(), SCHEMES)?;
    loaded.read_assignments(folder.path())?;
    Ok(loaded)
}

fn hold<C: Debug>(loaded: Result<Loaded<C>, ConfigError>) {
    match loaded {
        Ok(loaded) => {
            let is_one_line = |warning: &String| warning.lines().count() == 1;
            assert!(loaded.warnings.iter().all(is_one_line), "{loaded:?}");
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error:?}"),
    }
}

pub(crate) fn file_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "interface: 192.0.2.1\nret_port: 4506\ntransport: [zeromq, quic]\nworker_threads: 5\n",
        "master: [a, 'b:4507', '[::1]']\nid: m1\nmaster_finger: '00:11'\ngrains: {a: [b]}\n",
        "rest_cherrypy: {port: 8000, host: '::1', cors_origin: 'https://a.b', trusted_proxies: ['10.0.0.1'], app_path: /app}\n",
        "keep_jobs_seconds: 0\njob_store_size: 10GiB\nauto_accept: yes\nlog_level: debug\n",
        "root_dir: /x\npki_dir: /x/pki\ncachedir: y\nsock_dir: z\nmax_message_size: 1\n",
        "tcp:\n  nodelay: true\nssl:\n  certfile: /a\n  keyfile: /b\n",
        "timeout: -1\n",
        "web*: {roles: [web], attributes: {site: berlin}}\n'*':\n  attributes: {site: paris, racks: [1, 2]}\n",
        "'{a,[!b]}?': {roles: db}\ndb1: {attributes: {tier: 1}}\n'G@x': {}\n",
        "file_roots: {base: [/srv]}\nunknown_option: 1\n",
        "[]\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
