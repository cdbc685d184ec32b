//! The service of a node, as systemd starts it, and what a test sees of it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};

use probe::kernel::{Kernel, LoadOptions, Service, ServiceError};
use rustix::{
    fs::Uid,
    thread::{set_thread_res_gid, set_thread_res_uid},
};
use tempfile::TempDir;
use tuneagent_e2e::{
    Outcome, family,
    knobs::{Running, User, follow, open_folder},
    line_program::LineProgram,
    lines::succeed,
    wait::{SOON, wait_for, wait_until},
};

use super::unit::values;

/// The user of the service: an id that no machine assigns.
const SERVICE: u32 = 54_323;

/// The capabilities that the unit gives it, by the names of setpriv.
fn capabilities() -> Vec<&'static str> {
    const NAMES: [(&str, &str); 2] = [("CAP_BPF", "bpf"), ("CAP_PERFMON", "perfmon")];
    let all = values("AmbientCapabilities");
    let names = all.iter().flat_map(|line| line.split_whitespace());
    let known = |name: &str| NAMES.into_iter().find(|(known, _)| *known == name);
    names
        .map(|name| known(name).expect("a capability of the service").1)
        .collect()
}

/// An entry of the journal, by field.
pub(crate) type Entry = BTreeMap<String, String>;

/// Datagrams that were sent to a socket.
struct Received(Arc<Mutex<Vec<Vec<u8>>>>);

impl Received {
    /// Receives at a path to which every user can send, until the test ends.
    fn at(path: &Path) -> Outcome<Received> {
        let socket = UnixDatagram::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        let all = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&all);
        std::thread::spawn(move || {
            let mut bytes = [0; 8192];
            while let Ok(count) = socket.recv(&mut bytes) {
                shared.lock().unwrap().push(bytes[..count].to_vec());
            }
        });
        Ok(Received(all))
    }

    fn all(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        all.iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

/// A running service, with the rights that its unit gives it. The test stands for systemd.
pub(crate) struct Node {
    process: Running,
    user: User,
    folder: TempDir,
    log: Received,
    reports: Received,
}

impl Node {
    /// Starts it with this policy; without one the defaults apply.
    pub(crate) fn start(policy: &str) -> Outcome<Node> {
        Node::start_under(&[], policy)
    }

    /// As [`Node::start`], by a command that starts it, such as strace.
    pub(crate) fn start_under(command: &[&str], policy: &str) -> Outcome<Node> {
        let folder = open_folder()?;
        let run = folder.path().join("run");
        fs::create_dir(&run)?;
        chown(&run, Some(SERVICE), Some(SERVICE))?;
        if !policy.is_empty() {
            fs::write(folder.path().join("policy.yaml"), policy)?;
        }
        let log = Received::at(&folder.path().join("journal"))?;
        let reports = Received::at(&folder.path().join("notify"))?;
        let user = User::new(SERVICE, &capabilities())?;
        let process = started(command, &user, folder.path())?;
        let node = Node {
            process,
            user,
            folder,
            log,
            reports,
        };
        node.reported("READY=1")?;
        Ok(node)
    }

    /// Starts it again in place of one that was killed.
    pub(crate) fn restart(&mut self) -> Outcome {
        self.reports.0.lock().unwrap().clear();
        self.process = started(&[], &self.user, self.folder.path())?;
        self.reported("READY=1")
    }

    /// Waits for a report to systemd.
    pub(crate) fn reported(&self, part: &str) -> Outcome {
        wait_until(part, SOON, || {
            Ok(self.reports.all().iter().any(|report| report.contains(part)))
        })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("run/node.sock")
    }

    pub(crate) fn policy(&self) -> PathBuf {
        self.folder.path().join("policy.yaml")
    }

    /// Signals the process of the service itself.
    pub(crate) fn signal(&self, name: &str) -> Outcome {
        let members = family::descendants(self.process.pid());
        let service = members
            .iter()
            .find(|member| member.has_word("serve") && !member.has_word("timeout"));
        let pid = service.ok_or("there is no service")?.pid.to_string();
        succeed(Command::new("kill").args(["-s", name, &pid])).map(drop)
    }

    /// Waits for its end, and returns what it printed.
    pub(crate) fn end(mut self) -> Outcome<String> {
        self.process.wait()?;
        Ok(self.process.lines.text())
    }

    /// The entries of the journal with these fields, once there is one.
    pub(crate) fn entries(&self, fields: &[(&str, &str)]) -> Outcome<Vec<Entry>> {
        wait_for(&format!("an entry with {fields:?}"), SOON, || {
            let all = self.log.all().into_iter().map(|text| entry(&text));
            let is_wanted = |entry: &Entry| {
                let has =
                    |(name, part): &(&str, &str)| entry.get(*name).is_some_and(|value| value.contains(part));
                fields.iter().all(has)
            };
            let found: Vec<Entry> = all.filter(is_wanted).collect();
            Ok((!found.is_empty()).then_some(found))
        })
    }

    /// A command of the agent as this user, who finds the service.
    pub(crate) fn command(&self, user: &User, arguments: &[&str]) -> Command {
        let mut command = user.command(arguments);
        command.env("TUNEAGENT_NODE", self.socket());
        command
    }

    /// Begins a session for the user of this thread.
    pub(crate) fn connect(&self) -> Result<Option<Service>, ServiceError> {
        Service::connect(&self.socket(), false)
    }

    /// As [`Node::connect`], once the service has noticed that earlier sessions have ended.
    pub(crate) fn wait_for_place(&self) -> Service {
        let place = wait_for("a place", SOON, || Ok(self.connect().ok().flatten()));
        place.unwrap()
    }

    /// Loads probes for the user of this thread.
    pub(crate) fn load(&self) -> Kernel {
        Kernel::load_by(self.wait_for_place(), LoadOptions::ONE_PROBE).unwrap()
    }
}

fn started(by: &[&str], user: &User, folder: &Path) -> Outcome<Running> {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (socket, policy, journal) = (path("run/node.sock"), path("policy.yaml"), path("journal"));
    let flags = [
        "--socket",
        &socket,
        "--policy",
        &policy,
        "--journal",
        &journal,
        "--syslog",
        "/absent",
    ];
    let mut command = user.command(&[&["node", "serve"][..], &flags].concat());
    command.env("NOTIFY_SOCKET", path("notify"));
    let Some((starter, flags)) = by.split_first() else {
        return follow(command);
    };
    let mut started = Command::new(starter);
    started
        .args(flags)
        .arg(command.get_program())
        .args(command.get_args());
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    started.envs(variables);
    follow(started)
}

fn entry(text: &str) -> Entry {
    let fields = text.lines().filter_map(|line| line.split_once('='));
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Runs a test as another user, who has no rights: in a thread, since users are those of threads to the
/// kernel.
pub(crate) fn as_user<T: Send>(user: u32, what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (id, group) = (Uid::from_raw(user), rustix::fs::Gid::from_raw(user));
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(id, id, id).unwrap();
            what()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits for a line, works, and answers with a line.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) void step(void) { sink++; }
int main(void) {
    char line[300];
    setvbuf(stdin, 0, _IONBF, 0);
    puts("ready"); fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 's') for (int i = 0; i < 100; i++) step();
        if (line[0] == 'd') prctl(PR_SET_DUMPABLE, line[1] - '0');
        if (line[0] == 'e') execl(line + 1, line + 1, (char *)0);
        puts("done"); fflush(stdout);
    }
    return 0;
}
"#;

/// The compiled program, and copies of it that run with other rights.
pub(crate) struct Programs {
    folder: TempDir,
    pub(crate) offset: u64,
}

impl Programs {
    pub(crate) fn build() -> Outcome<Programs> {
        let folder = open_folder()?;
        let (source, own) = (folder.path().join("own.c"), folder.path().join("own"));
        fs::write(&source, PROGRAM)?;
        succeed(Command::new("cc").args(["-O1", "-o"]).args([&own, &source]))?;
        let listing = succeed(Command::new("nm").arg(&own))?;
        let step = listing
            .lines()
            .find(|line| line.ends_with(" step"))
            .ok_or("no step")?;
        // The code of a small executable is mapped at its offset in the file.
        let offset = u64::from_str_radix(step.split(' ').next().unwrap_or_default(), 16).unwrap();
        Ok(Programs { folder, offset })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A copy with this owner and mode.
    pub(crate) fn copy(&self, name: &str, owner: u32, mode: u32) -> Outcome<PathBuf> {
        let path = self.path(name);
        succeed(Command::new("cp").args([&self.path("own"), &path]))?;
        chown(&path, Some(owner), Some(owner))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// Starts a copy as a user without rights.
    pub(crate) fn start(&self, user: u32, name: &str) -> Outcome<LineProgram> {
        let user = user.to_string();
        let mut command = Command::new("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
        ]);
        command
            .args(["--inh-caps=-all", "--bounding-set=-all", "--"])
            .arg(self.path(name));
        LineProgram::ready(&mut command)
    }
}

/// Whether the function of a program is probed: the kernel has replaced its first byte.
pub(crate) fn is_probed(pid: u32, programs: &Programs) -> Outcome<bool> {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let own = programs.path("own");
    let first = maps
        .lines()
        .find(|line| line.ends_with(&*own.to_string_lossy()))
        .ok_or("no mapping")?;
    let base = u64::from_str_radix(first.split('-').next().unwrap_or_default(), 16).unwrap();
    let (mut now, mut original) = ([0; 8], [0; 8]);
    fs::File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut now, base + programs.offset)?;
    fs::File::open(own)?.read_exact_at(&mut original, programs.offset)?;
    Ok(now != original)
}
