//! The addresses of this machine at which other machines may reach it.

use std::{fs, net::Ipv4Addr};

/// More addresses are left out: a node tries each of them.
const ADDRESSES_MAX: usize = 16;

/// The IPv4 addresses of this machine, without those that only it can reach.
pub(crate) fn own() -> Vec<Ipv4Addr> {
    parse(&fs::read_to_string("/proc/net/fib_trie").unwrap_or_default())
}

/// The local addresses in the kernel's routing table: each is a line `|-- ADDRESS` before one with `host LOCAL`.
fn parse(table: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in table.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            last = address.trim().parse().ok();
        } else if line.contains("/32 host LOCAL")
            && let Some(address) = last.filter(|address| !address.is_loopback())
            && !found.contains(&address)
            && found.len() < ADDRESSES_MAX
        {
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_read_from_the_routing_table_once() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     +-- 10.77.0.0/24 2 0 2\n        \
            |-- 10.77.0.1\n           /32 host LOCAL\n        |-- 10.77.0.255\n           /32 link BROADCAST\n     \
            |-- 127.0.0.1\n           /32 host LOCAL\nLocal:\n        |-- 10.77.0.1\n           /32 host LOCAL\n";
        assert_eq!(parse(table), [Ipv4Addr::new(10, 77, 0, 1)]);
        assert!(parse("").is_empty());
    }
}
