//! The communication matrix: messages by pair of ranks, read periodically from the kernel side's table.

use std::collections::BTreeMap;

use abi::Pair;

use super::Metered;
use crate::snapshot::{MatrixView, Messages, PairView, RankMessages};

/// Maximum number of pairs listed, for sent and for received messages each: those with the most bytes.
const PAIRS_MAX: usize = 10_000;

/// Reading costs two system calls a pair. The next read waits for this many times the duration of the last,
/// and for at least a second.
const READ_PAUSE_FACTOR: u64 = 100;
const PAUSE_NS_MIN: u64 = 1_000_000_000;

/// A table that is read in this time may be read for each snapshot of `--snapshots`.
const QUICK_NS: u64 = 5_000_000;

/// The table as it was read last.
#[derive(Debug, Default)]
pub struct Matrix {
    pairs: Vec<(u64, Pair)>,
    next_ns: u64,
    /// How long the last read took.
    read_ns: u64,
    /// Calls were counted since the last read.
    pub has_more: bool,
}

impl Matrix {
    /// Whether it is time to read the table.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.has_more && now_ns >= self.next_ns
    }

    /// Takes the content of the table, and the times at which reading it began and ended.
    pub fn take(&mut self, pairs: Vec<(u64, Pair)>, (began_ns, ended_ns): (u64, u64)) {
        self.pairs = pairs;
        self.has_more = false;
        self.read_ns = ended_ns.saturating_sub(began_ns);
        self.next_ns = ended_ns + PAUSE_NS_MIN.max(READ_PAUSE_FACTOR * self.read_ns);
    }

    /// Whether to read the table for a snapshot, so that its messages are of the same time as its calls.
    pub fn is_due_at_snapshot(&self) -> bool {
        self.has_more && self.read_ns <= QUICK_NS
    }

    /// Takes the content of the table between two reads, which are due as before.
    pub fn take_between(&mut self, pairs: Vec<(u64, Pair)>) {
        self.pairs = pairs;
    }

    /// The matrix by the ranks of these processes.
    pub fn view(&self, processes: &[Metered]) -> MatrixView {
        let mut view = MatrixView::default();
        // A rank without messages is listed too: its zero is known.
        let ours = processes.iter().filter_map(|process| process.rank);
        let mut ranks: BTreeMap<u32, (Messages, Messages)> =
            ours.map(|rank| (rank, Default::default())).collect();
        for (key, pair) in &self.pairs {
            let (slot, low) = ((key >> 32) as u32, *key as u32);
            let (is_received, other) = (low & Pair::RECEIVED != 0, low & !Pair::RECEIVED);
            let process = processes.iter().find(|process| process.slot == slot);
            let own = process.and_then(|process| process.rank);
            let of = Messages {
                count: pair.messages,
                bytes: pair.bytes,
            };
            match (own, is_received) {
                (Some(from), false) if other != Pair::UNRESOLVED => {
                    view.all_sent += of;
                    ranks.entry(from).or_default().0 += of;
                    view.sent.push(PairView { from, to: other, of });
                }
                (Some(to), true) if other != Pair::UNRESOLVED => {
                    ranks.entry(to).or_default().1 += of;
                    view.received.push(PairView { from: other, to, of });
                }
                (_, false) => view.unresolved_sent += of,
                (_, true) => view.unresolved_received += of,
            }
        }
        let all = |(rank, (sent, received))| RankMessages { rank, sent, received };
        view.ranks = ranks.into_iter().map(all).collect();
        view.pairs = view.sent.len();
        for pairs in [&mut view.sent, &mut view.received] {
            pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.of), pair.from, pair.to));
            view.cut += pairs.len().saturating_sub(PAIRS_MAX);
            pairs.truncate(PAIRS_MAX);
        }
        view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_the_table_unless_that_takes_long_and_defers_no_other_read() {
        const S: u64 = 1_000_000_000;
        for (read_ns, is_read) in [(QUICK_NS, true), (QUICK_NS + 1, false)] {
            let mut matrix = Matrix::default();
            matrix.take(Vec::new(), (S, S + read_ns));
            assert!(!matrix.is_due_at_snapshot(), "nothing was counted since");
            matrix.has_more = true;
            assert_eq!(matrix.is_due_at_snapshot(), is_read, "{read_ns}");
            matrix.take_between(Vec::new());
            assert!(
                !matrix.is_due(2 * S) && matrix.is_due(2 * S + read_ns),
                "{read_ns}"
            );
        }
    }

    #[test]
    fn pairs_are_named_by_ranks_and_unknown_peers_are_counted_apart() {
        let process = |slot, rank| Metered::new(-1, rank, slot);
        let pair = |messages, bytes| Pair { messages, bytes };
        let matrix = Matrix {
            pairs: vec![
                (Pair::key(0, false, 1), pair(3, 300)),
                (Pair::key(1, false, 0), pair(5, 500)),
                (Pair::key(1, true, 0), pair(3, 400)),
                (Pair::key(0, false, Pair::UNRESOLVED), pair(1, 10)),
                (Pair::key(0, true, Pair::UNRESOLVED), pair(2, 20)),
                (Pair::key(2, false, 0), pair(7, 70)),
            ],
            ..Matrix::default()
        };
        let view = matrix.view(&[process(0, Some(4)), process(1, Some(5)), process(2, None)]);
        let named = |pairs: &[PairView]| -> Vec<(u32, u32, u64)> {
            pairs
                .iter()
                .map(|pair| (pair.from, pair.to, pair.of.bytes))
                .collect()
        };
        assert_eq!(named(&view.sent), [(5, 0, 500), (4, 1, 300)]);
        assert_eq!(named(&view.received), [(0, 5, 400)]);
        assert_eq!((view.all_sent.count, view.all_sent.bytes), (8, 800));
        // A process without a rank is not in the matrix.
        assert_eq!((view.unresolved_sent.count, view.unresolved_sent.bytes), (8, 80));
        assert_eq!(view.unresolved_received.count, 2);
        let of = |rank: &RankMessages| (rank.rank, rank.sent.count, rank.received.bytes);
        let ranks: Vec<_> = view.ranks.iter().map(of).collect();
        assert_eq!((view.pairs, ranks), (2, vec![(4, 3, 0), (5, 5, 400)]));
        assert_eq!(view.cut, 0);
    }
}
