//! Tests that need no program: the kernel, our rights, probes in no process, a child process.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use plan::{Value, ValueType};
use probe::kernel::{
    self, CallMoment, Kernel, KernelError, LinkChoice, LinkKind, LinkRequest, LoadOptions, ProbeSite,
};
use profile::error::ErrorText;
use rustix::process::{getpid, getpriority_process};
use tuner::journal::StateDir;
use tuner::{
    Address, AddressSpace, Author, Hooks, Images, Process, SetRequest, VariableName, WritablePlace, Writer,
    parse_maps,
};

use super::{super::history, Check, CheckResult, versions};
use crate::rights::{self, Need};

/// Inode numbers of the initial namespaces (include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

pub(super) fn checks() -> Vec<Check> {
    let loaded = Kernel::load(LoadOptions::ONE_PROBE);
    let mut checks = vec![
        kernel_version(loaded.as_ref().ok().map(Kernel::link_kind)),
        capabilities(),
        bpf(loaded.as_ref()),
        ring_buffer(),
        attach_to_ourselves("probes", LinkChoice::Best),
        attach_to_ourselves("tracefs fallback", LinkChoice::Tracefs),
    ];
    checks.extend(match Testee::start() {
        Ok(_) => [reading(), writing(), holding()],
        // In an image or a folder with nothing but our program.
        Err(error) => ["reading memory", "writing memory", "sync points"].map(|name| {
            Check::lacks(
                name,
                format!("not tested: `cat`, a process to test on, cannot be started: {error}"),
            )
        }),
    });
    checks.extend([priority(), lockdown(), yama(), namespaces(), journal()]);
    checks
}

fn kernel_version(found: Option<LinkKind>) -> Check {
    match kernel::release() {
        Ok(release) => versions::version_says(&release, found),
        Err(error) => Check::lacks("kernel", format!("its version cannot be read: {error}")),
    }
}

fn capabilities() -> Check {
    let name = "capabilities";
    let missing: Vec<_> = rights::capabilities()
        .iter()
        .filter(|row| !rights::held(row))
        .collect();
    let lines = missing
        .iter()
        .map(|row| format!("{} is missing: to {}", row.name, row.purpose));
    let text = lines.collect::<Vec<_>>().join("\n");
    if missing.is_empty() {
        Check::works(name, "all that watching and changing need")
    } else if missing.iter().any(|row| row.need == Need::Probing) {
        match rustix::process::geteuid().is_root() {
            false => Check::fails(name, text).by(rights::give_command()),
            true => Check::fails(
                name,
                format!(
                    "{text}\n(root lacks it here: a container has what it was started with, docker run --cap-add)"
                ),
            ),
        }
    } else if rights::is_lent() {
        Check::works(
            name,
            format!("{text}\n(those of the file are lent for your own programs, which do without)"),
        )
    } else {
        Check::lacks(name, text).with_rights()
    }
}

fn bpf(loaded: Result<&Kernel, &KernelError>) -> Check {
    let name = "BPF programs";
    match loaded {
        Ok(kernel) => match kernel.link_kind() {
            LinkKind::UprobeMulti { by_process: true } => {
                Check::works(name, "loaded; uprobe_multi links, limited to a process")
            }
            LinkKind::UprobeMulti { by_process: false } => Check::works(name, "loaded; uprobe_multi links"),
            LinkKind::Tracefs => tracefs(name, kernel::perf_wants_admin()),
        },
        Err(error) => Check::failed(name, error).with_rights(),
    }
}

fn tracefs(name: &'static str, paranoia: Option<i32>) -> Check {
    let text = "loaded; a tracefs event for each library";
    match paranoia {
        None => Check::works(name, text),
        Some(level) => Check::lacks(
            name,
            format!(
                "{text}; kernel.perf_event_paranoid is {level}, at which this kernel wants CAP_SYS_ADMIN for each of them, and a\n\
                 session gives that up when it has begun: no changes at a place in the program (rules with `at`, set --at)"
            ),
        )
        .by(Some(kernel::lower_paranoia())),
    }
}

fn ring_buffer() -> Check {
    let name = "ring buffer";
    match Kernel::load(LoadOptions::ONE_PROBE).and_then(|mut kernel| kernel.take_hits()) {
        Ok(_) => Check::works(name, "mapped; hits can be received"),
        Err(error) => Check::failed(name, &error).with_rights(),
    }
}

/// The offset of a function of this module in our file. Found by its address, because the released program
/// has no symbols.
fn own_offset() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/maps").ok()?;
    let address = Address(own_offset as fn() -> Option<u64> as usize as u64);
    let mappings = parse_maps(&text).ok()?;
    let mapping = mappings.iter().find(|mapping| mapping.contains(address, 1))?;
    Some(address.0 - mapping.start.0 + mapping.offset.0)
}

/// Attaches to a function of our own file, and detaches.
fn attach_to_ourselves(name: &'static str, links: LinkChoice) -> Check {
    let attached = (|| -> CheckResult<()> {
        let site = ProbeSite::new(own_offset().ok_or("our own code was not found in our file")?, 0);
        let kernel = Kernel::load(LoadOptions {
            links,
            ..LoadOptions::ONE_PROBE
        })?;
        let path = fs::read_link("/proc/self/exe")?;
        let request = LinkRequest::new(path, vec![site], CallMoment::Entry, None);
        kernel.attach(&request)?;
        Ok(())
    })();
    match attached {
        Ok(()) => Check::works(name, "attached to a function and detached"),
        Err(error) if links == LinkChoice::Tracefs => Check::lacks(name, ErrorText::of(&*error).to_string()),
        Err(error) => Check::failed(name, &*error).with_rights(),
    }
}

/// A child process that waits for the end of its input.
struct Testee(Child);

impl Testee {
    fn start() -> io::Result<Testee> {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // Its echo shows that it has started.
        let mut echo = [0];
        let input = child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(b"x")?;
        let output = child.stdout.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        output.read_exact(&mut echo)?;
        Ok(Testee(child))
    }

    fn space(&self, images: &Images) -> CheckResult<AddressSpace> {
        let process = Process::open(self.0.id().cast_signed())?;
        Ok(AddressSpace::read(&process, images)?)
    }
}

impl Drop for Testee {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Reads the memory of a child process.
fn reading() -> Check {
    let read = || -> CheckResult<()> {
        let testee = Testee::start()?;
        let space = testee.space(&Images::new())?;
        let start = space.maps.first().ok_or("nothing is mapped in it")?.start;
        Ok(space.memory().read(start, &mut [0])?)
    };
    match read() {
        Ok(()) => Check::works("reading memory", "another process's memory can be read"),
        Err(error) => Check::failed("reading memory", &*error).with_rights(),
    }
}

/// A variable of the C library that a program does not read any more once it has parsed its options.
const UNUSED: &str = "optopt";

/// Writes a variable of a child process and reverts it, with a separate journal.
fn writing() -> Check {
    let folder = std::env::temp_dir().join(format!("tuneagent-doctor-{}", std::process::id()));
    let written = write_into_child(&folder);
    // The folder contains the journal of a process that has ended.
    let _ = fs::remove_dir_all(&folder);
    match written {
        Ok(mechanism) => Check::works(
            "writing memory",
            format!("written, read back, reverted ({mechanism})"),
        ),
        Err(error) => Check::failed("writing memory", &*error).with_rights(),
    }
}

fn write_into_child(folder: &Path) -> CheckResult<&'static str> {
    let testee = Testee::start()?;
    let images = Arc::new(Images::new());
    let space = testee.space(&images)?;
    let location = space.variable(&VariableName::from(UNUSED))?;
    let slot = WritablePlace::validate(&location, Some(ValueType::I32))?;
    let state = StateDir::at(folder);
    let mut writer = Writer::open(space.process, &state, Author::current(), images, Hooks::default())?;
    let request = SetRequest {
        value: Value::I32(4711),
        expect_old: None,
        why: vec!["tuneagent doctor".to_owned()],
        rule: None,
    };
    let receipt = writer.set(&slot, request)?;
    if let Some(change) = receipt.change {
        writer.revert(change)?;
    }
    Ok("a plain write")
}

/// Holds a child process at a sync point, and stops it there.
fn holding() -> Check {
    let name = "sync points";
    let folder = std::env::temp_dir().join(format!("tuneagent-doctor-{}-sync", std::process::id()));
    let held = Testee::start().map_err(Into::into).and_then(|mut testee| {
        let pid = testee.space(&Images::new())?.process.pid;
        super::holding::try_on(&mut testee.0, pid, UNUSED, &folder)
    });
    // The folder contains the journal of a process that has ended.
    let _ = fs::remove_dir_all(&folder);
    match held {
        Ok(text) => Check::works(name, format!("a change at the entry of a function\n{text}")),
        Err(error) => Check::lacks(
            name,
            format!(
                "rules that change a program at a function's entry or return cannot act: {}",
                ErrorText::of(&*error)
            ),
        )
        .with_rights(),
    }
}

fn priority() -> Check {
    let before = getpriority_process(Some(getpid())).unwrap_or(0);
    match crate::priority::raise() {
        Ok(()) => {
            let now = getpriority_process(Some(getpid())).unwrap_or(before);
            Check::works(
                "priority",
                format!("a session runs at nice {now}, so that busy ranks do not starve it"),
            )
        }
        Err(error) => Check::lacks(
            "priority",
            format!("a session runs at nice {before} and may be starved by busy ranks: {error}"),
        )
        .by(rights::give_command()),
    }
}

fn lockdown() -> Check {
    let state = fs::read_to_string("/sys/kernel/security/lockdown");
    versions::lockdown_says(state.as_deref().ok())
}

fn yama() -> Check {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let may_trace = rights::capabilities()
        .iter()
        .any(|row| row.name == "CAP_SYS_PTRACE" && rights::held(row));
    yama_says(scope.as_deref().ok().map(str::trim), may_trace)
}

/// The effect of a scope for a user with or without CAP_SYS_PTRACE (Documentation/admin-guide/LSM/Yama.rst).
fn yama_says(scope: Option<&str>, may_trace: bool) -> Check {
    let relax = job::as_root("sysctl kernel.yama.ptrace_scope=0");
    match scope {
        None => Check::works("Yama", "no restriction: not built into this kernel"),
        Some("0") => Check::works("Yama", "scope 0: your own processes can be inspected"),
        Some("3") => Check::fails(
            "Yama",
            "scope 3: no process may inspect another one until the next boot",
        ),
        Some(scope) if may_trace => {
            Check::works("Yama", format!("scope {scope}, which CAP_SYS_PTRACE passes"))
        }
        Some("1") => Check::lacks(
            "Yama",
            "scope 1: without CAP_SYS_PTRACE only a parent may inspect a process",
        )
        .by(relax),
        Some(scope) => Check::lacks(
            "Yama",
            format!("scope {scope}: only CAP_SYS_PTRACE may inspect a process"),
        )
        .by(relax),
    }
}

fn namespaces() -> Check {
    let of = |kind: &str| {
        fs::read_link(Path::new("/proc/self/ns").join(kind)).map(|link| link.to_string_lossy().into_owned())
    };
    let is_elsewhere = |kind: &str, initial: &str| of(kind).is_ok_and(|found| found != initial);
    if is_elsewhere("user", INITIAL_USER_NAMESPACE) {
        return Check::lacks(
            "namespaces",
            "in a user namespace (rootless container): its capabilities do not count for the kernel's BPF; start tuneagent on \
             the host",
        );
    }
    if is_elsewhere("pid", INITIAL_PID_NAMESPACE) {
        return Check::lacks(
            "namespaces",
            "in a process namespace (container): programs outside of it are not seen; start tuneagent on the host for them",
        );
    }
    Check::works("namespaces", "the machine's own")
}

fn journal() -> Check {
    let name = "journal";
    let directory = match StateDir::usual() {
        Ok(directory) => directory,
        Err(error) => {
            return Check::failed(name, &error).by("export TUNEAGENT_STATE_DIR=$HOME/.tuneagent".to_owned());
        }
    };
    let path = directory.path();
    match history::not_writable(path) {
        None => room(path, history::there(path)),
        Some(why) => Check::lacks(name, why).by(history::command_of_own_folder()),
    }
}

fn room(path: &Path, there: &Path) -> Check {
    let free = rustix::fs::statvfs(there).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    match free {
        Ok(free) if free < 1 << 20 => Check::lacks(
            "journal",
            format!("{} is on a full disk: nothing can be changed", path.display()),
        )
        .by(history::command_of_own_folder()),
        _ => Check::works("journal", format!("kept in {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn every_scope_of_yama_is_shown_with_what_would_change_it() {
        let said = |scope, may_trace| {
            let check = yama_says(scope, may_trace);
            (check.status, check.command.is_some())
        };
        assert_eq!(said(None, false), (Status::Works, false));
        assert_eq!(said(Some("0"), false), (Status::Works, false));
        assert_eq!(said(Some("1"), false), (Status::Lacks, true));
        assert_eq!(said(Some("1"), true), (Status::Works, false));
        assert_eq!(said(Some("2"), false), (Status::Lacks, true));
        assert_eq!(said(Some("3"), true), (Status::Fails, false));
    }

    #[test]
    fn where_perf_wants_all_rights_the_page_shows_what_will_not_work_and_what_would_change_it() {
        assert_eq!(tracefs("BPF programs", None).command, None);
        let check = tracefs("BPF programs", Some(3));
        assert!(
            check.text.contains("kernel.perf_event_paranoid is 3"),
            "{}",
            check.text
        );
        assert_eq!(check.command, Some(kernel::lower_paranoia()));
    }
}
