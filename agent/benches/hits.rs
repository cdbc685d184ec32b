//! Cost for the program of each action at a hit: counting, timing, histograms, captured values, aggregation,
//! sending. Run by `cargo xtask bench hits` and `bench sites`. For each input line it measures all ways of
//! probing once and prints a line of JSON for each, so that other tools can be measured between two rounds.
//!
//!   hits PROGRAM CALLS              some ways, at every place where a function may be probed
//!   hits PROGRAM CALLS FUNCTION...  all ways, at the site of each of these functions
//!
//! The cost is the time from call to call, minus the same without a probe in the same round. Sent hits are
//! read after the calls, because reading them is the agent's work and not the program's.
#![expect(clippy::unwrap_used, reason = "a benchmark says what went wrong by panicking")]

#[path = "../tests/running/send.rs"]
mod send;
mod target_program;

use std::{
    ffi::CString,
    fs::File,
    io::BufRead,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use abi::{Capture, CaptureKind, Durations, ProbeSpec, SpecFlags};
use probe::kernel::{CallMoment, Kernel, Link, LinkRequest, LoadOptions, Nothing, Ring, read_hit};
use send::send;
use target_program::{Case, DURATIONS, Target, cases};
use tuner::Image;

/// One way of probing a function.
struct Way {
    name: &'static str,
    moments: &'static [CallMoment],
    /// Flags of our BPF program; `None` for an empty BPF program.
    flags: Option<u32>,
    /// Number of captured arguments.
    captures: usize,
}

const ENTRY: &[CallMoment] = &[CallMoment::Entry];
/// The return is attached first, as in a session.
const PAIR: &[CallMoment] = &[CallMoment::EXIT, CallMoment::Entry];

const fn way(name: &'static str, moments: &'static [CallMoment], flags: Option<u32>, captures: usize) -> Way {
    Way {
        name,
        moments,
        flags,
        captures,
    }
}

/// Our BPF program on a process that is not watched: the cost when it does nothing.
const UNWATCHED: [&str; 2] = ["unwatched", "unwatched pair"];
/// The action at an MPI call: counted and timed, with bytes, partner and order.
const MESSAGE: &str = "message";
/// The ways that are measured at every place; the others only at the site.
const EVERYWHERE: [&str; 7] = [
    "bare",
    UNWATCHED[0],
    "count",
    UNWATCHED[1],
    "count and time",
    "time aggregated",
    MESSAGE,
];

/// The first way is without a probe, as the reference for the others.
const WAYS: [Way; 22] = {
    use SpecFlags as F;
    const TIMED: u32 = F::SPAN;
    [
        way("bare", &[], None, 0),
        way("empty entry", ENTRY, None, 0),
        way(UNWATCHED[0], ENTRY, Some(0), 0),
        way("count", ENTRY, Some(0), 0),
        way("count, 1 argument", ENTRY, Some(0), 1),
        way("count, 2 arguments", ENTRY, Some(0), 2),
        way("count, 3 arguments", ENTRY, Some(0), 3),
        way("count, 4 arguments", ENTRY, Some(0), 4),
        way("count, 5 arguments", ENTRY, Some(0), 5),
        way("count, 6 arguments", ENTRY, Some(0), 6),
        way("event", ENTRY, Some(F::SEND_ENTRY), 0),
        way("event, 6 arguments", ENTRY, Some(F::SEND_ENTRY), 6),
        way("empty pair", PAIR, None, 0),
        way("empty pair again", PAIR, None, 0),
        way(UNWATCHED[1], PAIR, Some(0), 0),
        way("count and time", PAIR, Some(TIMED), 0),
        way("count and time, 6 arguments", PAIR, Some(TIMED), 6),
        way(
            "count, time and order",
            PAIR,
            Some(TIMED | F::OUTERMOST | F::SEQUENCE),
            0,
        ),
        way("time in a histogram", PAIR, Some(TIMED | F::DURATIONS), 0),
        way(
            "time aggregated",
            PAIR,
            Some(TIMED | F::SEND_RETURN | F::SUM_RETURN),
            0,
        ),
        way("event with time", PAIR, Some(TIMED | F::SEND_RETURN), 0),
        way(
            MESSAGE,
            PAIR,
            Some(TIMED | F::OUTERMOST | F::BYTES | F::MESSAGE | F::SEQUENCE),
            0,
        ),
    ]
};

impl Way {
    fn spec(&self, flags: u32) -> ProbeSpec {
        let mut spec = ProbeSpec {
            flags,
            message: send(),
            partial_sum: DURATIONS,
            ..ProbeSpec::default()
        };
        for (capture, index) in spec.captures[..self.captures].iter_mut().zip(0..) {
            *capture = Capture {
                kind: CaptureKind::Argument as u8,
                index,
                width: 8,
                ..Capture::default()
            };
        }
        spec
    }

    fn is_sent(&self) -> bool {
        let flags = self.flags.unwrap_or_default();
        flags & (SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN) != 0 && flags & SpecFlags::SUM_RETURN == 0
    }
}

/// Empty and real BPF programs, and the ring.
struct Sides {
    nothing: Nothing,
    ours: Kernel,
    ring: Ring,
}

/// What BPF_LINK_CREATE takes for links of the kind `uprobe_multi` (include/uapi/linux/bpf.h).
#[repr(C)]
struct ReturnLink {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    semaphores: u64,
    cookies: u64,
    count: u32,
    multi_flags: u32,
    pid: u32,
    zero: u32,
}

/// Attaches the empty program to the return of a function in the target program, as other tools do for the
/// cheapest pair: the kernel replaces the return address on the stack. We do not.
fn attach_to_return(nothing: &Nothing, path: &Path, offset: u64, pid: u32) -> Link {
    const BPF_LINK_CREATE: i32 = 28;
    const BPF_TRACE_UPROBE_MULTI: u32 = 48;
    const BPF_F_UPROBE_MULTI_RETURN: u32 = 1;
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let offsets = [offset];
    let link = ReturnLink {
        program: nothing.as_fd().as_raw_fd().unsigned_abs(),
        target: 0,
        attach_type: BPF_TRACE_UPROBE_MULTI,
        flags: 0,
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        semaphores: 0,
        cookies: 0,
        count: 1,
        multi_flags: BPF_F_UPROBE_MULTI_RETURN,
        pid,
        zero: 0,
    };
    let size = size_of::<ReturnLink>();
    // SAFETY: the kernel reads the record, which has this size, and what it points to, which lives until then.
    let link = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const link, size) };
    let link = i32::try_from(link).unwrap();
    assert!(link >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just returned this descriptor, so it has no other owner.
    Link::Multi(unsafe { OwnedFd::from_raw_fd(link) })
}

fn call_ns(sides: &mut Sides, target: &mut Target, case: &Case, way: &Way, calls: u64) -> f64 {
    let requests = way.moments.iter().map(|at| target.request(case, *at));
    let Some(flags) = way.flags else {
        let attach = |request: LinkRequest| match request.at {
            CallMoment::Entry => sides.nothing.attach(&request).unwrap(),
            CallMoment::Exit { .. } => {
                attach_to_return(&sides.nothing, &request.path, case.site.offset.0, target.pid())
            }
        };
        let links: Vec<Link> = requests.map(attach).collect();
        let took = target.call_ns(&case.function, calls);
        drop(links);
        return took;
    };
    sides.ours.set_spec(0, way.spec(flags)).unwrap();
    let links: Vec<Link> = requests
        .map(|request| sides.ours.attach(&request).unwrap())
        .collect();
    if UNWATCHED.contains(&way.name) {
        return target.call_ns(&case.function, calls);
    }
    sides.ours.watch(target.pid(), 0).unwrap();
    let before = sides.ours.calls_of(0, 0);
    let took = target.call_ns(&case.function, calls);
    let counted = sides.ours.calls_of(0, 0) - before;
    assert!(counted >= calls, "{counted} of {calls} calls were seen");
    let records = std::iter::from_fn(|| sides.ring.take().map(|item| read_hit(item).is_some()));
    let sent = records.filter(|is_hit| *is_hit).count() as u64;
    let expected = if way.is_sent() { counted } else { 0 };
    assert_eq!(
        sent, expected,
        "{}: more calls than the ring has room for?",
        way.name
    );
    sides.ours.forget(target.pid()).unwrap();
    drop(links);
    took
}

fn main() {
    let words: Vec<String> = std::env::args().filter(|word| word != "--bench").collect();
    let [_, program, calls, functions @ ..] = words.as_slice() else {
        eprintln!("usage: hits PROGRAM CALLS [FUNCTION...]; cargo xtask bench hits gives them");
        std::process::exit(2);
    };
    let calls: u64 = calls.parse().unwrap();
    let image = Image::read(File::open(program).unwrap()).unwrap();
    let mut cases = cases(&image);
    let is_everywhere = functions.is_empty();
    if !is_everywhere {
        // The last place of a function is its site.
        cases.reverse();
        cases.dedup_by(|before, case| before.function == case.function);
        cases.retain(|case| functions.contains(&case.function));
    }
    let ways = WAYS.iter();
    let ways: Vec<&Way> = ways
        .filter(|way| !is_everywhere || EVERYWHERE.contains(&way.name))
        .collect();
    let mut target = Target::start(Path::new(program));
    let mut ours = Kernel::load(LoadOptions {
        partial_sums: 1,
        rows: Durations::ROWS,
        ..LoadOptions::ONE_PROBE
    })
    .unwrap();
    let mut sides = Sides {
        nothing: Nothing::load().unwrap(),
        ring: ours.take_hits().unwrap(),
        ours,
    };
    for line in std::io::stdin().lock().lines() {
        line.unwrap();
        for case in &cases {
            for way in &ways {
                let line = serde_json::json!({
                    "function": case.function,
                    "bytes": case.bytes(),
                    "instruction": case.site.instruction.to_string(),
                    "cost": case.site.cost.to_string(),
                    "way": way.name,
                    "ns": call_ns(&mut sides, &mut target, case, way, calls),
                });
                println!("{line}");
            }
        }
        println!("{{}}");
    }
}
