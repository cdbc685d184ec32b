//! Calls: the pairing of entries and returns, all ways to end a call, and nesting.

use abi::{SpecFlags, Totals};
use probe::kernel::{LinkChoice, LinkKind};

use crate::target::{Probed, for_every_way, rows};

#[test]
fn nested_and_recursive_calls_pair_with_their_entries() {
    for_every_way(|way| {
        let mut probed = Probed::new(SpecFlags::SPAN, way);
        assert!(way.links == LinkChoice::Best || probed.kernel.link_kind() == LinkKind::Tracefs);
        probed.target.run("outer");
        let totals = probed.kernel.totals(2).unwrap();
        let counts = |totals: &Totals| (totals.calls, totals.timed, totals.unpaired, totals.too_deep);
        assert_eq!(counts(&totals[0]), (100, 100, 0, 0), "{way:?}");
        // inner(3) has four nested activations; only the outermost one is timed.
        assert_eq!(counts(&totals[1]), (400, 100, 0, 0), "{way:?}");
        assert!(totals[0].time_ns > totals[1].time_ns && totals[1].time_ns > 0);
        assert!(probed.kernel.losses().iter().all(|(_, count)| *count == 0));
    });
}

#[test]
fn calls_deeper_than_the_frames_are_counted_and_said() {
    for_every_way(|way| {
        let mut probed = Probed::new(SpecFlags::SPAN, way);
        probed.target.run("deep");
        let inner = probed.kernel.totals(2).unwrap()[1];
        assert_eq!(inner.calls, 41);
        assert_eq!(inner.too_deep, 41 - abi::FRAMES_MAX as u64);
        assert_eq!((inner.timed, inner.unpaired), (1, 0));
    });
}

#[test]
fn a_call_left_by_longjmp_is_closed_by_the_next_entry() {
    for_every_way(|way| {
        let mut probed = Probed::new(SpecFlags::SPAN, way);
        probed.target.run("jump");
        let totals = probed.kernel.totals(2).unwrap();
        assert_eq!(
            (totals[2].calls, totals[2].timed, totals[2].unpaired),
            (11, 1, 10)
        );
        assert_eq!((totals[0].calls, totals[0].timed, totals[0].unpaired), (1, 1, 0));
    });
}

#[test]
fn of_a_library_only_the_outermost_calls_count() {
    for_every_way(|way| {
        let flags = SpecFlags::SPAN | SpecFlags::OUTERMOST | SpecFlags::DURATIONS;
        let mut probed = Probed::new(flags, way);
        probed.target.run("outer");
        let totals = probed.kernel.totals(2).unwrap();
        let by_duration = |probe| {
            probed
                .kernel
                .histogram(2, rows(probe))
                .unwrap()
                .iter()
                .sum::<u64>()
        };
        assert_eq!((by_duration(0), by_duration(1)), (100, 0));
        assert_eq!((totals[0].calls, totals[0].nested), (100, 0));
        assert_eq!((totals[1].calls, totals[1].nested, totals[1].timed), (0, 400, 0));
        let threads = probed.kernel.threads().unwrap();
        assert_eq!(threads.len(), 1);
        assert_eq!(threads[0].1.closed_ns, totals[0].time_ns);
        assert_eq!((threads[0].1.depth, threads[0].1.open_since_ns), (0, 0));
    });
}
