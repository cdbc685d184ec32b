//! What the seccomp filters of a thread would do to system calls that it makes for us.
//!
//! A filter may kill the program at a system call that the program never makes by itself. So before a thread
//! works for us, its filters are read (PTRACE_SECCOMP_GET_FILTER) and evaluated for exactly the calls that
//! follow (`program`); none is made unless all are allowed. The system calls of a called function are
//! unknown: if a filter kills at any system call, no function is called unless the user permits it
//! explicitly. Filters that only make calls fail do no harm when functions are called.
//!
//! Reading filters requires CAP_SYS_ADMIN, a reader without filters of its own, and
//! CONFIG_CHECKPOINT_RESTORE. Filters that cannot be read are assumed to kill.

mod program;

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

pub(crate) use self::program::{FilterResult, Instruction, Program, SystemCall};
use crate::process::Pid;

/// More filters than a program has; the kernel permits 32768 instructions in all.
const FILTERS_MAX: usize = 1024;
/// System calls have lower numbers.
const NUMBERS: u32 = 512;

/// The filters of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filters {
    None,
    Known(Vec<Program>),
    /// Strict mode: any call but read, write, exit and rt_sigreturn kills.
    Strict,
    /// It has some, and they cannot be read.
    Unreadable(String),
}

impl Filters {
    /// The filters of a stopped thread; `read` returns a filter by its number, from 0.
    pub(crate) fn of(
        pid: Pid,
        tid: i32,
        read: impl Fn(usize) -> io::Result<Option<Vec<Instruction>>>,
    ) -> Filters {
        match mode(pid, tid) {
            Some(0) => return Filters::None,
            Some(1) => return Filters::Strict,
            Some(_) => {}
            None => return Filters::Unreadable("its state in /proc is unknown".to_owned()),
        }
        let _raised = Raised::admin();
        Filters::read(read)
    }

    fn read(read: impl Fn(usize) -> io::Result<Option<Vec<Instruction>>>) -> Filters {
        let mut known = Vec::new();
        while known.len() < FILTERS_MAX {
            match read(known.len()) {
                Ok(Some(instructions)) => known.push(Program(instructions)),
                Ok(None) if !known.is_empty() => return Filters::Known(known),
                Ok(None) => return Filters::Unreadable("the kernel shows none".to_owned()),
                Err(error) => return Filters::Unreadable(unreadable(&error)),
            }
        }
        Filters::Unreadable(format!("it has more than {FILTERS_MAX}"))
    }

    /// Their answer to a call; `None` if they cannot be read.
    fn answer(&self, call: &SystemCall) -> Option<FilterResult> {
        match self {
            Filters::None => Some(FilterResult::ALLOW),
            Filters::Known(programs) => {
                let answers = programs.iter().map(|program| program.answer(call));
                Some(answers.fold(FilterResult::ALLOW, FilterResult::and))
            }
            Filters::Strict | Filters::Unreadable(_) => None,
        }
    }

    /// Why one of the calls may not be made; `None` if all may.
    pub(crate) fn refuse(&self, calls: &[(&str, SystemCall)], despite: bool) -> Option<String> {
        match self {
            Filters::Strict => return Some(STRICT.to_owned()),
            Filters::Unreadable(_) if despite => return None,
            Filters::Unreadable(why) => return Some(unknown(why)),
            Filters::None | Filters::Known(_) => {}
        }
        calls.iter().find_map(|(name, call)| {
            let answer = self.answer(call).filter(|answer| !answer.allows())?;
            Some(format!(
                "its seccomp filter {answer} the system call {name}, which this needs"
            ))
        })
    }

    /// Why no function with unknown system calls may be called; `None` if one may.
    pub(crate) fn refuse_function(&self, function: &str, despite: bool) -> Option<String> {
        match self {
            Filters::None => None,
            Filters::Strict => Some(STRICT.to_owned()),
            _ if despite => None,
            Filters::Unreadable(why) => Some(unknown(why)),
            Filters::Known(_) => {
                let killing = (0..NUMBERS).find_map(|number| {
                    let answer = self.answer(&SystemCall::any(number))?;
                    answer.kills().then_some((number, answer))
                });
                killing.map(|(number, answer)| {
                    format!(
                        "its seccomp filter {answer} some system calls (number {number} is one), and which ones `{function}` makes is not \
                         known; --despite-seccomp of `call` and `patch` does it all the same"
                    )
                })
            }
        }
    }

    /// Whether they allow the call.
    pub(crate) fn allow(&self, call: &SystemCall) -> bool {
        self.answer(call).is_some_and(FilterResult::allows)
    }
}

const STRICT: &str = "it runs in strict seccomp mode, where any system call of ours would kill it";

fn unknown(why: &str) -> String {
    format!(
        "it has a seccomp filter that cannot be read ({why}): whether it would kill the program is not known; \
         --despite-seccomp of `call` and `patch` does it all the same"
    )
}

fn unreadable(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES) => {
            "that takes CAP_SYS_ADMIN, and no seccomp filter around tuneagent itself: run it as root, outside of the container".to_owned()
        }
        Some(libc::EINVAL) => "this kernel has no CONFIG_CHECKPOINT_RESTORE".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether a thread has filters or is in strict mode; true if unknown.
pub(crate) fn is_in_force(pid: Pid, tid: i32) -> bool {
    mode(pid, tid) != Some(0)
}

/// 0 without seccomp, 1 in strict mode, 2 with filters; `None` if unknown.
fn mode(pid: Pid, tid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(pid.proc_path(&format!("task/{tid}/status"))).ok()?;
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("Seccomp:")) else {
        // The kernel does not support seccomp.
        return Some(0);
    };
    line.trim().parse().ok()
}

/// Makes CAP_SYS_ADMIN effective for this thread, if it is permitted, until it is dropped.
struct Raised(Option<CapabilitySets>);

impl Raised {
    fn admin() -> Raised {
        let Ok(before) = capabilities(None) else {
            return Raised(None);
        };
        let admin = CapabilitySet::SYS_ADMIN;
        if before.effective.contains(admin) || !before.permitted.contains(admin) {
            return Raised(None);
        }
        let raised = CapabilitySets {
            effective: before.effective | admin,
            ..before
        };
        Raised(set_capabilities(None, raised).is_ok().then_some(before))
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = set_capabilities(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILL: u32 = 0x8000_0000;
    const FAIL: u32 = 0x0005_0001;
    const ALLOW: u32 = 0x7fff_0000;

    /// Allows these numbers, and answers `other` to all others.
    fn only(numbers: &[u32], other: u32) -> Program {
        let instruction = |code, jump_false, operand| Instruction {
            code,
            jump_true: 0,
            jump_false,
            operand,
        };
        let mut program = vec![instruction(0x20, 0, 0)];
        for number in numbers {
            program.extend([instruction(0x15, 1, *number), instruction(0x06, 0, ALLOW)]);
        }
        program.push(instruction(0x06, 0, other));
        Program(program)
    }

    fn everything() -> Vec<u32> {
        (0..NUMBERS).collect()
    }

    #[test]
    fn our_calls_are_made_only_where_all_filters_allow_them_all() {
        let calls = [("mmap", SystemCall::any(9)), ("munmap", SystemCall::any(11))];
        let both = only(&[9, 11], KILL);
        let one = only(&[9], FAIL);
        let table = [
            (Filters::None, None),
            (Filters::Known(vec![both.clone()]), None),
            (
                Filters::Known(vec![one.clone()]),
                Some("fails (errno 1) the system call munmap"),
            ),
            (Filters::Known(vec![both.clone(), one.clone()]), Some("munmap")),
            (Filters::Known(vec![one, both]), Some("munmap")),
            (
                Filters::Known(vec![only(&[1], KILL)]),
                Some("kills the program at the system call mmap"),
            ),
            (Filters::Strict, Some("strict")),
        ];
        for (filters, expected) in table {
            for despite in [false, true] {
                let why = filters.refuse(&calls, despite);
                match expected {
                    None => assert_eq!(why, None),
                    Some(part) => assert!(why.as_ref().is_some_and(|why| why.contains(part)), "{why:?}"),
                }
            }
        }
        let unreadable = Filters::Unreadable("why".to_owned());
        assert!(
            unreadable
                .refuse(&calls, false)
                .is_some_and(|why| why.contains("(why)"))
        );
        assert_eq!(unreadable.refuse(&calls, true), None);
    }

    #[test]
    fn a_function_is_called_where_no_filter_kills_and_else_by_hand_only() {
        let allowing = only(&everything(), KILL);
        let failing = only(&[9, 11], FAIL);
        let killing = only(&[9, 11], KILL);
        let table = [
            (Filters::None, false, false),
            (Filters::Known(vec![allowing.clone()]), false, false),
            (
                Filters::Known(vec![failing.clone(), allowing.clone()]),
                false,
                false,
            ),
            (Filters::Known(vec![failing, killing]), true, false),
            (Filters::Unreadable("why".to_owned()), true, false),
            (Filters::Strict, true, true),
        ];
        for (filters, refused, refused_despite) in table {
            assert_eq!(
                filters.refuse_function("f", false).is_some(),
                refused,
                "{filters:?}"
            );
            assert_eq!(
                filters.refuse_function("f", true).is_some(),
                refused_despite,
                "{filters:?}"
            );
        }
    }

    #[test]
    fn filters_are_read_until_the_kernel_has_no_more_and_what_cannot_be_is_said() {
        let one = only(&[9], KILL);
        let of = |count: usize, end: Option<i32>| {
            let one = one.clone();
            Filters::read(move |place| match (place < count, end) {
                (true, _) => Ok(Some(one.0.clone())),
                (false, Some(error)) => Err(io::Error::from_raw_os_error(error)),
                (false, None) => Ok(None),
            })
        };
        assert_eq!(of(2, None), Filters::Known(vec![one.clone(), one.clone()]));
        for (count, end, part) in [
            (0, None, "none"),
            (0, Some(libc::EACCES), "CAP_SYS_ADMIN"),
            (0, Some(libc::EINVAL), "CONFIG_CHECKPOINT_RESTORE"),
            (1, Some(libc::EMEDIUMTYPE), "medium type"),
            (FILTERS_MAX, None, "more than"),
        ] {
            match of(count, end) {
                Filters::Unreadable(why) => assert!(why.contains(part), "{why}"),
                filters => panic!("{filters:?}"),
            }
        }
    }
}
