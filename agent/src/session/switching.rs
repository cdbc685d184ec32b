//! Summary of a decision that writes no value, in one line for all processes.

use profile::format::plural;

/// The switched probes, from the rule's requests for each process.
pub(super) fn switched(requested: &[String]) -> String {
    let what = requested.first().map_or("", String::as_str);
    let what = what.split(" in process").next().unwrap_or(what);
    let probe = |what: &str, to: &str| format!("probe {what} is switched {to}");
    let what = match what.split_once(' ') {
        Some(("enable", name)) => probe(name, "on"),
        Some(("disable", name)) => probe(name, "off"),
        _ => what.to_owned(),
    };
    format!("{what}: done in {}", plural(requested.len(), "process"))
}
