//! The probed program, and the ways to attach to it.

use std::{ops::Range, process::Command};

use abi::{Capture, CaptureKind, Durations, ProbeSpec};
use probe::kernel::{CallMoment, Kernel, Link, LinkChoice, LinkRequest, LoadOptions, ProbeSite, Ring};

use tuneagent_e2e::needs::{Need, has};
use tuner::FileOffset;

use crate::running::Running;

/// Waits for a line, works, and answers with a line, so that probes can be attached and read while it is
/// idle.
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
__attribute__((noinline)) long message(void *buffer, int count, int type, int to, int tag, int comm) { sink += count + type + to + tag + comm; return (long)buffer; }
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
        if (line[0] == 'p') for (int to = -1; to < 70000; to++) message(0, 3, 0x4c000405, to, 0, 0x44000000);
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

pub(crate) struct Target(pub(crate) Running);

impl Target {
    pub(crate) fn start(directory: &tempfile::TempDir) -> Target {
        let flags = ["-fno-optimize-sibling-calls", "-pthread"];
        Target(Running::built(directory.path(), PROGRAM, &flags))
    }

    pub(crate) fn run(&mut self, what: &str) {
        assert_eq!(self.0.answers(what), "done");
    }

    pub(crate) fn offset(&self, function: &str) -> u64 {
        // The code segment of these small executables is mapped at its file offset.
        let listing = Command::new("nm").arg(&self.0.path).output().unwrap();
        let text = String::from_utf8(listing.stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.ends_with(&format!(" {function}")))
            .unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    }
}

pub(crate) const FUNCTIONS: [&str; 3] = ["outer", "inner", "leaves"];

/// A way to attach in a test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) links: LinkChoice,
}

/// Table rows of the duration histogram of a function.
pub(crate) fn rows(probe: u32) -> Range<u32> {
    let first = probe * Durations::ROWS;
    first..first + Durations::ROWS
}

/// The program with probed functions, and the ring. Links are dropped first.
pub(crate) struct Probed {
    _links: Vec<Link>,
    pub(crate) ring: Ring,
    pub(crate) kernel: Kernel,
    pub(crate) target: Target,
    _directory: tempfile::TempDir,
}

impl Probed {
    pub(crate) fn new(flags: u32, way: Way) -> Probed {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::start(&directory);
        let (mut kernel, links) = armed(&target, flags, way);
        Probed {
            _links: links,
            ring: kernel.take_hits().unwrap(),
            kernel,
            target,
            _directory: directory,
        }
    }
}

fn armed(target: &Target, flags: u32, way: Way) -> (Kernel, Vec<Link>) {
    let probes = FUNCTIONS.len() as u32;
    let mut kernel = Kernel::load(LoadOptions {
        probes,
        processes: 4,
        rows: probes * Durations::ROWS,
        partial_sums: 0,
        links: way.links,
    })
    .unwrap();
    let capture = |kind, index, width| Capture {
        kind: kind as u8,
        index,
        width,
        // A variable is read from memory; a register is the value.
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
    let image = tuner::Image::read(std::fs::File::open(&target.0.path).unwrap()).unwrap();
    let functions = image.functions(&FUNCTIONS).unwrap();
    let (mut entries, mut exits) = (Vec::<ProbeSite>::new(), Vec::<ProbeSite>::new());
    for (probe, name) in FUNCTIONS.iter().enumerate() {
        let probe = probe as u32;
        let function = functions
            .iter()
            .find(|function| function.names == [*name])
            .unwrap();
        let durations = rows(probe).start;
        kernel.set_spec(probe, ProbeSpec { durations, ..spec }).unwrap();
        let site = |offset: FileOffset| ProbeSite::new(offset.0, probe);
        entries.push(site(function.offset));
        let returns = tuner::returns(&image, function).unwrap();
        assert_eq!(returns.jumps_out, [], "{name}");
        exits.extend(returns.instructions.into_iter().map(site));
        for site in entries.iter().chain(&exits) {
            kernel
                .set_address(pid, target.0.base() + site.offset, site.probe)
                .unwrap();
        }
        // The fifth capture has no address, so it must be reported as not read.
        for place in [2, 3] {
            kernel
                .set_variable(2, probe, place, target.0.base() + target.offset("calls"))
                .unwrap();
        }
    }
    kernel.watch(pid, 2).unwrap();
    let request = |at, sites| LinkRequest::new(target.0.path.clone(), sites, at, Some(pid));
    let links = [(CallMoment::EXIT, exits), (CallMoment::Entry, entries)];
    let links = links.map(|(at, sites)| kernel.attach(&request(at, sites)).unwrap());
    (kernel, links.into())
}

/// Runs a test with both kinds of links.
pub(crate) fn for_every_way(test: impl Fn(Way)) {
    if has(module_path!(), &[Need::Root]) {
        for links in LinkChoice::ALL {
            test(Way { links });
        }
    }
}
