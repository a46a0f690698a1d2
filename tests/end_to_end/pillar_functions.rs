//! The pillar that a minion holds, as its functions show it, and what is left of it elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use saline_protocol::transport::Clock;
use saline_testing::{CommandOutput, Fleet, TEST_TIMEOUT};
use serde_json::{Value, json};

/// The secret in the pillar of m1.
const SECRET: &str = "correct-horse-battery";

/// What the log of a minion says when the pillar is there.
const SENT: &str = "the master has sent the pillar";

const TOP: &str = "base:\n  m1:\n    - web\n";

/// Writes a file of the pillar.
fn write(fleet: &Fleet, name: &str, text: &str) {
    let folder = fleet.path("pillar-roots");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
}

fn write_role(fleet: &Fleet, role: &str) {
    write(
        fleet,
        "web.sls",
        &format!("role: {role}\npassword: {SECRET}\nport: 443\n"),
    );
}

/// Starts a master with a pillar for m1, and m1 and m2.
fn start(transport: &'static str) -> Fleet {
    let mut fleet = Fleet::new(transport, "auto_accept: True\n");
    fleet.master_options += &format!(
        "pillar_roots:\n  base: [{}]\n",
        fleet.path("pillar-roots").display()
    );
    write(&fleet, "top.sls", TOP);
    write_role(&fleet, "web");
    fleet.start_master();
    for id in ["m1", "m2"] {
        fleet.start_minion(id);
        fleet.minions[id].log.wait_for(SENT, 1);
    }
    fleet
}

/// Calls a function of a minion, and returns what it returned.
fn call_on(fleet: &Fleet, id: &str, arguments: &[&str], code: i32) -> Value {
    let all = [&[id], arguments, &["--out", "json"]].concat();
    let said = fleet.saline(&all).expect(code);
    let mut json: Value = serde_json::from_str(&said.stdout).unwrap();
    json[id].take()
}

fn call(fleet: &Fleet, arguments: &[&str]) -> Value {
    call_on(fleet, "m1", arguments, 0)
}

/// Calls with the configuration of m1.
fn saline_call(fleet: &Fleet, arguments: &[&str]) -> CommandOutput {
    let folder = fleet.minion_config("m1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-call"));
    command.arg("-c").arg(folder).args(arguments);
    CommandOutput::from(command.output().unwrap())
}

/// Returns the files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files_with(&path, text));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            if bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
            {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_minion_shows_its_own_pillar_and_hides_its_values() {
    for transport in ["tcp", "quic", "zeromq"] {
        let fleet = start(transport);
        let hidden = "**********";
        assert_eq!(
            call(&fleet, &["pillar.items"]),
            json!({"role": hidden, "password": hidden, "port": hidden})
        );
        assert_eq!(call(&fleet, &["pillar.get", "password"]), hidden);
        assert_eq!(call(&fleet, &["pillar.raw", "password"]), hidden);
        assert_eq!(call(&fleet, &["config.get", "password"]), hidden);
        assert_eq!(
            call(&fleet, &["pillar.item", "role", "none", "default=x"]),
            json!({"role": hidden, "none": "x"})
        );
        assert_eq!(
            call(&fleet, &["pillar.obfuscate"]),
            json!({"role": "<str>", "password": "<str>", "port": "<int>"})
        );
        assert_eq!(call_on(&fleet, "m2", &["pillar.items"], 0), json!({}));
        assert_eq!(call_on(&fleet, "m2", &["pillar.get", "role"], 0), "");
        // Nothing of it is on any disk, or in a log, but in the file that the operator wrote.
        let written = fleet.path("pillar-roots/web.sls").display().to_string();
        assert_eq!(files_with(fleet.root(), SECRET), [written]);
        for (id, minion) in &fleet.minions {
            assert!(!minion.log.text().contains(SECRET), "{id}");
        }
        assert!(!fleet.master().log.text().contains(SECRET));
        assert_eq!(
            call(&fleet, &["pillar.item", "role", "port", "unmask=True"]),
            json!({"role": "web", "port": 443})
        );
    }
}

#[test]
fn bytes_of_a_file_tree_arrive_as_they_are() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let tree = fleet.path("tree");
    let bytes = b"\0\xff\xfe key \xc3\x28\n\n";
    fs::create_dir_all(tree.join("hosts/m1")).unwrap();
    fs::write(tree.join("hosts/m1/keytab"), bytes).unwrap();
    fs::write(tree.join("hosts/m1/motd"), "hällo\n").unwrap();
    fleet.master_options += &format!(
        "ext_pillar:\n  - file_tree: {{root_dir: {}, keep_newline: True}}\n",
        tree.display()
    );
    write(&fleet, "top.sls", "base: {}\n");
    let folder = fleet.path("master/srv/saline");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("keytab.jinja"),
        "{{ pillar.keytab|base64_encode }}",
    )
    .unwrap();
    fs::write(folder.join("plain.jinja"), "\n{{ pillar.keytab }}").unwrap();
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for(SENT, 1);

    // An output that keeps bytes has them.
    let get = ["m1", "pillar.get", "keytab", "unmask=True", "--out"];
    let yaml = fleet.saline(&[&get[..], &["yaml"]].concat()).expect(0);
    let base64 = "AP/+IGtleSDDKAoK";
    assert_eq!(yaml.stdout, format!("m1: !!binary \"{base64}\"\n"));
    // JSON has what Python would write.
    let repr = r"b'\x00\xff\xfe key \xc3(\n\n'";
    assert_eq!(call(&fleet, &["pillar.get", "keytab", "unmask=True"]), repr);
    assert_eq!(
        call(&fleet, &["pillar.get", "motd", "unmask=True"]),
        "hällo\n"
    );
    assert_eq!(call(&fleet, &["pillar.obfuscate"])["keytab"], "<bytes>");
    let local = ["pillar.get", "keytab", "unmask=True", "--out", "yaml"];
    let local = saline_call(&fleet, &local).expect(0);
    assert_eq!(local.stdout, format!("local: !!binary \"{base64}\"\n"));
    let shown = ["pillar.show_pillar", "m1", "unmask=True", "--out", "yaml"];
    let shown = fleet.run("saline-run", &shown).expect(0).stdout;
    assert!(
        shown.contains(&format!("keytab: !!binary \"{base64}\"\n")),
        "{shown}"
    );
    // A template encodes them, or says why it cannot have them.
    let dest = fleet.path("keytab").display().to_string();
    call(&fleet, &["cp.get_template", "salt://keytab.jinja", &dest]);
    assert_eq!(fs::read_to_string(&dest).unwrap(), base64);
    let plain = ["cp.get_template", "salt://plain.jinja", &dest];
    let said = call_on(&fleet, "m1", &plain, 1);
    assert!(said.as_str().unwrap().contains("base64_encode"), "{said}");
}

#[test]
fn a_refresh_brings_what_has_changed_and_errors_keep_what_was_there() {
    let fleet = start("tcp");
    let role = || call(&fleet, &["pillar.get", "role", "unmask=True"]);
    assert_eq!(role(), "web");
    write_role(&fleet, "db");
    assert_eq!(role(), "web", "nobody has asked the master");
    assert_eq!(
        call(&fleet, &["pillar.items", "unmask=True"])["role"],
        "db",
        "this one asks, and holds nothing"
    );
    assert_eq!(role(), "web");
    assert_eq!(call(&fleet, &["saltutil.refresh_pillar"]), true);
    assert_eq!(role(), "db");

    write(&fleet, "web.sls", "role: {{ nothing.at.all }}\n");
    let refused = call_on(&fleet, "m1", &["saltutil.refresh_pillar"], 1);
    let refused = refused.as_str().unwrap();
    assert!(
        refused.starts_with(
            "ERROR: the pillar has errors, so the minion keeps the last one without any: "
        ),
        "{refused}"
    );
    assert_eq!(role(), "db");
    let shown = call_on(&fleet, "m1", &["pillar.items", "unmask=True"], 1);
    assert_eq!(shown["role"], "db");
    assert!(shown["_errors"][0].is_string(), "{shown}");

    // An event on the minion's own bus does the same, and tells when it is done.
    write_role(&fleet, "cache");
    let mut events = fleet.command("saline-run", &["state.event", "salt/minion/*", "count=1"]);
    let listening = events.stdout(std::process::Stdio::piped()).spawn().unwrap();
    fired_until_heard(&fleet, listening);
    assert_eq!(role(), "cache");

    write_role(&fleet, "mail");
    assert_eq!(call(&fleet, &["saltutil.sync_all"]), json!({"modules": []}));
    assert_eq!(role(), "mail");
}

/// Has the minion refresh its pillar by an event, until a listener has heard of it, which may begin to listen late.
fn fired_until_heard(fleet: &Fleet, mut listening: std::process::Child) {
    let deadline = Clock.after(TEST_TIMEOUT);
    while listening.try_wait().unwrap().is_none() {
        assert!(Clock.now() < deadline, "nobody tells of the refresh");
        call(fleet, &["event.fire", "{}", "pillar_refresh"]);
    }
    let heard = CommandOutput::from(listening.wait_with_output().unwrap()).expect(0);
    assert!(
        heard
            .stdout
            .contains("salt/minion/m1/minion_pillar_refresh_complete")
            && heard.stdout.contains("\"complete\": true"),
        "{}",
        heard.stdout
    );
}

#[test]
fn saline_call_asks_the_master_for_the_pillar() {
    let fleet = start("tcp");
    let said = saline_call(&fleet, &["pillar.get", "role", "unmask=True"]).expect(0);
    assert_eq!(said.stdout, "local:\n    web\n");
    let said = saline_call(&fleet, &["pillar.items", "--out", "json"]).expect(0);
    assert!(!said.stdout.contains(SECRET) && said.stdout.contains("**********"));
    let said = saline_call(&fleet, &["--local", "pillar.items"]).expect(1);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(
        told.contains("no master takes part in this call (--local)"),
        "{told}"
    );
    let said = saline_call(&fleet, &["saltutil.refresh_pillar"]).expect(1);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(
        told.contains("the pillar belongs to the running minion"),
        "{told}"
    );
}

#[test]
fn a_kept_pillar_is_private_and_goes_with_the_option() {
    let mut fleet = start("tcp");
    fleet.minions.remove("m2").unwrap().terminate();
    fleet.minions.remove("m1").unwrap().terminate();
    fleet.start_minion_with("m1", "minion_pillar_cache: True\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    assert_eq!(call(&fleet, &["saltutil.refresh_pillar"]), true);
    let kept = |fleet: &Fleet| {
        let mut found = files_with(fleet.root(), SECRET);
        found.retain(|path| !path.ends_with("web.sls"));
        found
    };
    let [path]: [String; 1] = kept(&fleet).try_into().unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600, "{path}");
    fleet.minions.remove("m1").unwrap().terminate();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for(SENT, 1);
    assert_eq!(kept(&fleet), [""; 0]);
    assert_eq!(call(&fleet, &["pillar.get", "role", "unmask=True"]), "web");
}

#[test]
fn a_master_without_a_pillar_gives_an_empty_one() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    assert_eq!(call(&fleet, &["pillar.items"]), json!({}));
    assert_eq!(call(&fleet, &["saltutil.refresh_pillar"]), true);
    let log = fleet.minions["m1"].log.text();
    assert!(
        !log.contains("not refreshed") && !log.contains("errors"),
        "nothing is wrong: {log}"
    );
}

#[test]
fn a_template_of_the_master_gets_the_pillar_of_the_minion() {
    let fleet = start("tcp");
    let folder = fleet.path("master/srv/saline");
    fs::create_dir_all(&folder).unwrap();
    let text = "{{ pillar.role }} {{ salt['pillar.get']('port') }}\n";
    fs::write(folder.join("app.jinja"), text).unwrap();
    let dest = fleet.path("app.conf");
    let get = [
        "cp.get_template",
        "salt://app.jinja",
        dest.to_str().unwrap(),
    ];
    assert_eq!(call(&fleet, &get), dest.to_str().unwrap());
    assert_eq!(fs::read_to_string(&dest).unwrap(), "web 443\n");
    // Another minion has another pillar.
    let said = call_on(&fleet, "m2", &get, 1);
    assert!(said.as_str().unwrap().contains("undefined"), "{said}");
}
