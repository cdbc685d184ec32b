//! Probes for kernels without `uprobe_multi`: one tracefs event that contains all places of one file. (One
//! perf event for each place would need a grace period each to close: 95 s for 400.) The event has no
//! cookies, so the kernel side identifies its probes by address.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use job::as_root;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::{links::LinkRequest, sys};

const GROUP: &str = "tuneagent";

/// The command that lets the kernel accept probes without CAP_SYS_ADMIN, which all our processes give up.
pub fn lower_paranoia() -> String {
    as_root("sysctl kernel.perf_event_paranoid=2")
}

/// Debian's kernels have a third level of perf_event_paranoid, their default, which requires CAP_SYS_ADMIN
/// even with CAP_PERFMON. Returns the level if it is that one.
pub fn perf_wants_admin() -> Option<i32> {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    level.trim().parse().ok().filter(|level| *level > 2)
}

fn explained(error: io::Error) -> io::Error {
    match perf_wants_admin() {
        Some(level) if error.kind() == io::ErrorKind::PermissionDenied => io::Error::new(
            error.kind(),
            format!(
                "{error}: kernel.perf_event_paranoid is {level}, and CAP_PERFMON is not enough then on this kernel; \
                 {}",
                lower_paranoia()
            ),
        ),
        _ => error,
    }
}

/// An event of tracefs with a program attached. Dropping it detaches and removes the event.
#[derive(Debug)]
pub struct TracefsLink {
    event: Option<(OwnedFd, Option<OwnedFd>)>,
    name: String,
    root: Tracefs,
    /// Another process removes the event.
    is_handed_over: bool,
}

impl TracefsLink {
    /// The program gets `cookie` at every hit; an event has one cookie at most.
    pub(super) fn attach(
        program: BorrowedFd<'_>,
        request: &LinkRequest,
        cookie: Option<u64>,
    ) -> io::Result<TracefsLink> {
        static SEQUENCE: AtomicU32 = AtomicU32::new(0);
        let number = SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let mut link = TracefsLink {
            event: None,
            name: format!("p{}_{number}", std::process::id()),
            root: Tracefs::open()?,
            is_handed_over: false,
        };
        let path = request.path.display();
        // From here on a failure drops `link`, which removes the definitions made so far. Functions may end
        // at the same instruction, but an event contains each place once.
        let mut defined = BTreeSet::new();
        for site in request.sites.iter().filter(|site| defined.insert(site.offset)) {
            let semaphore = match site.semaphore {
                0 => String::new(),
                semaphore => format!("({semaphore:#x})"),
            };
            let name = &link.name;
            link.command(&format!("p:{GROUP}/{name} {path}:{:#x}{semaphore}", site.offset))?;
        }
        let id = fs::read_to_string(
            link.root
                .path
                .join("events")
                .join(GROUP)
                .join(&link.name)
                .join("id"),
        )?;
        let id = id.trim().parse().map_err(io::Error::other)?;
        let cpu = online_cpu();
        link.event = Some(sys::attach_tracepoint(id, cpu, program, cookie).map_err(explained)?);
        Ok(link)
    }

    /// All descriptors that keep it attached, after the file of its definition.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (event, program) = match &self.event {
            Some((event, program)) => (Some(event), program.as_ref()),
            None => (None, None),
        };
        let definitions = std::iter::once(self.root.definitions.as_fd());
        definitions.chain(event.into_iter().chain(program).map(AsFd::as_fd))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Gives up the event: another process has the same descriptors and removes it.
    pub(super) fn hand_over(mut self) {
        self.is_handed_over = true;
    }

    /// Reconstructs a link that another process has handed over.
    pub(super) fn received(name: &str, descriptors: Vec<OwnedFd>) -> Option<TracefsLink> {
        let mut descriptors = descriptors.into_iter();
        let definitions = File::from(descriptors.next()?);
        Some(TracefsLink {
            event: descriptors.next().map(|event| (event, descriptors.next())),
            name: name.to_owned(),
            root: Tracefs {
                path: PathBuf::new(),
                definitions,
                _mount: None,
            },
            is_handed_over: false,
        })
    }

    fn command(&self, command: &str) -> io::Result<()> {
        // One write for each definition: tracefs parses each write separately.
        (&self.root.definitions).write_all(format!("{command}\n").as_bytes())
    }
}

impl Drop for TracefsLink {
    fn drop(&mut self) {
        self.event = None;
        if self.is_handed_over {
            return;
        }
        if let Err(error) = self.command(&format!("-:{GROUP}/{}", self.name)) {
            tracing::debug!(%error, event = self.name, "the event could not be removed");
        }
    }
}

/// A CPU that is online; CPU 0 need not be.
fn online_cpu() -> i32 {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    first_of(&list).unwrap_or_default()
}

/// The first CPU of a list such as `1-3,8`.
fn first_of(list: &str) -> Option<i32> {
    list.trim().split([',', '-']).next()?.parse().ok()
}

/// Location of tracefs: mounted by the system, otherwise by us, in a mount that no other process sees and
/// that ends with its descriptor.
#[derive(Debug)]
struct Tracefs {
    path: PathBuf,
    /// Opened for appending at the start: later the agent gives up the right to open files for writing.
    definitions: File,
    /// Our own mount, kept as long as the path is used.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    fn open() -> io::Result<Tracefs> {
        let mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
        if let Some(path) = mounted
            .into_iter()
            .find(|path| path.join("uprobe_events").exists())
        {
            return Tracefs::at(path, None);
        }
        let filesystem = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&filesystem)?;
        let mount = fsmount(
            &filesystem,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::empty(),
        )?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Tracefs::at(path, Some(mount))
    }

    fn at(path: PathBuf, mount: Option<OwnedFd>) -> io::Result<Tracefs> {
        let definitions = OpenOptions::new().append(true).open(path.join("uprobe_events"))?;
        Ok(Tracefs {
            path,
            definitions,
            _mount: mount,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{first_of, online_cpu};

    #[test]
    fn the_first_cpu_that_is_online_is_taken_whichever_that_is() {
        let firsts = ["0-3\n", "1-3,8\n", "2\n", "5,7-9", ""].map(first_of);
        assert_eq!(firsts, [Some(0), Some(1), Some(2), Some(5), None]);
        let offline = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{}/online", online_cpu()));
        // CPUs that cannot be taken offline have no such file.
        assert!(offline.map_or(true, |state| state.trim() == "1"));
    }
}
