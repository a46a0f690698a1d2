//! The key of an API host: it waits, it is accepted by its fingerprint, and in its own name it does next to nothing.

use saline_messages::{ApiKeyAction, KeyEntry, KeyReply, RunnerReply, RunnerRequest};

use super::*;
use crate::support::runner::call;

impl Scene {
    async fn keys(&self, request: KeyRequest) -> KeyReply {
        match self.operator.order(OperatorRequest::Keys(request)).await {
            OperatorReply::Keys(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    async fn apis(&self) -> Vec<KeyEntry> {
        self.keys(KeyRequest::List).await.apis
    }

    async fn act_on_apis(&self, action: ApiKeyAction) -> usize {
        let request = KeyRequest::ActOnApis {
            request_id: RequestId::random().unwrap(),
            action,
            keys: self.apis().await,
        };
        self.keys(request).await.apis.len()
    }

    async fn api(&self, credentials: &saline_channel::Credentials, trust: &MasterTrust) -> Peer {
        let network = self.deployment.network().await;
        Peer::come(network, credentials.clone(), trust).await
    }
}

#[tokio::test]
async fn a_key_of_an_api_waits_and_gets_no_session_until_it_is_accepted() {
    // The master accepts every minion by itself, and no API.
    let scene = Scene::new().await;
    let web = credentials(Role::Api, "web");
    let trust = MasterTrust::FirstUse { finger: None };
    let waiting = scene.api(&web, &trust).await;
    assert_eq!(waiting.established.answer, Admission::Pending(None));
    let unknown = ask_operator(&waiting, &OperatorRequest::Ping).await;
    assert!(
        matches!(unknown, Err(ChannelError::Refused(Refusal::UnknownSession))),
        "{unknown:?}"
    );
    let other = scene.api(&credentials(Role::Api, "web"), &trust).await;
    assert_eq!(other.established.answer, Admission::Denied);
    for name in ["../web", ".unfinished", "a/b", ""] {
        let nameless = scene.api(&credentials(Role::Api, name), &trust).await;
        assert_eq!(nameless.established.answer, Admission::Rejected, "{name:?}");
    }
    let listed = scene.apis().await;
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].id.as_str(), listed[0].identity),
        ("web", web.identity.public().0)
    );
    // Neither that of a minion nor that of an operator lets it in.
    for role in [Role::Operator, Role::Minion] {
        let credentials = credentials(role, "taken");
        let pki = &scene.deployment.config.paths.pki_dir;
        let pem = credentials.identity.public().to_pem();
        std::fs::write(pki.join("operators/taken"), &pem).unwrap();
        std::fs::write(pki.join("minions/taken"), &pem).unwrap();
        let as_api = saline_channel::Credentials {
            role: Role::Api,
            ..credentials
        };
        let answer = scene.api(&as_api, &trust).await.established.answer;
        assert!(!answer.is_accepted(), "{answer:?}");
    }
    scene.check("a waiting API").await;
}

#[tokio::test]
async fn an_api_does_in_its_own_name_what_every_api_may_and_nothing_else() {
    let scene = Scene::new().await;
    let web = credentials(Role::Api, "web");
    scene
        .api(&web, &MasterTrust::FirstUse { finger: None })
        .await;
    assert_eq!(scene.act_on_apis(ApiKeyAction::Accept).await, 1);
    let trust = MasterTrust::Pinned(scene.deployment.master_keys());
    let api = scene.api(&web, &trust).await;
    for verb in verbs::of_operators(&scene.jid) {
        let reply = ask_operator(&api, &verb).await.unwrap();
        let is_right = match &verb {
            OperatorRequest::Ping => reply == OperatorReply::Pong("web".to_owned()),
            // Whoever logs in decides what comes of these.
            OperatorRequest::Login(_) | OperatorRequest::Logout(_) | OperatorRequest::ActAs(_) => {
                true
            }
            OperatorRequest::Runner(
                RunnerRequest::Part { .. }
                | RunnerRequest::Kill { .. }
                | RunnerRequest::Keep { .. },
            ) => reply == OperatorReply::Runner(RunnerReply::NoSuchRun),
            _ => matches!(reply, OperatorReply::NotAllowed(_)),
        };
        assert!(is_right, "{verb:?}: {reply:?}");
        scene.check(&format!("{verb:?}")).await;
    }
    // Nor does it speak as a minion.
    for verb in verbs::of_minions(&scene.jid) {
        let reply = ask_operator_bytes(&api, &verb).await;
        assert!(
            !matches!(
                reply,
                Ok(OperatorReply::Published(_) | OperatorReply::Keys(_))
            ),
            "{verb:?}: {reply:?}"
        );
        scene.check(&format!("{verb:?}")).await;
    }
    let fired = |tag: &str| {
        let run = RunnerRequest::Run(call("event.send", &[tag, "data"]));
        let request = OperatorRequest::Runner(run);
        let api = &api;
        async move { ask_operator(api, &request).await.unwrap() }
    };
    let hook = fired("salt/netapi/hook/deploy").await;
    assert!(matches!(hook, OperatorReply::Runner(_)), "{hook:?}");
    for tag in ["salt/netapi/hook/../minion", "my/event", "salt/auth"] {
        let refused = fired(tag).await;
        assert!(
            matches!(refused, OperatorReply::NotAllowed(_)),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_deleted_key_of_an_api_ends_its_session_at_the_next_request() {
    let scene = Scene::new().await;
    let web = credentials(Role::Api, "web");
    let first = MasterTrust::FirstUse { finger: None };
    scene.api(&web, &first).await;
    scene.act_on_apis(ApiKeyAction::Accept).await;
    let trust = MasterTrust::Pinned(scene.deployment.master_keys());
    for verb in verbs::of_operators(&scene.jid) {
        let api = scene.api(&web, &trust).await;
        let pong = ask_operator(&api, &OperatorRequest::Ping).await.unwrap();
        assert!(matches!(pong, OperatorReply::Pong(_)), "{pong:?}");
        assert_eq!(scene.act_on_apis(ApiKeyAction::Delete).await, 1);
        let reply = ask_operator(&api, &verb).await.unwrap();
        let gone = OperatorReply::Refused(RefusedVerb::KeyGone);
        assert_eq!(reply, gone, "{verb:?}");
        let again = scene.api(&web, &trust).await;
        assert_eq!(again.established.answer, Admission::Pending(None));
        assert_eq!(scene.act_on_apis(ApiKeyAction::Accept).await, 1);
    }
    scene.check("a deleted API").await;
    let audit = std::fs::read_to_string(scene.deployment.config.audit_file()).unwrap();
    let finger = web.identity.public().fingerprint();
    for word in ["accept", "delete"] {
        let subject = format!("{word}, API web, fingerprint {finger}");
        assert!(audit.contains(&subject), "{subject}");
    }
}

/// Asks for a minion's verb in the session of an API.
async fn ask_operator_bytes(
    peer: &Peer,
    verb: &MinionRequest,
) -> Result<OperatorReply, ChannelError> {
    let deadline = Clock.after(TEST_TIMEOUT);
    let session = &peer.established.session;
    session
        .ask(&*peer.client, Class::Event, verb, deadline)
        .await
}
