//! The API over TLS, and a certificate that is renewed.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use saline_testing::Fleet;

use super::http::{Api, curl, options};

/// Makes a certificate of its own for 127.0.0.1, by openssl.
fn certify(fleet: &Fleet, name: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args([
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=saline",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .arg("-keyout")
        .arg(fleet.path(&format!("{name}.key")))
        .arg("-out")
        .arg(fleet.path(&format!("{name}.crt")))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn a_renewed_certificate_is_shown_after_sighup() {
    let mut fleet = Fleet::new("tcp", "");
    certify(&fleet, "first");
    certify(&fleet, "second");
    let path = |name: &str| fleet.path(name).display().to_string();
    fs::copy(path("first.crt"), path("api.crt")).unwrap();
    fs::copy(path("first.key"), path("api.key")).unwrap();
    let tls = format!(
        "  ssl_crt: {}\n  ssl_key: {}\n",
        path("api.crt"),
        path("api.key")
    );
    let [first, second] = [path("first.crt"), path("second.crt")];
    let (crt, key) = (path("api.crt"), path("api.key"));
    fleet.master_options += &options(&tls);
    fleet.start_master();
    let api = Api::start(&fleet);
    assert!(api.url.starts_with("https://"), "{}", api.url);

    let trusted = |certificate: &str| {
        curl(&format!("{}/healthz", api.url), &["--cacert", certificate])
            .status
            .success()
    };
    assert!(trusted(&first) && !trusted(&second));
    fs::write(&key, "no key").unwrap();
    api.daemon.signal(Signal::HUP);
    api.daemon.log.wait_for("the certificate in force stays", 1);
    assert!(trusted(&first));
    fs::copy(&second, &crt).unwrap();
    fs::copy(second.replace(".crt", ".key"), &key).unwrap();
    api.daemon.signal(Signal::HUP);
    api.daemon.log.wait_for("the certificate was read again", 1);
    assert!(trusted(&second) && !trusted(&first));
}
