//! Team sizes and CPU binding, changed by rules and reverted.

use std::fs;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::family::Member;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::amount;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::{Outcome, programs, require};

use crate::actions::{Acting, changes, rule, shows};
use crate::expected::{SOON, median};
use crate::kills::journal::{Change, Journal, Standing};
use crate::scaling::start_with;

/// The head of a rule that acts once the program has begun a parallel region.
const COUNTS_REGIONS: &str = "about: for a test
probes: {region: {span: openmp.region}}
windows: {pulse: {every: 100ms}}
tune:
";

#[test]
fn a_team_grows_through_a_call_at_the_begin_of_a_region() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let program = programs::openmp("regions")?;
    let mut acting = Acting::of(&program, COUNTS_REGIONS, TEAM_OF_SEVEN, vec!["0".to_owned()])?;
    acting.sees("a team of seven", 0, |team| team["threads"] == 7)?;
    acting.agent.lines.wait_for_line("done in 1 process", SOON)?;
    let report = acting.agent.stop()?;
    acting.sees("the team as it was", 2, |team| team["threads"] != 7)?;
    acting.job.open("end")?;
    let own_count = acting.job.events("tally", 1, SOON)?.remove(0);
    acting.job.finish(SOON)?;
    // Regions alternate: two threads, as the region states, then the size that was last set.
    let teams = acting.job.events("team", 3, SOON)?;
    let [first, grown, last] = teams.as_slice() else {
        return Err(format!("{teams:?}").into());
    };
    let sizes = [first, grown, last].map(|team| (&team["threads"], &team["most"]));
    assert_eq!(sizes, [sizes[0], (&7.into(), &7.into()), sizes[0]], "{teams:?}");
    let number = |value: &Value| value.as_u64().ok_or("no number");
    let (since, until) = (number(&grown["round"])? / 2, number(&last["round"])? / 2);
    let (rounds, own) = (number(&own_count["rounds"])?, number(&first["threads"])?);
    let without = (rounds.div_ceil(2) - (until - since)) * own + (until - since) * 7;
    assert_eq!(
        number(&own_count["members"])?,
        rounds / 2 * 2 + without,
        "{own_count}"
    );
    let made = changes(&report, "call");
    assert_eq!(made.len(), 1, "{report}");
    let mechanism = made[0]["mechanism"].as_str().unwrap_or_default();
    assert!(
        mechanism.starts_with("at entry:GOMP_parallel, its thread stopped for "),
        "{report}"
    );
    Ok(())
}

/// The team size is a setting of each thread, so only the thread that begins regions can revert it, at the
/// begin of a region.
const TEAM_OF_SEVEN: &str = "  - call: omp_set_num_threads(7)
    was: omp_get_max_threads()
    inverse: omp_set_num_threads(was)
    when: count(region) > 0
    at: {entry: GOMP_parallel}
";

/// What ends a session while the team has another size.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Interrupt,
    Duration,
    /// Kept by the session, and reverted by `undo`.
    Undo,
    KillAgent,
    KillActuator,
    KillBoth,
}

/// A change that the guard keeps at once.
fn team_of(size: u32) -> String {
    format!(
        "  - call: omp_set_num_threads({size})
    was: omp_get_max_threads()
    inverse: omp_set_num_threads(was)
    when: count(region) > 0
    at: {{entry: GOMP_parallel}}
    guard: {{minimize: 0 * count(region), over: 1, undo_if_worse_by: 5%, keep: not_worse}}
"
    )
}

const KILLS: [End; 3] = [End::KillAgent, End::KillActuator, End::KillBoth];

impl End {
    /// Flags of a session that ends in this way.
    fn flags(self) -> &'static [&'static str] {
        match self {
            // The team changes in the first second, on a busy machine in the third.
            End::Duration => &["--duration", "6s"],
            End::Undo => &["--keep"],
            _ => &[],
        }
    }
}

/// The actuator outlives the agent, and reverts; if it is killed itself, its stand-in does. Both revert at the program's
/// next sync point, here the begin of a region.
#[test]
fn a_team_is_as_it_was_after_each_kill_of_the_session_that_changed_it() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let folder = tempfile::tempdir()?;
    let rule = rule(&folder, COUNTS_REGIONS, TEAM_OF_SEVEN)?;
    // 18 ms outside of regions, and 2 ms of work for all threads: fewer threads are hardly slower.
    let flat = "18000 2000 0 1 1 15 0";
    let only_interrupt = &[End::Interrupt][..];
    let rows: [(&str, &str, &[&str], &[End]); 3] = [
        (
            "regions",
            "0",
            &["--rules", &rule, "--apply=acting"],
            &[End::Interrupt, End::Duration, End::Undo],
        ),
        ("shapes", flat, &["--apply", "--scaling=90%"], only_interrupt),
        (
            "shapes",
            flat,
            &["--rules", "threads", "--apply=threads"],
            only_interrupt,
        ),
    ];
    let kills = amount("TUNEAGENT_KILLS", 1, 33)?;
    let mut took_s = Vec::new();
    for (number, (program, arguments, flags, others)) in rows.into_iter().enumerate() {
        let environment = "OMP_DYNAMIC=false OMP_NUM_THREADS=16";
        let mut job = start_with(programs::openmp(program)?, environment, arguments)?;
        job.open("go")?;
        let flags = [&["--rules", "none"], flags].concat();
        // In short runs each row has another kill.
        let ends = KILLS
            .iter()
            .cycle()
            .skip(number)
            .take(kills as usize)
            .chain(others);
        let mut seen = 0;
        for end in ends {
            let what = format!("after {end:?} of {flags:?}");
            let (now, since_s) = restored(&job, &flags, *end, seen).context(what)?;
            seen = now;
            took_s.push(since_s);
        }
        job.open("stop")?;
        job.end(SOON)?;
    }
    let (worst_s, median_s) = (took_s.iter().copied().fold(0.0, f64::max), median(took_s));
    println!("restored after {median_s} s (median), {worst_s} s (worst)");
    assert!(median_s <= 1.0, "{median_s} s, {worst_s} s");
    Ok(())
}

/// With a team of one the program begins no region any more, so it does not come to the place.
#[test]
fn a_program_that_begins_no_regions_since_a_change_has_its_own_team_after_the_session_or_undo() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let folder = tempfile::tempdir()?;
    let rule = rule(&folder, COUNTS_REGIONS, &team_of(1))?;
    let flags = ["--rules", "none", "--rules", &rule, "--apply=acting"];
    let mut job = start_with(programs::openmp("serial")?, "OMP_NUM_THREADS=16", "2000")?;
    let mut seen = 0;
    for end in [End::Interrupt, End::KillAgent, End::KillBoth] {
        seen = restored(&job, &flags, end, seen)
            .context(format!("after {end:?}"))?
            .0;
    }
    let (agent, seen) = left_in_place(&job, &flags, 1, seen)?;
    let text = Agent::succeed_in(agent.folder(), &["undo", &job.pid().to_string()])?;
    assert_has!(text, "change 1 reverted: omp_set_num_threads(1)");
    shows(&job, "its own team", seen, |team| team["most"] == 16)?;
    job.end(SOON)
}

/// A call inside a region would change the setting until the end of the region only.
#[test]
fn a_call_is_not_reverted_elsewhere_while_its_thread_is_inside_the_library() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let folder = tempfile::tempdir()?;
    let rule = rule(&folder, COUNTS_REGIONS, &team_of(3))?;
    let flags = ["--rules", "none", "--rules", &rule, "--apply=acting"];
    let mut job = start_with(programs::openmp("serial")?, "OMP_NUM_THREADS=16", "2000")?;
    let (agent, seen) = left_in_place(&job, &flags, 3, 0)?;
    job.open("long")?;
    job.events("long", 1, SOON)?;
    let undo = ["undo", &job.pid().to_string()];
    let (code, text) = Agent::run_in(agent.folder(), &undo)?;
    assert_ne!(code, 0, "{text}");
    assert_has!(
        text,
        "did not reach entry:GOMP_parallel within 5 s",
        "; elsewhere: ",
        " is in libgomp"
    );
    job.open("on")?;
    let text = Agent::succeed_in(agent.folder(), &undo)?;
    assert_has!(text, "change 1 reverted: omp_set_num_threads(3)");
    shows(&job, "its own team", seen, |team| team["most"] == 16)?;
    job.end(SOON)
}

/// A session that has changed the team and keeps that, and the number of sizes that the program has shown so far, `seen`
/// of them before.
fn left_in_place(job: &Job, flags: &[&str], size: u64, seen: usize) -> Outcome<(Agent, usize)> {
    let mut agent = Agent::attach(job.pid(), &[flags, &["--keep"]].concat())?;
    let (seen, _) = shows(job, "another team", seen, |team| team["most"] == size)?;
    agent.wait(SOON)?;
    assert_has!(agent.lines.text(), "1 change left in place until serial");
    Ok((agent, seen))
}

/// Ends a session with these flags once it has changed the team, and waits until the program has its own size again. Returns
/// the number of sizes that the program has shown so far, `seen` of them before, and the time from the end to the last one.
fn restored(job: &Job, flags: &[&str], end: End, seen: usize) -> Outcome<(usize, f64)> {
    let mut agent = Agent::attach(job.pid(), &[flags, end.flags()].concat())?;
    let (changed, _) = shows(job, "another team", seen, |team| team["most"] != 16)?;
    agent.lines.wait_for_line("done in 1 process", SOON)?;
    let mut since = Instant::now();
    let actuators = agent.actuators();
    assert!(!actuators.is_empty(), "no actuator");
    match end {
        End::Interrupt => agent.signal(Signal::INT)?,
        End::KillAgent | End::KillBoth => agent.signal(Signal::KILL)?,
        End::KillActuator => {}
        End::Duration => since = agent.lines.wait_for_line("; detached", SOON)?.at,
        End::Undo => {
            agent.signal(Signal::INT)?;
            agent.wait(SOON)?;
            since = Instant::now();
            Agent::succeed_in(agent.folder(), &["undo", &job.pid().to_string()])?;
        }
    }
    if matches!(end, End::KillActuator | End::KillBoth) {
        actuators.iter().for_each(Member::kill);
    }
    let (seen, at) = shows(job, "its own team", changed, |team| team["most"] == 16)?;
    // Waits for all: the actuator and its stand-in keep the stream open until they end. On a busy machine the kernel may
    // take a minute to remove its probes.
    agent.wait(3 * SOON)?;
    let text = agent.lines.text();
    match end {
        End::Interrupt => assert_has!(text, "Ctrl-C; detached", " reverted"),
        End::KillActuator => assert_has!(text, "the actuator was lost, and its stand-in reverts; detached"),
        End::Duration => assert_has!(text, "detached", " reverted"),
        End::KillAgent | End::KillBoth | End::Undo => {}
    }
    let journal = Journal::read(&agent.folder().join("journal"))?;
    let all: Vec<_> = journal.behind(0).collect();
    let is_out = |change: &&Change| change.standing() == Standing::Out;
    assert!(!all.is_empty() && all.iter().all(is_out), "{all:#?}");
    Ok((seen, at.duration_since(since).as_secs_f64()))
}

/// Allowed CPUs of a process.
fn cpus_of(pid: u64) -> Outcome<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Ok(line.ok_or("no list of CPUs")?.trim().to_owned())
}

#[test]
fn ranks_are_bound_to_cores_of_their_own_and_let_go_again() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let folder = tempfile::tempdir()?;
    let head = "about: for a test\nwindows: {pulse: {every: 200ms}}\nmetrics: {used: sum(cpu.time)}\ntune:\n";
    let rule = rule(&folder, head, "  - affinity: spread\n    when: used > 0s\n")?;
    let cpus = std::thread::available_parallelism()?.get();
    for ranks in [2, 2 * cpus] {
        let job = crate::expected::start_pingpong(Mpi::OpenMpi, Waiting::Yielding, ranks, 0)?;
        job.open("go")?;
        let pids: Vec<u64> = job
            .events("ready", ranks, SOON)?
            .iter()
            .map(|ready| ready["pid"].as_u64().ok_or_else(|| "no pid".into()))
            .collect::<Outcome<_>>()?;
        let of_all = || -> Outcome<Vec<String>> { pids.iter().map(|pid| cpus_of(*pid)).collect() };
        let before = of_all()?;
        let mut agent = Agent::attach(job.pid(), &["--rules", "none", &rule, "--apply=acting"])?;
        if ranks > cpus {
            agent
                .lines
                .wait_for_line("cannot have cores of their own", SOON)?;
            assert_eq!(of_all()?, before);
        } else {
            agent
                .lines
                .wait_for_line("affinity: spread: done in 2 processes", SOON)?;
            let now = of_all()?;
            assert_ne!(now[0], now[1], "each has its own");
            assert_ne!(now, before);
        }
        let report = agent.stop()?;
        assert_eq!(of_all()?, before, "{report}");
        let words = if ranks > cpus {
            "nothing was changed"
        } else {
            "2 changes reverted"
        };
        assert!(
            agent.lines.text().trim_end().ends_with(words),
            "{}",
            agent.lines.text()
        );
        let made = changes(&report, "affinity");
        assert_eq!(made.len(), if ranks > cpus { 0 } else { 2 }, "{report}");
        job.open("stop")?;
        crate::expected::finish_pingpong(job, ranks as u64)?;
    }
    Ok(())
}
