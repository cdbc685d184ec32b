//! The sizes of messages, as text.

use profile::format::{bytes, count, percent};
use profile::{Snapshot, mpi};

use super::parts;

/// Number of sizes shown, the most frequent ones; the report has all.
const SIZES_SHOWN: usize = 4;

/// Sent messages, those that were counted.
struct Sent {
    /// By size, as [`abi::Sizes`] has them.
    by_size: Vec<u64>,
    /// All of them, with those outside the windows of functions that were sampled.
    estimated: f64,
    is_sampled: bool,
    has_others: bool,
}

impl Sent {
    fn of(snapshot: &Snapshot) -> Sent {
        let functions = snapshot.functions();
        let mut by_size: Vec<u64> = Vec::new();
        // Functions that were sampled have sizes only for messages from their windows.
        let (mut estimated, mut is_sampled, mut has_others) = (0.0, false, false);
        for function in functions.iter().filter(|of| of.bytes_kind == Some("sent")) {
            let counted = function.sizes.iter().sum::<u64>() as f64;
            let all = match function.estimate {
                Some(estimate) if estimate.counted > 0 => function.calls as f64 / estimate.counted as f64,
                _ => 1.0,
            };
            is_sampled |= function.estimate.is_some() && counted > 0.0;
            has_others |= counted > 0.0 && is_other(&function.name);
            estimated += counted * all;
            by_size.resize(by_size.len().max(function.sizes.len()), 0);
            for (sum, messages) in by_size.iter_mut().zip(&function.sizes) {
                *sum += messages;
            }
        }
        Sent {
            by_size,
            estimated,
            is_sampled,
            has_others,
        }
    }
}

/// Whether it is no message between two ranks. Each rank that calls it counts, also one that only receives.
fn is_other(name: &str) -> bool {
    mpi::find(name).is_some_and(|called| called.function.carries.is_some_and(|carries| !carries.is_message))
}

/// The numbers of sent messages of each size that occurred, the smallest size first.
pub fn message_sizes(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let sizes = Sent::of(snapshot).by_size.into_iter().enumerate();
    let that_occur = sizes.filter(|(_, messages)| *messages > 0);
    that_occur
        .map(|(size, messages)| (named(size), messages))
        .collect()
}

/// Sent messages by size; empty if nothing was sent.
pub(super) fn over_all(snapshot: &Snapshot) -> Vec<String> {
    let Sent {
        by_size,
        estimated,
        is_sampled,
        has_others,
    } = Sent::of(snapshot);
    let all: u64 = by_size.iter().sum();
    if all == 0 {
        return Vec::new();
    }
    let mut sizes: Vec<(usize, u64)> = by_size.into_iter().enumerate().collect();
    sizes.sort_by_key(|(size, messages)| (std::cmp::Reverse(*messages), *size));
    sizes.truncate(SIZES_SHOWN);
    sizes.retain(|(_, messages)| *messages > 0);
    sizes.sort_unstable();
    let reported: u64 = sizes.iter().map(|(_, messages)| messages).sum();
    let share = |messages: u64| percent(messages as f64 / all as f64);
    let mut parts: Vec<String> = sizes
        .iter()
        .map(|(size, messages)| format!("{} {}", share(*messages), named(*size)))
        .collect();
    if reported < all {
        parts.push(format!("{} others", share(all - reported)));
    }
    let of_all = match is_sampled {
        true => format!(" of ~{}", count(parts::to_digits(estimated, 2))),
        false => String::new(),
    };
    let with = if has_others {
        " (with collectives, once for each rank)"
    } else {
        ""
    };
    vec![
        String::new(),
        format!(
            " sizes of {}{of_all} messages sent{with}   {}",
            count(all as f64),
            parts.join(", ")
        ),
    ]
}

fn named(size: usize) -> String {
    match abi::Sizes::greatest(size) {
        Some(0) => "empty".to_owned(),
        Some(1) => "of 1 B".to_owned(),
        Some(2) => "of 2 B".to_owned(),
        Some(most) => format!("of {} to {}", bytes((most / 2 + 1) as f64), bytes(most as f64)),
        None => "of more than 1 GiB".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{FunctionTotals, ProcessView};

    #[test]
    fn the_most_frequent_sizes_are_shown_by_size_and_the_rest_together() {
        let function = |name: &str, kind, sizes: &[u64]| FunctionTotals {
            name: name.into(),
            bytes_kind: Some(kind),
            sizes: sizes.to_vec(),
            ..FunctionTotals::default()
        };
        let process = |functions| ProcessView {
            functions,
            ..ProcessView::default()
        };
        let mut snapshot = Snapshot {
            processes: vec![
                process(vec![
                    function("MPI_Send", "sent", &[10, 0, 0, 0, 40]),
                    function("MPI_Recv", "posted", &[0, 0, 0, 0, 0, 0, 900]),
                ]),
                process(vec![function(
                    "MPI_Isend",
                    "sent",
                    &[0, 3, 2, 0, 15, 0, 0, 0, 0, 0, 0, 30],
                )]),
            ],
            ..Snapshot::default()
        };
        insta::assert_snapshot!(over_all(&snapshot).join("\n"), @"

        sizes of 100 messages sent   10 % empty, 3 % of 1 B, 55 % of 5 B to 8 B, 30 % of 513 B to 1 KiB, 2 % others
        ");
        // Half of the calls of one function were counted.
        let sampled = &mut snapshot.processes[1].functions[0];
        (sampled.calls, sampled.bytes_kind) = (100, Some("sent"));
        sampled.estimate = Some(profile::cost::Estimate {
            counted: 50,
            ..Default::default()
        });
        let line = over_all(&snapshot).swap_remove(1);
        assert!(line.starts_with(" sizes of 100 of ~150 messages sent "), "{line}");
        snapshot.processes[0]
            .functions
            .push(function("MPI_Bcast", "sent", &[0, 0, 0, 8]));
        let line = over_all(&snapshot).swap_remove(1);
        assert!(
            line.starts_with(" sizes of 108 of ~160 messages sent (with collectives, once for each rank) "),
            "{line}"
        );
        snapshot.processes.truncate(0);
        assert!(over_all(&snapshot).is_empty());
    }
}
