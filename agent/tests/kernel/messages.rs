//! Messages: partners and bytes, and partners for which the table has no room.

use abi::{ProbeSpec, Sizes, SpecFlags, World};
use probe::kernel::{CallMoment, Kernel, LinkRequest, LoadOptions, ProbeSite};

use tuneagent_e2e::require_or_return;

use crate::send::send;
use crate::target::Target;

/// Number of ranks to which the program sends one message each.
const PARTNERS: u64 = 70_000;

#[test]
fn a_message_that_the_table_of_pairs_has_no_place_for_is_counted() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let mut target = Target::start(&directory);
    let mut kernel = Kernel::load(LoadOptions {
        rows: Sizes::ROWS,
        ..LoadOptions::ONE_PROBE
    })
    .unwrap();
    let spec = ProbeSpec {
        flags: SpecFlags::SPAN | SpecFlags::OUTERMOST | SpecFlags::MESSAGE | SpecFlags::BYTES,
        message: send(),
        ..ProbeSpec::default()
    };
    let world = World {
        comm: 0x4400_0000,
        handles: 1,
        proc_null: -1,
        any_source: -2,
        ..World::default()
    };
    let pid = target.0.pid();
    kernel.set_spec(0, spec).unwrap();
    kernel.set_world(0, world).unwrap();
    kernel.watch(pid, 0).unwrap();
    let site = ProbeSite::new(target.offset("message"), 0);
    kernel.set_address(pid, target.0.base() + site.offset, 0).unwrap();
    let image = tuner::Image::read(std::fs::File::open(&target.0.path).unwrap()).unwrap();
    let function = image.functions(&["message"]).unwrap().remove(0);
    let returns = tuner::returns(&image, &function).unwrap().instructions;
    let returns = returns.into_iter().map(|offset| ProbeSite {
        offset: offset.0,
        ..site
    });
    let request = |at, sites| LinkRequest::new(target.0.path.clone(), sites, at, Some(pid));
    let links = [
        (CallMoment::EXIT, returns.collect()),
        (CallMoment::Entry, vec![site]),
    ];
    let _links = links.map(|(at, sites)| kernel.attach(&request(at, sites)).unwrap());
    target.run("pairs");
    let totals = kernel.totals(0).unwrap()[0];
    // One more message goes to MPI_PROC_NULL and carries no data.
    assert_eq!((totals.calls, totals.bytes), (PARTNERS + 1, 12 * PARTNERS));
    let sizes = kernel.histogram(0, 0..Sizes::ROWS).unwrap();
    assert_eq!(sizes[Sizes::bucket(12)], PARTNERS);
    let pairs = kernel.pairs().unwrap();
    assert!(
        pairs
            .iter()
            .all(|(_, pair)| (pair.messages, pair.bytes) == (1, 12))
    );
    let losses = kernel.losses_of_matrix();
    let lost = losses.iter().find(|(kind, _)| *kind == "pair_table").unwrap().1;
    assert!(lost > 0, "{} pairs had a place", pairs.len());
    assert_eq!(pairs.len() as u64 + lost, PARTNERS);
}
