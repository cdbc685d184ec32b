//! The cost of a hit is measured on a real kernel, and the measurement leaves nothing behind. Needs root;
//! otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use abi::Totals;
use probe::kernel::{self, Kernel, LinkChoice, LinkKind, LoadOptions, SumReadings};
use profile::cost::PriceSource;
use tuneagent_e2e::require_or_return;

const PROCESSES: u32 = 2;

fn loaded(partial_sums: u32, links: LinkChoice) -> Kernel {
    let options = LoadOptions {
        probes: 16,
        processes: PROCESSES,
        rows: 1,
        partial_sums,
        links,
    };
    Kernel::load(options).unwrap()
}

#[test]
fn hits_of_our_own_are_measured_and_are_in_no_number() {
    require_or_return!(Root);
    for partial_sums in [0, 1] {
        measured(partial_sums);
    }
}

fn measured(partial_sums: u32) {
    let mut kernel = loaded(partial_sums, LinkChoice::Best);
    let began = std::time::Instant::now();
    let calibration = kernel::measure(&mut kernel);
    println!("{:?} in {:?}", calibration.prices, began.elapsed());
    if kernel.link_kind() == LinkKind::Tracefs {
        assert_ne!(calibration.prices.source, PriceSource::Measured);
        return;
    }
    let prices = &calibration.prices;
    assert_eq!(prices.source, PriceSource::Measured);
    // An exception and a BPF program: more than a function call, less than a system call that sleeps.
    assert!((50.0..50_000.0).contains(&prices.emulated_ns), "{prices:?}");
    assert!(prices.stepped_ns > prices.emulated_ns, "{prices:?}");
    assert!(prices.optimised_ns < prices.stepped_ns, "{prices:?}");
    assert!(
        prices.leave_ns > prices.return_ns && prices.return_ns > 0.0,
        "{prices:?}"
    );
    assert!(prices.value_ns < prices.emulated_ns, "{prices:?}");
    assert!(prices.aggregated_ns < prices.emulated_ns, "{prices:?}");
    for slot in 0..PROCESSES {
        let totals = kernel.totals(slot).unwrap();
        assert!(
            totals.iter().all(|totals| *totals == Totals::default()),
            "slot {slot}"
        );
        assert_eq!(kernel.calls(slot, 0).unwrap(), (0, Vec::new()));
    }
    assert_eq!(kernel.threads().unwrap().len(), 0);
    assert!(kernel.losses().iter().all(|(_, count)| *count == 0));
    assert_eq!(kernel.under_way(), 0);
    assert_eq!(kernel.sent_alone(), 0);
    let cells = (0..PROCESSES).map(|slot| (slot, 1));
    assert!(SumReadings::default().read(&kernel, 0, cells, |partial_sum| panic!("{partial_sum:?}")));
    assert!(kernel.take_hits().unwrap().take().is_none());
}

#[test]
fn where_probes_come_off_slowly_prices_are_those_of_a_table_and_say_why() {
    require_or_return!(Root);
    let calibration = kernel::measure(&mut loaded(1, LinkChoice::Tracefs));
    let PriceSource::Table(why) = &calibration.prices.source else {
        panic!("{:?}", calibration.prices)
    };
    assert!(why.contains("tracefs"), "{why}");
    assert!(calibration.links.is_empty());
}
