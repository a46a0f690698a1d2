//! Scripts and templates of the master, on minions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use saline_testing::Fleet;

use crate::files::{call, fail, mode, serve};

fn stdout(returned: &serde_json::Value) -> &str {
    returned["stdout"].as_str().unwrap()
}

#[test]
fn scripts_of_the_master_run_from_a_copy_that_is_removed() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.master_options += &format!(
        "file_roots:\n  base: [{0}/base]\n  prod: [{0}/prod]\n",
        fleet.root().display()
    );
    let root = fleet.root().to_owned();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "base/scripts/show",
        "#!/bin/sh\nprintf '%s|' \"$@\"; echo \"$0\"; id -un\nexit 3\n",
    );
    write("prod/scripts/show", "echo prod\n");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let script = [
        "m1",
        "cmd.script",
        "salt://scripts/show",
        "a 'b c'",
        "--out",
        "json",
    ];
    let said = fleet.saline(&script).expect(1);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let returned = &json["m1"];
    assert_eq!(returned["retcode"], 3);
    let lines: Vec<&str> = stdout(returned).lines().collect();
    let copy = lines[0].strip_prefix("a|b c|").unwrap();
    assert!(copy.starts_with('/') && !Path::new(copy).exists(), "{copy}");
    if rustix::process::geteuid().is_root() {
        let as_nobody = [
            "cmd.script",
            "salt://scripts/show",
            "runas=nobody",
            "cwd=/",
            "success_retcodes=3",
        ];
        let returned = call(&fleet, &as_nobody);
        assert!(stdout(&returned).ends_with("\nnobody"), "{returned}");
    }
    let retcode = fleet
        .saline(&["m1", "cmd.script_retcode", "salt://scripts/show"])
        .expect(1);
    assert_eq!(retcode.stdout, "m1:\n    3\n");
    for script in [
        &["cmd.script", "salt://scripts/show", "saltenv=prod"][..],
        &["cmd.script", "salt://scripts/show?saltenv=prod"],
    ] {
        assert_eq!(stdout(&call(&fleet, script)), "prod", "{script:?}");
    }
    // Together with another function.
    let both = [
        "cmd.script,test.echo",
        "salt://scripts/show",
        "saltenv=prod",
        ",",
        "x",
    ];
    let returned = call(&fleet, &both);
    assert_eq!(stdout(&returned["cmd.script"]), "prod", "{returned}");
    assert_eq!(returned["test.echo"], "x");

    // What is in the cache is checked.
    let in_prod = ["cmd.script", "salt://scripts/show?saltenv=prod"];
    let cached = fleet.path("m1/var/cache/saline/minion/files/prod/scripts/show");
    fs::write(&cached, "echo bad!\n").unwrap();
    assert_eq!(stdout(&call(&fleet, &in_prod)), "prod");
    write("prod/scripts/show", "echo new\n");
    assert_eq!(stdout(&call(&fleet, &in_prod)), "new");
    for (source, why) in [
        ("salt://scripts/absent", "the master has no such file"),
        ("salt://scripts/show?saltenv=x", "no such environment"),
        ("salt://../etc/passwd", "\"salt://../etc/passwd\""),
    ] {
        let said = fail(&fleet, &["cmd.script", source]);
        assert!(said.contains(why), "{source}: {said}");
    }
}

#[test]
fn templates_of_the_master_are_rendered_with_grains_and_variables() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let template = serve(
        &fleet,
        "nginx/app.jinja",
        b"{% from './map' import port -%}\nserver {{ grains['id'] }} {{ name }} {{ port }} {{ salt['grains.get']('id') }}\n",
    );
    serve(&fleet, "nginx/map", b"{% set port = 8080 %}");
    fs::set_permissions(&template, fs::Permissions::from_mode(0o640)).unwrap();
    let dest = fleet.path("etc/app.conf");
    let url = "salt://nginx/app.jinja";
    let get = [
        "cp.get_template",
        url,
        dest.to_str().unwrap(),
        "makedirs=True",
        "name='a: {b}'",
    ];
    let test = [&get[..], &["test=True"]].concat();
    assert_eq!(call(&fleet, &test)["changed"], true);
    assert!(!dest.exists());
    assert_eq!(call(&fleet, &get), dest.to_str().unwrap());
    assert_eq!(
        fs::read_to_string(&dest).unwrap(),
        "server m1 a: {b} 8080 m1\n"
    );
    assert_eq!(mode(&dest), 0o640);
    assert_eq!(call(&fleet, &test)["changed"], false);
    let other = [&get[..], &["context={name: other}"]].concat();
    call(&fleet, &other);
    assert!(
        fs::read_to_string(&dest)
            .unwrap()
            .starts_with("server m1 other ")
    );

    // A change on the master counts at once, also of an included file.
    serve(&fleet, "nginx/map", b"{% set port = 9090 %}");
    call(&fleet, &other);
    assert!(fs::read_to_string(&dest).unwrap().contains(" 9090 "));

    let why = fail(&fleet, &get[..4]);
    assert!(
        why.contains("salt://nginx/app.jinja:2:") && why.contains("`name` is undefined"),
        "{why}"
    );
    let said = fleet
        .saline(&["m1", "cp.get_template", url, "/tmp/x", "mako"])
        .expect(1);
    assert!(said.stdout.contains("the one template engine"), "{said:?}");
    serve(&fleet, "out", b"{% include '/etc/passwd' %}");
    let why = fail(&fleet, &["cp.get_template", "salt://out", "/tmp/x"]);
    assert!(why.contains("salt://out:1:"), "{why}");

    // A script that is a template.
    serve(
        &fleet,
        "hello.sh",
        b"#!/bin/sh\necho '{{ grains.id }} {{ who }}'\n",
    );
    let script = [
        "cmd.script",
        "salt://hello.sh",
        "template=jinja",
        "context={who: ann}",
    ];
    assert_eq!(stdout(&call(&fleet, &script)), "m1 ann");
    assert!(fail(&fleet, &script[..3]).contains("`who` is undefined"));
    let local = fail(&fleet, &["cmd.script", "/bin/true", "template=jinja"]);
    assert!(local.contains("only scripts of the master"), "{local}");
}
