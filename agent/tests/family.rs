//! The family of a command on a real kernel: its members, the first counted call of each, and excluded
//! processes. Needs root; otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use abi::{FamilyEvent, FamilyEventKind, ProbeSpec, SpecFlags};
use probe::kernel::{
    CallMoment, FamilyRoot, Kernel, Link, LinkRequest, LoadOptions, ProbeSite, read_family_event,
};
use tuneagent_e2e::require_or_return;
use tuneagent_e2e::wait::{SOON, wait_until};
use tuner::FileOffset;

/// Works, starts children that work (every second one after exec), and ends when they have ended. With a
/// third argument the first thread ends at once and another thread works.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long sink;
static long calls;
__attribute__((noinline)) void work(void) { sink++; }
static void works(void) { for (long i = 0; i < calls; i++) work(); }
static void *late(void *unused) { usleep(20000); works(); exit(0); return unused; }
int main(int argc, char **argv) {
    calls = atol(argv[1]);
    long children = atol(argv[2]);
    if (argc > 3) {
        pthread_t thread;
        pthread_create(&thread, 0, late, 0);
        pthread_exit(0);
    }
    works();
    for (long i = 0; i < children; i++)
        if (fork() == 0) {
            if (i % 2) execl(argv[0], argv[0], argv[1], "0", (char *)0);
            works();
            _exit(0);
        }
    while (wait(0) > 0) ;
    return 0;
}
"#;

/// A user id that no machine assigns.
const ANA: u32 = 54_321;

fn program(directory: &Path) -> PathBuf {
    let (source, path) = (directory.join("target.c"), directory.join("target"));
    std::fs::write(&source, PROGRAM).unwrap();
    let built = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .args([&path, &source])
        .status();
    assert!(built.unwrap().success());
    path
}

/// Starts a shell that waits for a line and then executes the program.
fn waiting(uid: u32, program: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new("setpriv");
    command.args([
        &format!("--reuid={uid}"),
        &format!("--regid={uid}"),
        "--clear-groups",
    ]);
    command
        .args(["sh", "-c", r#"read go; exec "$0" "$@""#])
        .arg(program)
        .args(arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Until the exec of the shell, the process would still have another exec to do.
    let is_shell = || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
        name.trim() == "sh"
    };
    wait_until("the exec of the shell", SOON, || Ok(is_shell())).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    child
}

fn go(mut child: Child) {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(child.wait().unwrap().success());
}

/// Probes `work` in every process.
fn armed(program: &Path, pid: u32, user: u32, processes: u32) -> (Kernel, Vec<Link>) {
    let options = LoadOptions {
        processes,
        ..LoadOptions::ONE_PROBE
    };
    let root = FamilyRoot { pid, user, rights: 0 };
    let mut kernel = Kernel::load_for(options, root).unwrap();
    let flags = SpecFlags::SPAN;
    kernel
        .set_spec(
            0,
            ProbeSpec {
                flags,
                ..ProbeSpec::default()
            },
        )
        .unwrap();
    let image = tuner::Image::read(std::fs::File::open(program).unwrap()).unwrap();
    let function = image.functions(&["work"]).unwrap().remove(0);
    let returns = tuner::returns(&image, &function).unwrap().instructions;
    let attach = |at, offsets: &[FileOffset]| {
        let site = |offset: &FileOffset| ProbeSite::new(offset.0, 0);
        let request = LinkRequest::new(program.to_owned(), offsets.iter().map(site).collect(), at, None);
        kernel.attach(&request).unwrap()
    };
    let links = vec![
        attach(CallMoment::EXIT, &returns),
        attach(CallMoment::Entry, &[function.offset]),
    ];
    (kernel, links)
}

fn family_events(kernel: &mut Kernel) -> Vec<FamilyEvent> {
    let mut ring = kernel.take_family_events().unwrap();
    std::iter::from_fn(|| ring.take().map(|item| read_family_event(item).unwrap())).collect()
}

fn slots(family_events: &[FamilyEvent], kind: FamilyEventKind) -> Vec<u32> {
    let of_kind = family_events.iter().filter(|event| event.kind == kind as u32);
    let mut slots: Vec<u32> = of_kind.map(|event| event.slot).collect();
    slots.sort_unstable();
    slots
}

fn calls(kernel: &Kernel, slot: u32) -> (u64, u64) {
    let totals = kernel.totals(slot).unwrap()[0];
    (totals.calls, totals.timed)
}

#[test]
fn a_command_and_all_that_it_starts_are_counted_from_their_first_calls_on() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    let child = waiting(0, &program, &["5", "9"]);
    let pid = child.id();
    let (mut kernel, _links) = armed(&program, pid, 0, 32);
    go(child);
    let family_events = family_events(&mut kernel);
    let all: Vec<u32> = (0..10).collect();
    assert_eq!(
        slots(&family_events, FamilyEventKind::Came),
        all,
        "{family_events:?}"
    );
    assert_eq!(
        slots(&family_events, FamilyEventKind::Went),
        all,
        "{family_events:?}"
    );
    assert_eq!((family_events[0].pid, family_events[0].slot), (pid, 0));
    assert!(
        family_events
            .iter()
            .all(|event| event.name.starts_with(b"target\0")),
        "{family_events:?}"
    );
    // A process that works before its exec keeps its slot. Children that only exec have not worked before.
    for slot in all {
        assert_eq!(calls(&kernel, slot), (5, 5), "slot {slot}");
    }
    let state = kernel.family_state().unwrap();
    assert_eq!((state.without_slot, state.privileged), (0, 0));
    // The command, and every second child.
    assert_eq!(state.execs, 1 + 4);
    assert!(kernel.losses().iter().all(|(_, count)| *count == 0));
}

#[test]
fn no_other_process_of_the_same_file_is_counted() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    let child = waiting(0, &program, &["3", "0"]);
    let (mut kernel, _links) = armed(&program, child.id(), 0, 8);
    let stranger = || Command::new(&program).args(["1000", "3"]).status().unwrap();
    assert!(stranger().success());
    go(child);
    assert!(stranger().success());
    assert_eq!(slots(&family_events(&mut kernel), FamilyEventKind::Came), [0]);
    assert_eq!(calls(&kernel, 0), (3, 3));
    assert_eq!(calls(&kernel, 1), (0, 0));
}

#[test]
fn a_process_without_its_first_thread_is_still_a_member() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    let child = waiting(0, &program, &["6", "0", "late"]);
    let (mut kernel, _links) = armed(&program, child.id(), 0, 8);
    go(child);
    let family_events = family_events(&mut kernel);
    assert_eq!(slots(&family_events, FamilyEventKind::Came), [0]);
    assert_eq!(slots(&family_events, FamilyEventKind::Went), [0]);
    assert_eq!(calls(&kernel, 0), (6, 6));
}

#[test]
fn processes_beyond_the_room_are_counted_as_such() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    let child = waiting(0, &program, &["2", "6"]);
    let (mut kernel, _links) = armed(&program, child.id(), 0, 3);
    go(child);
    assert_eq!(
        slots(&family_events(&mut kernel), FamilyEventKind::Came),
        [0, 1, 2]
    );
    for slot in 0..3 {
        assert_eq!(calls(&kernel, slot), (2, 2));
    }
    assert_eq!(kernel.family_state().unwrap().without_slot, 4);
}

#[test]
fn a_process_that_the_agent_gives_its_slot_keeps_it_and_its_end_is_reported() {
    require_or_return!(Root);
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    let child = waiting(0, &program, &["4", "1"]);
    let pid = child.id();
    let (mut kernel, _links) = armed(&program, pid, 0, 8);
    assert_eq!(kernel.admit(pid).unwrap(), Some(0));
    assert_eq!(kernel.admit(pid).unwrap(), Some(0), "the same again");
    go(child);
    let family_events = family_events(&mut kernel);
    assert_eq!(
        slots(&family_events, FamilyEventKind::Came),
        [1],
        "{family_events:?}"
    );
    assert_eq!(
        slots(&family_events, FamilyEventKind::Went),
        [0, 1],
        "{family_events:?}"
    );
    assert_eq!((calls(&kernel, 0), calls(&kernel, 1)), ((4, 4), (4, 4)));
}

#[test]
fn a_program_with_more_rights_than_the_command_is_no_member() {
    require_or_return!(Root);
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), all.clone()).unwrap();
    let program = program(directory.path());
    std::fs::set_permissions(&program, all).unwrap();
    let child = waiting(ANA, &program, &["4", "2"]);
    let (mut kernel, links) = armed(&program, child.id(), ANA, 8);
    go(child);
    assert_eq!(
        slots(&family_events(&mut kernel), FamilyEventKind::Came),
        [0, 1, 2]
    );
    assert_eq!(kernel.family_state().unwrap().privileged, 0);
    drop((kernel, links));

    // A set-uid program of root, which has root's rights.
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let child = waiting(ANA, &program, &["4", "2"]);
    let (mut kernel, _links) = armed(&program, child.id(), ANA, 8);
    go(child);
    assert_eq!(slots(&family_events(&mut kernel), FamilyEventKind::Came), [0; 0]);
    assert_eq!(kernel.family_state().unwrap().privileged, 1);
    assert_eq!(calls(&kernel, 0), (0, 0));
}
