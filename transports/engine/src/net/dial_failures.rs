//! Joins the reasons why no candidate of an endpoint was reached into one error.

use std::fmt;

use saline_protocol::transport::{Address, Endpoint, Error, ErrorKind};

use super::Candidate;

/// The reason why each candidate of an endpoint failed, in the order in which they were tried.
#[derive(Debug, Default)]
pub struct DialFailures(Vec<(String, Error)>);

impl DialFailures {
    /// Notes why the candidate at `place` failed; the context of `error` need not name it.
    pub fn add(&mut self, place: impl fmt::Display, error: Error) {
        self.0.push((place.to_string(), error));
    }

    /// Notes the hosts of `endpoint` that none of the candidates `found` has: their names could not be resolved.
    pub fn add_unresolved<'c>(
        &mut self,
        endpoint: &Endpoint,
        found: impl IntoIterator<Item = &'c Candidate, IntoIter: Clone>,
    ) {
        let found = found.into_iter();
        let Address::Network { addresses, .. } = &endpoint.address else {
            return;
        };
        for asked in addresses {
            let is_it = |candidate: &'c Candidate| match candidate {
                Candidate::Network { address, host } => {
                    *host == asked.host && address.port() == asked.port
                }
                Candidate::Name(name) => name == asked,
                Candidate::Local(_) => false,
            };
            if !found.clone().any(is_it) {
                let why = "the name cannot be resolved";
                self.add(asked, Error::new(ErrorKind::Unreachable, why));
            }
        }
    }

    /// Returns one error of the last failure's kind, which names each place with its reason.
    pub fn into_error(mut self, endpoint: &Endpoint) -> Error {
        let Some((place, last)) = self.0.pop() else {
            let why = format!("{endpoint}: no answer in time");
            return Error::new(ErrorKind::Unreachable, why);
        };
        let (kind, retryable) = (last.kind(), last.is_retryable());
        if self.0.is_empty() {
            let why = format!("{endpoint}: {}", last.context());
            return Error::new(kind, why).retryable(retryable).with_source(last);
        }
        let scheme = &endpoint.scheme;
        let mut text = String::new();
        for (place, error) in &self.0 {
            text.push_str(&format!("{scheme}://{place}: {}; ", error.context()));
        }
        text.push_str(&format!("{scheme}://{place}: {}", last.context()));
        Error::new(kind, text)
            .retryable(retryable)
            .with_source(last)
    }
}

#[cfg(test)]
mod tests {
    use saline_protocol::transport::{HostPort, Options};

    use super::*;

    fn endpoint(addresses: &[(&str, u16)]) -> Endpoint {
        let addresses = addresses
            .iter()
            .map(|(host, port)| HostPort::new(*host, *port));
        Endpoint {
            scheme: "tcp".to_owned(),
            address: Address::Network {
                addresses: addresses.collect(),
                path: None,
            },
            options: Options::default(),
        }
    }

    fn failed(addresses: &[(&str, u16)], reasons: &[(&str, &str)]) -> Error {
        let endpoint = endpoint(addresses);
        let mut failures = DialFailures::default();
        for (place, why) in reasons {
            failures.add(place, Error::new(ErrorKind::Unreachable, (*why).to_owned()));
        }
        failures.into_error(&endpoint)
    }

    #[test]
    fn each_place_is_named_with_its_reason() {
        let error = failed(
            &[("a", 1), ("b", 2)],
            &[("a:1 (::1)", "cannot connect"), ("b:2 (::2)", "no answer")],
        );
        assert_eq!(
            error.to_string(),
            "unreachable: tcp://a:1 (::1): cannot connect; tcp://b:2 (::2): no answer"
        );
        assert!(error.is_retryable());
    }

    #[test]
    fn one_place_is_named_as_it_is_configured() {
        let error = failed(&[("a", 1)], &[("a:1 (::1)", "cannot connect")]);
        assert_eq!(error.to_string(), "unreachable: tcp://a:1: cannot connect");
        let error = failed(&[("a", 1)], &[]);
        assert_eq!(
            error.to_string(),
            "unreachable: tcp://a:1: no answer in time"
        );
    }

    #[test]
    fn a_name_that_is_not_resolved_is_named_too() {
        let endpoint = endpoint(&[("a", 1), ("b", 1)]);
        let found = [Candidate::Network {
            address: ([127, 0, 0, 1], 1).into(),
            host: "b".to_owned(),
        }];
        let mut failures = DialFailures::default();
        failures.add(
            &found[0],
            Error::new(ErrorKind::Unreachable, "cannot connect"),
        );
        failures.add_unresolved(&endpoint, &found);
        assert_eq!(
            failures.into_error(&endpoint).context(),
            "tcp://b:1 (127.0.0.1): cannot connect; tcp://a:1: the name cannot be resolved"
        );
    }
}
