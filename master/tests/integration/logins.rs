//! What is done in the name of users who log in: with no, a wrong, an ended and a foreign token, and by rules.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use saline_config::MasterConfig;
use saline_data::Value;
use saline_messages::{
    ActAsRequest, Incoming, Jid, LoginReply, LoginRequest, LoginToken, NetapiClient, OperatorReply,
    OperatorRequest, Password, PublishRequest, RefusedVerb, RequestId, RunnerCall, RunnerEnd,
    RunnerReply, RunnerRequest, UploadRequest, decode, encode,
};
use saline_targeting::Target;

use crate::audiences::verbs;
use crate::operator_rules::operator;
use crate::support::runner::{call, value};
use crate::support::{Deployment, Peer};

const RULES: &str = "
external_auth:
  auto:
    ann: [test.ping, '@jobs']
    boss: ['@all']
netapi_enable_clients: [local_async, runner]
operators: {api1: [], api2: []}
";

/// Changes a configuration to what these options of a file say.
fn with_options(options: &str) -> impl FnOnce(&mut MasterConfig) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("master"), options).unwrap();
    let read = MasterConfig::load(folder.path(), &[]).unwrap().config;
    move |config| {
        config.auto_accept = true;
        config.external_auth = read.external_auth;
        config.operators = read.operators;
    }
}

fn login(user: &str, token: u8) -> OperatorRequest {
    OperatorRequest::Login(LoginRequest {
        user: user.to_owned(),
        password: Password::new("anything".to_owned()),
        eauth: "auto".to_owned(),
        token: LoginToken([token; 32]),
    })
}

fn acting(token: u8, client: Option<NetapiClient>, request: &OperatorRequest) -> OperatorRequest {
    OperatorRequest::ActAs(ActAsRequest {
        token: LoginToken([token; 32]),
        client,
        request: encode(request).into(),
    })
}

async fn log_in(peer: &Peer, user: &str, token: u8) {
    let reply = peer.order(login(user, token)).await;
    assert!(
        matches!(reply, OperatorReply::Login(LoginReply::LoggedIn(_))),
        "{reply:?}"
    );
}

fn examples() -> Vec<OperatorRequest> {
    verbs::of_operators(&Jid::parse("20261121091409931549").unwrap())
}

#[tokio::test]
async fn no_request_is_carried_out_with_a_token_that_is_not_valid() {
    let deployment = Deployment::start_with(with_options(RULES)).await;
    let api = operator(&deployment, "api1").await;
    log_in(&api, "boss", 1).await;
    log_in(&api, "boss", 2).await;
    let reply = api
        .order(OperatorRequest::Logout(LoginToken([2; 32])))
        .await;
    assert_eq!(reply, OperatorReply::LoggedOut);
    for verb in examples() {
        for token in [0, 2, 0xff] {
            for client in [None, Some(NetapiClient::Local)] {
                let reply = api.order(acting(token, client, &verb)).await;
                assert_eq!(reply, OperatorReply::NotLoggedIn, "{}", verb.name());
            }
        }
    }
    let pinged = api.order(acting(1, None, &OperatorRequest::Ping)).await;
    assert_eq!(pinged, OperatorReply::Pong("boss".to_owned()));
}

#[tokio::test]
async fn a_request_in_the_name_of_a_user_is_no_login_and_not_nested() {
    let deployment = Deployment::start_with(with_options(RULES)).await;
    let api = operator(&deployment, "api1").await;
    log_in(&api, "boss", 1).await;
    let nested = acting(1, None, &OperatorRequest::Ping);
    for verb in [
        login("ann", 3),
        OperatorRequest::Logout(LoginToken([1; 32])),
        nested,
    ] {
        let reply = api.order(acting(1, None, &verb)).await;
        assert!(matches!(reply, OperatorReply::NotAllowed(_)), "{reply:?}");
    }
    let malformed = OperatorRequest::ActAs(ActAsRequest {
        token: LoginToken([1; 32]),
        client: None,
        request: [0xff; 20].into(),
    });
    let reply = api.order(malformed).await;
    assert_eq!(reply, OperatorReply::Refused(RefusedVerb::Malformed));
}

#[tokio::test]
async fn the_rules_of_the_user_decide_and_not_those_of_the_key() {
    let deployment = Deployment::start_with(with_options(RULES)).await;
    let (api, root) = (
        operator(&deployment, "api1").await,
        deployment.operator().await,
    );
    log_in(&api, "ann", 1).await;
    log_in(&root, "ann", 2).await;
    // Also where local root brings the request.
    for (peer, token) in [(&api, 1), (&root, 2)] {
        for verb in examples() {
            let reply = peer.order(acting(token, None, &verb)).await;
            let is_allowed = matches!(
                verb,
                OperatorRequest::Ping
                    | OperatorRequest::Events(_)
                    | OperatorRequest::MatchTarget { .. }
                    | OperatorRequest::JobReturns { .. }
                    | OperatorRequest::JobStates { .. }
                    | OperatorRequest::Cancel { .. }
                    | OperatorRequest::Runner(_)
                    // Those of an upload that is not there.
                    | OperatorRequest::Upload(UploadRequest::Part { .. } | UploadRequest::End { .. })
            );
            let is_refused = matches!(reply, OperatorReply::NotAllowed(_));
            assert!(is_allowed || is_refused, "{}: {reply:?}", verb.name());
        }
    }
    // The key itself has no rule.
    let refused = api.order(OperatorRequest::RotateGroupKey).await;
    assert!(
        matches!(refused, OperatorReply::NotAllowed(_)),
        "{refused:?}"
    );
    log_in(&api, "boss", 3).await;
    let done = api
        .order(acting(3, None, &OperatorRequest::RotateGroupKey))
        .await;
    assert!(matches!(done, OperatorReply::Rotated(_)), "{done:?}");
}

#[tokio::test]
async fn a_client_that_an_api_names_has_to_be_enabled() {
    let deployment = Deployment::start_with(with_options(RULES)).await;
    let api = operator(&deployment, "api1").await;
    log_in(&api, "boss", 1).await;
    let rotate = OperatorRequest::RotateGroupKey;
    for client in NetapiClient::ALL {
        let reply = api.order(acting(1, Some(client), &rotate)).await;
        let OperatorReply::NotAllowed(why) = reply else {
            panic!("{client:?}: {reply:?}");
        };
        let is_enabled = [NetapiClient::LocalAsync, NetapiClient::Runner].contains(&client);
        let expected = if is_enabled {
            "is not one for"
        } else {
            "is not enabled"
        };
        assert!(why.contains(expected), "{client:?}: {why}");
    }
    let ping = acting(1, Some(NetapiClient::Runner), &OperatorRequest::Ping);
    let pong = OperatorReply::Pong("boss".to_owned());
    assert_eq!(api.order(ping).await, pong);
}

#[tokio::test]
async fn logins_outlive_the_master_and_end_with_the_rules_of_their_user() {
    let deployment = Deployment::start_with(with_options(RULES)).await;
    let api = operator(&deployment, "api1").await;
    log_in(&api, "ann", 1).await;
    drop(api);
    let deployment = deployment.restart(|_| {}).await;
    let [api, other] = [
        operator(&deployment, "api1").await,
        operator(&deployment, "api2").await,
    ];
    let ping = || acting(1, None, &OperatorRequest::Ping);
    let pong = OperatorReply::Pong("ann".to_owned());
    assert_eq!(api.order(ping()).await, pong);
    // Whoever has the token acts as the user.
    assert_eq!(other.order(ping()).await, pong);
    let mut without = deployment.config.clone();
    with_options("external_auth: {auto: {boss: ['@all']}}\noperators: {api1: []}\n")(&mut without);
    deployment.master.reload(&without);
    assert_eq!(api.order(ping()).await, OperatorReply::NotLoggedIn);
    let reply = api.order(login("ann", 4)).await;
    assert_eq!(reply, OperatorReply::Login(LoginReply::Refused));
    with_options("operators: {api1: []}\n")(&mut without);
    deployment.master.reload(&without);
    let reply = api.order(login("boss", 5)).await;
    assert!(matches!(reply, OperatorReply::NotAllowed(_)), "{reply:?}");
}

#[tokio::test]
async fn a_master_ends_the_logins_of_a_user() {
    let deployment = Deployment::start_with(with_options(RULES)).await;
    let root = deployment.operator().await;
    for token in [1, 2] {
        log_in(&root, "ann", token).await;
    }
    log_in(&root, "boss", 3).await;
    let revoked = value(&root, "auth.revoke", &["ann"]).await;
    assert_eq!(revoked.get("logins"), Some(&2_i64.into()));
    for (token, reply) in [
        (1, OperatorReply::NotLoggedIn),
        (2, OperatorReply::NotLoggedIn),
        (3, OperatorReply::Pong("boss".to_owned())),
    ] {
        let asked = root
            .order(acting(token, None, &OperatorRequest::Ping))
            .await;
        assert_eq!(asked, reply);
    }
    let file = deployment.config.login_file();
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn the_end_of_the_logins_ends_the_runs_and_tells_the_jobs_that_go_on() {
    let deployment = Deployment::start_with(|config| {
        with_options(RULES)(config);
        config.timeout = Duration::from_secs(600);
    })
    .await;
    let root = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    minion.reconcile().await;
    log_in(&root, "boss", 1).await;
    let order = OperatorRequest::Publish(PublishRequest::new(
        RequestId::random().unwrap(),
        Target::glob("m1"),
        "test.ping",
        "somebody",
    ));
    let OperatorReply::Published(published) = root.order(acting(1, None, &order)).await else {
        panic!("the job is not published");
    };
    let job = published.jid.unwrap();
    let listed = value(&root, "jobs.list_job", &[job.as_str()]).await;
    assert_eq!(listed.get("User"), Some(&"boss".into()), "not as it says");
    // Another one's, which is not told.
    root.publish("m1").await;
    // It waits for the minion, which is present and says nothing.
    let run = RunnerCall {
        is_async: true,
        timeout_ms: Some(600_000),
        ..call("jobs.cancel", &[job.as_str()])
    };
    let ask = |token, is_async| {
        let call = RunnerCall {
            is_async,
            ..run.clone()
        };
        acting(
            token,
            None,
            &OperatorRequest::Runner(RunnerRequest::Run(call)),
        )
    };
    let begun = root.order(ask(1, true)).await;
    let OperatorReply::Runner(RunnerReply::Begun(jid)) = begun else {
        panic!("{begun:?}");
    };
    let revoked = value(&root, "auth.revoke", &["boss"]).await;
    let expected = Value::map([
        ("logins", 1_i64.into()),
        ("runs", Value::List(vec![jid.as_str().into()])),
        ("jobs", Value::List(vec![job.as_str().into()])),
    ]);
    assert_eq!(revoked, expected);
    // The user logs in again to see how the run has ended.
    log_in(&root, "boss", 2).await;
    let ended = loop {
        match root.order(ask(2, false)).await {
            OperatorReply::Runner(RunnerReply::Begun(_)) => {}
            OperatorReply::Runner(RunnerReply::Ended(ended)) => break ended,
            other => panic!("{other:?}"),
        }
    };
    let mut incoming = Incoming::of(&ended.part).unwrap();
    assert!(incoming.take(&ended.part).unwrap());
    let end: RunnerEnd = decode(incoming.whole().unwrap()).unwrap();
    let why = end.error.unwrap();
    assert_eq!(why, "the run was ended before it was done");
}
