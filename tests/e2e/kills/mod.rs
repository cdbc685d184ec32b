//! SIGKILL of the agent, its actuator, or both at random times during every kind of change and revert. The
//! program must continue with correct results, the journal (read by `journal`) must agree with the memory,
//! and the next start must revert what is left, byte for byte.
//!
//! The times come from a seed, which is printed and can be set with TUNEAGENT_SEED. A busy machine hits them
//! less exactly.

pub(crate) mod journal;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::needs::amount;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::underload::Underload;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Draw, Outcome, family, require};

use crate::expected::SOON;
use crate::rights::SET_KNOB;
use journal::{Journal, Standing};

/// Commands that change the program, without the process number.
const CHANGES: [(&str, &[&str]); 13] = [
    ("set", &["knob=2"]),
    ("set", &["knob=2", "--at", "entry:step"]),
    ("call", &["tick()"]),
    ("patch", &["load", "LIBRARY"]),
    ("patch", &["replace", "sort_a", "sort_b"]),
    ("patch", &["replace", "part_work", "part_other"]),
    ("patch", &["insert", "note(5, 0.5, \"noted\")", "step"]),
    (
        "patch",
        &["insert", "note(5, 0.5, \"noted\")", "two_returns", "--return"],
    ),
    ("patch", &["remove", "log_state", "--in", "step"]),
    ("patch", &["argument", "send_block(2)", "original * 2"]),
    ("patch", &["affinity", "0"]),
    // A session that only watches.
    (
        "attach",
        &[
            "--plain",
            "--rules",
            "none",
            "--probe",
            "step",
            "--duration",
            "500ms",
        ],
    ),
    // A session whose rule sets the variable. It is reverted when the session ends.
    (
        "attach",
        &[
            "--plain",
            "--rules",
            "none",
            "RULE",
            "--apply",
            "--duration",
            "500ms",
        ],
    ),
];

/// The operation during which a process is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Change,
    Undo,
}

#[derive(Clone, Copy, Debug)]
enum Victim {
    Agent,
    Actuator,
    Both,
}

/// A seed of the environment, or one from the clock.
fn seeded() -> Outcome<Draw> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).context("a clock")?;
    let seed = match std::env::var("TUNEAGENT_SEED") {
        Ok(text) => text.parse().context(format!("TUNEAGENT_SEED={text}"))?,
        Err(_) => clock.as_nanos() as u64,
    };
    println!("TUNEAGENT_SEED={seed}");
    Ok(Draw(seed))
}

struct Scene {
    program: Underload,
    folder: tempfile::TempDir,
    code: Vec<(String, Vec<u8>)>,
    cpus: Vec<(u64, String)>,
    descriptors: usize,
}

impl Scene {
    fn set() -> Outcome<Scene> {
        let mut program = Underload::start()?;
        assert_eq!(program.runs()?, Underload::QUIET);
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("rule.yaml"), SET_KNOB)?;
        let (code, cpus, descriptors) = (program.code()?, program.cpus()?, program.descriptors()?);
        Ok(Scene {
            program,
            folder,
            code,
            cpus,
            descriptors,
        })
    }

    fn state(&self) -> &Path {
        self.folder.path()
    }

    fn journal(&self) -> Outcome<Journal> {
        Journal::read(&self.state().join("journal"))
    }

    fn journal_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.state().join("journal"));
        let sizes = files.into_iter().flatten().flatten().map(|file| file.metadata());
        sizes.flatten().map(|meta| meta.len()).sum()
    }

    fn words(&self, change: usize, phase: Phase) -> Vec<String> {
        let (verb, rest) = match phase {
            Phase::Change => CHANGES[change],
            Phase::Undo => ("undo", &[][..]),
        };
        let mut words = vec![verb.to_owned(), self.program.pid().to_string()];
        words.extend(rest.iter().map(|word| {
            match *word {
                "LIBRARY" => self.program.library().to_string_lossy().into_owned(),
                "RULE" => self
                    .folder
                    .path()
                    .join("rule.yaml")
                    .to_string_lossy()
                    .into_owned(),
                word => word.to_owned(),
            }
        }));
        words
    }

    /// Runs the command to its end. Returns its duration, or its output on failure: on an overloaded machine
    /// the agent may give up on the actuator.
    fn run(&self, change: usize, phase: Phase) -> Outcome<Result<Duration, String>> {
        let words = self.words(change, phase);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let began = Instant::now();
        let (code, text) = Agent::run_in(self.state(), &words)?;
        Ok(match code {
            0 => Ok(began.elapsed()),
            _ => Err(format!("{words:?}: {code}: {text}")),
        })
    }

    /// Starts the command and kills the victim within about `length`. Returns false if the command had ended
    /// before.
    fn kill_within(
        &self,
        change: usize,
        phase: Phase,
        victim: Victim,
        length: Duration,
        random: &mut Draw,
    ) -> Outcome<bool> {
        let words = self.words(change, phase);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut agent = Agent::command_in(Some(self.state()), &words)?;
        let began = Instant::now();
        let journal_bytes = self.journal_bytes();
        // A third of the agents is killed at any time, the others when there is an actuator, which makes the
        // changes.
        let mut actuator = Vec::new();
        if !matches!(victim, Victim::Agent) || random.below(3) > 0 {
            while actuator.is_empty() && !agent.lines.has_ended() && began.elapsed() < SOON {
                actuator = agent.actuators();
            }
        }
        let delay = match !actuator.is_empty() && random.below(4) > 0 {
            // After the first line in the journal a change takes microseconds, so the delays are distributed
            // logarithmically.
            true => {
                while self.journal_bytes() == journal_bytes && !agent.lines.has_ended() {}
                let magnitude = random.below(13);
                random.below(1 << magnitude)
            }
            false => random.below(length.saturating_sub(began.elapsed()).as_micros() as u32 + 500),
        };
        #[expect(clippy::disallowed_methods, reason = "sets the time of the kill")]
        std::thread::sleep(Duration::from_micros(delay.into()));
        // In one of seven cases the agent and its descendants are stopped before the kill, and the survivors
        // are continued. They are listed before, because the actuator loses its parent when the agent is
        // killed.
        let is_stopped = random.below(7) == 0 && agent.pause().is_ok();
        let stopped = if is_stopped {
            family::descendants(agent.pid())
        } else {
            Vec::new()
        };
        let mut killed = false;
        if !matches!(victim, Victim::Agent) {
            for process in actuator.iter().filter(|process| process.is_alive()) {
                killed |= signal(process.pid, Signal::KILL)?;
            }
        }
        if !matches!(victim, Victim::Actuator) && !agent.lines.has_ended() {
            killed |= agent.signal(Signal::KILL).is_ok();
        }
        if is_stopped {
            // Killed processes cannot be continued.
            let _ = agent.resume();
            for process in stopped.iter().filter(|process| process.is_alive()) {
                signal(process.pid, Signal::CONT)?;
            }
        }
        // Waits for both: the actuator keeps the stream open until it ends.
        agent.wait(SOON)?;
        Ok(killed)
    }

    /// Checks that the journal agrees with the memory, for changes after number `before`. Returns the changes
    /// without an outcome, and whether the memory has them.
    fn check_truth(&mut self, before: u64, what: &str) -> Outcome<Vec<(u64, Option<bool>)>> {
        let journal = self.journal()?;
        let mut open = Vec::new();
        for change in journal.behind(before) {
            let held = change.holds(&self.program)?;
            match change.standing() {
                Standing::InForce => assert_ne!(held, Some(false), "{what}: {change:?} is not in force"),
                Standing::Out => assert_ne!(held, Some(true), "{what}: {change:?} is in force"),
                Standing::Open => open.push((change.number, held)),
                Standing::Done => {}
            }
        }
        Ok(open)
    }

    /// Runs `undo` until no change is left, and checks that recovery agreed with the memory and that the
    /// program is as it was.
    fn take_back(&mut self, open: &[(u64, Option<bool>)], what: &str) -> Outcome {
        // A thread of the program may still be in a call.
        wait_until(&format!("the reverts of {what}"), SOON, || {
            let said = self.run(0, Phase::Undo).context(what)?;
            Ok(said.is_ok() && !self.journal()?.is_open())
        })?;
        let journal = self.journal()?;
        for change in journal.behind(0) {
            assert!(
                matches!(change.standing(), Standing::Out | Standing::Done),
                "{what}: {change:?}"
            );
        }
        for (number, held) in open {
            let found_out = journal.found_out(*number);
            if let (Some(held), Some(found_out)) = (held, found_out) {
                assert_eq!(*held, found_out, "{what}: change {number}");
            }
        }
        assert_eq!(self.program.ticks()?, journal.calls(), "{what}: calls");
        assert_eq!(self.program.runs()?, Underload::QUIET, "{what}");
        assert_eq!(self.program.cpus()?, self.cpus, "{what}");
        assert_eq!(
            self.program.descriptors()?,
            self.descriptors,
            "{what}: descriptors"
        );
        assert_eq!(self.program.tracers()?, 0, "{what}: somebody still debugs it");
        // On a busy machine the last probes of a session are removed in the background.
        let is_restored = || Ok(self.program.code()? == self.code);
        let restored = wait_until("the code as it was", SOON, is_restored);
        let now = self.program.code()?;
        let places =
            |code: &[(String, Vec<u8>)]| code.iter().map(|(place, _)| place.clone()).collect::<Vec<_>>();
        assert_eq!(places(&now), places(&self.code), "{what}");
        restored.context(what)
    }
}

fn signal(pid: u32, with: Signal) -> Outcome<bool> {
    let pid = Pid::from_raw(pid.cast_signed()).ok_or("no process")?;
    Ok(kill_process(pid, with).is_ok())
}

/// Duration of each change and of its revert without a kill. Each is measured once and must succeed.
#[derive(Default)]
struct Lengths(BTreeMap<usize, [Duration; 2]>);

impl Lengths {
    fn of(&mut self, scene: &mut Scene, change: usize, phase: Phase) -> Outcome<Duration> {
        if let Entry::Vacant(place) = self.0.entry(change) {
            let there = scene.run(change, Phase::Change)??;
            let back = scene.run(change, Phase::Undo)??;
            scene.take_back(&[], &format!("{:?}", CHANGES[change]))?;
            place.insert([there, back]);
        }
        Ok(self.0[&change][usize::from(phase == Phase::Undo)])
    }
}

#[test]
fn killed_in_the_middle_of_any_change_the_journal_is_true_and_all_is_taken_back() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let wanted = amount("TUNEAGENT_KILLS", 3, 330)?;
    let mut random = seeded()?;
    let seed = random.0;
    let mut scene = Scene::set()?;
    let mut lengths = Lengths::default();
    let (mut killed, mut too_late, mut left_open, mut given_up) = (0, 0, 0, 0);
    while killed < wanted {
        let change = random.below(CHANGES.len() as u32) as usize;
        // A call and a session leave nothing to revert.
        let is_lasting = !matches!(CHANGES[change].0, "call" | "attach");
        let phase = if is_lasting && random.below(2) == 0 {
            Phase::Undo
        } else {
            Phase::Change
        };
        let victim = [Victim::Agent, Victim::Actuator, Victim::Both][random.below(3) as usize];
        let what = format!(
            "seed {seed}, kill {killed}: {victim:?} in {phase:?} of {:?}",
            CHANGES[change]
        );
        let length = lengths.of(&mut scene, change, phase)?;
        let before = scene.journal()?.newest();
        if phase == Phase::Undo
            && let Err(said) = scene.run(change, Phase::Change).context(&what)?
        {
            println!("{what}: not even begun: {said}");
            given_up += 1;
            assert!(given_up <= wanted / 10 + 1, "{said}");
            let open = scene.check_truth(before, &what)?;
            scene.take_back(&open, &what)?;
            continue;
        }
        let hit = scene.kill_within(change, phase, victim, length, &mut random);
        let (hit, count) = match hit.context(&what)? {
            true => (true, &mut killed),
            false => (false, &mut too_late),
        };
        *count += 1;
        let seen = scene.program.runs()?;
        assert!(seen.ends_with("errors=0"), "{what}: {seen}");
        let open = scene.check_truth(before, &what)?;
        left_open += usize::from(hit && !open.is_empty());
        scene.take_back(&open, &what)?;
        assert!(too_late <= wanted * 4, "{what}: most kills came after the end");
    }
    let words = scene.program.end()?;
    assert!(words.starts_with("errors=0"), "{words}");
    println!("{killed} killed, {left_open} of them with a change left open; {too_late} had ended before");
    Ok(())
}
