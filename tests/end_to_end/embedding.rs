//! The example for programs that give orders themselves: it runs, and `docs/embedding.md` shows it as it is.

use saline_testing::Fleet;

#[path = "../../examples/embedding/main.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod example;

#[tokio::test]
async fn the_example_asks_all_minions() {
    let mut fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    let stopped = fleet.minions.remove("m2").unwrap();
    drop(stopped);
    fleet.saline(&["-t", "1", "m2", "test.ping"]).expect(1);
    let answers = example::ask_all(&fleet.config()).await.unwrap();
    let mut lines: Vec<&str> = answers.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "m1 returned Bool(true), retcode 0",
            "m1 returned Text(\"hello\"), retcode 0",
            "m2 did not return: not connected",
            "m2 did not return: not connected",
        ]
    );
}

#[test]
fn the_page_shows_the_example_as_it_is() {
    let page = include_str!("../../docs/embedding.md");
    let example = include_str!("../../examples/embedding/main.rs");
    let shown = page
        .split("```rust\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let code = example
        .split("\n\n")
        .skip(1)
        .collect::<Vec<_>>()
        .join("\n\n");
    assert_eq!(
        shown,
        Some(&*code),
        "put the code of the example into docs/embedding.md"
    );
}
