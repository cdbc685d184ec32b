//! The pairs of ranks with the most traffic, as text.

use profile::format::{bytes, count, percent, plural};
use profile::{MatrixView, Messages, Snapshot};

use super::parts;

/// Number of pairs shown; the report has all.
const PAIRS_SHOWN: usize = 4;

/// What was sent over the entire session, and the pairs of ranks with the most bytes; empty if nothing was
/// sent.
pub(super) fn over_all(snapshot: &Snapshot) -> Vec<String> {
    let Some(matrix) = &snapshot.matrix else {
        return Vec::new();
    };
    let all = matrix.sent_to_all();
    if all.count == 0 {
        return Vec::new();
    }
    let mut lines = vec![String::new(), head(matrix, all, &sampled(snapshot))];
    let share = |of: Messages| match all.bytes {
        0 => of.count as f64 / all.count as f64,
        total => of.bytes as f64 / total as f64,
    };
    lines.extend(matrix.sent.iter().take(PAIRS_SHOWN).map(|pair| {
        let between = format!("{} -> {}", pair.from, pair.to);
        format!(
            " {between:<20} {:>9}  {:>8}   {:>6}",
            count(pair.of.count as f64),
            bytes(pair.of.bytes as f64),
            percent(share(pair.of)),
        )
    }));
    let rest = matrix.sent.len().saturating_sub(PAIRS_SHOWN) + matrix.cut;
    if rest > 0 {
        lines.push(format!(" and {}", plural(rest, "more pair")));
    }
    if matrix.unresolved_sent.count > 0 {
        lines.push(format!(
            " {} of it to unknown ranks: their communicator is not known",
            percent(share(matrix.unresolved_sent))
        ));
    }
    lines
}

/// A note that only a part of the messages was observed.
pub(super) fn sampled(snapshot: &Snapshot) -> String {
    let functions = snapshot.functions();
    let senders = functions.iter().filter(|of| of.bytes_kind == Some("sent"));
    let sampled = parts::sampled(senders);
    sampled.map_or_else(String::new, |sampled| {
        format!(", sampled {} of the time", percent(sampled.watched))
    })
}

fn head(matrix: &MatrixView, all: Messages, sampled: &str) -> String {
    let pairs = match matrix.cut {
        0 => plural(matrix.sent.len(), "pair"),
        _ => format!("more than {}", plural(matrix.sent.len(), "pair")),
    };
    format!(
        " from -> to          messages     bytes    share   (point to point{sampled}: {} in all, mean {}, {pairs} of ranks)",
        bytes(all.bytes as f64),
        bytes(all.bytes as f64 / all.count as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::PairView;

    #[test]
    fn the_pairs_that_exchange_most_are_shown_and_unknown_pairs_too() {
        let pair = |from, to, count, bytes| PairView {
            from,
            to,
            of: Messages { count, bytes },
        };
        let sent: Vec<PairView> = (0..6)
            .map(|rank| pair(rank, rank + 1, 1000, 6_000_000 - 1000 * u64::from(rank)))
            .collect();
        let snapshot = Snapshot {
            matrix: Some(MatrixView {
                all_sent: Messages {
                    count: 6000,
                    bytes: 35_985_000,
                },
                unresolved_sent: Messages {
                    count: 60,
                    bytes: 4_000_000,
                },
                sent,
                ..MatrixView::default()
            }),
            ..Snapshot::default()
        };
        insta::assert_snapshot!(over_all(&snapshot).join("\n"), @"

        from -> to          messages     bytes    share   (point to point: 38.1 MiB in all, mean 6.44 KiB, 6 pairs of ranks)
        0 -> 1                   1 000  5.72 MiB     15 %
        1 -> 2                   1 000  5.72 MiB     15 %
        2 -> 3                   1 000  5.72 MiB     15 %
        3 -> 4                   1 000  5.72 MiB     15 %
        and 2 more pairs
        10 % of it to unknown ranks: their communicator is not known
        ");
        assert!(over_all(&Snapshot::default()).is_empty());
    }
}
