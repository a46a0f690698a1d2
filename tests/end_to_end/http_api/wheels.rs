//! Functions about keys and the configuration: `wheel` and `wheel_async`.

use saline_testing::Fleet;
use serde_json::{Value, json};

use super::events::Listener;
use super::http::{Api, options};
use super::users::{fleet_with_users, log_in};

fn listener(api: &Api, token: &str) -> Listener {
    Listener::start(api, &["-H", &format!("X-Auth-Token: {token}")])
}

#[test]
fn the_tag_of_a_wheel_leads_to_its_events() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let mut heard = listener(&api, &alice);
    let chunk = json!({"client": "wheel_async", "fun": "key.list", "match": "accepted"});
    let begun = api.post("/", &alice, &chunk).expect(200)["return"][0].take();
    let jid = begun["jid"].as_str().unwrap();
    let tag = begun["tag"].as_str().unwrap();
    assert_eq!(tag, format!("salt/wheel/{jid}"));

    let new = heard.find(&format!("{tag}/new"));
    let data = &new.data["data"];
    assert_eq!(data["fun"], "wheel.key.list");
    assert_eq!(
        (&data["jid"], &data["user"]),
        (&json!(jid), &json!("alice"))
    );
    let arguments = json!([{"match": "accepted", "__kwarg__": true}]);
    assert_eq!(data["fun_args"], arguments, "{data}");
    assert!(data.get("return").is_none(), "{data}");
    let returned = heard.find(&format!("{tag}/ret"));
    let data = &returned.data["data"];
    assert_eq!(data["fun"], "wheel.key.list");
    assert_eq!(
        (&data["jid"], &data["user"]),
        (&json!(jid), &json!("alice"))
    );
    assert_eq!(data["return"], json!({"minions": ["web1"]}));
    assert_eq!(data["success"], true);

    let job = api.get(&format!("/jobs/{jid}"), &alice).expect(200);
    assert_eq!(job["info"][0]["Function"], "wheel.key.list", "{job}");
    let result = &job["info"][0]["Result"];
    assert!(result.to_string().contains("web1"), "{job}");

    // One that is waited for has them too, with the same data.
    let chunk = json!({"client": "wheel", "fun": "key.finger", "match": ["web1"]});
    let waited = api.post("/", &alice, &chunk).expect(200)["return"][0].take();
    let tag = waited["tag"].as_str().unwrap();
    let returned = heard.find(&format!("{tag}/ret"));
    for (name, value) in waited["data"].as_object().unwrap() {
        assert_eq!(returned.data["data"][name], *value, "{name}");
    }
    // What fails says so at both places.
    let chunk = json!({"client": "wheel", "fun": "key.list", "match": "others"});
    let failed = api.post("/", &alice, &chunk).expect(200)["return"][0].take();
    assert_eq!(failed["data"]["success"], false, "{failed}");
    let why = failed["data"]["return"].as_str().unwrap();
    assert!(
        why.contains("accepted, pre, rejected, denied or all"),
        "{why}"
    );
    let returned = heard.find(&format!("{}/ret", failed["tag"].as_str().unwrap()));
    assert_eq!(returned.data["data"]["return"], why);
    assert_eq!(returned.data["data"]["success"], false);
}

/// Starts a master on which alice may decide about keys and nothing else, and carol sees all events.
fn fleet_with_a_keeper() -> Fleet {
    let users = "\
auto_accept: True
external_auth:
  auto:
    alice: ['@wheel']
    bob: ['@runner', test.ping]
    carol: ['@events']
    dave: ['@wheel']
netapi_enable_clients: [wheel]
";
    let mut fleet = Fleet::new("tcp", &format!("{users}{}", options("")));
    fleet.start_master();
    fleet
}

#[test]
fn the_rule_wheel_decides_about_every_wheel_and_events_go_to_who_called() {
    let fleet = fleet_with_a_keeper();
    let api = Api::start(&fleet);
    let [alice, bob, carol, dave] =
        ["alice", "bob", "carol", "dave"].map(|user| log_in(&api, user));
    let [mut of_alice, mut of_carol, mut of_dave] =
        [&alice, &carol, &dave].map(|token| listener(&api, token));
    let call =
        |token: &str, fun: &str| api.post("/", token, &json!({"client": "wheel", "fun": fun}));
    // Neither a rule for runners nor the client `runner` is asked for.
    let connected = call(&alice, "minions.connected").expect(200)["return"][0].take();
    assert_eq!(connected["data"]["return"], json!([]));
    let values = call(&alice, "config.values").expect(200)["return"][0].take();
    assert_eq!(values["data"]["return"]["timeout"], 5, "{values}");
    assert!(values["data"]["return"].get("external_auth").is_none());
    for fun in ["minions.connected", "config.values", "key.list_all"] {
        let refused = call(&bob, fun);
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(
            refused.body.contains(&format!("wheel.{fun}")),
            "{refused:?}"
        );
    }
    // What alice called is heard by her and by who hears all, and dave hears his own first.
    let own = call(&dave, "key.list_all").expect(200)["return"][0].take();
    let own = own["data"]["jid"].clone();
    let first = connected["data"]["jid"].clone();
    assert_eq!(of_alice.find("/new").data["data"]["jid"], first);
    assert_eq!(of_carol.find("/new").data["data"]["jid"], first);
    assert_eq!(of_dave.find("/new").data["data"]["jid"], own);
}

#[test]
fn arguments_that_a_wheel_does_not_have_are_refused_by_their_names() {
    let fleet = fleet_with_users(&["web1", "web2"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let call = |chunk: Value| {
        let mut whole = json!({"client": "wheel"});
        let more = chunk.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(more);
        api.post("/", &alice, &whole)
    };
    for (chunk, name) in [
        (
            json!({"fun": "key.accept", "match": "web1", "include_rejcted": true}),
            "include_rejcted",
        ),
        (json!({"fun": "key.list_all", "state": "all"}), "state"),
        (json!({"fun": "key.accept"}), "match"),
        (json!({"fun": "key.gen"}), "key.gen"),
    ] {
        let refused = call(chunk);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body.contains(name), "{name}: {refused:?}");
    }
    // No shell has split the call of a wheel.
    let refused = call(json!({"fun": "key.accept", "match": "web1", "typo": "1"}));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused.body.contains("typo=") && !refused.body.contains("quotes"),
        "{refused:?}"
    );
    let fingers = call(json!({"fun": "key.finger", "match": ["web1", "web2"]})).expect(200);
    let fingers = &fingers["return"][0]["data"]["return"]["minions"];
    assert_eq!(fingers.as_object().unwrap().len(), 2, "{fingers}");
    let rejected = call(json!({"fun": "key.reject", "match": ["web1"], "include_accepted": true}));
    let rejected = rejected.expect(200)["return"][0]["data"]["return"].take();
    assert_eq!(rejected, json!({"minions_rejected": ["web1"]}));
    // SaltGUI sends `match` with every wheel, and Salt leaves it out where a function does not have it.
    let listed = call(json!({"fun": "key.list_all", "match": ""})).expect(200);
    let listed = &listed["return"][0]["data"]["return"];
    assert_eq!(listed["minions"], json!(["web2"]), "{listed}");
}
