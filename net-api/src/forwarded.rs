//! How a client reached the API: as its connection shows, or as a trusted proxy in front of the API tells.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::http::Extensions;
use hyper::http::request::Parts;
use saline_client::transport::Source;

use crate::api::Api;

/// The header in which a proxy tells who it asks for.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The headers in which a proxy tells by which scheme and for which host it was asked.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The address that a connection came from. One of IPv4 is never written as one of IPv6.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(IpAddr);

impl ClientAddress {
    /// Returns the address of a connection.
    pub(crate) fn of(from: SocketAddr) -> Self {
        Self(from.ip().to_canonical())
    }
}

/// Whether a trusted proxy sent the request, whose headers are believed then.
pub(crate) fn is_by_proxy(trusted: &[IpAddr], extensions: &Extensions) -> bool {
    let peer = extensions.get::<ClientAddress>();
    peer.is_some_and(|peer| trusted.contains(&peer.0))
}

/// Returns the address of the client: the last one that a trusted proxy tells and that is no trusted proxy itself.
pub(crate) fn client_address(
    trusted: &[IpAddr],
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Option<IpAddr> {
    let peer = extensions.get::<ClientAddress>()?.0;
    if !is_by_proxy(trusted, extensions) {
        return Some(peer);
    }
    let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let mut hops = lines
        .flat_map(|line| line.rsplit(','))
        .map(|hop| hop.trim().parse().map(|hop: IpAddr| hop.to_canonical()));
    let told = hops.find(|hop| hop.as_ref().map_or(true, |hop| !trusted.contains(hop)));
    Some(told.and_then(Result::ok).unwrap_or(peer))
}

/// The source of a request, by which clients share what is bounded for all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientSource(pub(crate) Source);

impl FromRequestParts<Arc<Api>> for ClientSource {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Infallible> {
        let address = client_address(&api.trusted_proxies, &parts.extensions, &parts.headers);
        // Every connection has an address.
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Ok(Self(Source::of(SocketAddr::new(address, 0))))
    }
}

/// The origin of the API's own pages, as the browser that sends a request sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnOrigin {
    is_https: bool,
    /// The host, with the port unless the scheme says it; none where the request does not say it.
    authority: Option<String>,
}

impl OwnOrigin {
    /// Returns the origin of an API, with or without TLS of its own, that got a request from a trusted proxy or another client.
    pub(crate) fn new(over_tls: bool, by_proxy: bool, headers: &HeaderMap) -> Self {
        let told = |name| last(headers, name).filter(|_| by_proxy);
        let is_https = match told(FORWARDED_PROTO) {
            Some("https") => true,
            Some("http") => false,
            _ => over_tls,
        };
        let host = || headers.get(HOST)?.to_str().ok();
        let authority = told(FORWARDED_HOST).or_else(host);
        Self {
            is_https,
            authority: authority.map(|authority| without_port(is_https, authority)),
        }
    }

    /// Whether the browser reached the API over TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.is_https
    }

    /// Whether this is what a browser names in `Origin`.
    pub(crate) fn is(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().ok();
        let Some((scheme, authority)) = origin.and_then(|origin| origin.split_once("://")) else {
            return false;
        };
        let is_https = match scheme {
            "https" => true,
            "http" => false,
            _ => return false,
        };
        is_https == self.is_https && self.authority == Some(without_port(is_https, authority))
    }
}

impl FromRequestParts<Arc<Api>> for OwnOrigin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Infallible> {
        let by_proxy = is_by_proxy(&api.trusted_proxies, &parts.extensions);
        Ok(Self::new(api.over_tls, by_proxy, &parts.headers))
    }
}

/// Returns the last value of a header, which the proxy next to the API wrote.
fn last(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let line = headers.get_all(name).into_iter().next_back()?;
    Some(line.to_str().ok()?.rsplit(',').next()?.trim())
}

/// Returns a host in small letters, without the port that belongs to the scheme.
fn without_port(is_https: bool, authority: &str) -> String {
    let port = if is_https { ":443" } else { ":80" };
    let authority = authority.strip_suffix(port).unwrap_or(authority);
    authority.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Extensions {
        let mut extensions = Extensions::new();
        let address = SocketAddr::new(address.parse().unwrap(), 4_711);
        extensions.insert(ClientAddress::of(address));
        extensions
    }

    fn headers(entries: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in entries {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn trusted_proxies_alone_are_believed() {
        let [client, forged, proxy]: [IpAddr; 3] =
            ["192.0.2.7", "192.0.2.9", "10.0.0.1"].map(|text| text.parse().unwrap());
        let told = |trusted: &[IpAddr], peer: &str, headers: &HeaderMap| {
            client_address(trusted, &from(peer), headers).unwrap()
        };
        let forwarded = headers(&[(FORWARDED_FOR, "192.0.2.9, 192.0.2.7, 10.0.0.1")]);
        assert_eq!(told(&[proxy], "10.0.0.1", &forwarded), client);
        // A socket of IPv6 shows a proxy of IPv4 so.
        assert_eq!(told(&[proxy], "::ffff:10.0.0.1", &forwarded), client);
        let mapped = headers(&[(FORWARDED_FOR, "::ffff:192.0.2.7, ::ffff:10.0.0.1")]);
        assert_eq!(told(&[proxy], "10.0.0.1", &mapped), client);
        assert_eq!(told(&[], "10.0.0.1", &forwarded), proxy);
        assert_eq!(told(&[proxy], "192.0.2.7", &forwarded), client);
        assert_eq!(told(&[proxy], "10.0.0.1", &HeaderMap::new()), proxy);
        assert_eq!(
            told(&[proxy, client, forged], "10.0.0.1", &forwarded),
            proxy
        );
        let nonsense = headers(&[(FORWARDED_FOR, "192.0.2.9, nonsense")]);
        assert_eq!(told(&[proxy], "10.0.0.1", &nonsense), proxy);
    }

    #[test]
    fn the_own_origin_has_the_scheme_and_host_that_the_browser_sees() {
        let is = |over_tls, by_proxy, entries: &[(HeaderName, &'static str)], origin| {
            let own = OwnOrigin::new(over_tls, by_proxy, &headers(entries));
            own.is(&HeaderValue::from_static(origin))
        };
        let direct = [(HOST, "api.example:8000")];
        assert!(is(false, false, &direct, "http://api.example:8000"));
        assert!(is(true, false, &direct, "https://API.example:8000"));
        assert!(!is(true, false, &direct, "http://api.example:8000"));
        assert!(!is(false, false, &direct, "https://api.example:8000"));
        assert!(!is(false, false, &direct, "http://api.example"));
        assert!(!is(false, false, &direct, "http://evil/api.example:8000"));
        assert!(!is(false, false, &direct, "null"));
        assert!(!is(false, false, &[], "http://api.example:8000"));
        assert!(is(true, false, &[(HOST, "api:443")], "https://api"));
        assert!(!is(true, false, &[(HOST, "api:80")], "https://api"));
        let behind = [
            (HOST, "127.0.0.1:8000"),
            (FORWARDED_PROTO, "http"),
            (FORWARDED_PROTO, "http, https"),
            (FORWARDED_HOST, "salt.example"),
        ];
        assert!(is(false, true, &behind, "https://salt.example"));
        assert!(!is(false, true, &behind, "http://salt.example"));
        // From anybody else these headers say nothing.
        assert!(!is(false, false, &behind, "https://salt.example"));
        assert!(is(false, false, &behind, "http://127.0.0.1:8000"));
        let own = |by_proxy| OwnOrigin::new(false, by_proxy, &headers(&behind));
        assert!(own(true).is_https() && !own(false).is_https());
    }
}
