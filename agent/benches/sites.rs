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

use abi::{
    Amount, Flow, Form, MessageRule, NO_ARGUMENT, ProbeSpec, SizeLayout, SpecFlags, TallyRule, TallyValue,
};
use aya::maps::{MapData, RingBuf};
use tuneagent::kernel::{self, At, Kernel, Link, LinkRequest, LoadOptions, Site, Tallies, read_tally};
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
    /// As before, with the durations added up by process and stretch: count, sum, sum of squares, least and greatest.
    AddedUp,
    /// As before, each return sent to the agent.
    Sent,
    /// As with entry and return, with what they carry, to whom, and their order: what is done at a call of MPI.
    Message,
}

impl Way {
    const ALL: [(Way, &'static str); 8] = [
        (Way::Bare, "bare"),
        (Way::Unwatched, "unwatched"),
        (Way::Entry, "entry"),
        (Way::UnwatchedPair, "unwatched pair"),
        (Way::EntryAndReturn, "entry and return"),
        (Way::AddedUp, "added up"),
        (Way::Sent, "sent"),
        (Way::Message, "message"),
    ];

    fn moments(self) -> &'static [At] {
        match self {
            Way::Bare => &[],
            Way::Unwatched | Way::Entry => &[At::Entry],
            _ => &[At::Return, At::Entry],
        }
    }

    fn spec(self) -> ProbeSpec {
        let flags = match self {
            Way::EntryAndReturn => SpecFlags::SPAN,
            Way::AddedUp => SpecFlags::SPAN | SpecFlags::SEND_RETURN | SpecFlags::TALLY_RETURN,
            Way::Sent => SpecFlags::SPAN | SpecFlags::SEND_RETURN,
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
            tally: durations(),
            ..ProbeSpec::default()
        }
    }

    fn is_counted(self) -> bool {
        !matches!(self, Way::Bare | Way::Unwatched | Way::UnwatchedPair)
    }
}

fn durations() -> TallyRule {
    let place = |place| TallyValue {
        place,
        ..TallyValue::default()
    };
    let mut of = [place(TallyValue::NOTHING); abi::MAX_TALLIED];
    of[0] = place(TallyValue::DURATION);
    TallyRule {
        number: 1,
        values: 1,
        key: place(TallyValue::NOTHING),
        of,
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
        other: Amount::NONE,
        flow: Flow::Sent as u8,
        buffer: NO_ARGUMENT,
        comm: 5,
        status: NO_ARGUMENT,
        template: NO_ARGUMENT,
        found: NO_ARGUMENT,
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

/// The kernel side, and what came of it.
struct Watch {
    kernel: Kernel,
    ring: RingBuf<MapData>,
    tallies: Tallies,
}

impl Watch {
    fn start() -> Watch {
        let mut kernel = Kernel::load(LoadOptions {
            rows: 1,
            tallies: 1,
            ..LoadOptions::ONE_PROBE
        })
        .unwrap();
        Watch {
            ring: kernel.take_hits().unwrap(),
            kernel,
            tallies: Tallies::default(),
        }
    }

    /// How many hits were added up, and how many sent, since this was last asked.
    fn heard(&mut self) -> (u64, u64) {
        let (mut added, mut sent) = (0, 0);
        while let Some(item) = self.ring.next() {
            // What a cell had is sent when it has as much as it takes.
            match read_tally(&item) {
                Some(tally) => added += self.tallies.hand_over(tally).map_or(0, |more| more.count),
                None => sent += 1,
            }
        }
        let is_read = self
            .tallies
            .read(&self.kernel, 0, 1, |tally| added += tally.count);
        assert!(is_read, "nobody hits any more");
        (added, sent)
    }

    fn call_ns(&mut self, target: &mut Target, case: &Case, way: Way, calls: u64) -> f64 {
        let pid = target.child.id();
        self.kernel.set_spec(0, way.spec()).unwrap();
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
            self.kernel.attach(&request).unwrap()
        };
        let links: Vec<Link> = way.moments().iter().map(attach).collect();
        if way.is_counted() {
            self.kernel.watch(pid, 0).unwrap();
        }
        let before = self.kernel.totals(0).unwrap()[0];
        let took = target.call_ns(&case.function, calls);
        let after = self.kernel.totals(0).unwrap()[0];
        let heard = self.heard();
        if way.is_counted() {
            let counted = after.calls - before.calls;
            assert!(counted >= calls, "{counted} of {calls} calls were seen");
            let expected = match way {
                Way::AddedUp => (counted, 0),
                Way::Sent => (0, counted),
                _ => (0, 0),
            };
            assert_eq!(heard, expected, "added up and sent");
            self.kernel.forget(pid).unwrap();
        }
        drop(links);
        took
    }
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
    let mut watch = Watch::start();
    for round in 0..rounds {
        for case in &cases {
            for (way, name) in Way::ALL {
                let ns = watch.call_ns(&mut target, case, way, calls);
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
