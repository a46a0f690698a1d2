//! An API on a host of its own, over each transport: its key waits, is accepted by its fingerprint, and is good for next to nothing
//! by itself.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use saline_client::{Client, ClientError, JobSpec};
use saline_config::ApiConfig;
use saline_messages::{KeyRequest, LoginRequest, LoginToken, NetapiClient, Password};
use saline_protocol::transport::Registry;
use saline_testing::{CommandOutput, Fleet};

saline_testing::over_each_transport!(
    an_api_on_another_host_is_let_in_by_its_fingerprint,
    a_master_with_another_key_is_not_trusted,
);

#[test]
fn a_user_orders_through_an_api_by_a_client_that_is_named_and_enabled() {
    let options = "auto_accept: True\nexternal_auth: {auto: {ann: [test.ping]}}\nnetapi_enable_clients: [local_async]\n";
    let mut fleet = Fleet::new("tcp", options);
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let api = Api::new(&fleet, "web", "transport: tcp\n");
    let fingerprint = api.waits();
    key(&fleet, &["--accept-operator", &fingerprint, "--api"]).expect(0);
    let client = api.connect().unwrap();
    let token = LoginToken([7; 32]);
    let job = |fun: &str| JobSpec::glob("*", fun).unwrap();
    api.runtime.block_on(async {
        let login = LoginRequest {
            user: "ann".into(),
            password: Password::new("any".into()),
            eauth: "auto".into(),
            token,
        };
        let logged_in = client.log_in(login).await.unwrap();
        assert!(logged_in.is_some(), "{logged_in:?}");
        let named = client.acting(token, Some(NetapiClient::LocalAsync));
        let published = named.run_async(job("test.ping")).await.unwrap();
        assert_eq!(published.minions.len(), 1);
        let other = client.acting(token, Some(NetapiClient::Local));
        let none = client.acting(token, None);
        for refused in [
            named.run_async(job("test.version")).await,
            other.run_async(job("test.ping")).await,
            none.run_async(job("test.ping")).await,
        ] {
            assert!(
                matches!(refused, Err(ClientError::NotAllowed(_))),
                "{refused:?}"
            );
        }
        // What gives no order needs no client.
        none.ping().await.unwrap();
        client.shutdown().await;
    });
    let audit = fleet.path("master/var/log/saline/master-audit.log");
    let audit = std::fs::read_to_string(audit).unwrap();
    assert!(
        audit.contains("external user ann (auto, through API web)"),
        "{audit}"
    );
}

/// The program of an API, as far as its sessions go.
struct Api {
    registry: Registry,
    config: ApiConfig,
    runtime: tokio::runtime::Runtime,
}

impl Api {
    /// Reads the file `api` with these options in a folder of its own.
    fn new(fleet: &Fleet, name: &str, options: &str) -> Self {
        let root = fleet.path(name);
        std::fs::create_dir_all(&root).unwrap();
        let text = format!(
            "master: 127.0.0.1:{}\nid: {name}\nroot_dir: {}\n{options}",
            fleet.port(),
            root.display()
        );
        std::fs::write(ApiConfig::file(&root), text).unwrap();
        let registry = saline_transports::registry();
        let schemes: Vec<&str> = registry.schemes().collect();
        let config = ApiConfig::load(&root, &schemes).unwrap().config;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Self {
            config,
            runtime: runtime.enable_all().build().unwrap(),
            registry,
        }
    }

    fn connect(&self) -> Result<Client, ClientError> {
        let connecting = Client::connect_to(&self.config, &self.registry);
        self.runtime.block_on(connecting)
    }

    /// Connects with a key that waits, and returns its fingerprint.
    fn waits(&self) -> String {
        match self.connect() {
            Err(ClientError::ApiKeyPending { fingerprint, .. }) => fingerprint,
            other => panic!("{other:?}"),
        }
    }
}

fn key(fleet: &Fleet, arguments: &[&str]) -> CommandOutput {
    fleet.run("saline-key", arguments)
}

fn an_api_on_another_host_is_let_in_by_its_fingerprint(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1"]);
    // The first transport has no master.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let transports = match transport {
        "tcp" => "transport: tcp\n".to_owned(),
        other => format!("transport: [tcp, {other}]\ntcp: {{master_port: {port}}}\n"),
    };
    let api = Api::new(&fleet, "web", &transports);

    let fingerprint = api.waits();
    assert_eq!(api.waits(), fingerprint, "the key stays");
    let file = api.config.paths.pki_dir.join("identity.key");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let told = api.connect().unwrap_err().to_string();
    let accept = format!("saline-key --accept-operator {fingerprint} --api");
    assert!(told.contains(&accept), "{told}");
    fleet.master().log.wait_for(&accept, 1);

    let listed = key(&fleet, &["-L"]).expect(0).stdout;
    assert!(
        listed.contains(&format!("Unaccepted API Keys:\nweb:  {fingerprint}")),
        "{listed}"
    );
    let other = format!("00:{}", &fingerprint[3..]);
    let refused = key(&fleet, &["--accept-operator", &other, "--api"]).expect(1);
    assert!(refused.stderr.contains(&fingerprint), "{refused:?}");
    assert_eq!(api.waits(), fingerprint);
    key(&fleet, &["--accept-operator", &fingerprint]).expect(64);
    key(&fleet, &["--accept-operator", &fingerprint, "--api"]).expect(0);
    let listed = key(&fleet, &["-L"]).expect(0).stdout;
    assert!(
        listed.contains(&format!("\nAccepted API Keys:\nweb:  {fingerprint}")),
        "{listed}"
    );

    let client = api.connect().unwrap();
    let refused = |refused: ClientError| match refused {
        ClientError::NotAllowed(why) => assert!(why.starts_with("API web may not"), "{why}"),
        other => panic!("{other:?}"),
    };
    api.runtime.block_on(async {
        client.ping().await.unwrap();
        let job = JobSpec::glob("*", "test.ping").unwrap();
        refused(client.run_async(job).await.unwrap_err());
        refused(client.keys(KeyRequest::List).await.unwrap_err());
        refused(client.rotate_group_key().await.unwrap_err());
    });

    // The session is made again over a restart, and the key is deleted without a master.
    fleet.kill_master();
    fleet.start_master();
    api.runtime.block_on(client.ping()).unwrap();
    fleet.kill_master();
    key(&fleet, &["--delete-operator", &fingerprint]).expect(0);
    let listed = key(&fleet, &["-L"]).expect(0).stdout;
    assert!(!listed.contains("API"), "{listed}");
    fleet.start_master();
    let gone = api.runtime.block_on(client.ping()).unwrap_err();
    assert!(
        matches!(gone, ClientError::ApiKeyPending { .. }),
        "{gone:?}"
    );
    api.runtime.block_on(client.shutdown());
    let audit = std::fs::read_to_string(fleet.path("master/var/log/saline/master-audit.log"));
    let audit = audit.unwrap();
    for word in ["accept", "delete"] {
        let subject = format!("{word}, API web, fingerprint {fingerprint}");
        assert!(audit.contains(&subject), "{subject}: {audit}");
    }
}

fn a_master_with_another_key_is_not_trusted(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &[]);
    let options = format!("transport: {transport}\n");
    let finger = vec!["ab"; 32].join(":");
    let api = Api::new(
        &fleet,
        "web",
        &format!("{options}master_finger: '{finger}'\n"),
    );
    let error = api.connect().unwrap_err();
    let ClientError::Distrust(why) = error else {
        panic!("{error:?}");
    };
    assert!(
        why.contains(&finger) && why.contains("master_finger in the API's configuration"),
        "{why}"
    );
    // Nothing was sent to it, so nothing waits there.
    let listed = key(&fleet, &["-L"]).expect(0).stdout;
    assert!(!listed.contains("API"), "{listed}");
    // The first one that answered is the only one from then on.
    let api = Api::new(&fleet, "web", &options);
    api.waits();
    let pinned = api.config.master_identity();
    let other = saline_channel::Identity::generate().unwrap().public();
    std::fs::write(&pinned, other.to_pem()).unwrap();
    let error = api.connect().unwrap_err();
    assert!(matches!(error, ClientError::Distrust(_)), "{error:?}");
}
