//! Threads and processes: the process that a call counts for, and removal of threads.

use abi::{SpecFlags, Totals};
use probe::kernel::{Kernel, LoadOptions};
use tuneagent_e2e::require_or_return;

use crate::target::{Probed, for_every_way};

#[test]
fn threads_are_paired_apart() {
    for_every_way(|way| {
        let mut probed = Probed::new(SpecFlags::SPAN, way);
        probed.target.run("threads");
        let totals = probed.kernel.totals(2).unwrap();
        assert_eq!((totals[0].calls, totals[0].timed), (4000, 4000));
        assert_eq!((totals[1].calls, totals[1].timed), (16_000, 4000));
    });
}

#[test]
fn more_threads_than_there_is_room_for_are_counted_and_said() {
    for_every_way(|way| {
        let mut probed = Probed::new(SpecFlags::SPAN, way);
        probed.target.run("many");
        let outer = probed.kernel.totals(2).unwrap()[0];
        let room = u64::from(abi::THREADS_MAX);
        assert_eq!(
            (outer.calls, outer.timed, outer.too_deep),
            (5000, room, 5000 - room)
        );
        let lost: u64 = probed.kernel.losses().iter().map(|(_, count)| count).sum();
        // Each such thread requests a record twice: in the outer and in the inner function.
        assert_eq!(lost, 2 * (5000 - room));
        for (key, _) in probed.kernel.threads().unwrap() {
            probed.kernel.forget_thread(key).unwrap();
        }
        probed.target.run("outer");
        assert_eq!(probed.kernel.totals(2).unwrap()[0].timed, room + 100);
    });
}

#[test]
fn a_thread_that_is_known_counts_for_its_process_only_while_that_is_watched_and_where() {
    for_every_way(|way| {
        let mut probed = Probed::new(SpecFlags::SPAN, way);
        let counted = |probed: &Probed, slot| {
            let totals = probed.kernel.totals(slot).unwrap()[0];
            (totals.calls, totals.timed)
        };
        probed.target.run("outer");
        probed.kernel.forget(probed.target.0.pid()).unwrap();
        probed.target.run("outer");
        assert_eq!(counted(&probed, 2), (100, 100));
        probed.kernel.watch(probed.target.0.pid(), 1).unwrap();
        probed.target.run("outer");
        assert_eq!([counted(&probed, 1), counted(&probed, 2)], [(100, 100); 2]);
        assert_eq!(probed.kernel.threads().unwrap()[0].1.process, 1);
    });
}

#[test]
fn a_process_that_is_not_watched_counts_nothing() {
    for_every_way(|way| {
        let mut probed = Probed::new(SpecFlags::SPAN, way);
        probed.kernel.forget(probed.target.0.pid()).unwrap();
        probed.target.run("outer");
        assert!(
            probed
                .kernel
                .totals(2)
                .unwrap()
                .iter()
                .all(|totals| *totals == Totals::default())
        );
    });
}

#[test]
fn an_ended_process_is_removed_without_an_error() {
    require_or_return!(Root);
    let mut kernel = Kernel::load(LoadOptions::ONE_PROBE).unwrap();
    let us = std::process::id();
    kernel.watch(us, 0).unwrap();
    kernel.forget(us).unwrap();
    kernel.forget(us).unwrap();
    kernel.forget_thread(u64::from(us) << 32 | u64::from(us)).unwrap();
}
