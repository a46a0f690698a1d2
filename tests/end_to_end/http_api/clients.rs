//! The clients and the paths, in the shapes that clients of Salt's API read.

use saline_testing::Fleet;
use serde_json::{Value, json};

use super::events::Listener;
use super::http::{Answer, Api};
use super::users::{fleet_with_users, log_in};

/// A fleet of two minions, its API, and the tokens of alice, who may do everything, and bob, who may ping web1.
struct Asked {
    fleet: Fleet,
    api: Api,
    alice: String,
    bob: String,
}

impl Asked {
    fn new() -> Self {
        let fleet = fleet_with_users(&["web1", "web2"]);
        let api = Api::start(&fleet);
        let (alice, bob) = (log_in(&api, "alice"), log_in(&api, "bob"));
        Self {
            fleet,
            api,
            alice,
            bob,
        }
    }

    /// Posts a chunk as alice.
    fn chunk(&self, chunk: &Value) -> Answer {
        self.api.post("/", &self.alice, chunk)
    }

    /// Returns what a chunk returns to alice.
    #[track_caller]
    fn returned(&self, chunk: &Value) -> Value {
        let returned = self.chunk(chunk).expect(200)["return"].take();
        assert_eq!(returned.as_array().unwrap().len(), 1, "{returned}");
        returned[0].clone()
    }
}

#[test]
fn local_clients_return_as_salts_do() {
    let asked = Asked::new();
    let ping = |more: Value| {
        let mut chunk = json!({"client": "local", "tgt": "*", "fun": "test.ping"});
        let more = more.as_object().unwrap().clone();
        chunk.as_object_mut().unwrap().extend(more);
        chunk
    };
    assert_eq!(
        asked.returned(&ping(json!({}))),
        json!({"web1": true, "web2": true})
    );
    assert_eq!(asked.returned(&ping(json!({"tgt": "db*"}))), json!({}));
    let list = ping(json!({"tgt": "web1,web3", "expr_form": "list", "batch": null}));
    assert_eq!(asked.returned(&list), json!({"web1": true, "web3": false}));
    let full = asked.returned(&ping(json!({"tgt": "web1", "full_return": true})));
    assert_eq!(
        (&full["web1"]["ret"], &full["web1"]["retcode"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(full["web1"]["jid"].as_str().unwrap().len(), 20);

    let each = asked.chunk(&ping(json!({"client": "local_batch", "batch": "1"})));
    let each = each.expect(200);
    assert_eq!(each["return"], json!([{"web1": true}, {"web2": true}]));
    let one = asked.returned(&ping(json!({"client": "local_subset", "subset": 1})));
    assert_eq!(one.as_object().unwrap().len(), 1, "{one}");

    let echo = json!({
        "client": "local", "tgt": "web1", "fun": "test.arg", "arg": ["a", 1, "b=[1]"], "kwarg": {"c": {"d": null}},
    });
    let returned = asked.returned(&echo);
    assert_eq!(returned["web1"]["args"], json!(["a", 1]), "{returned}");
    assert_eq!(returned["web1"]["kwargs"]["b"], json!([1]), "{returned}");
    assert_eq!(
        returned["web1"]["kwargs"]["c"],
        json!({"d": null}),
        "{returned}"
    );

    let begun = asked.returned(&ping(json!({"client": "local_async"})));
    assert_eq!(begun["minions"], json!(["web1", "web2"]));
    let several = asked
        .chunk(&json!([ping(json!({})), ping(json!({"tgt": "web2"}))]))
        .expect(200);
    assert_eq!(several["return"][1], json!({"web2": true}));
}

#[test]
fn a_function_that_no_minion_has_returns_its_sentence_for_each() {
    let asked = Asked::new();
    asked
        .fleet
        .saline(&["*", "saltutil.sync_modules"])
        .expect(0);
    // The command line hears it once, from the master.
    let refused = asked.fleet.saline(&["*", "test.pnig"]).expect(1);
    assert!(refused.stderr.contains("2 minions"), "{refused:?}");

    let with = |client: &str, more: Value| {
        let mut chunk = json!({"client": client, "tgt": "*", "fun": "test.pnig"});
        let more = more.as_object().unwrap().clone();
        chunk.as_object_mut().unwrap().extend(more);
        chunk
    };
    let is_sentence = |value: &Value| {
        let sentence = value.as_str().unwrap_or_default();
        sentence.starts_with("'test.pnig' is not available")
    };
    let returned = asked.returned(&with("local", json!({})));
    for id in ["web1", "web2"] {
        assert!(is_sentence(&returned[id]), "{returned}");
    }
    let full = asked.returned(&with("local", json!({"full_return": true})));
    assert!(is_sentence(&full["web2"]["ret"]), "{full}");
    assert_ne!(full["web2"]["retcode"], 0, "{full}");
    let each = asked.chunk(&with("local_batch", json!({"batch": "1"})));
    let each = each.expect(200);
    assert!(is_sentence(&each["return"][1]["web2"]), "{each}");
    let one = asked.returned(&with("local_subset", json!({"subset": 1})));
    assert!(one.as_object().unwrap().values().all(is_sentence), "{one}");

    // One that is only begun has it among its returns.
    let header = format!("X-Auth-Token: {}", asked.alice);
    let mut listener = Listener::start(&asked.api, &["-H", &header]);
    let chunk = with("local_async", json!({}));
    for (path, status) in [("/", 200), ("/minions", 202)] {
        let begun = asked.api.post(path, &asked.alice, &chunk).expect(status)["return"][0].take();
        assert_eq!(begun["minions"], json!(["web1", "web2"]));
        let jid = begun["jid"].as_str().unwrap();
        listener.find(&format!("{jid}/ret/web1"));
        let job = asked.api.get(&format!("/jobs/{jid}"), &asked.alice);
        let job = job.expect(200);
        assert!(is_sentence(&job["return"][0]["web1"]), "{job}");
    }
    // A user who may not call a function is not told whether it exists.
    let foreign = asked
        .api
        .post("/", &asked.bob, &with("local", json!({"tgt": "web1"})));
    assert_eq!(foreign.status, 401, "{foreign:?}");
    assert!(!foreign.body.contains("not available"), "{foreign:?}");
}

#[test]
fn the_arguments_of_secret_parameters_reach_the_function_and_show_nowhere() {
    let asked = Asked::new();
    let full = asked.returned(&json!({
        "client": "local", "tgt": "web1", "fun": "shadow.gen_password",
        "arg": ["correct horse"], "kwarg": {"crypt_salt": "saltsalt"}, "full_return": true,
    }));
    let hash = full["web1"]["ret"].as_str().unwrap();
    assert!(hash.contains("$saltsalt$"), "{full}");
    let jid = full["web1"]["jid"].as_str().unwrap();
    let job = asked.api.get(&format!("/jobs/{jid}"), &asked.alice);
    let job = job.expect(200)["info"][0].take();
    assert_eq!(job["Function"], "shadow.gen_password");
    assert_eq!(job["User"], "alice");
    assert!(job["Arguments"].to_string().contains("saltsalt"), "{job}");
    assert!(!job.to_string().contains("correct horse"), "{job}");
}

#[test]
fn runners_wheels_and_paths_return_as_salts_do() {
    let asked = Asked::new();
    let up = json!({"client": "runner", "fun": "manage.up"});
    assert_eq!(asked.returned(&up), json!(["web1", "web2"]));
    let mut full = up.clone();
    full["full_return"] = json!(true);
    let full = asked.returned(&full);
    assert_eq!(full["data"]["return"], json!(["web1", "web2"]));
    assert_eq!(full["data"]["user"], "alice");
    let jid = full["data"]["jid"].as_str().unwrap();
    assert_eq!(full["tag"], format!("salt/run/{jid}/ret"));
    let begun = asked.returned(&json!({"client": "runner_async", "fun": "manage.up"}));
    let jid = begun["jid"].as_str().unwrap();
    assert_eq!(begun["tag"], format!("salt/run/{jid}"));

    let keys = json!({"client": "wheel", "fun": "key.list_all"});
    let keys = asked.returned(&keys);
    assert_eq!(keys["data"]["success"], true);
    assert_eq!(keys["data"]["user"], "alice");
    assert_eq!(keys["data"]["return"]["minions"], json!(["web1", "web2"]));
    for empty in ["minions_pre", "minions_rejected", "minions_denied"] {
        assert_eq!(keys["data"]["return"][empty], json!([]), "{keys}");
    }
    let finger = asked.returned(&json!({"client": "wheel", "fun": "key.finger", "match": "web1"}));
    let finger = finger["data"]["return"]["minions"]["web1"]
        .as_str()
        .unwrap();
    assert_eq!(finger.len(), 95, "{finger}");
    let connected = asked.returned(&json!({"client": "wheel", "fun": "minions.connected"}));
    assert_eq!(connected["data"]["return"], json!(["web1", "web2"]));
    let values = asked.returned(&json!({"client": "wheel", "fun": "config.values"}));
    let values = &values["data"]["return"];
    assert_eq!(values["timeout"], 5, "{values}");
    assert!(values.get("external_auth").is_none(), "{values}");
    let get = |path: &str| asked.api.get(path, &asked.alice).expect(200);
    assert_eq!(get("/keys")["return"]["minions"], json!(["web1", "web2"]));
    assert_eq!(get("/keys/web1")["return"]["minions"]["web1"], *finger);
    let fingers = get("/keys/web*");
    let fingers = fingers["return"]["minions"].as_object().unwrap();
    assert_eq!(fingers.len(), 2, "{fingers:?}");
    for path in ["/keys", "/minions", "/jobs"] {
        let slash = get(&format!("{path}/"));
        assert_eq!(slash["return"], get(path)["return"], "{path}");
    }
    let token = format!("X-Auth-Token: {}", asked.alice);
    let yaml = ["-H", "Accept: text/yaml", "-H", &token];
    let yaml = asked.api.ask("/keys", &yaml);
    assert!(yaml.head.contains("content-type: text/yaml"), "{yaml:?}");
    assert!(yaml.body.starts_with("return:\n  minions:\n"), "{yaml:?}");

    let minions = get("/minions");
    assert_eq!(minions["return"][0]["web1"]["id"], "web1", "{minions}");
    let one = get("/minions/web2");
    assert_eq!(one["return"][0].as_object().unwrap().len(), 1, "{one}");
    let job = json!({"tgt": "web1", "fun": "test.ping"});
    let begun = asked.api.post("/minions", &asked.alice, &job).expect(202);
    let jid = begun["return"][0]["jid"].as_str().unwrap();
    assert_eq!(begun["_links"]["jobs"][0]["href"], format!("/jobs/{jid}"));
    let other = json!({"client": "local", "tgt": "web1", "fun": "test.ping"});
    assert_eq!(asked.api.post("/minions", &asked.alice, &other).status, 400);

    let waited = json!({"client": "local", "tgt": "web1", "fun": "test.ping", "full_return": true});
    let waited = asked.returned(&waited);
    let jid = waited["web1"]["jid"].as_str().unwrap();
    let job = get(&format!("/jobs/{jid}"));
    assert_eq!(job["return"], json!([{"web1": true}]));
    assert_eq!(job["info"][0]["Function"], "test.ping");
    assert_eq!(get("/jobs")["return"][0][jid]["Function"], "test.ping");
    assert_eq!(asked.api.get("/jobs/7", &asked.alice).status, 400);
    assert!(
        get("/stats")["saline-api"]["answers"]["2xx"]
            .as_u64()
            .unwrap()
            > 3
    );
    let metrics = asked.api.get("/metrics", &asked.alice);
    assert!(
        metrics
            .body
            .contains("saline_api_answers_total{status=\"2xx\"}"),
        "{metrics:?}"
    );
}

#[test]
fn a_chunk_without_a_client_or_a_function_has_none_of_the_others_begun() {
    let asked = Asked::new();
    let with_token = |chunk: &Value| {
        let mut chunk = chunk.clone();
        chunk["token"] = json!(asked.alice);
        chunk
    };
    let ping = json!({"client": "local_async", "tgt": "*", "fun": "test.ping"});
    for (wrong, why) in [
        (
            json!({"client": "local_async", "tgt": "*"}),
            "fun is missing",
        ),
        (json!({"tgt": "*", "fun": "test.ping"}), "client is missing"),
        (
            json!({"client": "ssh", "tgt": "*", "fun": "test.ping"}),
            "there is no client",
        ),
    ] {
        let chunks = json!([ping, wrong]);
        let run = json!([with_token(&ping), with_token(&wrong)]);
        for (path, body) in [("/", &chunks), ("/run", &run)] {
            let refused = asked.api.post(path, &asked.alice, body);
            let said = refused.expect(400)["return"].take();
            let said = said.as_str().unwrap();
            assert!(said.starts_with("chunk 2 of 2: "), "{path}: {said}");
            assert!(said.contains(why), "{path}: {said}");
        }
    }
    let jobs = json!([{"tgt": "*", "fun": "test.ping"}, {"tgt": "*"}]);
    let refused = asked.api.post("/minions", &asked.alice, &jobs);
    assert_eq!(refused.status, 400, "{refused:?}");
    let jobs = asked.api.get("/jobs", &asked.alice).expect(200);
    assert_eq!(jobs["return"], json!([{}]));
}

#[test]
fn users_do_what_their_rules_allow_and_a_logout_ends_that() {
    let asked = Asked::new();
    let ping = |tgt: &str, fun: &str| json!({"client": "local", "tgt": tgt, "fun": fun});
    let bob = |path: &str, chunk: &Value| asked.api.post(path, &asked.bob, chunk);
    let own = bob("/", &ping("web1", "test.ping")).expect(200);
    assert_eq!(own["return"], json!([{"web1": true}]));
    assert_eq!(bob("/", &ping("*", "test.ping")).status, 401);
    assert_eq!(bob("/", &ping("web1", "test.version")).status, 401);
    assert_eq!(
        bob("/", &json!({"client": "runner", "fun": "manage.up"})).status,
        401
    );
    assert_eq!(
        bob("/", &json!({"client": "wheel", "fun": "key.list_all"})).status,
        401
    );
    assert_eq!(asked.api.get("/keys", &asked.bob).status, 401);

    let run = json!({
        "client": "local", "tgt": "web1", "fun": "test.ping", "username": "bob", "password": "x", "eauth": "auto",
    });
    let answer = asked.api.ask(
        "/run",
        &[
            "-H",
            "Content-Type: application/json",
            "--data-binary",
            &run.to_string(),
        ],
    );
    assert_eq!(answer.expect(200)["return"], json!([{"web1": true}]));

    // The token of the header is none for it, which the answer says.
    let without = bob("/run", &ping("web1", "test.ping"));
    assert_eq!(without.status, 401, "{without:?}");
    assert!(
        without.body.contains("credentials of its own"),
        "{without:?}"
    );

    // A page of others cannot use the cookie, and one of our own can.
    let cookie = format!("session_id={}", asked.bob);
    let chunk = ping("web1", "test.ping").to_string();
    let by_cookie = |origin: &str| {
        let origin = format!("Origin: {origin}");
        let answer = asked.api.ask(
            "/",
            &[
                "-b",
                &cookie,
                "-H",
                &origin,
                "--data-binary",
                &chunk,
                "-H",
                "Content-Type: text/plain",
            ],
        );
        answer.status
    };
    assert_eq!(by_cookie("https://evil.example"), 401);
    assert_eq!(by_cookie(&asked.api.url), 200);

    let out = bob("/logout", &json!({}));
    assert!(out.head.contains("max-age=0"), "{out:?}");
    assert_eq!(out.status, 200);
    assert_eq!(bob("/", &ping("web1", "test.ping")).status, 401);
    let ends = crate::audit::lines_of(&asked.fleet, "log out").join("\n");
    assert!(ends.contains(r#""subject": "user bob""#), "{ends}");
    // The log has neither tokens nor passwords.
    let log = asked.api.daemon.log.text();
    assert!(
        !log.contains(&asked.alice) && !log.contains(&asked.bob),
        "{log}"
    );
    drop(asked.fleet);
}
