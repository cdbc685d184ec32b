//! What a hit costs a program, by what the kernel does with the instruction under the probe. Run by `cargo xtask bench sites`, which
//! makes a table of what this prints: a line of JSON for each function, site and way of probing, in each round.
//!
//! The whole price is measured, as the program pays it: from call to call, less the same without a probe in the same round.
#![expect(clippy::unwrap_used, reason = "a benchmark says what went wrong by panicking")]

mod common;

use std::{fs::File, path::Path};

use abi::{MessageRule, ProbeSpec, SizeLayout, SpecFlags};
use common::{Case, DURATIONS, Target, cases};
use tuneagent::{
    kernel::{At, Kernel, Link, LoadOptions},
    mpi::{self, Implementation},
};
use tuner::image::Image;

/// What is attached.
#[derive(Clone, Copy)]
enum Way {
    /// Nothing.
    Bare,
    /// A probe at the entry whose hits are nobody's: what is left when the program behind it does nothing.
    Unwatched,
    /// Calls are counted.
    Entry,
    /// As before with the return.
    UnwatchedPair,
    /// Calls are counted and timed.
    EntryAndReturn,
    /// As before, and their times are added up for a rule.
    AddedUp,
    /// Counted and timed, with what they carry, to whom, and their order: what is done at a call of MPI.
    Message,
}

impl Way {
    const ALL: [(Way, &'static str); 7] = [
        (Way::Bare, "bare"),
        (Way::Unwatched, "unwatched"),
        (Way::Entry, "entry"),
        (Way::UnwatchedPair, "unwatched pair"),
        (Way::EntryAndReturn, "entry and return"),
        (Way::AddedUp, "aggregated"),
        (Way::Message, "message"),
    ];

    fn moments(self) -> &'static [At] {
        match self {
            Way::Bare => &[],
            Way::Unwatched | Way::Entry => &[At::Entry],
            Way::UnwatchedPair | Way::EntryAndReturn | Way::AddedUp | Way::Message => &[At::EXIT, At::Entry],
        }
    }

    fn spec(self) -> ProbeSpec {
        let flags = match self {
            Way::EntryAndReturn => SpecFlags::SPAN,
            Way::AddedUp => SpecFlags::SPAN | SpecFlags::SEND_RETURN | SpecFlags::TALLY_RETURN,
            Way::Message => {
                SpecFlags::SPAN
                    | SpecFlags::OUTERMOST
                    | SpecFlags::BYTES
                    | SpecFlags::MESSAGE
                    | SpecFlags::SEQUENCE
            }
            _ => 0,
        };
        ProbeSpec {
            flags,
            message: send(),
            tally: DURATIONS,
            ..ProbeSpec::default()
        }
    }

    fn is_counted(self) -> bool {
        matches!(
            self,
            Way::Entry | Way::EntryAndReturn | Way::AddedUp | Way::Message
        )
    }
}

/// As MPI_Send, whatever stands in the registers.
fn send() -> MessageRule {
    let (function, is_large) = mpi::find("MPI_Send").unwrap();
    let library = Implementation {
        name: "MPICH",
        version: None,
        layout: SizeLayout::InHandle,
        size_offset: 0,
    };
    MessageRule {
        row: 0,
        ..mpi::rule(function, is_large, &library)
    }
}

fn call_ns(kernel: &mut Kernel, target: &mut Target, case: &Case, way: Way, calls: u64) -> f64 {
    let pid = target.pid();
    kernel.set_spec(0, way.spec()).unwrap();
    let attach = |at: &At| kernel.attach(&target.request(case, *at)).unwrap();
    let links: Vec<Link> = way.moments().iter().map(attach).collect();
    if way.is_counted() {
        kernel.watch(pid, 0).unwrap();
    }
    let before = kernel.totals(0).unwrap()[0];
    let took = target.call_ns(&case.function, calls);
    let after = kernel.totals(0).unwrap()[0];
    if way.is_counted() {
        let counted = after.calls - before.calls;
        assert!(counted >= calls, "{counted} of {calls} calls were seen");
        kernel.forget(pid).unwrap();
    }
    drop(links);
    took
}

fn main() {
    let words: Vec<String> = std::env::args().filter(|word| word != "--bench").collect();
    let [_, program, rounds, calls] = words.as_slice() else {
        eprintln!("usage: sites PROGRAM ROUNDS CALLS; cargo xtask bench sites gives them");
        std::process::exit(2);
    };
    let (rounds, calls): (u32, u64) = (rounds.parse().unwrap(), calls.parse().unwrap());
    let image = Image::read(File::open(program).unwrap()).unwrap();
    let cases = cases(&image);
    let mut target = Target::start(Path::new(program));
    let mut kernel = Kernel::load(LoadOptions {
        rows: 1,
        tallies: 1,
        ..LoadOptions::ONE_PROBE
    })
    .unwrap();
    for round in 0..rounds {
        for case in &cases {
            for (way, name) in Way::ALL {
                let ns = call_ns(&mut kernel, &mut target, case, way, calls);
                println!(
                    "{{\"round\":{round},\"function\":\"{}\",\"bytes\":{},\"instruction\":\"{}\",\"cost\":\"{}\",\"way\":\"{name}\",\"ns\":{ns}}}",
                    case.function,
                    case.bytes(),
                    case.site.instruction,
                    case.site.cost,
                );
            }
        }
    }
}
