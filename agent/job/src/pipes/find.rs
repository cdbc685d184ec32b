//! The pipeline that a process belongs to, or that a shell has started.

use std::collections::{BTreeMap, BTreeSet};

use procfs::process::Process;
use profile::streams::{Pipe, Pipeline, Stage};

use super::ends::{OpenEnds, PipeId};
use crate::discover::{ProcessTable, script_of};

/// Maximum number of processes of a pipeline. Of each, two files are kept open, and two of each thread.
const STAGES_MAX: usize = 200;

/// Bytes that a process which only starts another one reads and writes, at most: its own libraries and messages.
const STARTER_BYTES_MAX: u64 = 64 << 10;

/// Maximum length of a command line that is shown.
const COMMAND_CHARS_MAX: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum NoPipeline {
    #[error("no process {pid} runs here, nor a group of processes of this number")]
    NotThere { pid: i32 },
    #[error(
        "the descriptors of process {pid} may not be read: it is another user's, or protects itself; run this as its user"
    )]
    NotPermitted { pid: i32 },
    #[error(
        "process {pid} has no pipe to another process, and started none that have; of other programs --stage names the \
         functions to watch"
    )]
    NoPipes { pid: i32 },
    #[error("process {pid} has started several pipelines: give the number of a process of one ({firsts})")]
    Several { pid: i32, firsts: String },
    #[error("more than {STAGES_MAX} processes are joined by pipes here: that is no pipeline")]
    TooMany,
}

/// A pipe with the processes at its ends.
type Joined = BTreeMap<PipeId, (BTreeSet<i32>, BTreeSet<i32>)>;

/// The pipeline of a process, a group of processes, or what a shell started.
/// Only processes that `is_own` permits are looked at.
///
/// # Errors
/// If there is none, or more than one.
pub fn find(pid: i32, is_own: impl Fn(i32) -> bool) -> Result<Pipeline, NoPipeline> {
    let table = ProcessTable::read();
    let own = [pid]
        .into_iter()
        .chain(table.descendants(pid))
        .collect::<Vec<_>>();
    let targets: Vec<i32> = match table.get(pid) {
        Some(_) => own,
        None => group(&table, pid),
    };
    let Some(&first) = targets.first() else {
        return Err(NoPipeline::NotThere { pid });
    };
    if !is_own(first) || OpenEnds::of(first).is_none() {
        return Err(NoPipeline::NotPermitted { pid: first });
    }
    let others = table
        .iter()
        .filter(|(other, entry)| !entry.is_kernel_thread && is_own(*other));
    let mut open: BTreeMap<i32, OpenEnds> = others
        .filter_map(|(other, _)| Some((other, OpenEnds::of(other)?)))
        .collect();
    let starters: Vec<i32> = open
        .keys()
        .copied()
        .filter(|pid| leaves_pipes_to_child(&table, &open, *pid))
        .collect();
    open.retain(|pid, _| !starters.contains(pid));
    let joined = joined(&table, &open);
    let mut found: Vec<BTreeSet<i32>> = Vec::new();
    for target in targets {
        let members = reached(&joined, target);
        if members.len() > STAGES_MAX {
            return Err(NoPipeline::TooMany);
        }
        if members.len() > 1 && !found.contains(&members) {
            found.push(members);
        }
        // What the process itself belongs to comes before what it started.
        if target == pid && !found.is_empty() {
            break;
        }
    }
    match found.as_slice() {
        [] => Err(NoPipeline::NoPipes { pid }),
        [members] => Ok(pipeline(&table, &open, &joined, members)),
        several => {
            let firsts = several
                .iter()
                .filter_map(|members| members.first())
                .map(i32::to_string);
            Err(NoPipeline::Several {
                pid,
                firsts: firsts.collect::<Vec<_>>().join(", "),
            })
        }
    }
}

/// Whether a child has the same pipes and the process itself moves nothing, as `timeout 60 COMMAND`.
fn leaves_pipes_to_child(table: &ProcessTable, open: &BTreeMap<i32, OpenEnds>, pid: i32) -> bool {
    let Some(own) = open
        .get(&pid)
        .filter(|own| !own.read.is_empty() || !own.write.is_empty())
    else {
        return false;
    };
    let is_child = |other: &i32| table.get(*other).is_some_and(|entry| entry.parent == pid);
    let has_same = |ends: &OpenEnds| ends.read == own.read && ends.write == own.write;
    let moved = || Process::new(pid).and_then(|process| process.io());
    open.iter().any(|(other, ends)| is_child(other) && has_same(ends))
        && moved().is_ok_and(|io| io.rchar + io.wchar <= STARTER_BYTES_MAX)
}

fn group(table: &ProcessTable, number: i32) -> Vec<i32> {
    let is_in = |pid: &i32| {
        let stat = Process::new(*pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.pgrp == number)
    };
    table.iter().map(|(pid, _)| pid).filter(is_in).collect()
}

/// Pipes from one process to another. Not those of which a process has both ends, which wake it or are tokens
/// of a build; and not those to an ancestor, which collects output.
fn joined(table: &ProcessTable, open: &BTreeMap<i32, OpenEnds>) -> Joined {
    let mut joined = Joined::new();
    for (pid, ends) in open {
        for pipe in &ends.write {
            joined.entry(*pipe).or_default().0.insert(*pid);
        }
        for pipe in &ends.read {
            joined.entry(*pipe).or_default().1.insert(*pid);
        }
    }
    joined.retain(|_, (from, to)| {
        let collects = |to: &i32| {
            from.iter()
                .any(|from| table.lineage(*from).skip(1).any(|(above, _)| above == *to))
        };
        to.retain(|to| !collects(to));
        !from.is_empty() && !to.is_empty() && from.is_disjoint(to)
    });
    joined
}

/// The processes that pipes join to this one, directly or through others.
fn reached(joined: &Joined, start: i32) -> BTreeSet<i32> {
    let (mut members, mut waiting) = (BTreeSet::from([start]), vec![start]);
    while let Some(pid) = waiting.pop() {
        let of = joined
            .values()
            .filter(|(from, to)| from.contains(&pid) || to.contains(&pid));
        for other in of.flat_map(|(from, to)| from.iter().chain(to)) {
            if members.insert(*other) {
                waiting.push(*other);
            }
        }
    }
    members
}

fn pipeline(
    table: &ProcessTable,
    open: &BTreeMap<i32, OpenEnds>,
    joined: &Joined,
    members: &BTreeSet<i32>,
) -> Pipeline {
    let pids = in_order(joined, members);
    let stage = |pid: &i32| {
        let ends = open.get(pid).cloned().unwrap_or_default();
        let name = table
            .get(*pid)
            .map_or_else(String::new, |entry| entry.name.clone());
        let name = tuner::printable(&name).into_owned();
        // Two stages may be scripts of one interpreter.
        let script = script_of(*pid).map(|file| match file.rsplit_once('.') {
            Some((name, _)) if !name.is_empty() => name.to_owned(),
            _ => file,
        });
        Stage {
            pid: *pid,
            program: program(*pid).unwrap_or_else(|| name.clone()),
            about: format!("process {pid}: {}", command(*pid).unwrap_or_else(|| name.clone())),
            name: script.unwrap_or(name),
            other_inputs: ends.other_read,
            other_outputs: ends.other_write,
        }
    };
    let places = |ends: &BTreeSet<i32>| -> Vec<usize> {
        let at = |pid: &i32| pids.iter().position(|other| other == pid);
        ends.iter().filter_map(at).collect()
    };
    let of = joined
        .values()
        .filter(|(from, _)| from.iter().any(|pid| members.contains(pid)));
    let mut pipes: Vec<Pipe> = of
        .map(|(from, to)| Pipe {
            from: places(from),
            to: places(to),
        })
        .collect();
    pipes.sort_by_key(|pipe| (pipe.from.clone(), pipe.to.clone()));
    let stages = pids.iter().map(stage).collect();
    Pipeline { stages, pipes }
}

/// The file name of its program.
fn program(pid: i32) -> Option<String> {
    let file = Process::new(pid).and_then(|process| process.exe()).ok()?;
    Some(file.file_name()?.to_string_lossy().into_owned())
}

/// Senders before receivers, as far as the pipes have no cycle.
fn in_order(joined: &Joined, members: &BTreeSet<i32>) -> Vec<i32> {
    let mut depth: BTreeMap<i32, usize> = members.iter().map(|pid| (*pid, 0)).collect();
    for _ in 0..members.len() {
        for (from, to) in joined.values() {
            let deepest = from.iter().filter_map(|pid| depth.get(pid)).max().copied();
            let Some(deepest) = deepest else { continue };
            for pid in to {
                if let Some(own) = depth.get_mut(pid) {
                    *own = (*own).max(deepest + 1).min(members.len());
                }
            }
        }
    }
    let mut pids: Vec<i32> = members.iter().copied().collect();
    pids.sort_by_key(|pid| (depth.get(pid).copied(), *pid));
    pids
}

fn command(pid: i32) -> Option<String> {
    let words = Process::new(pid).and_then(|process| process.cmdline()).ok()?;
    let text: String = words.join(" ").chars().take(COMMAND_CHARS_MAX).collect();
    (!text.is_empty()).then(|| tuner::printable(&text).into_owned())
}
