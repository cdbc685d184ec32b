//! A job on two machines, seen as one: calls and bytes of every rank, rules over all ranks, agents that are started by ssh, and
//! what happens when an agent, the coordinator or the network fails.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::bed::{Bed, CLOSED, DENIED, HOSTS};
use tuneagent_e2e::job::{Job, Mpi};
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::{SOON, counts, text, with_folder};

/// A finding of all ranks, whatever they do.
const ALL_RANKS: &str = "\
rule: all-ranks
about: Counts the ranks of the job.
roles:
  rank: rank >= 0
windows:
  pulse: {every: 500ms}
metrics:
  longest: argmax(useful.share)
tune:
  - finding: \"{count(rank)} ranks; longest computes rank {longest}\"
    when: count(rank) > 2
";

/// A job that waits at its first gate, and its sessions.
struct Watched {
    bed: Bed,
    job: Job,
    first: Agent,
}

impl Watched {
    /// Attaches where rank 0 is, with join files of these names in the job's folder.
    fn start(files: &[&str], flags: &[&str]) -> Outcome<Watched> {
        Watched::attach(Mpi::OpenMpi, |bed, job| {
            let ready = job.events("ready", 4, SOON)?;
            let files: Vec<String> = files.iter().map(|name| text(&job.file(name))).collect();
            let files = files.iter().flat_map(|file| ["--join-file", file]);
            let flags: Vec<&str> = flags.iter().copied().chain(files).collect();
            Agent::attach_in_node(bed.node(0)?, &ready[0]["pid"].to_string(), &flags)
        })
    }

    /// Attaches to the launcher, which starts agents on both machines.
    fn of_launcher(mpi: Mpi, flags: &[&str]) -> Outcome<Watched> {
        let watched = Watched::attach(mpi, |bed, job| {
            job.events("ready", 4, SOON)?;
            Agent::attach_in_node(bed.node(0)?, &bed.launcher(job)?.to_string(), flags)
        })?;
        watched.says("4 ranks on 2 nodes (bed-a, bed-b)")?;
        watched.says("agents on 1 other machine by ")?;
        Ok(watched)
    }

    fn attach(mpi: Mpi, attach: impl FnOnce(&Bed, &Job) -> Outcome<Agent>) -> Outcome<Watched> {
        let bed = Bed::start()?;
        let program = programs::mpi("count", mpi)?;
        let job = bed.job(mpi, &program, |folder| with_folder(folder, Vec::new()))?;
        let first = attach(&bed, &job)?;
        first.armed()?;
        Ok(Watched { bed, job, first })
    }

    /// The other machine joins, for the `times`-th time.
    fn join(&self, file: &str, times: usize) -> Outcome<Agent> {
        let file = text(&self.job.file(file));
        let second = Agent::start_in_node(self.bed.node(1)?, &["node", "join", &file])?;
        self.says_often("4 ranks on 2 nodes (bed-a, bed-b)", times)?;
        assert!(!Path::new(&file).exists(), "a join file serves once");
        Ok(second)
    }

    fn says(&self, part: &str) -> Outcome {
        self.says_often(part, 1)
    }

    fn says_often(&self, part: &str, times: usize) -> Outcome {
        let is_there = |lines: &[tuneagent_e2e::lines::Line]| {
            let there = lines.iter().filter(|line| line.text.contains(part));
            (there.count() >= times).then_some(())
        };
        let found = self.first.lines.wait_for(part, SOON, is_there);
        found.map_err(|problem| format!("{problem}\n{}", self.first.lines.text()).into())
    }

    /// Nothing of this program is left on a machine.
    fn is_clean(&self, machine: usize) -> Outcome {
        for what in ["tuneagent", "nats-server"] {
            wait_until("the end of its processes", SOON, || {
                Ok(!self.bed.has_process(machine, what)?)
            })?;
        }
        Ok(())
    }
}

fn rank_of(process: &Value) -> u64 {
    process["rank"].as_u64().unwrap_or(u64::MAX)
}

#[test]
fn calls_bytes_and_rules_are_of_all_ranks_on_two_machines_and_ctrl_c_ends_both() -> Outcome {
    let _shared = require!(shared: Root, Cc, OpenMpi, Nodes);
    let folder = tempfile::tempdir()?;
    let rule = folder.path().join("all-ranks.yaml");
    fs::write(&rule, ALL_RANKS)?;
    let rule = text(&rule);
    let mut watched = Watched::of_launcher(Mpi::OpenMpi, &["--rules", "none", &rule])?;
    watched.job.open("go")?;
    let tallies = watched.job.events("tally", 4, SOON)?;
    watched.says("4 ranks; longest computes rank")?;
    watched.first.signal_in_node("attach", Signal::INT)?;
    let report = watched.first.finish(SOON)?;
    let mut processes: Vec<&Value> = each(&report["processes"]).collect();
    processes.sort_by_key(|process| rank_of(process));
    assert_eq!(processes.len(), 4, "{report}");
    for ((process, tally), host) in processes.iter().zip(&tallies).zip([0, 0, 1, 1]) {
        assert_eq!(process["rank"], tally["rank"]);
        assert_eq!(
            (&process["pid"], &process["host"]),
            (&tally["pid"], &HOSTS[host].into())
        );
        let (own, seen) = (counts(&tally["functions"])?, counts(&process["functions"])?);
        for (name, count) in own {
            assert_eq!(
                seen.get(&name),
                Some(&count),
                "{name} of rank {}",
                process["rank"]
            );
        }
    }
    let (found, nodes) = (&report["findings"][0]["text"], &report["nodes"]);
    assert_has!(found.to_string(), "4 ranks; longest computes rank", " is on bed-");
    assert_eq!(report["efficiencies"]["nodes"], 2, "{}", report["efficiencies"]);
    assert_eq!(
        (&nodes[1]["host"], &nodes[1]["state"], &nodes[1]["losses"]),
        (&HOSTS[1].into(), &"ended".into(), &0.into()),
        "{nodes}"
    );
    assert!(nodes[1]["clock_bound_s"].as_f64() > Some(0.0), "{nodes}");
    (0..2).try_for_each(|machine| watched.is_clean(machine))?;
    watched.job.end(SOON)
}

#[test]
fn a_killed_agent_a_cut_network_and_a_killed_coordinator_are_said_and_leave_the_program_unharmed() -> Outcome
{
    let _shared = require!(shared: Root, Cc, OpenMpi, Nodes);
    let mut watched = Watched::start(&["b.join", "again.join"], &["--orphan", "6s"])?;
    let mut second = watched.join("b.join", 1)?;
    second.signal_in_node("node", Signal::KILL)?;
    watched.says("bed-b: its agent has died; 2 processes there are not watched any more")?;
    second.wait(SOON)?;
    watched.is_clean(1)?;
    let mut second = watched.join("again.join", 2)?;
    watched.bed.connect(false)?;
    watched.says("bed-b: silent for 3")?;
    watched.bed.connect(true)?;
    watched.says("bed-b: back after")?;
    watched.first.signal_in_node("attach", Signal::KILL)?;
    watched.first.wait(SOON)?;
    let code = second.wait(Duration::from_secs(30))?;
    assert_eq!(code, 0, "{}", second.lines.text());
    assert_has!(
        second.lines.text(),
        "nothing arrived from the coordinator for the time of --orphan"
    );
    (0..2).try_for_each(|machine| watched.is_clean(machine))?;
    watched.job.open("go")?;
    watched.job.events("tally", 4, SOON)?;
    watched.job.end(SOON)
}

#[test]
fn a_job_of_mpich_is_watched_on_both_machines_and_a_killed_session_ends_the_agent_that_it_started() -> Outcome
{
    let _shared = require!(shared: Root, Cc, Mpich, Nodes);
    let mut watched = Watched::of_launcher(Mpi::Mpich, &["--orphan", "10min"])?;
    assert!(watched.bed.has_process(1, "tuneagent")?);
    watched.first.signal_in_node("attach", Signal::KILL)?;
    watched.first.wait(SOON)?;
    (0..2).try_for_each(|machine| watched.is_clean(machine))
}

#[test]
fn machines_that_cannot_be_reached_are_said_in_a_line_each_and_the_others_are_watched() -> Outcome {
    let _shared = require!(shared: Root, Cc, OpenMpi, Nodes);
    let nodes = format!("bed-a,{CLOSED},{DENIED},bed-nowhere,bed-b");
    let mut watched = Watched::start(&[], &["--rules", "none", "--nodes", &nodes])?;
    watched.says("4 ranks on 2 nodes (bed-a, bed-b)")?;
    for line in [
        "bed-closed: ssh: connect to host ",
        "bed-denied: ssh: Permission denied (publickey)",
        "bed-nowhere: ssh: Could not resolve hostname bed-nowhere",
        "4 of 4 ranks are watched",
    ] {
        watched.says(line)?;
    }
    watched.job.open("go")?;
    watched.job.events("tally", 4, SOON)?;
    // The session ends with the program, on both machines.
    watched.job.end(SOON)?;
    let report = watched.first.finish(SOON)?;
    assert_eq!(each(&report["processes"]).count(), 4, "{report}");
    (0..2).try_for_each(|machine| watched.is_clean(machine))
}

#[test]
fn a_rank_is_watched_here_with_a_line_that_says_where_the_others_are() -> Outcome {
    let _shared = require!(shared: Root, Cc, OpenMpi, Nodes);
    let mut watched = Watched::start(&[], &["--rules", "none"])?;
    watched.says("note: the job is also on bed-b: --nodes all watches all of it")?;
    watched.first.signal_in_node("attach", Signal::INT)?;
    let report = watched.first.finish(SOON)?;
    assert_eq!(each(&report["processes"]).count(), 2, "{report}");
    Ok(())
}
