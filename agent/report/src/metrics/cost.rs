//! The cost of the session, as metrics.

use profile::Snapshot;
use profile::cost::Slowdown;

use super::Filling;
use crate::metrics::LABELS;

impl Filling {
    pub(super) fn fill_cost(&self, snapshot: &Snapshot) {
        let Some(cost) = &snapshot.cost else { return };
        // The most expensive probes come first, so that the cheapest are left out.
        let bound = LABELS.iter().find(|label| label.name == "function");
        for probe in cost.probes.iter().take(bound.map_or(0, |label| label.values_max)) {
            let of = ("function", probe.name.as_str());
            self.add("tuneagent_probe_seconds_total", &[of], probe.ns / 1e9);
        }
        for (name, value) in [
            (
                "tuneagent_slowdown_ratio",
                cost.recent.slowdown.map(Slowdown::all),
            ),
            ("tuneagent_probe_cost_ratio", cost.recent.probes),
            ("tuneagent_cost_ratio", cost.recent.together),
            (
                "tuneagent_unread_event_seconds",
                cost.unread.map(|unread| unread.recent_ns as f64 / 1e9),
            ),
        ] {
            if let Some(value) = value {
                self.add(name, &[], value);
            }
        }
        for (action, held) in &cost.held {
            let of = ("action", *action);
            self.add("tuneagent_hold_seconds_total", &[of], held.ns as f64 / 1e9);
        }
        let agent = &cost.agent;
        let cpu_ns = agent.starting_ns + agent.cpu_ns;
        self.add("tuneagent_agent_cpu_seconds_total", &[], cpu_ns as f64 / 1e9);
        if let Some(bytes) = agent.resident_bytes {
            self.add("tuneagent_agent_resident_memory_bytes", &[], bytes as f64);
        }
    }
}
