//! What a minion leaves in the mine, and what it gets from there, of a scripted master.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_config::MineFunction;
use saline_data::Packed;
use saline_messages::{
    FoundEntry, MAX_MINE_ENTRIES, MAX_MINE_VALUE_BYTES, MineEntry, MinePage, MineRefusal,
    MineReply, MineRequest,
};
use saline_targeting::{Target, TargetKind};
use tokio::sync::oneshot;

use super::*;
use crate::mine::MasterMine;
use crate::pending_answer::PendingAnswer;

/// A master whose replies a test prescribes, and that records the requests.
#[derive(Debug, Default, Clone)]
struct Script(Arc<Mutex<(VecDeque<MineReply>, Vec<MineRequest>)>>);

impl Script {
    fn then(&self, reply: MineReply) -> &Self {
        self.0.lock().unwrap().0.push_back(reply);
        self
    }

    fn asked(&self) -> Vec<MineRequest> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }

    /// Returns the entries of the only request, which leaves them.
    fn stored(&self) -> Vec<MineEntry> {
        match self.asked().as_slice() {
            [MineRequest::Store(entries)] => entries.clone(),
            other => panic!("{other:?}"),
        }
    }
}

impl MasterMine for Script {
    fn send(&self, request: MineRequest, _: Duration) -> PendingAnswer<MineReply> {
        let mut script = self.0.lock().unwrap();
        script.1.push(request);
        let (sender, receiver) = oneshot::channel();
        let unscripted = || MineReply::Refused(MineRefusal::Failed);
        let reply = script.0.pop_front().unwrap_or_else(unscripted);
        sender.send(Ok(reply)).unwrap();
        PendingAnswer::over(receiver)
    }

    fn page_size(&self) -> u32 {
        100
    }
}

/// Returns a minion of a scripted master, with these `mine_functions`.
fn minion(functions: &str) -> (Bench, Script) {
    let read = saline_data::yaml::parse(functions).unwrap();
    let functions: Result<Vec<_>, _> = MineFunction::read_all(&read).unwrap().into_iter().collect();
    let bench = Bench::with(|config| config.mine.functions = functions.unwrap());
    let script = Script::default();
    let asked = bench.host.master_mine.set(Box::new(script.clone()));
    asked.unwrap();
    (bench, script)
}

fn found(function: u32, minion: &str, value: &str) -> FoundEntry {
    FoundEntry {
        function,
        minion: MinionId::parse(minion).unwrap(),
        value: Packed::pack(&value.into()),
    }
}

fn page(entries: &[FoundEntry], more: bool) -> MineReply {
    MineReply::Found(MinePage {
        entries: entries.to_vec(),
        more,
    })
}

#[test]
fn what_is_sent_is_the_value_of_the_function_with_its_rule() {
    let (bench, script) = minion("{}");
    script.then(MineReply::Done);
    let named = [
        ("mine_function", Value::from("test.arg")),
        ("x", Value::Int(1)),
        ("allow_tgt", Value::from("web*")),
    ];
    let sent = bench.call("mine.send", &["own".into(), "y".into()], &named);
    assert_eq!(sent, Outcome::from(true));
    let stored = script.stored();
    assert_eq!(stored[0].name, "own");
    assert_eq!(stored[0].allowed, Some(Target::glob("web*")));
    let value = stored[0].value.unpack().unwrap();
    assert_eq!(value.get("args"), Some(&Value::texts(["y"])));
    let kwargs = Value::map([("x", Value::Int(1))]);
    assert_eq!(value.get("kwargs"), Some(&kwargs));
}

#[test]
fn a_function_that_fails_or_is_too_large_is_not_sent() {
    let (bench, script) = minion("{}");
    let large = "x".repeat(MAX_MINE_VALUE_BYTES);
    for (arguments, expected) in [
        (vec!["test.absent"], "test.absent"),
        (vec!["test.echo", large.as_str()], "bytes"),
        (vec!["mine.update"], "of the mine itself"),
        (
            vec!["alias"],
            "\"alias\" is not a function: a function is MODULE.NAME",
        ),
        (vec!["a,b", "mine_function=test.ping"], "comma"),
    ] {
        let sent = bench.texts("mine.send", &arguments);
        assert!(text(&sent).contains(expected), "{sent:?}");
        assert!(!text(&sent).contains("mine_functions"), "{sent:?}");
        assert_eq!(sent.retcode, 1);
    }
    assert!(script.asked().is_empty());
}

#[test]
fn an_update_sends_what_the_master_lacks() {
    let (bench, script) = minion(
        "{test.ping: [], own: [{mine_function: test.echo}, hello], test.absent: [], by_rule: {mine_function: test.ping, allow_tgt: db*}}",
    );
    script
        .then(MineReply::Wanted(vec![1]))
        .then(MineReply::Done);
    let updated = bench.texts("mine.update", &[]);
    assert!(text(&updated).contains("test.absent"), "{updated:?}");
    match script.asked().as_slice() {
        [
            MineRequest::Offer {
                entries,
                forget_others,
            },
            MineRequest::Store(stored),
        ] => {
            let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["test.ping", "own", "by_rule"]);
            assert!(!forget_others);
            assert_eq!(stored.len(), 1);
            assert_eq!(stored[0].name, "own");
            assert_eq!(stored[0].digest(), entries[1].1);
        }
        other => panic!("{other:?}"),
    }
    // Nothing has changed, but one value has to go, and one function is given.
    script.then(MineReply::Wanted(Vec::new()));
    let named = [
        ("clear", Value::Bool(true)),
        ("mine_functions", Value::texts(["test.ping"])),
    ];
    assert_eq!(bench.call("mine.update", &[], &named), Outcome::from(true));
    assert!(matches!(
        script.asked().as_slice(),
        [MineRequest::Offer {
            forget_others: true,
            ..
        }]
    ));
}

#[test]
fn functions_without_room_in_the_mine_are_named_and_the_others_are_sent() {
    let names: Vec<String> = (0..MAX_MINE_ENTRIES + 7)
        .map(|number| format!("n{number}: {{mine_function: test.ping}}"))
        .collect();
    let functions = format!("{{{}}}", names.join(", "));
    let given = [(
        "mine_functions",
        saline_data::yaml::parse(&functions).unwrap(),
    )];
    for (configured, named) in [(functions.as_str(), &[][..]), ("{}", &given)] {
        let (bench, script) = minion(configured);
        script.then(MineReply::Wanted(Vec::new()));
        let updated = bench.call("mine.update", &[], named);
        assert_eq!(
            text(&updated),
            "ERROR: n256, n257, n258, n259, n260 and 2 more of mine_functions are left out, since the mine takes 256 values of one \
             minion: name fewer functions, or one that returns several values together"
        );
        match script.asked().as_slice() {
            [MineRequest::Offer { entries, .. }] => assert_eq!(entries.len(), MAX_MINE_ENTRIES),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn one_value_that_is_refused_keeps_no_other_from_the_mine() {
    let (bench, script) = minion("[test.ping, test.version, test.true]");
    let refused = MineRefusal::Allowed {
        name: "test.version".to_owned(),
        why: "a reason".to_owned(),
    };
    script
        .then(MineReply::Wanted(vec![0, 1, 2]))
        .then(MineReply::Refused(refused))
        .then(MineReply::Refused(MineRefusal::NoRoom))
        .then(MineReply::Done)
        .then(MineReply::Refused(MineRefusal::NoRoom));
    let updated = bench.texts("mine.update", &[]);
    let said = text(&updated);
    assert!(
        said.contains("allow_tgt of test.version cannot be used: a reason"),
        "{said}"
    );
    assert!(said.contains("test.true: the mine takes"), "{said}");
    let stored = script.asked().split_off(1);
    let counts: Vec<usize> = stored
        .iter()
        .map(|request| match request {
            MineRequest::Store(entries) => entries.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(counts, [3, 2, 1, 1]);
}

#[test]
fn the_minion_updates_by_itself_and_only_for_other_functions_if_told_so() {
    let (bench, script) = minion("[test.ping]");
    let update = |if_changed| {
        assert!(bench.host.update_mine(&bench.modules, if_changed));
        script.asked().len()
    };
    script.then(MineReply::Wanted(Vec::new()));
    assert_eq!(update(false), 1);
    assert_eq!(update(true), 0);
    script.then(MineReply::Wanted(Vec::new()));
    assert_eq!(update(false), 1);
    bench.host.mine.want_again();
    script.then(MineReply::Wanted(Vec::new()));
    assert_eq!(update(true), 1, "the master has forgotten them");
    // What the master could not take is tried again soon.
    script.then(MineReply::Refused(MineRefusal::Failed));
    assert!(!bench.host.update_mine(&bench.modules, false));
    script
        .then(MineReply::Wanted(vec![0]))
        .then(MineReply::Refused(MineRefusal::Failed));
    assert!(!bench.host.update_mine(&bench.modules, false));
    script.asked();
    let mut config = bench.host.mine.config();
    config.functions.clear();
    bench.host.mine.set(config);
    assert_eq!(update(true), 0, "there are none");
}

#[test]
fn values_come_in_pages_by_minion_or_by_function() {
    let (bench, script) = minion("{}");
    script
        .then(page(&[found(0, "a", "1"), found(0, "m000", "2")], true))
        .then(page(&[found(0, "z", "3")], false));
    let got = bench.texts("mine.get", &["*", "x"]);
    let expected = [("a", "1"), ("m000", "2"), ("z", "3")].map(|(k, v)| (k, v.into()));
    assert_eq!(got, Outcome::from(Value::map(expected)));
    let pages: Vec<_> = script
        .asked()
        .into_iter()
        .map(|request| match request {
            MineRequest::Get { after, bytes, .. } => {
                (after.map(|(at, id)| (at, id.to_string())), bytes)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(pages, [(None, 100), (Some((0, "m000".to_owned())), 100)]);

    script.then(page(
        &[
            found(0, "a", "1"),
            found(2, "m000", "2"),
            found(2, "b", "3"),
        ],
        false,
    ));
    let named = [
        ("exclude_minion", Value::Bool(true)),
        ("tgt_type", "grain".into()),
    ];
    let got = bench.call("mine.get", &["os:*".into(), "x, y,z".into()], &named);
    let one = |id, value: &str| Value::map([(id, Value::from(value))]);
    assert_eq!(
        got.value,
        Value::map([("x", one("a", "1")), ("z", one("b", "3"))])
    );
    match script.asked().as_slice() {
        [
            MineRequest::Get {
                target, functions, ..
            },
        ] => {
            assert_eq!(target.kind, TargetKind::Grain);
            assert_eq!(functions, &["x", "y", "z"]);
        }
        other => panic!("{other:?}"),
    }
    // A list of one function is a mapping by function, as in Salt.
    script.then(page(&[found(0, "a", "1")], false));
    let ids = Value::texts(["a", "b"]);
    let got = bench.call("mine.get", &[ids, Value::texts(["x"])], &[]);
    assert_eq!(got.value, Value::map([("x", one("a", "1"))]));
    let asked = script.asked();
    assert!(
        matches!(&asked[0], MineRequest::Get { target, .. } if *target == Target::list(["a", "b"]))
    );

    script.then(MineReply::Refused(MineRefusal::NotAllowed));
    assert!(text(&bench.texts("mine.get", &["*", "x"])).contains("mine_get"));
}

#[test]
fn values_go_by_name_or_all() {
    let (bench, script) = minion("{}");
    script.then(MineReply::Done).then(MineReply::Done);
    assert_eq!(bench.texts("mine.delete", &["x"]), Outcome::from(true));
    assert_eq!(bench.texts("mine.flush", &[]), Outcome::from(true));
    let expected = [MineRequest::Delete("x".to_owned()), MineRequest::Flush];
    assert_eq!(script.asked(), expected);
}

#[test]
fn the_functions_that_exist_are_shown() {
    let (bench, _) = minion(
        "{test.ping: [], test.echo: [hello], own: {mine_function: test.arg, x: 1}, mixed: [{mine_function: test.arg}, 1, {x: 2}], test.absent: []}",
    );
    let shown = saline_data::yaml::parse(
        "{test.ping: [], test.echo: [hello], own: {test.arg: {x: 1}}, mixed: {test.arg: [1, {x: 2}]}}",
    );
    assert_eq!(bench.texts("mine.valid", &[]).value, shown.unwrap());
    let (bench, _) = minion("{}");
    assert_eq!(bench.texts("mine.valid", &[]).value, Value::Null);
    assert_eq!(bench.texts("mine.update", &[]).value, Value::Null);
}

#[test]
fn without_a_master_there_is_no_mine() {
    let bench = Bench::new();
    for call in [
        &["mine.get", "*", "x"][..],
        &["mine.send", "test.ping"],
        &["mine.flush"],
    ] {
        let said = bench.texts(call[0], &call[1..]);
        assert_eq!(
            text(&said),
            "ERROR: the mine is with the master, and no master takes part in this call (--local)"
        );
    }
}
