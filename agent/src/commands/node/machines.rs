//! `attach --nodes`: on which other machines of a job agents are started, and how.

use std::{env, ffi::OsString, path::PathBuf};

use job::{Job, Machines, NodeChoice, is_launcher};
use profile::node_list;

use crate::{
    cli::AttachArgs,
    exit::Failure,
    nodes::{self, StartUser, StartWay},
    rights,
};

/// Machines on which agents are started.
pub(in crate::commands) struct Chosen {
    pub(super) hosts: Vec<String>,
    pub(super) way: StartWay,
    /// As whom, if not as the user of this process.
    pub(super) user: Option<StartUser>,
}

/// The job as a TARGET on its other machines; `None` if nothing names it.
pub(super) fn target(job: &Job) -> Result<Option<String>, Failure> {
    rights::looking(|| machines(job).target).map_err(Failure::not_permitted)
}

fn machines(job: &Job) -> Machines {
    let mut own = vec![job::host(), "localhost".to_owned()];
    own.extend(nodes::own_addresses().iter().map(ToString::to_string));
    Machines::of(job, rights::caller(), &own)
}

/// The machines of `--nodes`, or those of its default. `targets` are as they were typed. Without `--nodes` a session never
/// fails because of other machines.
pub(in crate::commands) fn choose(
    args: &AttachArgs,
    job: &Job,
    targets: &[String],
    notes: &mut Vec<String>,
) -> Result<Option<Chosen>, Failure> {
    let choice = args.nodes.as_deref().map(str::parse::<NodeChoice>).transpose();
    let choice = choice.map_err(|wrong| Failure::invalid(format!("--nodes: {wrong}")))?;
    if choice == Some(NodeChoice::Here) || (choice.is_none() && !args.join_file.is_empty()) {
        return Ok(None);
    }
    let machines = rights::looking(|| machines(job)).map_err(Failure::not_permitted)?;
    match &choice {
        Some(choice) => wanted(choice, args, job, machines),
        None => {
            let (chosen, note) = by_default(args, job, targets, machines);
            notes.extend(note);
            Ok(chosen)
        }
    }
}

/// The machines that the user requires.
fn wanted(
    choice: &NodeChoice,
    args: &AttachArgs,
    job: &Job,
    machines: Machines,
) -> Result<Option<Chosen>, Failure> {
    if args.watch.apply.is_some() {
        return Err(Failure::invalid(
            "--apply and --nodes exclude each other: nothing is changed on several machines yet; `--nodes here` changes this one",
        ));
    }
    let hosts = match choice {
        NodeChoice::Listed(hosts) => machines.without_here(hosts.clone()),
        _ => match (&machines.wrong, machines.others.is_empty()) {
            (Some(wrong), _) => {
                return Err(Failure::invalid(format!(
                    "--nodes all: the names of the job's machines cannot be used: {wrong}"
                )));
            }
            (None, true) if job.size() != Some(job.size_here()) => {
                return Err(Failure::invalid(format!(
                    "--nodes all: nothing here names the other machines of {}: name them, as in --nodes n[1-4],b",
                    job.program()
                )));
            }
            (None, _) => machines.others.clone(),
        },
    };
    match hosts.is_empty() {
        true => Ok(None),
        false => chosen(hosts, machines).map(Some),
    }
}

/// All machines where the target is a launcher or a job of Slurm, and else none; with a line for what is not watched.
fn by_default(
    args: &AttachArgs,
    job: &Job,
    targets: &[String],
    machines: Machines,
) -> (Option<Chosen>, Option<String>) {
    if machines.others.is_empty() {
        let note = machines
            .wrong
            .map(|wrong| format!("note: this machine only: the names of the others cannot be used: {wrong}"));
        return (None, note);
    }
    let others = machines.others.iter().map(String::as_str);
    let elsewhere = format!("note: the job is also on {}", node_list(others));
    let without = |why: String| (None, Some(format!("{elsewhere}: {why}")));
    if args.watch.apply.is_some() {
        return without("nothing is changed there, as --apply is for one machine".to_owned());
    }
    if !is_of_all(job, targets) {
        return without("--nodes all watches all of it".to_owned());
    }
    if !nodes::has_server() {
        return without("to watch it there, too, install the package nats-server".to_owned());
    }
    match chosen(machines.others.clone(), machines) {
        Ok(chosen) => (Some(chosen), None),
        Err(failure) => without(failure.error.to_string()),
    }
}

/// Whether a target is all of a job: a launcher, or a job of Slurm.
fn is_of_all(job: &Job, targets: &[String]) -> bool {
    let [target] = targets else { return false };
    let launcher = job.launcher().filter(|launcher| is_launcher(&launcher.name));
    let is_its = |pid: i32| launcher.is_some_and(|launcher| launcher.pid.number == pid);
    target.starts_with("slurm:") || target.parse().is_ok_and(is_its)
}

fn chosen(hosts: Vec<String>, machines: Machines) -> Result<Chosen, Failure> {
    let user = StartUser::of_sudo()?;
    let path = match &user {
        Some(user) => user.variable("PATH").map(OsString::from),
        None => env::var_os("PATH"),
    };
    let has_srun =
        env::split_paths(&path.unwrap_or_default()).any(|folder: PathBuf| folder.join("srun").is_file());
    let way = match machines.slurm.filter(|_| has_srun) {
        Some(job) => StartWay::Slurm(job),
        None => StartWay::Shell(machines.shell),
    };
    Ok(Chosen { hosts, way, user })
}
