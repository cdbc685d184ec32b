//! The kernel side on a real kernel: what the two programs count, time, pair and lose. Needs root; says so where it is
//! not there.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod needs;
mod running;

use std::{
    io::Write,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use abi::{
    Amount, Capture, CaptureKind, Flow, Form, HitKind, MessageRule, ProbeSpec, SizeLayout, Sizes, SpecFlags,
    Totals, World,
};
use needs::{is_root, needs};
use running::Running;
use tuneagent::kernel::{At, Kernel, LinkKind, LinkRequest, LoadOptions, Site, is_filling, read_hit};

/// Waits for a line, works, answers with a line; so that probes can be armed and read while it stands still.
const PROGRAM: &str = r#"
#include <setjmp.h>
#include <stdio.h>
#include <pthread.h>
static jmp_buf out;
volatile long sink;
volatile int calls;
__attribute__((noinline)) long inner(long depth) { sink++; return depth ? inner(depth - 1) + 1 : 0; }
__attribute__((noinline)) long outer(long depth, long tag) { calls++; long r = inner(depth); sink += tag; return r; }
__attribute__((noinline)) void leaves(int really) { sink++; if (really) longjmp(out, 1); sink++; }
__attribute__((noinline)) void catches(void) { if (!setjmp(out)) leaves(1); sink++; }
__attribute__((noinline)) long message(int count, int type, int to, int comm) { sink += count + type + to + comm; return 0; }
static void *work(void *unused) { for (int i = 0; i < 1000; i++) outer(3, 7); return unused; }
static void *once(void *unused) { outer(0, 1); return unused; }
int main(void) {
    char line[64];
    puts("ready"); fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'o') for (int i = 0; i < 100; i++) outer(3, 40 + i);
        if (line[0] == 'd') inner(40);
        if (line[0] == 'j') { for (int i = 0; i < 10; i++) catches(); leaves(0); outer(0, 1); }
        if (line[0] == 't') {
            pthread_t threads[4];
            for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
            for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        }
        if (line[0] == 'f') for (int i = 0; i < 40000; i++) outer(0, i);
        if (line[0] == 'p') for (int to = -1; to < 70000; to++) message(3, 0x4c000405, to, 0x44000000);
        if (line[0] == 'm') for (int i = 0; i < 5000; i++) {
            pthread_t thread;
            pthread_create(&thread, 0, once, 0);
            pthread_join(thread, 0);
        }
        puts("done"); fflush(stdout);
    }
    return 0;
}
"#;

struct Target(Running);

impl Target {
    fn start(directory: &tempfile::TempDir) -> Target {
        let flags = ["-fno-optimize-sibling-calls", "-pthread"];
        Target(Running::built(directory.path(), PROGRAM, &flags))
    }

    fn run(&mut self, what: &str) {
        assert_eq!(self.0.answers(what), "done");
    }

    fn offset(&self, function: &str) -> u64 {
        // The test's programs are small executables whose code segment is mapped at its own offset.
        let listing = Command::new("nm").arg(&self.0.path).output().unwrap();
        let text = String::from_utf8(listing.stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.ends_with(&format!(" {function}")))
            .unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    }
}

const FUNCTIONS: [&str; 3] = ["outer", "inner", "leaves"];

/// How a test attaches.
#[derive(Clone, Copy, Debug)]
struct Way {
    force_tracefs: bool,
    returns: At,
}

fn armed(target: &Target, flags: u32, way: Way) -> (Kernel, Vec<tuneagent::kernel::Link>) {
    let probes = FUNCTIONS.len() as u32;
    let mut kernel = Kernel::load(LoadOptions {
        probes,
        processes: 4,
        rows: 0,
        tallies: 0,
        force_tracefs: way.force_tracefs,
    })
    .unwrap();
    let capture = |kind, index, width| Capture {
        kind: kind as u8,
        index,
        width,
        // A variable is read where it lies; a register is the value.
        reads: u8::from(matches!(
            kind,
            CaptureKind::VariableAtEntry | CaptureKind::VariableAtReturn
        )),
        ..Capture::default()
    };
    let nothing = Capture::default();
    let spec = ProbeSpec {
        flags,
        captures: [
            capture(CaptureKind::Argument, 1, 8),
            capture(CaptureKind::Return, 0, 8),
            capture(CaptureKind::VariableAtEntry, 0, 4),
            capture(CaptureKind::VariableAtReturn, 0, 4),
            capture(CaptureKind::VariableAtEntry, 0, 4),
            nothing,
        ],
        ..ProbeSpec::default()
    };
    let pid = target.0.pid();
    let image = tuner::image::Image::read(std::fs::File::open(&target.0.path).unwrap()).unwrap();
    let functions = image.functions(&FUNCTIONS).unwrap();
    let (mut entries, mut exits) = (Vec::<Site>::new(), Vec::<Site>::new());
    for (probe, name) in FUNCTIONS.iter().enumerate() {
        let probe = probe as u32;
        let function = functions
            .iter()
            .find(|function| function.names == [*name])
            .unwrap();
        kernel.set_spec(probe, spec).unwrap();
        let mut sites = vec![Site {
            offset: function.offset.0,
            probe,
            semaphore: 0,
        }];
        entries.extend(&sites);
        if way.returns == At::ReturnInstruction {
            let returns = tuner::code::returns(&image, function).unwrap();
            assert_eq!(returns.jumps_out, [], "{name}");
            sites = returns
                .instructions
                .iter()
                .map(|offset| Site {
                    offset: offset.0,
                    probe,
                    semaphore: 0,
                })
                .collect();
        }
        exits.extend(&sites);
        for site in entries.iter().chain(&exits) {
            kernel
                .set_address(pid, target.0.base() + site.offset, site.probe)
                .unwrap();
        }
        // The fifth capture has no address: it cannot be read, and is said so.
        for place in [2, 3] {
            kernel
                .set_variable(2, probe, place, target.0.base() + target.offset("calls"))
                .unwrap();
        }
    }
    kernel.watch(pid, 2).unwrap();
    let request = |at, sites| LinkRequest {
        path: target.0.path.clone(),
        sites,
        at,
        pid: Some(pid),
    };
    let links = [(way.returns, exits), (At::Entry, entries)];
    let links = links.map(|(at, sites)| kernel.attach(&request(at, sites)).unwrap());
    (kernel, links.into())
}

/// Links of both kinds, and both kinds of return probes.
fn for_every_way(test: impl Fn(Way)) {
    if is_root() {
        for force_tracefs in [false, true] {
            for returns in [At::Return, At::ReturnInstruction] {
                test(Way {
                    force_tracefs,
                    returns,
                });
            }
        }
    }
}

#[test]
fn nested_and_recursive_calls_pair_with_their_entries_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (kernel, _links) = armed(&target, SpecFlags::SPAN, way);
        assert!(!way.force_tracefs || kernel.link_kind() == LinkKind::Tracefs);
        target.run("outer");
        let totals = kernel.totals(2).unwrap();
        let counts = |totals: &Totals| (totals.calls, totals.timed, totals.unpaired, totals.too_deep);
        assert_eq!(counts(&totals[0]), (100, 100, 0, 0), "{way:?}");
        // inner(3) is four activations deep; the outermost ones are timed.
        assert_eq!(counts(&totals[1]), (400, 100, 0, 0), "{way:?}");
        assert!(totals[0].time_ns > totals[1].time_ns && totals[1].time_ns > 0);
        assert!(kernel.losses().unwrap().iter().all(|(_, count)| *count == 0));
    });
}

#[test]
fn calls_deeper_than_the_frames_are_counted_and_said_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (kernel, _links) = armed(&target, SpecFlags::SPAN, way);
        target.run("deep");
        let inner = kernel.totals(2).unwrap()[1];
        assert_eq!(inner.calls, 41);
        assert_eq!(inner.too_deep, 41 - abi::MAX_FRAMES as u64);
        assert_eq!((inner.timed, inner.unpaired), (1, 0));
    });
}

#[test]
fn a_call_left_by_longjmp_is_closed_by_the_next_entry_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (kernel, _links) = armed(&target, SpecFlags::SPAN, way);
        target.run("jump");
        let totals = kernel.totals(2).unwrap();
        assert_eq!(
            (totals[2].calls, totals[2].timed, totals[2].unpaired),
            (11, 1, 10)
        );
        assert_eq!((totals[0].calls, totals[0].timed, totals[0].unpaired), (1, 1, 0));
    });
}

#[test]
fn hits_carry_the_captures_and_the_duration_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let flags = SpecFlags::SPAN | SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN;
        let (mut kernel, _links) = armed(&target, flags, way);
        let mut ring = kernel.take_hits().unwrap();
        target.run("outer");
        let hits: Vec<_> = std::iter::from_fn(|| ring.next().map(|item| read_hit(&item).unwrap())).collect();
        let of_outer = |kind: HitKind| {
            hits.iter()
                .filter(move |hit| hit.probe == 0 && hit.kind == kind as u16)
                .collect::<Vec<_>>()
        };
        let (entries, returns) = (of_outer(HitKind::Entry), of_outer(HitKind::Return));
        assert_eq!((entries.len(), returns.len()), (100, 100));
        assert!(
            entries
                .iter()
                .enumerate()
                .all(|(i, hit)| hit.captures[0] == 40 + i as u64)
        );
        let ordinal =
            |hits: &[&abi::Hit], place: usize| hits.iter().map(|hit| hit.captures[place]).collect::<Vec<_>>();
        assert_eq!(
            ordinal(&entries, 2),
            (0..100).collect::<Vec<u64>>(),
            "the variable at entry"
        );
        assert_eq!(
            ordinal(&returns, 2),
            (0..100).collect::<Vec<u64>>(),
            "the variable at entry, told at return"
        );
        assert_eq!(
            ordinal(&returns, 3),
            (1..=100).collect::<Vec<u64>>(),
            "the variable at return"
        );
        assert!(
            entries.iter().all(|hit| hit.valid == 0b00101) && returns.iter().all(|hit| hit.valid == 0b01111)
        );
        assert!(
            returns
                .iter()
                .all(|hit| hit.captures[1] == 3 && hit.duration_ns < 1_000_000_000)
        );
        // A hit takes its time when it has its place in the ring, a moment after the call began or ended.
        let between = returns
            .iter()
            .zip(&entries)
            .map(|(end, start)| end.time_ns - start.time_ns);
        let mut off: Vec<u64> = between
            .zip(&returns)
            .map(|(between, end)| between.abs_diff(end.duration_ns))
            .collect();
        off.sort_unstable();
        assert!(off[50] < 100_000, "{off:?} ns beside the duration");
    });
}

#[test]
fn every_hit_that_does_not_fit_into_the_ring_is_counted_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let flags = SpecFlags::SPAN | SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN;
        let (mut kernel, _links) = armed(&target, flags, way);
        let mut ring = kernel.take_hits().unwrap();
        // Nobody takes the hits while they are made: two for each call of each function.
        target.run("flood");
        let taken = std::iter::from_fn(|| ring.next().map(|_| ())).count() as u64;
        let losses = kernel.losses().unwrap();
        let lost = losses.iter().find(|(kind, _)| *kind == "ring_full").unwrap().1;
        let calls: u64 = kernel.totals(2).unwrap().iter().map(|totals| totals.calls).sum();
        assert_eq!(calls, 80_000);
        assert!(lost > 0, "{taken} hits fit");
        assert_eq!(taken + lost, 2 * calls);
    });
}

#[test]
fn who_sleeps_until_a_ring_of_calls_is_half_full_is_told_once_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (mut kernel, _links) = armed(&target, SpecFlags::SPAN | SpecFlags::SEQUENCE, way);
        let mut ring = kernel.take_hits().unwrap();
        let mut told_after = |times: u32| {
            (0..times).for_each(|_| target.run("outer"));
            std::iter::from_fn(|| ring.next().map(|item| assert!(is_filling(&item)))).count()
        };
        // 200 calls each time.
        let half = abi::RING_CALLS / 2 / 200;
        assert_eq!(told_after(half + 1), 0, "nobody sleeps yet");
        let next = kernel.calls_so_far(2).unwrap();
        assert_eq!(kernel.calls(2, 0).unwrap().1.len() as u64, next);
        kernel.sleep_until_half_full();
        assert_eq!(
            (told_after(half), told_after(1), told_after(half)),
            (0, 1, 0),
            "{way:?}"
        );
        kernel.sleep_until_half_full();
        assert_eq!(told_after(1), 1, "it sleeps though it has read nothing");
    });
}

#[test]
fn threads_are_paired_apart_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (kernel, _links) = armed(&target, SpecFlags::SPAN, way);
        target.run("threads");
        let totals = kernel.totals(2).unwrap();
        assert_eq!((totals[0].calls, totals[0].timed), (4000, 4000));
        assert_eq!((totals[1].calls, totals[1].timed), (16_000, 4000));
    });
}

#[test]
fn more_threads_than_there_is_room_for_are_counted_and_said_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (mut kernel, _links) = armed(&target, SpecFlags::SPAN, way);
        target.run("many");
        let outer = kernel.totals(2).unwrap()[0];
        let room = u64::from(abi::MAX_THREADS);
        assert_eq!(
            (outer.calls, outer.timed, outer.too_deep),
            (5000, room, 5000 - room)
        );
        let lost: u64 = kernel.losses().unwrap().iter().map(|(_, count)| count).sum();
        // Each such thread asks for a record twice: in the outer function and in the inner one.
        assert_eq!(lost, 2 * (5000 - room));
        for (key, _) in kernel.threads().unwrap() {
            kernel.forget_thread(key).unwrap();
        }
        target.run("outer");
        assert_eq!(kernel.totals(2).unwrap()[0].timed, room + 100);
    });
}

#[test]
fn of_a_library_only_the_outermost_calls_count_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (kernel, _links) = armed(&target, SpecFlags::SPAN | SpecFlags::OUTERMOST, way);
        target.run("outer");
        let totals = kernel.totals(2).unwrap();
        assert_eq!((totals[0].calls, totals[0].nested), (100, 0));
        assert_eq!((totals[1].calls, totals[1].nested, totals[1].timed), (0, 400, 0));
        let threads = kernel.threads().unwrap();
        assert_eq!(threads.len(), 1);
        assert_eq!(threads[0].1.closed_ns, totals[0].time_ns);
        assert_eq!((threads[0].1.depth, threads[0].1.open_since_ns), (0, 0));
    });
}

#[test]
fn a_thread_that_is_known_counts_for_its_process_only_while_that_is_watched_and_where_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (mut kernel, _links) = armed(&target, SpecFlags::SPAN, way);
        let counted = |kernel: &Kernel, slot| {
            let totals = kernel.totals(slot).unwrap()[0];
            (totals.calls, totals.timed)
        };
        target.run("outer");
        kernel.forget(target.0.pid()).unwrap();
        target.run("outer");
        assert_eq!(counted(&kernel, 2), (100, 100));
        kernel.watch(target.0.pid(), 1).unwrap();
        target.run("outer");
        assert_eq!([counted(&kernel, 1), counted(&kernel, 2)], [(100, 100); 2]);
        assert_eq!(kernel.threads().unwrap()[0].1.process, 1);
    });
}

#[test]
fn a_process_that_is_not_watched_counts_nothing_as_root() {
    for_every_way(|way| {
        let directory = tempfile::tempdir().unwrap();
        let mut target = Target::start(&directory);
        let (mut kernel, _links) = armed(&target, SpecFlags::SPAN, way);
        kernel.forget(target.0.pid()).unwrap();
        target.run("outer");
        assert!(
            kernel
                .totals(2)
                .unwrap()
                .iter()
                .all(|totals| *totals == Totals::default())
        );
    });
}

/// Ranks that the program sends a message to, each one.
const PARTNERS: u64 = 70_000;

#[test]
fn a_message_that_the_table_of_pairs_has_no_place_for_is_counted_as_root() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut target = Target::start(&directory);
    let mut kernel = Kernel::load(LoadOptions {
        probes: 1,
        processes: 1,
        rows: 1,
        tallies: 0,
        force_tracefs: false,
    })
    .unwrap();
    let spec = ProbeSpec {
        flags: SpecFlags::SPAN | SpecFlags::OUTERMOST | SpecFlags::MESSAGE | SpecFlags::BYTES,
        message: MessageRule {
            layout: SizeLayout::InHandle as u8,
            count_width: 4,
            amount: Amount {
                form: Form::One as u8,
                count: 0,
                datatype: 1,
                peer: 2,
            },
            flow: Flow::Sent as u8,
            comm: 3,
            row: 0,
            ..MessageRule::default()
        },
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
    let site = Site {
        offset: target.offset("message"),
        probe: 0,
        semaphore: 0,
    };
    kernel.set_address(pid, target.0.base() + site.offset, 0).unwrap();
    let request = |at| LinkRequest {
        path: target.0.path.clone(),
        sites: vec![site],
        at,
        pid: Some(pid),
    };
    let _links = [At::Return, At::Entry].map(|at| kernel.attach(&request(at)).unwrap());
    target.run("pairs");
    let totals = kernel.totals(0).unwrap()[0];
    // One more goes to nobody, and carries nothing.
    assert_eq!((totals.calls, totals.bytes), (PARTNERS + 1, 12 * PARTNERS));
    assert_eq!(kernel.sizes(0, 0).unwrap().counts[Sizes::bucket(12)], PARTNERS);
    let pairs = kernel.pairs().unwrap();
    assert!(
        pairs
            .iter()
            .all(|(_, pair)| (pair.messages, pair.bytes) == (1, 12))
    );
    let losses = kernel.losses_of_matrix().unwrap();
    let lost = losses.iter().find(|(kind, _)| *kind == "pair_table").unwrap().1;
    assert!(lost > 0, "{} pairs had a place", pairs.len());
    assert_eq!(pairs.len() as u64 + lost, PARTNERS);
}

/// The probes of a whole MPI library: about 800 with the returns.
#[test]
fn eight_hundred_probes_attach_and_detach_in_a_blink_as_root() {
    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libmpi.so.40";
    const ATTACH_MAX: Duration = Duration::from_millis(100);
    const DETACH_MAX: Duration = Duration::from_millis(500);
    if !is_root() || !needs(Path::new(LIBRARY).exists(), "Open MPI's library") {
        return;
    }
    let image = tuner::image::Image::read(std::fs::File::open(LIBRARY).unwrap()).unwrap();
    let symbols = image.defined_symbols().unwrap();
    let names: Vec<&str> = symbols
        .iter()
        .map(|symbol| symbol.name.as_str())
        .filter(|name| name.starts_with("PMPI_"))
        .collect();
    let functions = image.functions(&names).unwrap();
    let sites: Vec<Site> = functions
        .iter()
        .map(|function| Site {
            offset: function.offset.0,
            probe: 0,
            semaphore: 0,
        })
        .collect();
    let kernel = Kernel::load(LoadOptions {
        probes: 1,
        processes: 1,
        rows: 0,
        tallies: 0,
        force_tracefs: false,
    })
    .unwrap();
    let mut times: Vec<(Duration, Duration)> = (0..5)
        .map(|_| {
            let began = Instant::now();
            let request = |at| LinkRequest {
                path: LIBRARY.into(),
                sites: sites.clone(),
                at,
                pid: None,
            };
            let links = [At::Return, At::Entry].map(|at| kernel.attach(&request(at)).unwrap());
            let attached = began.elapsed();
            let began = Instant::now();
            drop(links);
            (attached, began.elapsed())
        })
        .collect();
    times.sort();
    let (attached, _) = times[0];
    let detached = times.iter().map(|(_, detached)| *detached).min().unwrap();
    let worst = (
        times.iter().map(|t| t.0).max().unwrap(),
        times.iter().map(|t| t.1).max().unwrap(),
    );
    let count = 2 * sites.len();
    let _ = writeln!(
        std::io::stderr(),
        "{count} probes: attach {attached:?} (worst {:?}), detach {detached:?} (worst {:?}) of 5",
        worst.0,
        worst.1
    );
    assert!(count >= 800, "{count}");
    assert!(
        attached < ATTACH_MAX && detached < DETACH_MAX,
        "{attached:?} {detached:?}"
    );
}

#[test]
fn what_is_gone_already_is_forgotten_without_a_word_as_root() {
    if !is_root() {
        return;
    }
    let mut kernel = Kernel::load(LoadOptions {
        probes: 1,
        processes: 1,
        rows: 0,
        tallies: 0,
        force_tracefs: false,
    })
    .unwrap();
    let us = std::process::id();
    kernel.watch(us, 0).unwrap();
    kernel.forget(us).unwrap();
    kernel.forget(us).unwrap();
    kernel.forget_thread(u64::from(us) << 32 | u64::from(us)).unwrap();
}
