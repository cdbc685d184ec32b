//! Attaches all places of one file with one `uprobe_multi` link or, on kernels without it (before 6.6), with
//! one tracefs event. Dropping the link detaches it; the kernel does so if the agent dies.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

#[cfg(doc)]
use abi::ExitSite;
use aya_obj::generated::bpf_insn;
use serde::{Deserialize, Serialize};
use tuner::Emulation;

use super::{fallback::TracefsLink, sys};

/// A place in a file to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProbeSite {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Index of the probe's spec.
    pub probe: u32,
    /// File offset of a counter that the kernel keeps above 0 while the place is probed; 0 if absent.
    pub semaphore: u64,
    /// For an instruction by which a function is left, its bits of [`ExitSite`]; 0 is a return instruction.
    pub exit: u64,
}

impl ProbeSite {
    /// A site without a semaphore, at an entry or a return instruction.
    pub fn new(offset: u64, probe: u32) -> ProbeSite {
        ProbeSite {
            offset,
            probe,
            semaphore: 0,
            exit: 0,
        }
    }
}

/// The moment of a call that a site marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CallMoment {
    /// The function is entered: one of its first instructions, with arguments and stack unchanged since the
    /// very first one.
    Entry,
    /// An instruction by which the function is left. (The kernel can also replace the return address on the
    /// program's stack. That ends programs in which exceptions, longjmp, cancelled threads or fibers leave
    /// the function another way, so we have no program for it.)
    Exit {
        /// Other functions may share it; the stack pointer shows which call ends there.
        is_shared: bool,
    },
}

impl CallMoment {
    /// An instruction of the function itself.
    pub const EXIT: CallMoment = CallMoment::Exit { is_shared: false };

    fn cookie(self, site: &ProbeSite) -> u64 {
        let probe = u64::from(site.probe) + 1;
        match self {
            CallMoment::Entry => probe,
            CallMoment::Exit { is_shared: true } => site.exit,
            CallMoment::Exit { is_shared: false } => probe | site.exit,
        }
    }
}

#[derive(Clone, Debug)]
pub struct LinkRequest {
    /// Path of the file as the agent sees it.
    pub path: PathBuf,
    pub sites: Vec<ProbeSite>,
    pub at: CallMoment,
    /// Limits the link to this process; `None`: every process that maps the file.
    pub pid: Option<u32>,
}

impl LinkRequest {
    pub fn new(path: PathBuf, sites: Vec<ProbeSite>, at: CallMoment, pid: Option<u32>) -> LinkRequest {
        LinkRequest { path, sites, at, pid }
    }
}

/// Which kind of links is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkChoice {
    /// The best that the kernel has.
    #[default]
    Best,
    /// Events of tracefs even when the kernel has better.
    Tracefs,
}

impl LinkChoice {
    pub const ALL: [LinkChoice; 2] = [LinkChoice::Best, LinkChoice::Tracefs];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// One link, with cookies. `by_process`: the kernel can limit a link to one process (since 6.10).
    UprobeMulti {
        /// Other processes pay nothing.
        by_process: bool,
    },
    /// One tracefs event; probes are identified by their address.
    Tracefs,
}

#[derive(Debug)]
pub enum Link {
    Multi(OwnedFd),
    Tracefs(TracefsLink),
}

impl Link {
    /// All descriptors that keep it attached. With its event they suffice to detach it elsewhere.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (multi, event) = match self {
            Link::Multi(link) => (Some(link.as_fd()), None),
            Link::Tracefs(link) => (None, Some(link.descriptors())),
        };
        multi.into_iter().chain(event.into_iter().flatten())
    }

    /// The name of its tracefs event; empty if it has none.
    pub(super) fn event(&self) -> &str {
        match self {
            Link::Multi(_) => "",
            Link::Tracefs(link) => link.name(),
        }
    }

    /// Closes the descriptors only: another process has the same ones and detaches the link.
    pub(super) fn hand_over(self) {
        if let Link::Tracefs(link) = self {
            link.hand_over();
        }
    }

    /// Reconstructs a link that another process has handed over; `None` if descriptors are missing.
    pub(super) fn received(event: &str, descriptors: Vec<OwnedFd>) -> Option<Link> {
        match event {
            "" => descriptors.into_iter().next().map(Link::Multi),
            name => TracefsLink::received(name, descriptors).map(Link::Tracefs),
        }
    }
}

pub(super) fn attach(kind: LinkKind, program: BorrowedFd<'_>, request: &LinkRequest) -> io::Result<Link> {
    match kind {
        LinkKind::UprobeMulti { by_process } => {
            let path = CString::new(request.path.as_os_str().as_bytes())?;
            let mut sites: Vec<&ProbeSite> = request.sites.iter().collect();
            if request.at == (CallMoment::Exit { is_shared: true }) {
                sites.sort_by_key(|site| (site.offset, site.exit));
                sites.dedup_by_key(|site| (site.offset, site.exit));
            }
            let offsets: Vec<u64> = sites.iter().map(|site| site.offset).collect();
            let cookies: Vec<u64> = sites.iter().map(|site| request.at.cookie(site)).collect();
            let pid = request.pid.filter(|_| by_process).unwrap_or(0);
            let semaphores: Vec<u64> = sites.iter().map(|site| site.semaphore).collect();
            let places = sys::Places {
                offsets: &offsets,
                cookies: &cookies,
                semaphores: &semaphores,
            };
            sys::link_uprobe_multi(program, &path, places, pid).map(Link::Multi)
        }
        LinkKind::Tracefs => TracefsLink::attach(program, request, None).map(Link::Tracefs),
    }
}

/// As [`attach`], for the sites of one probe: the program gets its cookie on every kernel that supports
/// cookies (5.15).
pub(super) fn attach_one(kind: LinkKind, program: BorrowedFd<'_>, request: &LinkRequest) -> io::Result<Link> {
    let cookie = request.sites.first().map(|site| u64::from(site.probe) + 1);
    match kind {
        LinkKind::UprobeMulti { .. } => attach(kind, program, request),
        LinkKind::Tracefs => TracefsLink::attach(program, request, cookie).map(Link::Tracefs),
    }
}

/// The attach type with which programs are loaded for a kind of link.
pub(super) fn attach_type(kind: LinkKind) -> u32 {
    match kind {
        LinkKind::UprobeMulti { .. } => sys::BPF_TRACE_UPROBE_MULTI,
        LinkKind::Tracefs => 0,
    }
}

/// The kind of links that this kernel supports, determined with the smallest possible program. A kernel
/// without `uprobe_multi` may refuse its attach type, or accept it and refuse the link.
pub(super) fn kind(choice: LinkChoice) -> LinkKind {
    if choice == LinkChoice::Tracefs {
        return LinkKind::Tracefs;
    }
    load_nothing(sys::BPF_TRACE_UPROBE_MULTI).map_or(LinkKind::Tracefs, |program| probe_kind(program.as_fd()))
}

/// Whether probes are attached by writing to files.
pub(super) fn attaches_by_files(choice: LinkChoice) -> bool {
    matches!(kind(choice), LinkKind::Tracefs)
}

/// A program that does nothing: measures the cost of a hit without the cost of a program.
pub struct Nothing {
    program: OwnedFd,
    kind: LinkKind,
}

impl Nothing {
    /// Loads it for the links of this kernel.
    pub fn load() -> io::Result<Nothing> {
        let kind = kind(LinkChoice::Best);
        let program = load_nothing(attach_type(kind)).map_err(|(error, _)| error)?;
        Ok(Nothing { program, kind })
    }

    pub fn attach(&self, request: &LinkRequest) -> io::Result<Link> {
        attach(self.kind, self.program.as_fd(), request)
    }
}

impl AsFd for Nothing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

fn load_nothing(attach_type: u32) -> Result<OwnedFd, (io::Error, String)> {
    sys::load_program(&sys::ProgramInput {
        instructions: &nothing(),
        license: c"Dual MIT/GPL",
        name: "nothing",
        kind: sys::BPF_PROG_TYPE_KPROBE,
        attach_type,
        types: None,
    })
}

/// The instructions of `return 0`.
fn nothing() -> [bpf_insn; 2] {
    const MOVE_NUMBER: u8 = 0xb7;
    const EXIT: u8 = 0x95;
    [MOVE_NUMBER, EXIT].map(|code| bpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: bpf_insn::new_bitfield_1(0, 0),
        off: 0,
        imm: 0,
    })
}

/// Tries to attach to a directory, which always fails: a kernel that knows the link refuses the file, one
/// that does not (before 6.6) refuses the complete request. An impossible process is refused first by kernels
/// that filter by process (since 6.10); others take it for "any".
fn probe_kind(program: BorrowedFd<'_>) -> LinkKind {
    const NO_PROCESS: u32 = u32::MAX;
    let refusal = |pid| {
        let attempt = sys::link_uprobe_multi(program, c"/", sys::Places::ONE, pid);
        attempt.err().and_then(|error| error.raw_os_error())
    };
    match (refusal(0), refusal(NO_PROCESS)) {
        (Some(libc::EBADF), by_process) => LinkKind::UprobeMulti {
            by_process: by_process == Some(libc::EINVAL),
        },
        _ => LinkKind::Tracefs,
    }
}

/// The instructions that this kernel emulates at a probe, beyond those that all kernels do. Emulation of long
/// nops came with the system call by which the kernel replaces them with calls.
pub fn emulation() -> Emulation {
    Emulation {
        long_nops: sys::has_uprobe_call(),
    }
}

#[cfg(test)]
mod tests {
    use abi::ExitSite;

    const CARRY: u64 = 1;
    const PARITY: u64 = 1 << 2;
    const ZERO: u64 = 1 << 6;
    const SIGN: u64 = 1 << 7;
    const OVERFLOW: u64 = 1 << 11;

    #[test]
    fn a_conditional_jump_ends_a_call_as_the_processor_decides() {
        // By the processor's numbers of conditions: flags with which it jumps, and with which it does not.
        for (condition, jumps, goes_on) in [
            (0, OVERFLOW, 0),
            (2, CARRY, ZERO),
            (4, ZERO, SIGN),
            (6, CARRY, SIGN),
            (6, ZERO, 0),
            (8, SIGN, ZERO),
            (10, PARITY, 0),
            (12, SIGN, SIGN | OVERFLOW),
            (12, OVERFLOW, 0),
            (14, ZERO | SIGN | OVERFLOW, SIGN | OVERFLOW),
            (14, SIGN, 0),
        ] {
            for (number, taken, flags) in [
                (condition, true, jumps),
                (condition, false, goes_on),
                (condition + 1, false, jumps),
                (condition + 1, true, goes_on),
            ] {
                let cookie = |is_taken| 7 | ExitSite::bits(40, Some((number, is_taken)));
                assert!(ExitSite::is_exit(cookie(taken), flags), "{number} {flags:b}");
                assert!(!ExitSite::is_exit(cookie(!taken), flags), "{number} {flags:b}");
                assert_eq!((cookie(taken) as u32, ExitSite::depth(cookie(taken))), (7, 40));
            }
        }
        let always = 7 | ExitSite::bits(0xffff, None);
        assert!(ExitSite::is_exit(always, 0) && ExitSite::is_exit(always, u64::MAX));
        assert_eq!(ExitSite::depth(always), 0xffff);
        assert!(ExitSite::is_exit(0, 0) && ExitSite::depth(0) == 0);
    }
}
