//! The file `api`, and the section `rest_cherrypy`.

use saline_config::{ApiConfig, CorsOrigins};
use saline_protocol::transport::HostPort;

use crate::folder::{SCHEMES, folder, master, master_error};

#[test]
fn the_file_of_an_api_names_its_master_and_its_listener() {
    let dir = folder(&[(
        "api",
        "master: [a, 'b:4507']\ntransport: tcp\ntcp: {master_port: 4600}\nroot_dir: /srv/api\n\
         rest_cherrypy: {port: 8000, ssl_crt: /etc/api.crt, ssl_key: /etc/api.key, cors_origin: ['https://ops.example']}\n",
    )]);
    assert!(ApiConfig::file(dir.path()).exists());
    let loaded = ApiConfig::load(dir.path(), SCHEMES).unwrap();
    assert_eq!(loaded.warnings, [""; 0]);
    let config = loaded.config;
    let own = [HostPort::new("a", 4600), HostPort::new("b", 4600)];
    assert_eq!(config.masters("tcp"), own);
    let common = [HostPort::new("a", 4506), HostPort::new("b", 4507)];
    assert_eq!(config.masters("quic"), common);
    let identity = config.master_identity();
    assert_eq!(
        identity.to_str(),
        Some("/srv/api/etc/saline/pki/api/master.pub")
    );
    let listener = config.rest_cherrypy.unwrap();
    assert_eq!((listener.port, listener.app_path.as_str()), (8000, "/app"));
    assert_eq!(listener.ssl.unwrap().key.to_str(), Some("/etc/api.key"));
    let origins = vec!["https://ops.example".to_owned()];
    assert_eq!(listener.cors_origin, CorsOrigins::Listed(origins));
}

#[test]
fn options_of_others_are_warned_of_in_the_file_of_an_api() {
    let dir = folder(&[("api", "ret_port: 4506\nspool_sync: always\n")]);
    let warnings = ApiConfig::load(dir.path(), SCHEMES).unwrap().warnings;
    for (warning, name) in warnings.iter().zip(["ret_port", "spool_sync"]) {
        let told =
            format!("option {name:?} is one of the master or of a minion, and has no effect");
        assert!(warning.contains(&told), "{warning}");
    }
    assert_eq!(warnings.len(), 2);
}

#[test]
fn a_master_has_the_same_section_for_an_api_beside_it() {
    let config = master(
        "rest_cherrypy: {port: 8000, host: '::1', disable_ssl: True, cors_origin: '*', max_request_body_size: 2M}\n",
    );
    let listener = config.rest_cherrypy.unwrap();
    assert!(listener.host.is_loopback() && listener.disable_ssl);
    assert_eq!(listener.cors_origin, CorsOrigins::All);
    assert_eq!(listener.max_request_body_size, 2 << 20);
    assert_eq!(master("").rest_cherrypy, None);
}

#[test]
fn mistakes_in_the_listener_are_told_with_their_place() {
    for (text, error) in [
        (
            "rest_cherrypy: {host: '::1'}\n",
            r#"DIR/master:1:16: option "rest_cherrypy" takes a mapping with a port, and has no port"#,
        ),
        (
            "rest_cherrypy: {port: 8000, ssl_crt: /a}\n",
            r#"DIR/master:1:16: option "rest_cherrypy" takes ssl_crt and ssl_key together"#,
        ),
        (
            "rest_cherrypy: {port: 8000, ssl_cert: /a}\n",
            r#"DIR/master:1:29: unknown option "rest_cherrypy:ssl_cert"; did you mean "ssl_crt"?"#,
        ),
        (
            "rest_cherrypy: {port: 8000, host: localhost}\n",
            r#"DIR/master:1:35: option "rest_cherrypy:host" takes an IP address to listen on, not "localhost""#,
        ),
        (
            "rest_cherrypy: {port: 8000, app_path: /a/../b}\n",
            r#"DIR/master:1:39: option "rest_cherrypy:app_path" takes the path of a URL, such as /app, not "/a/../b""#,
        ),
        (
            "rest_cherrypy: {port: 8000, cors_origin: 'https://*.example'}\n",
            r#"DIR/master:1:42: option "rest_cherrypy:cors_origin" takes an origin such as https://ops.example, a list of them, or '*', not "https://*.example""#,
        ),
    ] {
        assert_eq!(master_error(&[("master", text)]), error);
    }
}
