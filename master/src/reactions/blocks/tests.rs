use saline_data::yaml;

use super::*;

fn blocks(text: &str) -> Result<Vec<Block>, String> {
    read(yaml::parse(text).unwrap()).map_err(|error| error.why)
}

fn act_of(text: &str) -> Act {
    let mut blocks = blocks(text).unwrap();
    assert_eq!(blocks.len(), 1, "{text}");
    blocks.remove(0).act
}

fn arguments_of(text: &str) -> String {
    match act_of(text) {
        Act::Job { arguments, .. } | Act::Run { arguments, .. } => {
            format!("{:?} {:?}", arguments.positional, arguments.named)
        }
    }
}

#[test]
fn the_forms_of_jobs_mean_the_same() {
    let expected = act_of("a: {local.test.echo: [{tgt: 'web*'}, {args: [x, {k: v}]}]}");
    for same in [
        "a: {cmd.test.echo: [{tgt: 'web*'}, {arg: [x]}, {kwarg: {k: v}}]}",
        "a: {local.test.echo: {tgt: 'web*', tgt_type: glob, args: [x, {k: v}]}}",
        "a: {local.test.echo: [{tgt: 'web*'}, {expr_form: glob}, {arg: x}, {kwarg: [{k: v}]}]}",
    ] {
        assert_eq!(act_of(same), expected, "{same}");
    }
    let Act::Job { target, fun, .. } = act_of("a: {local.test.ping: [{tgt: [a, b]}]}") else {
        panic!("it is a job");
    };
    assert_eq!(
        (target, fun.as_str()),
        (Target::list(["a", "b"]), "test.ping")
    );
}

#[test]
fn runners_take_arguments_in_new_and_old_files() {
    let expected =
        arguments_of("a: {runner.event.send: [{args: [{tag: x}, {data: {a: 1, b: 2}}]}]}");
    for same in [
        "a: {runner.event.send: [{tag: x}, {data: {a: 1, b: 2}}]}",
        "a: {runner.event.send: [{kwarg: {tag: x, data: {a: 1, b: 2}}}]}",
        "a: {runner.event.send: {args: {tag: x, data: {a: 1, b: 2}}}}",
    ] {
        assert_eq!(arguments_of(same), expected, "{same}");
    }
    assert_eq!(arguments_of("a: {runner.manage.up: []}"), "[] []");
    assert_eq!(arguments_of("a: {runner.manage.up: }"), "[] []");
}

#[test]
fn wheels_take_arguments_as_runners_do() {
    let accept = act_of("a: {wheel.key.accept: [{args: [{match: 'web*'}]}]}");
    assert_eq!(act_of("a: {wheel.key.accept: [{match: 'web*'}]}"), accept);
    let Act::Run { kind, fun, .. } = accept else {
        panic!("it is a run");
    };
    assert_eq!((kind, fun.as_str()), (RunKind::Wheel, "key.accept"));
}

#[test]
fn a_file_without_blocks_does_nothing_and_mistakes_name_their_block() {
    assert_eq!(blocks(""), Ok(Vec::new()));
    assert_eq!(blocks("{}"), Ok(Vec::new()));
    for (text, why) in [
        ("[a]", "not a mapping of names"),
        (
            "a: [local.test.ping]",
            "the block \"a\" is not a mapping of a function",
        ),
        ("a: {local.test.ping: x}", "its keywords are no list"),
        (
            "a: {local.test.ping: [{a: 1, b: 2}]}",
            "its keywords are no list",
        ),
        (
            "a: {local.test.ping: []}",
            "the block \"a\", local.test.ping: it has no tgt",
        ),
        (
            "a: {local.test.ping: [{tgt: a}, {tgt: b}]}",
            "\"tgt\" occurs twice",
        ),
        (
            "a: {local.test.ping: [{tgt: a}, {tgt_typ: list}]}",
            "did you mean \"tgt_type\"?",
        ),
        (
            "a: {local.test.ping: [{tgt: a}, {tgt_type: lst}]}",
            "\"lst\" is not a tgt_type",
        ),
        (
            "a: {local.test.ping: [{tgt: a}, {ret: x}]}",
            "unknown keyword \"ret\"",
        ),
        (
            "a: {local.test.ping: [{tgt: '(a', }, {tgt_type: compound}]}",
            "tgt: ",
        ),
        (
            "a: {local.ping: [{tgt: a}]}",
            "\"ping\" cannot be the name of a function",
        ),
        (
            "a: {local: [{tgt: a}]}",
            "\"\" cannot be the name of a function",
        ),
        ("a: {caller.test.ping: []}", "no caller blocks"),
        ("a: {runer.manage.up: []}", "did you mean \"runner\"?"),
        (
            "a: {wheel.accept: [{match: a}]}",
            "\"accept\" cannot be the name of a function",
        ),
        (
            "a: {runner.event.send: [{args: [{a: 1, b: 2}]}]}",
            "no larger mapping",
        ),
        (
            "a: {runner.event.send: [{args: [{a: 1}]}, {a: 2}]}",
            "\"a\" occurs twice",
        ),
    ] {
        let error = blocks(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn a_mistake_is_at_the_block_or_the_function_that_has_it() {
    for (text, steps) in [
        ("[a]", &[][..]),
        ("{a: {local.test.ping: {tgt: x}}, b: 5}", &["b"]),
        (
            "{a: {local.test.ping: {tgt: x}, local.ping: {}}}",
            &["a", "local.ping"],
        ),
    ] {
        let error = read(yaml::parse(text).unwrap()).unwrap_err();
        let steps: Vec<Step> = steps.iter().map(|name| Step::key(*name)).collect();
        assert_eq!(error.steps, steps, "{text}");
    }
}
