//! Host names that are accepted in requests.

use std::net::IpAddr;

/// Host names that are accepted in requests. The owner of a web page can let the page's name resolve to this
/// machine, and the user's browser then sends requests of that page to us (DNS rebinding). Addresses,
/// localhost and names that the owner does not control are safe.
#[derive(Debug)]
pub(super) struct HostNames {
    /// Whether only this machine can connect.
    pub(super) is_loopback: bool,
    /// The host name of this machine.
    pub(super) host: String,
    /// Further names, such as that of a reverse proxy.
    pub(super) others: Vec<String>,
}

impl HostNames {
    /// Whether the `Host` header of a request refers to us.
    pub(super) fn has(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            // Colons within brackets are part of an IPv6 address, not before a port.
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let address: Option<IpAddr> = bare.unwrap_or(name).parse().ok();
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match address {
            Some(address) => !self.is_loopback || address.to_canonical().is_loopback(),
            None if self.others.iter().any(|other| is(other)) => true,
            None if is("localhost") => true,
            // The short host name, or the short name followed by any domain, because ours is unknown.
            None if !self.is_loopback => {
                is(&self.host)
                    || name
                        .split('.')
                        .next()
                        .is_some_and(|first| first.eq_ignore_ascii_case(&self.host))
            }
            None => is(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_others_can_make_resolve_to_this_machine_is_not_ours() {
        let host = || "node17".to_owned();
        let here = HostNames {
            is_loopback: true,
            host: host(),
            others: vec!["tune.example".to_owned()],
        };
        let everywhere = HostNames {
            is_loopback: false,
            host: host(),
            others: Vec::new(),
        };
        for (name, is_ours_here, is_ours_everywhere) in [
            ("localhost", true, true),
            ("LocalHost:9477", true, true),
            ("127.0.0.1:9477", true, true),
            ("[::1]:9477", true, true),
            ("[::ffff:127.0.0.1]", true, true),
            ("10.0.0.7:9477", false, true),
            ("[fe80::1]", false, true),
            ("node17:9477", true, true),
            ("node17.cluster.example", false, true),
            ("tune.example", true, false),
            ("evil.example", false, false),
            ("evil.example:9477", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("", false, false),
        ] {
            assert_eq!(here.has(name), is_ours_here, "{name}");
            assert_eq!(everywhere.has(name), is_ours_everywhere, "{name}");
        }
    }
}
