//! The program that is changed, the actuator, and what is read of both.

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::running::Running;
pub(crate) use crate::running::built;

use plan::SyncPoint;
use tuneagent_e2e::lines::finish;
use tuneagent_e2e::needs::{Need, has};
use tuneagent_e2e::wait::{self, SOON};
use tuner::actuator::{ActuatorClient, ArmCommand, ClientError, Hello, SetCommand};
use tuner::{AddressSpace, Author, Images, Pid, Process, Receipt, ResolvedPoint, VariableName};

/// One test at a time: the tests measure times, and one of them uses every CPU.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// A lock on the machine; `None` without root.
pub(crate) fn alone_as_root() -> Option<std::sync::MutexGuard<'static, ()>> {
    has(module_path!(), &[Need::Root])
        .then(|| ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

pub(crate) struct Target {
    pub(crate) running: Running,
    pub(crate) space: AddressSpace,
}

impl Target {
    pub(crate) fn start(moment: &str, pace: &str) -> Target {
        let running = Running::start(&built("steps"), &[moment, pace]);
        let process = Process::open(running.pid().cast_signed()).unwrap();
        let space = AddressSpace::read(&process, &Images::new()).unwrap();
        Target { running, space }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.space.process.pid
    }

    pub(crate) fn reads(&self, variable: &str) -> i64 {
        let location = self.space.variable(&VariableName::from(variable)).unwrap();
        let bytes = location.read(self.space.memory()).unwrap();
        match *bytes.as_slice() {
            [a, b, c, d] => i64::from(i32::from_ne_bytes([a, b, c, d])),
            ref eight => i64::from_ne_bytes(eight.try_into().unwrap()),
        }
    }

    pub(crate) fn point(&self, place: &str) -> ResolvedPoint {
        ResolvedPoint::resolve(&self.space, &place.parse().unwrap()).unwrap()
    }

    /// Waits for 1000 iterations, which is possible only without holds.
    pub(crate) fn runs_freely(&self) {
        let before = self.reads("iteration");
        wait_until("the program runs freely", || {
            self.reads("iteration") > before + 1000
        });
    }

    /// Waits until the program has made some iterations.
    pub(crate) fn goes_on(&self) {
        let before = self.reads("iteration");
        wait_until("the program goes on", || self.reads("iteration") > before + 3);
    }
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait::wait_until(what, SOON, || Ok(is_so())).unwrap();
}

/// An actuator, started as the agent does.
pub(crate) struct Actuator {
    pub(crate) client: Option<ActuatorClient>,
    pub(crate) child: Child,
}

impl Actuator {
    pub(crate) fn start(state: &Path, keep: bool) -> Actuator {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tuneagent"))
            .args(["actuator", "--sync"])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .unwrap();
        let hello = Hello {
            keep,
            despite_seccomp: false,
            state_dir: state.to_owned(),
            who: Author::current(),
        };
        let client = ActuatorClient::begin(ours, hello).unwrap();
        Actuator {
            client: Some(client),
            child,
        }
    }

    pub(crate) fn client(&mut self) -> &mut ActuatorClient {
        self.client.as_mut().unwrap()
    }

    pub(crate) fn result(&mut self, ticket: u64) -> Result<Receipt, String> {
        let mut result = None;
        wait_until("the change is over", || {
            let finished = self.client().collect().unwrap().finished;
            result = finished.into_iter().find(|(of, _)| *of == ticket);
            result.is_some()
        });
        result.unwrap().1.map_err(|refusal| refusal.to_string())
    }

    pub(crate) fn set(&mut self, command: ArmCommand) -> Result<Receipt, String> {
        match self.client().arm(command) {
            Ok(ticket) => self.result(ticket),
            Err(ClientError::Refused(refusal)) => Err(refusal.to_string()),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Actuator {
    fn drop(&mut self) {
        drop(self.client.take());
        let _ = self.child.wait();
    }
}

pub(crate) fn set(pid: Pid, variable: &str, value: impl ToString) -> SetCommand {
    SetCommand {
        pid,
        variable: variable.to_owned(),
        module: None,
        value: value.to_string().parse().unwrap(),
        value_type: None,
        expect_old: None,
        why: vec!["a test".to_owned()],
        rule: None,
    }
}

pub(crate) fn at(place: &str, set: SetCommand) -> ArmCommand {
    ArmCommand {
        set,
        at: place.parse::<SyncPoint>().unwrap(),
        within_ms: 60_000,
        answer_ns_max: std::env::var("TUNEAGENT_SYNC_ANSWER_US")
            .ok()
            .map(|us| us.parse::<u64>().unwrap() * 1000),
        by_stop: false,
    }
}

/// Two spinning threads per CPU.
pub(crate) struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Busy {
    pub(crate) fn machine() -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().unwrap().get();
        let spin = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        let threads = (0..2 * cpus).map(spin).collect();
        Busy { stop, threads }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

pub(crate) fn changes() -> i64 {
    if std::env::var_os("TUNEAGENT_LONG").is_some() {
        1000
    } else {
        20
    }
}

pub(crate) fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Runs the product. Returns the exit code and the output.
pub(crate) fn tuneagent(state: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tuneagent"));
    finish(command.args(arguments).env("TUNEAGENT_STATE_DIR", state)).unwrap()
}
