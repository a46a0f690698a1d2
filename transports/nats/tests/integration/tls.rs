//! TLS between Saline and a server of NATS.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use saline_nats::Nats;
use saline_protocol::transport::{ErrorKind, Tls, Transport, VerifyPeer};
use saline_testing::NatsServer;

use crate::support::{Host, ask, client, context, endpoint};

/// Starts a server with a certificate for 127.0.0.1, and returns the certificate too.
fn server() -> Option<(NatsServer, String)> {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap().pem();
    let (cert_file, key_file) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    std::fs::write(&cert_file, &certificate).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let configuration = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
        cert_file.display(),
        key_file.display()
    );
    let server = NatsServer::start(&configuration)?;
    Some((server, certificate))
}

/// Connects with this TLS, and returns why that failed.
async fn refusal(server: &NatsServer, tls: Option<Tls>) -> String {
    let context = context().0.with_tls(tls);
    let connected = Nats::new().connect(&endpoint(server, &[]), context).await;
    let error = connected.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    error.to_string()
}

#[tokio::test]
async fn everything_travels_inside_of_tls() {
    let Some((server, certificate)) = server() else {
        return;
    };
    let checked = Tls::new().with_authorities(certificate.as_bytes(), VerifyPeer::Required);
    for tls in [Tls::new(), checked] {
        let host = Host::try_start(&server, &[], Some(tls.clone()))
            .await
            .unwrap();
        let context = context().0.with_tls(Some(tls));
        let connected = Nats::new().connect(&endpoint(&server, &[]), context).await;
        let client = connected.unwrap();
        assert_eq!(ask(&client, vec![7; 3 << 20]).await.unwrap().len(), 3 << 20);
        // The certificate is the broker's, and says nothing about the master.
        assert_eq!(client.peer_certificate(), None);
        assert_eq!(host.control.certificate(), None);
        host.context.cancel.cancel();
        host.context.tracker.close();
        host.context.tracker.wait().await;
    }
}

#[tokio::test]
async fn what_does_not_fit_is_explained() {
    let Some((server, _)) = server() else {
        return;
    };
    let error = refusal(&server, None).await;
    assert!(
        error.contains("asks for TLS, and ssl is not set"),
        "{error}"
    );
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "another authority");
    let other = params.self_signed(&key).unwrap();
    let tls = Tls::new().with_authorities(other.pem().as_bytes(), VerifyPeer::Required);
    let error = refusal(&server, Some(tls)).await;
    assert!(error.contains("unknown authority"), "{error}");
    assert!(error.contains(&server.address().to_string()), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_ssl_is_set() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    let _host = Host::start(&server, &[]).await;
    client(&server, &[]).await;
    let error = refusal(&server, Some(Tls::new())).await;
    assert!(error.contains("has no TLS, and ssl is set"), "{error}");
}

/// A server that takes the user from the certificate of a client, which an authority of the server's has signed.
#[tokio::test]
async fn the_user_of_a_certificate_is_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "authority");
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let signed = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (certificate, key) = signed("127.0.0.1");
    let user = |name: &str, token: &str| {
        format!(
            "{{ user: \"{name}\", permissions: {{ \
             publish: [\"saline.hello.{token}\", \"saline.up.{token}.>\", \"saline.down.>\", \"saline.all\", \"saline.who.{token}\"], \
             subscribe: [\"saline.down.{token}.*\", \"saline.all\", \"saline.hello.*\", \"saline.up.>\", \"saline.who.*\"] }} }}\n"
        )
    };
    let configuration = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify_and_map: true }}\n\
         authorization {{ users = [\n{}{}] }}\n",
        write("cert.pem", &certificate),
        write("key.pem", &key),
        write("ca.pem", &issuer.pem()),
        user("master.example", "master_example"),
        user("web1.example", "web1_example"),
    );
    let Some(server) = NatsServer::start(&configuration) else {
        return;
    };
    let tls_of = |name: &str| {
        let (certificate, key) = signed(name);
        Tls::new()
            .with_certificate(certificate.as_bytes(), key.as_bytes())
            .with_authorities(issuer.pem().as_bytes(), VerifyPeer::Required)
    };
    let as_master = [("user", "master.example")];
    let host = Host::try_start(&server, &as_master, Some(tls_of("master.example")));
    let host = host.await.unwrap();
    let connect_as = async |certificate: &str, user: &str| {
        let context = context().0.with_tls(Some(tls_of(certificate)));
        let at = endpoint(&server, &[("user", user)]);
        Nats::new().connect(&at, context).await
    };
    let web1 = connect_as("web1.example", "web1.example").await.unwrap();
    assert_eq!(ask(&web1, "hello").await.unwrap(), "hello");
    assert_eq!(host.source(), "account web1_example");
    // What the section says is not what NATS goes by.
    let error = connect_as("web1.example", "master.example")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("Permissions Violation"), "{error}");
    let error = connect_as("unknown.example", "web1.example")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("Authorization Violation"), "{error}");
}
