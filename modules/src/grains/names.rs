//! The names of the machine. No name server is asked, since one that does not answer would delay
//! the start.

use super::{Entries, add, read};

pub fn add_to(found: &mut Entries) {
    let node = node_name();
    let fqdn = host_name();
    let (host, domain) = fqdn.split_once('.').unwrap_or((&fqdn, ""));
    add(found, "host", host);
    add(found, "domain", domain);
    add(found, "fqdn", fqdn.as_str());
    add(found, "localhost", node.as_str());
    add(found, "nodename", node);
}

/// Returns the name that the kernel knows.
pub(crate) fn node_name() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}

/// Returns the name with its domain as far as the machine itself knows it: from `/etc/hosts`,
/// otherwise the kernel's name.
pub fn host_name() -> String {
    let node = node_name();
    if node.contains('.') {
        return node;
    }
    qualified(&node, &read("/etc/hosts")).unwrap_or(node)
}

/// Returns the first name on a line of `/etc/hosts` with `node` that begins with `node` and a dot.
fn qualified(node: &str, hosts: &str) -> Option<String> {
    hosts.lines().find_map(|line| {
        let names: Vec<&str> = line.split('#').next()?.split_whitespace().skip(1).collect();
        let full = |name: &&&str| {
            name.strip_prefix(node)
                .is_some_and(|rest| rest.len() > 1 && rest.starts_with('.'))
        };
        names
            .contains(&node)
            .then(|| names.iter().find(full))?
            .map(|name| (*name).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_found_in_the_hosts_file() {
        let hosts = "127.0.0.1 localhost\n# 192.0.2.1 web.wrong web\n192.0.2.1 web.example.org web";
        assert_eq!(qualified("web", hosts).as_deref(), Some("web.example.org"));
        assert_eq!(qualified("localhost", hosts), None);
        assert_eq!(qualified("we", hosts), None);
    }
}
