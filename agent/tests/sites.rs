//! Probes at the chosen sites see the same calls and values as probes at the first byte. On a real kernel;
//! needs root, otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod running;

use std::fs::File;

use abi::{Capture, CaptureKind, ExitSite, ProbeSpec, SpecFlags, Totals};
use probe::kernel::{
    self, CallMoment, Kernel, Link, LinkChoice, LinkRequest, LoadOptions, ProbeSite, read_hit,
};
use running::Running;
use tuneagent_e2e::require_or_return;
use tuner::{Cost, EntrySites, ExitFinder, Function, Image};

const CALLS: u64 = 200;

/// Functions with eight arguments, two of them on the stack, and different first instructions. Their results
/// depend on all arguments. Each is called the requested number of times, with different arguments.
const PROGRAM: &str = r#"
#include <stdio.h>
#define ADD "lea (%rdi,%rsi,2),%rax\n lea (%rax,%rdx,4),%rax\n lea (%rax,%rcx,8),%rax\n add %r8,%rax\n add %r9,%rax\n"
#define FUNCTION(name, code) \
    long name(long, long, long, long, long, long, long, long); \
    __asm__(".text\n .globl " #name "\n .type " #name ",@function\n .p2align 4\n" #name ":\n" code ".size " #name ",.-" #name "\n");
long factor = 3;
FUNCTION(marked, "endbr64\n push %rbx\n" ADD "add 16(%rsp),%rax\n add 24(%rsp),%rax\n pop %rbx\n ret\n")
FUNCTION(loading, "mov factor(%rip),%r10\n test %r10,%r10\n push %rbx\n" ADD "add 16(%rsp),%rax\n add 24(%rsp),%rax\n pop %rbx\n ret\n")
FUNCTION(branching, "test %rdi,%rdi\n js 1f\n" ADD "add 8(%rsp),%rax\n add 16(%rsp),%rax\n ret\n1: mov %rsi,%rax\n ret\n")
FUNCTION(resting, ".byte 0x0f,0x1f,0x44,0,0\n push %r12\n" ADD "add 16(%rsp),%rax\n add 24(%rsp),%rax\n pop %r12\n ret\n")
FUNCTION(stepping, "sub $8,%rsp\n" ADD "add 16(%rsp),%rax\n add 24(%rsp),%rax\n add $8,%rsp\n ret\n")
int main(void) {
    char line[64];
    puts("ready"); fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long count = 0, sum = 0;
        sscanf(line, "%ld", &count);
        for (long i = 0; i < count; i++) {
            long a = i % 2 ? i : -i;
            sum += marked(a, 2 * i, 3 * i, 4 * i, 5 * i, 6 * i, 7 * i, 8 * i);
            sum += loading(a, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7);
            sum += branching(a, ~i, i << 40, i, i * i, -i, i ^ 5, i | 8);
            sum += resting(a, i, i, i, i, i, i, i);
            sum += stepping(a, 9, 8, 7, 6, 5, 4, 3);
        }
        printf("%ld\n", sum); fflush(stdout);
    }
    return 0;
}
"#;

const FUNCTIONS: [&str; 5] = ["marked", "loading", "branching", "resting", "stepping"];

struct Target(Running);

impl Target {
    fn start(directory: &tempfile::TempDir) -> Target {
        Target(Running::built(directory.path(), PROGRAM, &[]))
    }

    /// Runs the calls and returns the program's result.
    fn run(&mut self, calls: u64) -> String {
        self.0.answers(&calls.to_string())
    }
}

/// Observations of some calls.
#[derive(Debug, PartialEq)]
struct Seen {
    /// By function: calls, timed, unpaired, too deep.
    totals: Vec<[u64; 4]>,
    /// By hit: function, kind, mask of captured values, and the values.
    hits: Vec<(u32, u16, u16, [u64; abi::CAPTURES_MAX])>,
    computed: String,
}

/// A way to attach, and the captured values.
#[derive(Clone, Copy, Debug)]
struct Way {
    links: LinkChoice,
    /// Whether functions are timed at their last jumps, if they have any.
    by_jumps: bool,
    /// Index of an argument, or `None` for the return value.
    captures: [Option<u8>; abi::CAPTURES_MAX],
}

fn spec(way: Way) -> ProbeSpec {
    let captures = way.captures.map(|argument| Capture {
        kind: argument.map_or(CaptureKind::Return, |_| CaptureKind::Argument) as u8,
        index: argument.unwrap_or_default(),
        width: 8,
        ..Capture::default()
    });
    ProbeSpec {
        flags: SpecFlags::SPAN | SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN,
        captures,
        ..ProbeSpec::default()
    }
}

fn watch(target: &mut Target, way: Way, entry: impl Fn(&Function) -> u64) -> Seen {
    let mut kernel = Kernel::load(LoadOptions {
        probes: FUNCTIONS.len() as u32,
        links: way.links,
        ..LoadOptions::ONE_PROBE
    })
    .unwrap();
    let image = Image::read(File::open(&target.0.path).unwrap()).unwrap();
    let functions = image.functions(&FUNCTIONS).unwrap();
    let (pid, base) = (target.0.pid(), target.0.base());
    let (mut entries, mut returns) = (Vec::new(), Vec::new());
    for (probe, name) in (0..).zip(FUNCTIONS) {
        let is_it = |function: &&Function| function.names == [name];
        let function = functions.iter().find(is_it).unwrap();
        kernel.set_spec(probe, spec(way)).unwrap();
        let site = |offset| ProbeSite::new(offset, probe);
        entries.push(site(entry(function)));
        let found = ExitFinder::new(&image).exits(function).unwrap().own;
        let (jumps, left) = match way.by_jumps {
            true => (&found.jumps[..], &found.beside_jumps),
            false => (&[][..], &found.returns),
        };
        returns.extend(left.iter().map(|offset| site(offset.0)));
        returns.extend(jumps.iter().map(|jump| ProbeSite {
            exit: ExitSite::bits(jump.depth, jump.condition.map(|of| (of, jump.is_taken))),
            ..site(jump.offset.0)
        }));
        let jumps_of = |name| if name == "branching" { 2 } else { 0 };
        assert_eq!(found.jumps.len(), jumps_of(name), "{name}");
    }
    for site in entries.iter().chain(&returns) {
        kernel.set_address(pid, base + site.offset, site.probe).unwrap();
    }
    kernel.watch(pid, 0).unwrap();
    let mut ring = kernel.take_hits().unwrap();
    let attach = |at, sites| {
        let path = target.0.path.clone();
        let pid = Some(pid);
        kernel.attach(&LinkRequest { path, sites, at, pid }).unwrap()
    };
    let links: [Link; 2] = [
        attach(CallMoment::EXIT, returns),
        attach(CallMoment::Entry, entries),
    ];
    let computed = target.run(CALLS);
    let hits = std::iter::from_fn(|| ring.take().map(|item| read_hit(item).unwrap()));
    let hits = hits
        .map(|hit| (hit.probe, hit.kind, hit.valid, hit.captures))
        .collect();
    let counts = |of: Totals| [of.calls, of.timed, of.unpaired, of.too_deep];
    let totals = kernel.totals(0).unwrap().into_iter().map(counts).collect();
    drop(links);
    Seen {
        totals,
        hits,
        computed,
    }
}

#[test]
fn a_probe_at_its_site_sees_the_calls_and_values_that_one_at_the_first_byte_sees() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let mut target = Target::start(&directory);
    let alone = target.run(CALLS);
    let image = Image::read(File::open(&target.0.path).unwrap()).unwrap();
    let sites = EntrySites::new(kernel::emulation());
    let site = |function: &Function| sites.of(&image, function.offset, function.size);
    let moved = image.functions(&FUNCTIONS).unwrap().into_iter();
    let moved = moved.filter(|function| site(function).offset != function.offset);
    assert!(moved.count() >= 3, "hardly any function has a site of its own");
    let registers = [0, 1, 2, 3, 4, 5].map(Some);
    let stack = [Some(6), Some(7), Some(5), None, Some(0), None];
    for links in LinkChoice::ALL {
        // Without link cookies a jump cannot be identified as an exit, and at a jump there is no return value
        // yet.
        let ways = [(false, registers), (false, stack), (true, registers)];
        for (by_jumps, captures) in ways {
            if !by_jumps || links == LinkChoice::Best {
                let way = Way {
                    links,
                    by_jumps,
                    captures,
                };
                let first_byte = watch(&mut target, way, |function| function.offset.0);
                let at_site = watch(&mut target, way, |function| site(function).offset.0);
                assert_eq!(at_site, first_byte, "{way:?}");
                assert_eq!(at_site.computed, alone, "{way:?}");
                let once = [CALLS, CALLS, 0, 0];
                assert_eq!(at_site.totals, [once; FUNCTIONS.len()], "{way:?}");
                assert_eq!(at_site.hits.len() as u64, 2 * CALLS * FUNCTIONS.len() as u64);
            }
        }
    }
}

#[test]
fn every_beginning_has_the_site_that_this_kernel_does_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(&directory);
    let image = Image::read(File::open(&target.0.path).unwrap()).unwrap();
    let emulation = kernel::emulation();
    let sites = EntrySites::new(emulation);
    let functions = image.functions(&FUNCTIONS).unwrap();
    let found = |name: &str| {
        let function = functions.iter().find(|function| function.names == [name]);
        let function = function.unwrap();
        let site = sites.of(&image, function.offset, function.size);
        (site.offset.0 - function.offset.0, site.cost)
    };
    assert_eq!(found("marked"), (4, Cost::Emulated));
    assert_eq!(found("loading"), (10, Cost::Emulated));
    assert_eq!(found("branching"), (3, Cost::Emulated));
    assert_eq!(found("stepping"), (0, Cost::Stepped));
    let resting = match emulation.long_nops {
        true => (0, Cost::Optimised),
        false => (5, Cost::Emulated),
    };
    assert_eq!(found("resting"), resting);
}
