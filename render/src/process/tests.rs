//! Templates in real processes. `saline-render` and `saline-exec` are this test program, started again.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use saline_data::{Value, yaml};
use saline_exec::{Launcher, Program};

use super::*;
use crate::{Document, File, Files, RenderError, Request};

fn entry(test: &str) -> [String; 4] {
    ["--exact", test, "--ignored", "--nocapture"].map(str::to_owned)
}

#[test]
#[ignore = "not a test: it is the program saline-exec, which the tests start"]
fn saline_exec() {
    std::process::exit(i32::from(saline_exec::main() != ExitCode::SUCCESS));
}

#[test]
#[ignore = "not a test: it is the program saline-render, which the tests start"]
fn saline_render() {
    // A test runs on a thread with a small stack: a main does not.
    std::process::exit(i32::from(main() != ExitCode::SUCCESS));
}

fn renderers() -> Renderers {
    let exec = entry("process::tests::saline_exec");
    let exec = Program::this_one(&exec.each_ref().map(String::as_str));
    let render = entry("process::tests::saline_render");
    let render = RenderProgram::this_one(&render.each_ref().map(String::as_str));
    Renderers::new(Launcher::new(exec, Vec::new()), render)
}

/// Kills the process that asks for a file, as its limits would.
struct Killing(Pid);

impl Files for Killing {
    fn read(&self, _name: &str) -> Result<Option<File>, String> {
        kill_process_group(self.0, Signal::KILL).unwrap();
        Ok(None)
    }
}

struct Tree {
    files: HashMap<&'static str, String>,
    reads: AtomicU32,
}

impl Tree {
    fn of<const N: usize>(files: [(&'static str, &str); N]) -> Self {
        Self {
            files: files.map(|(name, text)| (name, text.to_owned())).into(),
            reads: AtomicU32::new(0),
        }
    }
}

impl Files for Tree {
    fn read(&self, name: &str) -> Result<Option<File>, String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let text = self.files.get(name);
        Ok(text.map(|text| File {
            path: format!("/srv/pillar/{name}"),
            text: text.clone(),
        }))
    }
}

fn request(variables: &str) -> Request {
    Request {
        name: "a.sls".to_owned(),
        document: Document::Pillar,
        variables: yaml::parse(variables).unwrap(),
    }
}

#[test]
fn files_are_rendered_by_a_process_that_lives_on_and_reads_a_file_once() {
    let tree = Tree::of([
        ("a.sls", "{% include 'b.sls' %}\nk: {{ x }}\n"),
        ("b.sls", "b: {{ x|tojson }}"),
    ]);
    let renderers = renderers();
    for number in 0..3 {
        let rendered = renderers.render(&tree, 1, &request(&format!("{{x: 'a: {number}'}}")));
        let expected = yaml::parse(&format!("{{b: 'a: {number}', k: 'a: {number}'}}")).unwrap();
        assert_eq!(rendered, Ok(expected));
    }
    assert_eq!(tree.reads.load(Ordering::Relaxed), 2);
    // The files changed.
    let changed = Tree::of([("a.sls", "k: 1")]);
    let rendered = renderers.render(&changed, 2, &request("{}"));
    assert_eq!(rendered, Ok(Value::map([("k", Value::Int(1))])));
    let counts = renderers.counts();
    assert_eq!(
        (counts.processes, counts.rendered, counts.failed),
        (1, 4, 0)
    );
}

#[test]
fn an_error_comes_with_its_place() {
    let files = Tree::of([("a.sls", "\nk: {{ x }}\n")]);
    let part = [crate::Step::key("k")];
    let place = renderers().place_of(&files, 1, &request("{x: 1}"), &part);
    assert_eq!(place.unwrap().to_string(), "/srv/pillar/a.sls:2:1");
    assert_eq!(renderers().place_of(&files, 1, &request("{}"), &part), None);
    let tree = Tree::of([("a.sls", "\nk: {{ x.y }}\n")]);
    let error: RenderError = renderers().render(&tree, 1, &request("{}")).unwrap_err();
    assert_eq!(error.to_string(), "/srv/pillar/a.sls:2:7: `x` is undefined");
}

#[test]
fn a_process_that_dies_or_is_late_costs_its_own_order_alone() {
    let tree = Tree::of([("a.sls", "k: {{ x }}")]);
    let mut renderers = renderers();
    renderers.render(&tree, 1, &request("{x: 1}")).unwrap();
    let killing = Killing(renderers.pool.lock().unwrap().idle[0].process.pid());
    let error = renderers.render(&killing, 2, &request("{x: 1}"));
    let error = error.unwrap_err();
    assert!(error.message.contains("its process ended"), "{error}");
    let rendered = renderers.render(&tree, 1, &request("{x: 2}"));
    assert_eq!(rendered, Ok(Value::map([("k", Value::Int(2))])));
    assert_eq!(renderers.counts().processes, 2);
    // One that ends while it waits costs nothing.
    let idle = renderers.pool.lock().unwrap().idle.pop().unwrap();
    kill_process_group(idle.process.pid(), Signal::KILL).unwrap();
    let mut socket = [PollFd::new(&idle.socket, PollFlags::IN)];
    poll(&mut socket, None).unwrap();
    renderers.pool.lock().unwrap().idle.push(idle);
    let rendered = renderers.render(&tree, 1, &request("{x: 3}"));
    assert_eq!(rendered, Ok(Value::map([("k", Value::Int(3))])));
    assert_eq!(renderers.counts().processes, 3);
    let late = std::mem::replace(&mut renderers.deadline, Duration::ZERO);
    let error = renderers.render(&tree, 1, &request("{x: 1}")).unwrap_err();
    assert!(error.message.contains("takes longer than 0 s"), "{error}");
    assert!(renderers.pool.lock().unwrap().idle.is_empty());
    renderers.deadline = late;
    renderers.render(&tree, 1, &request("{x: 1}")).unwrap();
}

#[test]
fn a_template_that_takes_too_much_is_ended_in_time() {
    for template in [
        "{% for i in range(100000000) %}{% for j in range(100000000) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(200000) %}{% set ns.l = [ns.l] %}{% endfor %}",
    ] {
        let tree = Tree::of([("a.sls", template)]);
        let renderers = renderers();
        let error = renderers.render(&tree, 1, &request("{}")).unwrap_err();
        assert!(error.message.len() < 300, "{error}");
        let tree = Tree::of([("a.sls", "k: 1")]);
        assert!(renderers.render(&tree, 2, &request("{}")).is_ok());
    }
}

#[test]
fn as_many_render_at_a_time_as_there_are_processors() {
    let tree = Tree::of([("a.sls", "k: {{ x }}")]);
    let renderers = renderers();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (renderers, tree) = (&renderers, &tree);
            scope.spawn(move || {
                let rendered = renderers.render(tree, 1, &request(&format!("{{x: {number}}}")));
                assert_eq!(rendered, Ok(Value::map([("k", Value::Int(number))])));
            });
        }
    });
    let processors = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(renderers.counts().processes <= processors);
}
