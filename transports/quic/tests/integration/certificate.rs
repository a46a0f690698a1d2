//! The certificate that a link shows.

use std::sync::Arc;

use crate::support::{
    Host, TEST_TIMEOUT, ask, client, context, eventually, limits, next, subscribe,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use saline_protocol::transport::{
    Client, Delivery, Endpoint, ErrorKind, HostPort, Metric, Result, ServeAt, Tls, Transport,
    VerifyPeer,
};
use saline_quic::Quic;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_name_the_same_certificate_and_a_restart_changes_it() {
    let host = Host::start().await;
    let first = host.control.certificate().expect("a certificate");
    let (one, two) = (client(host.address()).await, client(host.address()).await);
    assert_eq!(one.peer_certificate(), Some(first));
    assert_eq!(two.peer_certificate(), Some(first), "on every connection");
    let mut listener = subscribe(&one, "t").await;

    host.control.shutdown(TEST_TIMEOUT).await.unwrap();
    assert_eq!(next(&mut listener).await, Delivery::Disconnected);
    let host = Host::start_at(host.bound.requests.clone()).await;
    assert_eq!(next(&mut listener).await, Delivery::Connected);
    let second = host.control.certificate().expect("a certificate");
    assert_ne!(first, second);
    assert_eq!(one.peer_certificate(), Some(second));
    assert_eq!(ask(&one, "over it").await.unwrap(), "over it");
}

/// An authority and what it signs, as files hold them.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// A certificate for `name`, held together with this authority against others'.
    fn tls(&self, name: &str, verify: VerifyPeer) -> Tls {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Tls::new()
            .with_certificate(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
            .with_authorities(self.issuer.pem().as_bytes(), verify)
    }

    /// A certificate for `name` that has expired.
    fn expired(&self, name: &str) -> Tls {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Tls::new().with_certificate(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
    }

    /// No certificate, but the same demands.
    fn bare(&self, verify: VerifyPeer) -> Tls {
        Tls::new().with_authorities(self.issuer.pem().as_bytes(), verify)
    }
}

fn anywhere() -> Endpoint {
    Endpoint::network("quic", HostPort::new("127.0.0.1", 0))
}

/// What comes of a client with `tls` at `host`: the error of connecting, or a request that is answered.
async fn visit(host: &Host, tls: Option<Tls>) -> Result<()> {
    let (context, _) = context(limits());
    let endpoint = host.bound.requests.clone();
    let quic = Quic::new();
    let client: Arc<dyn Client> = quic.connect(&endpoint, context.with_tls(tls)).await?;
    assert_eq!(client.peer_certificate(), host.control.certificate());
    ask(&client, "through tls").await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_held_against_authorities_at_either_end() {
    use VerifyPeer::{None as Nobody, Optional, Required};
    let (ours, theirs) = (Authority::new(), Authority::new());
    let refused = |outcome: Result<()>, what: &str| {
        let error = outcome.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{what}: {error}");
    };

    let mutual = Host::start_with(anywhere(), Some(ours.tls("127.0.0.1", Required))).await;
    visit(&mutual, Some(ours.tls("minion", Required)))
        .await
        .unwrap();
    visit(&mutual, Some(ours.tls("minion", Nobody)))
        .await
        .unwrap();
    refused(visit(&mutual, None).await, "no certificate");
    refused(
        visit(&mutual, Some(theirs.tls("minion", Nobody))).await,
        "another authority's",
    );

    let optional = Host::start_with(anywhere(), Some(ours.tls("127.0.0.1", Optional))).await;
    visit(&optional, None).await.unwrap();
    visit(&optional, Some(ours.bare(Required))).await.unwrap();
    refused(
        visit(&optional, Some(theirs.tls("minion", Nobody))).await,
        "another authority's",
    );
    refused(
        visit(&optional, Some(theirs.bare(Required))).await,
        "a server of another authority",
    );

    // The name that was asked for is 127.0.0.1.
    let elsewhere = Host::start_with(anywhere(), Some(ours.tls("localhost", Nobody))).await;
    let error = visit(&elsewhere, Some(ours.bare(Required))).await;
    assert!(error.unwrap_err().to_string().contains("valid for name"));
    visit(&elsewhere, Some(ours.bare(Nobody))).await.unwrap();

    let old = Host::start_with(anywhere(), Some(ours.expired("127.0.0.1"))).await;
    let error = visit(&old, Some(ours.bare(Required))).await;
    assert!(error.unwrap_err().to_string().contains("has expired"));
    let expired = visit(&mutual, Some(ours.expired("minion"))).await;
    let error = expired.unwrap_err().to_string();
    assert!(
        error.contains("this side's certificate has expired"),
        "{error}"
    );
    let refused_peers = || mutual.counters.get(Metric::PeersRefused);
    eventually("three are counted", || refused_peers() >= 3).await;
    assert_eq!(refused_peers(), 3);

    let open = Host::start().await;
    visit(&open, None).await.unwrap();
    refused(
        visit(&open, Some(ours.bare(Required))).await,
        "a self-signed server",
    );
}

#[tokio::test]
async fn what_cannot_be_read_refuses_to_start() {
    let authority = Authority::new();
    let good = authority.tls("master", VerifyPeer::None);
    let part = |of: &Option<Arc<[u8]>>| of.clone().unwrap_or_default();
    for tls in [
        Tls::new().with_certificate(b"none", &part(&good.key)),
        Tls::new().with_certificate(&part(&good.certificates), b"none"),
        Tls::new().with_authorities(b"none", VerifyPeer::Required),
        // Not the key of that certificate.
        Tls::new().with_certificate(
            &part(&good.certificates),
            &part(&authority.tls("other", VerifyPeer::None).key),
        ),
    ] {
        let (context, _) = context(limits());
        let at = ServeAt {
            requests: anywhere(),
            publications: None,
        };
        let served = Quic::new()
            .serve(at, context.with_tls(Some(tls.clone())))
            .await;
        assert_eq!(served.unwrap_err().kind(), ErrorKind::Config, "{tls:?}");
    }
}
