//! Memory limits of cgroups that were reached, in lines.

use profile::format::{bytes, count, plural};
use profile::{MemoryGroup, Snapshot};

/// Maximum number of groups that are shown; the report has all.
const SHOWN_MAX: usize = 4;

/// A line for each group whose limit was reached since the session began.
pub(super) fn lines(snapshot: &Snapshot) -> Vec<String> {
    let groups = &snapshot.memory_groups;
    let mut lines: Vec<String> = groups.iter().take(SHOWN_MAX).map(line).collect();
    let more = groups.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        lines.push(format!(
            " and {} whose memory limit was reached",
            plural(more, "more cgroup")
        ));
    }
    lines
}

fn line(group: &MemoryGroup) -> String {
    let limit = group
        .limit_bytes
        .map(|limit| format!(" (limit {})", bytes(limit as f64)));
    let times = |number: u64| plural(usize::try_from(number).unwrap_or(usize::MAX), "time");
    let events = &group.events;
    let high = group.high_bytes.map(|high| format!(" ({})", bytes(high as f64)));
    let parts = [
        (events.max, format!("reached {}", times(events.max))),
        (
            events.high,
            format!(
                "throttled at memory.high{} {}",
                high.unwrap_or_default(),
                times(events.high)
            ),
        ),
        (events.oom, format!("out of memory {}", times(events.oom))),
        (
            events.oom_kill,
            format!(
                "processes that the OOM killer ended: {}",
                count(events.oom_kill as f64)
            ),
        ),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(_, part)| part).collect();
    format!(
        " memory of cgroup {}{}   {}",
        group.cgroup,
        limit.unwrap_or_default(),
        parts.join("   ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::MemoryEvents;

    #[test]
    fn the_limits_of_cgroups_that_were_reached_are_shown_and_only_what_grew() {
        let group = |high_bytes, events| MemoryGroup {
            cgroup: "/job/step".into(),
            limit_bytes: Some(4 << 30),
            high_bytes,
            events,
        };
        let killed = MemoryEvents {
            max: 1,
            oom: 2,
            oom_kill: 3,
            ..MemoryEvents::default()
        };
        let throttled = MemoryEvents {
            high: 12,
            ..MemoryEvents::default()
        };
        let mut snapshot = Snapshot {
            memory_groups: vec![group(None, killed), group(Some(3 << 30), throttled)],
            ..Snapshot::default()
        };
        insta::assert_snapshot!(lines(&snapshot).join("\n"), @"
         memory of cgroup /job/step (limit 4 GiB)   reached 1 time   out of memory 2 times   processes that the OOM killer ended: 3
         memory of cgroup /job/step (limit 4 GiB)   throttled at memory.high (3 GiB) 12 times
        ");
        snapshot.memory_groups = vec![group(None, killed); 6];
        assert_eq!(
            lines(&snapshot)[4..],
            [" and 2 more cgroups whose memory limit was reached"]
        );
        assert_eq!(lines(&Snapshot::default()), [""; 0]);
    }
}
