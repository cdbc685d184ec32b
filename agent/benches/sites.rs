//! What a hit costs a program, by what the kernel does with the instruction under the probe. Run by `cargo xtask bench sites`, which
//! makes a table of what this prints: a line of JSON for each function, site and way of probing, in each round.
//!
//! The whole price is measured, as the program pays it: from call to call, less the same without a probe in the same round.
#![expect(clippy::unwrap_used, reason = "a benchmark says what went wrong by panicking")]

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use abi::{Amount, Flow, Form, MessageRule, ProbeSpec, SizeLayout, SpecFlags};
use tuneagent::kernel::{self, At, Kernel, Link, LinkRequest, LoadOptions, Site};
use tuner::{
    address::FileOffset,
    image::Image,
    site::{EntrySite, EntrySites},
};

/// The functions that the program was made for.
const PREFIX: &str = "begins_with_";

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
    /// As before, with what they carry, to whom, and their order: what is done at a call of MPI.
    Message,
}

impl Way {
    const ALL: [(Way, &'static str); 6] = [
        (Way::Bare, "bare"),
        (Way::Unwatched, "unwatched"),
        (Way::Entry, "entry"),
        (Way::UnwatchedPair, "unwatched pair"),
        (Way::EntryAndReturn, "entry and return"),
        (Way::Message, "message"),
    ];

    fn moments(self) -> &'static [At] {
        match self {
            Way::Bare => &[],
            Way::Unwatched | Way::Entry => &[At::Entry],
            Way::UnwatchedPair | Way::EntryAndReturn | Way::Message => &[At::Return, At::Entry],
        }
    }

    fn spec(self) -> ProbeSpec {
        let flags = match self {
            Way::EntryAndReturn => SpecFlags::SPAN,
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
            ..ProbeSpec::default()
        }
    }

    fn is_counted(self) -> bool {
        matches!(self, Way::Entry | Way::EntryAndReturn | Way::Message)
    }
}

/// As MPI_Send, whatever stands in the registers.
fn send() -> MessageRule {
    MessageRule {
        layout: SizeLayout::InHandle as u8,
        count_width: 4,
        amount: Amount {
            form: Form::One as u8,
            count: 1,
            datatype: 2,
            peer: 3,
        },
        flow: Flow::Sent as u8,
        comm: 5,
        row: 0,
        ..MessageRule::default()
    }
}

/// A function and where it is probed.
struct Case {
    function: String,
    begin: u64,
    site: EntrySite,
}

/// Each function at its first byte, and at its site where that is another one.
fn cases(image: &Image) -> Vec<Case> {
    let symbols = image.defined_symbols().unwrap();
    let mut names: Vec<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    names.retain(|name| name.starts_with(PREFIX));
    names.sort_unstable();
    names.dedup();
    let sites = EntrySites::new(kernel::emulation());
    let mut cases = Vec::new();
    for function in image.functions(&names).unwrap() {
        let begin = function.offset.0;
        let chosen = sites.of(image, function.offset, function.size);
        // A function whose end is not known has no other site than its first byte.
        let first_byte = sites.of(image, FileOffset(begin), 0);
        let mut both = vec![first_byte, chosen];
        both.dedup_by_key(|site| site.offset);
        cases.extend(both.into_iter().map(|site| Case {
            function: function.names.first().cloned().unwrap_or_default(),
            begin,
            site,
        }));
    }
    cases
}

struct Target {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    path: PathBuf,
}

impl Target {
    fn start(path: &Path) -> Target {
        let mut command = Command::new(path);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Target {
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            path: path.to_owned(),
        }
    }

    fn call_ns(&mut self, function: &str, calls: u64) -> f64 {
        writeln!(self.child.stdin.as_mut().unwrap(), "{function} {calls}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn call_ns(kernel: &mut Kernel, target: &mut Target, case: &Case, way: Way, calls: u64) -> f64 {
    let pid = target.child.id();
    kernel.set_spec(0, way.spec()).unwrap();
    let attach = |at: &At| {
        let site = Site {
            offset: case.site.offset.0,
            probe: 0,
            semaphore: 0,
        };
        let request = LinkRequest {
            path: target.path.clone(),
            sites: vec![site],
            at: *at,
            pid: Some(pid),
        };
        kernel.attach(&request).unwrap()
    };
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
        probes: 1,
        rows: 1,
        processes: 1,
        force_tracefs: false,
    })
    .unwrap();
    for round in 0..rounds {
        for case in &cases {
            for (way, name) in Way::ALL {
                let ns = call_ns(&mut kernel, &mut target, case, way, calls);
                println!(
                    "{{\"round\":{round},\"function\":\"{}\",\"bytes\":{},\"instruction\":\"{}\",\"cost\":\"{}\",\"way\":\"{name}\",\"ns\":{ns}}}",
                    case.function,
                    case.site.offset.0 - case.begin,
                    case.site.instruction,
                    case.site.cost,
                );
            }
        }
    }
}
