//! Functions of executables in folders of `module_dirs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;

fn install(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    // Under another name first: a file that is being written cannot be executed.
    let written = folder.join(format!(".{name}"));
    fs::write(&written, script).unwrap();
    fs::set_permissions(&written, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&written, &path).unwrap();
    path
}

fn described(functions: &str, body: &str) -> String {
    format!(
        "#!/bin/sh\nif [ \"$1\" = --describe ]; then printf '%s' '{{\"functions\": {functions}}}'; exit; fi\n{body}\n"
    )
}

fn bench(scripts: &[(&str, String)]) -> (Bench, tempfile::TempDir) {
    let mut bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in scripts {
        install(folder.path(), name, script);
    }
    let folders = vec![folder.path().to_owned()];
    bench.modules = Modules::built_in().with_executables(folders);
    (bench, folder)
}

#[test]
fn a_call_is_bound_to_the_description_and_read_as_json() {
    let functions = r#"{"f": {"parameters": [{"name": "a"}, {"name": "b", "default": 2}], "args": true, "kwargs": true}}"#;
    let (bench, _folder) = bench(&[("own", described(functions, "cat"))]);
    let returned = bench.call(
        "own.f",
        &["one".into(), Value::Int(3), "more".into()],
        &[("x", Value::Null)],
    );
    assert_eq!(returned.retcode, 0, "{returned:?}");
    let get = |key| returned.value.get(key).cloned();
    assert_eq!(get("function"), Some("f".into()));
    assert_eq!(get("args"), Some(Value::List(vec!["more".into()])));
    let kwargs = Value::map([
        ("a", "one".into()),
        ("b", Value::Int(3)),
        ("x", Value::Null),
    ]);
    assert_eq!(get("kwargs"), Some(kwargs));
    assert_eq!(get("jid"), Some("20261121100000000000".into()));

    let refused = bench.texts("own.f", &[]);
    assert!(
        text(&refused).starts_with("Passed invalid arguments to own.f: "),
        "{refused:?}"
    );
    let unknown = bench.texts("own.g", &[]);
    assert_eq!(unknown.retcode, 254);
    assert!(
        text(&unknown).ends_with("describes the functions f"),
        "{unknown:?}"
    );
}

#[test]
fn output_and_exit_status_become_the_return() {
    let functions = r#"{"f": {"kwargs": true}}"#;
    let run = |body: &str| {
        let (bench, folder) = bench(&[("own", described(functions, body))]);
        let outcome = bench.texts("own.f", &[]);
        let value = match outcome.value {
            Value::Text(text) => {
                Value::from(text.replace(&*folder.path().to_string_lossy(), "FOLDER"))
            }
            other => other,
        };
        (value, outcome.retcode)
    };
    assert_eq!(run("echo 12; exit 3"), (Value::Int(12), 3));
    assert_eq!(run("true"), (Value::Null, 0));
    assert_eq!(
        run("echo no such host >&2; exit 2"),
        ("ERROR: own.f ended with retcode 2: no such host".into(), 2)
    );
    assert_eq!(
        run("echo half; exit 4"),
        ("ERROR: own.f ended with retcode 4: half".into(), 4)
    );
    assert_eq!(
        run("echo plain text"),
        (
            "ERROR: own.f did not print JSON (expected value at line 1 column 1): plain text"
                .into(),
            1
        )
    );
    assert_eq!(run("echo '{\"result\": false}'").1, 1);
}

#[test]
fn a_call_that_takes_too_long_is_ended() {
    let functions = r#"{"f": {"seconds": 1}}"#;
    let (bench, _folder) = bench(&[(
        "own",
        described(functions, "echo waiting >&2; exec sleep 1000"),
    )]);
    let outcome = bench.texts("own.f", &[]);
    assert_eq!(
        (text(&outcome), outcome.retcode),
        (
            "ERROR: own.f took longer than 1 s, and was ended: waiting",
            1
        )
    );
}

#[test]
fn a_new_version_of_the_file_counts_at_once() {
    let (bench, folder) = bench(&[("own", described(r#"{"f": {}}"#, "echo 1"))]);
    assert_eq!(bench.texts("own.f", &[]).value, Value::Int(1));
    install(folder.path(), "own", &described(r#"{"g": {}}"#, "echo 2"));
    assert_eq!(bench.texts("own.g", &[]).value, Value::Int(2));
    assert_eq!(bench.texts("own.f", &[]).retcode, 254);
}

#[test]
fn they_are_listed_beside_the_others_and_never_replace_one() {
    let functions = r#"{"ping": {"documentation": "Pongs.\n"}}"#;
    let script = || described(functions, "echo '\"own\"'");
    let (bench, _folder) = bench(&[("test", script()), ("own", script()), ("not-one", script())]);
    assert_eq!(bench.texts("test.ping", &[]).value, Value::Bool(true));
    let listed = bench.texts("sys.list_functions", &["own", "test.ping", "not-one"]);
    assert_eq!(listed.value, Value::texts(["own.ping", "test.ping"]));
    let doc = bench.texts("sys.doc", &["own.ping"]);
    assert_eq!(
        doc.value,
        Value::map([("own.ping", "\n    Pongs.\n".into())])
    );
}

#[test]
fn one_that_others_could_change_is_not_run() {
    let marker = tempfile::tempdir().unwrap();
    let touched = marker.path().join("touched");
    let script = format!("#!/bin/sh\ntouch {}\n", touched.display());
    let (bench, folder) = bench(&[("own", script)]);
    let path = folder.path().join("own");
    let refused = |mode, place: &Path| {
        let before = fs::metadata(place).unwrap().permissions();
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
        let outcome = bench.texts("own.f", &[]);
        fs::set_permissions(place, before).unwrap();
        assert_eq!(outcome.retcode, 1);
        text(&outcome).replace(&*folder.path().to_string_lossy(), "FOLDER")
    };
    assert_eq!(
        refused(0o757, &path),
        "ERROR: FOLDER/own is not used: everybody can write to FOLDER/own (mode 757): chmod go-w it"
    );
    assert_eq!(
        refused(0o777, folder.path()),
        "ERROR: FOLDER/own is not used: everybody can write to FOLDER (mode 777): chmod go-w it"
    );
    assert_eq!(
        refused(0o644, &path),
        "ERROR: FOLDER/own is not used: it is not executable: chmod +x it"
    );
    assert!(!touched.exists());
}

#[test]
fn one_that_cannot_describe_itself_says_why() {
    let told = |script: &str| {
        let (bench, folder) = bench(&[("own", format!("#!/bin/sh\n{script}\n"))]);
        let outcome = bench.texts("own.f", &[]);
        text(&outcome).replace(&*folder.path().to_string_lossy(), "FOLDER")
    };
    assert_eq!(
        told("echo broken >&2; exit 7"),
        "ERROR: FOLDER/own is not used: --describe ended with retcode 7: broken"
    );
    assert_eq!(
        told("echo '[]'"),
        "ERROR: FOLDER/own is not used: what --describe prints is not understood: invalid length 0, expected struct Description with 2 elements at line 1 column 2"
    );
}

#[test]
fn a_file_with_an_extension_is_named() {
    let (bench, folder) = bench(&[("own.py", described(r#"{"f": {}}"#, "echo 1"))]);
    let outcome = bench.texts("own.f", &[]);
    assert_eq!(
        text(&outcome).replace(&*folder.path().to_string_lossy(), "FOLDER"),
        "'own.f' is not available: rename FOLDER/own.py to own, since the executable of a module is named as the module"
    );
}

#[test]
fn a_file_of_the_master_with_an_extension_is_named_where_it_is_to_be_renamed() {
    let copy = Path::new("/var/cache/saline/minion/extmods/modules/own.py");
    assert_eq!(
        text(&Outcome::misnamed("own.f", copy)),
        "'own.f' is not available: rename _modules/own.py among the files of the master to own and run saltutil.sync_modules, since the executable of a module is named as the module"
    );
}

#[test]
fn the_examples_work() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/own-functions");
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    };
    let mut bench = Bench::new();
    // A copy, since a checkout may be writable by a group.
    let folder = tempfile::tempdir().unwrap();
    for name in ["vhosts", "backup"] {
        let script = fs::read_to_string(examples.join(name)).unwrap();
        install(folder.path(), name, &script);
    }
    bench.modules = Modules::built_in().with_executables(vec![folder.path().to_owned()]);
    match has("python3") {
        true => {
            let doc = bench.texts("sys.doc", &["vhosts.enable"]);
            assert!(
                format!("{:?}", doc.value).contains("Enables a virtual host"),
                "{doc:?}"
            );
            let refused = bench.texts("vhosts.enable", &["shop"]);
            assert_ne!(refused.retcode, 0);
        }
        false => eprintln!("skipped: the example in Python needs python3"),
    }
    match has("jq") {
        true => {
            let data = tempfile::tempdir().unwrap();
            let at = data.path().to_string_lossy().into_owned();
            let none = bench.texts("backup.age", &[&at]);
            assert_eq!(none.retcode, 1);
            assert!(
                text(&none).ends_with(&format!("there is no file in {at}")),
                "{none:?}"
            );
            fs::write(data.path().join("dump"), "").unwrap();
            assert_eq!(bench.texts("backup.age", &[&at]), Outcome::from(0_i64));
        }
        false => eprintln!("skipped: the example in shell needs jq"),
    }
}

#[test]
fn what_the_master_is_told_grows_with_what_executables_describe() {
    let own = described(r#"{"enable": {}, "list": {}}"#, "cat");
    let broken = "#!/bin/sh\nexit 3\n".to_owned();
    let test = described(r#"{"never": {}}"#, "cat");
    let (bench, folder) = bench(&[("vhosts", own), ("broken", broken), ("test", test)]);
    fs::write(folder.path().join("later.py"), "").unwrap();
    let known = |synced: &Path| bench.modules.known_functions(synced);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();

    let before = known(folder.path());
    assert!(before.built_in.contains("test.ping") && before.may_know("cron.list_tab"));
    assert_eq!(before.own, names(&[]));
    assert_eq!(before.undescribed, names(&["broken", "later", "vhosts"]));
    assert!(before.may_know("vhosts.enabel") && !before.may_know("test.never"));

    bench.modules.describe_executables(&bench.host);
    let after = known(folder.path());
    assert_eq!(after.own, names(&["vhosts.enable", "vhosts.list"]));
    assert_eq!(after.undescribed, names(&["broken", "later"]));
    assert!(!after.may_know("vhosts.enabel"));
    assert_eq!(after.built_in, before.built_in);
    // In a folder that operators change, anything may be there a moment later.
    assert!(!after.may_grow && known(Path::new("/elsewhere")).may_grow);
    assert!(known(Path::new("/elsewhere")).may_know("vhosts.enabel"));

    // Another file of this name has not described anything.
    let changed = described(r#"{"disable": {}}"#, "cat");
    let then = bench.modules.folder_changes();
    install(folder.path(), "vhosts", &changed);
    assert_ne!(bench.modules.folder_changes(), then);
    assert!(known(folder.path()).undescribed.contains("vhosts"));
}

#[test]
fn more_functions_than_the_master_takes_are_not_told() {
    let functions: Vec<String> = (0..256)
        .map(|n| format!("\"{:a<60}{n}\": {{}}", "f"))
        .collect();
    let script = described(&format!("{{{}}}", functions.join(", ")), "cat");
    let names: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let scripts: Vec<(&str, String)> = names.iter().map(|name| (&**name, script.clone())).collect();
    let (bench, folder) = bench(&scripts);
    bench.modules.describe_executables(&bench.host);
    let known = bench.modules.known_functions(folder.path());
    assert!(known.to_bytes().len() < saline_messages::MAX_FUNCTIONS_BYTES);
    assert!(known.own.is_empty() && known.undescribed.is_empty() && known.may_grow);
    assert!(known.may_know("m3.any") && !known.may_know("test.pnig"));
}

#[test]
fn an_unknown_function_is_told_with_those_of_executables() {
    let own = described(r#"{"enable": {}}"#, "cat");
    let (bench, _folder) = bench(&[("vhosts", own)]);
    bench.modules.describe_executables(&bench.host);
    let near = bench.texts("vhsots.enable", &[]);
    assert_eq!(
        text(&near),
        "'vhsots.enable' is not available: did you mean vhosts.enable?"
    );
    let far = bench.texts("nothing.like", &[]);
    assert!(text(&far).ends_with(", user, vhosts."), "{far:?}");
}

#[test]
fn the_version_of_a_module_is_reported() {
    let script = |version: &str| {
        format!(
            "#!/bin/sh\nprintf '%s' '{{\"version\": {version}, \"functions\": {{\"f\": {{}}}}}}'\n"
        )
    };
    let long = format!("\"{}\"", "1".repeat(65));
    let own = [
        ("vhosts", script("\"1.2\"")),
        ("test", script("\"9\"")),
        ("plain", described("{\"f\": {}}", "cat")),
        ("long", script(&long)),
    ];
    let (bench, _folder) = bench(&own);
    let report = bench.texts("test.module_report", &[]).value;
    let versions = Value::map([("vhosts", "1.2".into())]);
    assert_eq!(report.get("versions"), Some(&versions));
    let refused = bench.texts("long.f", &[]);
    assert!(
        text(&refused).ends_with("its version has more than 64 bytes"),
        "{refused:?}"
    );
}

#[test]
fn an_executable_that_failed_to_describe_itself_holds_up_no_list() {
    let asked = "#!/bin/sh\necho asked >> \"${0%/*}/../asked\"\nexit 7\n".to_owned();
    let whole = tempfile::tempdir().unwrap();
    let folder = whole.path().join("modules");
    fs::create_dir(&folder).unwrap();
    install(&folder, "own", &asked);
    install(&folder, "other", &described(r#"{"f": {}}"#, "cat"));
    let mut bench = Bench::new();
    bench.modules = Modules::built_in().with_executables(vec![folder.clone()]);
    let times_asked = || {
        let asked = fs::read_to_string(whole.path().join("asked"));
        asked.unwrap_or_default().lines().count()
    };
    let list = |bench: &Bench| bench.texts("sys.list_functions", &["other"]);
    assert_eq!(list(&bench), Outcome::from(Value::texts(["other.f"])));
    assert_eq!(times_asked(), 1);
    assert_eq!(list(&bench), Outcome::from(Value::texts(["other.f"])));
    assert_eq!(times_asked(), 1, "it is left out");
    bench.texts("own.f", &[]);
    assert_eq!(times_asked(), 2, "a call asks");
    // Another file asks too.
    install(&folder, "own", &format!("{asked}# changed"));
    assert_eq!(list(&bench), Outcome::from(Value::texts(["other.f"])));
    assert_eq!(times_asked(), 3);
}
