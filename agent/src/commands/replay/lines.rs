//! The lines of a replay in the order of time. The alternations of a trial are one line: a trial reverts its
//! change up to a hundred times to compare.

use std::collections::BTreeMap;

use profile::format::plural;
use profile::outcome::GuardVerdict;

const COMPARED: &str = GuardVerdict::Compared.name();

/// Who reported a revert: the recorded session or the replay; and the rule.
type RevertKey = (&'static str, String);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReplayLine {
    pub(super) since_ns: u64,
    pub(super) source: &'static str,
    pub(super) rule: String,
    pub(super) text: String,
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<ReplayLine>,
    /// The trials whose change was reverted to compare, until the next line about them: the last revert, and
    /// how many there were.
    compared: BTreeMap<RevertKey, (ReplayLine, usize)>,
}

impl Lines {
    pub(super) fn add(&mut self, line: ReplayLine) {
        if line.text.contains(&format!("; {COMPARED}")) {
            let key = (line.source, line.rule.clone());
            let (last, count) = self.compared.entry(key).or_insert_with(|| (line.clone(), 0));
            last.since_ns = line.since_ns;
            *count += 1;
            return;
        }
        let compared = std::mem::take(&mut self.compared).into_iter();
        let (of_rule, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            compared.partition(|((_, rule), _)| *rule == line.rule);
        self.compared = others;
        self.lines.extend(of_rule.into_values().map(joined));
        self.lines.push(line);
    }

    /// All lines: a verdict is reported later than what the recorded session has said meanwhile.
    pub(super) fn into_ordered(mut self) -> Vec<ReplayLine> {
        self.lines.extend(self.compared.into_values().map(joined));
        self.lines.sort_by_key(|line| line.since_ns);
        self.lines
    }
}

fn joined((mut line, count): (ReplayLine, usize)) -> ReplayLine {
    if count > 1 {
        let counted = format!("{COMPARED} {}", plural(count, "time"));
        line.text = line.text.replacen(COMPARED, &counted, 1);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_order_of_time_and_the_reverts_of_a_trial_are_one_with_their_number() {
        let text = "pace: 45 ms -> 19.9 ms (46 ms -> 20 ms a step); reverted to compare";
        let counted = "pace: 45 ms -> 19.9 ms (46 ms -> 20 ms a step); reverted to compare 3 times";
        let kept = "pace: 45 ms -> 19.9 ms, confirmed; kept";
        let line = |since_ns, source, rule: &str, text: &str| ReplayLine {
            since_ns,
            source,
            rule: rule.to_owned(),
            text: text.to_owned(),
        };
        let mut lines = Lines::default();
        for (since_ns, source, rule, text) in [
            (10, "session", "workers", text),
            (20, "session", "workers", text),
            (25, "guard", "workers", text),
            (26, "finding", "chunks", "too small"),
            (15, "session", "workers", text),
            (40, "session", "workers", kept),
            (50, "guard", "workers", text),
            (45, "session", "workers", text),
        ] {
            lines.add(line(since_ns, source, rule, text));
        }
        assert_eq!(
            lines.into_ordered(),
            [
                line(15, "session", "workers", counted),
                line(25, "guard", "workers", text),
                line(26, "finding", "chunks", "too small"),
                line(40, "session", "workers", kept),
                line(45, "session", "workers", text),
                line(50, "guard", "workers", text),
            ]
        );
    }
}
