//! Displayed totals of functions.

use std::sync::Arc;

use super::*;
use crate::profile::{Reading, process::keep_growing, view::function};

#[test]
fn calls_of_which_none_returned_have_no_time_instead_of_none_at_all() {
    let probe = Probe {
        mpi: None,
        ..probe("MPI_Send")
    };
    for (calls, timed, open, shown_ns, expected) in [
        (863, 0, &[][..], 0, None),
        (863, 1, &[], 40, Some(40)),
        // One call is still open; then it has not returned either.
        (863, 0, &[(0, 40)], 40, Some(40)),
        (863, 0, &[], 40, None),
        (0, 0, &[], 0, Some(0)),
    ] {
        let reading = Reading {
            totals: Arc::new([Totals {
                calls,
                timed,
                nested: 1,
                unpaired: (calls - timed) / 2,
                ..Totals::default()
            }]),
            open: open.to_vec(),
            ..Reading::default()
        };
        // The others were open when their threads ended.
        let never_returned = calls - timed - (calls - timed) / 2;
        let totals = function(
            (0, &probe),
            &Reading::default(),
            &reading,
            shown_ns,
            never_returned,
        );
        let totals = totals.expect("it was called");
        assert_eq!((totals.time_ns, totals.unreturned), (expected, calls - timed));
    }
}

#[test]
fn a_call_that_ends_between_two_looks_never_makes_a_counter_shrink() {
    let reading = |closed_ns, open: &[(u32, u64)]| Reading {
        totals: Arc::new([
            Totals::default(),
            Totals {
                time_ns: closed_ns,
                ..Totals::default()
            },
        ]),
        open: open.to_vec(),
        ..Reading::default()
    };
    let mut shown = Vec::new();
    // Open for 10, then seen both as open and as closed, then closed, then longer.
    for (closed, open, expected) in [
        (0, &[(1, 10)][..], 10),
        (12, &[(1, 11)], 23),
        (12, &[], 23),
        (40, &[], 40),
    ] {
        keep_growing(&mut shown, &reading(closed, open));
        assert_eq!(shown, [0, expected]);
    }
}
