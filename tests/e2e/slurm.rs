//! Jobs of a real Slurm, on nodes that each see a part of the job.

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi};
use tuneagent_e2e::slurm::Slurm;
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::{SOON, with_folder, written};
use crate::promises::SET_BLOCK;

/// Process number of rank 0, on its node.
fn first_rank(job: &Job, ranks: usize) -> Outcome<String> {
    let ready = job.events("ready", ranks, SOON)?;
    let first = ready.iter().find(|event| event["rank"] == 0);
    Ok(first.ok_or("no rank 0")?["pid"].to_string())
}

/// Ends the job and checks that every rank used the same value in every iteration, and `block` in the last
/// one.
fn ends_well(mut job: Job, ranks: usize, block: u64) -> Outcome {
    job.open("end")?;
    for end in job.events("end", ranks, SOON)? {
        assert_eq!(
            (&end["block"], &end["right"]),
            (&block.into(), &1.into()),
            "{end}"
        );
    }
    job.finish(SOON)
}

/// Both processes of this node are found by their job number and by their step, and not by other numbers.
fn are_found(node: u32, number: usize) -> Outcome {
    let job = |number: usize, step: &str| format!("slurm:{number}{step}");
    let (own, other) = (number, number + 1);
    for (target, expected) in [
        (job(own, ""), 2),
        (job(own, ".0"), 2),
        (job(own, ".1"), 0),
        (job(other, ""), 0),
    ] {
        let (code, text) = Agent::run_in_node(node, &["get", &target, "block"])?;
        let found = text.lines().filter(|line| line.contains("block = 64")).count();
        assert_eq!((found, code == 0), (expected, expected > 0), "{target}: {text}");
    }
    Ok(())
}

#[test]
fn a_job_of_slurm_is_found_by_its_number_and_changed_together_only_where_all_of_it_is_seen() -> Outcome {
    let _machine = require!(shared: Root, Cc, OpenMpi, Slurm);
    let slurm = Slurm::start(&["node1", "node2"])?;
    let node = slurm.node(0)?;
    let program = programs::mpi("blocks", Mpi::OpenMpi)?;
    let folder = tempfile::tempdir()?;
    let text = SET_BLOCK.replace("WHEN", "together: iteration");
    let rule = written(folder.path(), "set-block.yaml", &text)?;
    let flags = ["--rules", "none", &rule, "--apply", "--keep"];
    // The launcher sets the rank but not the size, which comes from the step's environment or, without it,
    // from MPI_COMM_WORLD.
    let cases: [(&[&str], usize, &str); 3] = [
        (
            &[],
            2,
            "2 of 4 ranks run on this machine, and the others would not change with them",
        ),
        (
            &["env", "-u", "SLURM_STEP_NUM_TASKS"],
            2,
            "2 of 4 ranks run on this machine",
        ),
        (&[], 1, "2 changes written and read back"),
    ];
    for (number, (before, nodes, said)) in (1..).zip(cases) {
        let job = slurm.job((nodes, 2), before, &program, |folder| {
            with_folder(folder, Vec::new())
        })?;
        let target = first_rank(&job, 2 * nodes)?;
        are_found(node, number)?;
        let mut agent = Agent::attach_in_node(node, &target, &flags)?;
        agent.lines.wait_for_line(said, SOON)?;
        // A session that keeps a change ends by itself; one without changes ends with the program.
        if nodes > 1 {
            job.open("end")?;
        }
        let report = agent.finish_with(SOON, &[0, 1])?;
        assert_eq!(report["job"]["size"], 2 * nodes, "{report}");
        let balance = &report["efficiencies"]["load_balance_between_nodes"];
        assert_eq!(balance.is_null(), nodes > 1, "{report}");
        ends_well(job, 2 * nodes, if nodes > 1 { 64 } else { 512 })?;
    }
    Ok(())
}

#[test]
fn a_job_of_slurm_is_watched_on_all_of_its_nodes_by_srun() -> Outcome {
    let _machine = require!(shared: Root, Cc, OpenMpi, Slurm, Nodes);
    // Not the names of the other test: ranks of one machine share memory by these names and the number of the job.
    let slurm = Slurm::start(&["node3", "node4"])?;
    let program = programs::mpi("count", Mpi::OpenMpi)?;
    let mut job = slurm.job((2, 2), &[], &program, |folder| with_folder(folder, Vec::new()))?;
    job.events("ready", 4, SOON)?;
    let variable = slurm.variable();
    let mut agent = Agent::attach_in_node_by(
        slurm.node(0)?,
        &["env", &variable],
        "slurm:1",
        &["--rules", "none"],
    )?;
    agent
        .lines
        .wait_for_line("4 ranks on 2 nodes (node3, node4)", SOON)?;
    agent
        .lines
        .wait_for_line("agents on 1 other machine by srun", SOON)?;
    job.open("go")?;
    job.events("tally", 4, SOON)?;
    job.end(SOON)?;
    let report = agent.finish(SOON)?;
    let hosts: Vec<&str> = each(&report["processes"])
        .filter_map(|process| process["host"].as_str())
        .collect();
    assert_eq!(hosts, ["node3", "node3", "node4", "node4"], "{report}");
    Ok(())
}
