//! TARGET on the command line: a pid, the name of a program, or what its processes belong to.

use super::{job_selector::JobSelector, name, table::ProcessTable};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("no program named {name} runs here")]
    NoSuchProgram { name: String },
    /// More than one program has the name.
    #[error(
        "{count} programs named {name} run here: {listed}; give the number of one, or of several to watch them together"
    )]
    Ambiguous {
        name: String,
        count: usize,
        listed: String,
    },
    /// No process here belongs to this target.
    #[error("no process of {target} is visible to you on this machine; check the name, or try with sudo{}", elsewhere(.target))]
    NoProcessOf { target: String },
    /// An unknown kind of target.
    #[error(
        "there are no targets of the form {kind}:…; there are 8123 (a process), lmp (a program), slurm:4711, slurm:4711.0, container:3f9c, pmix:2283995137, hydra:n1:40123"
    )]
    Kind {
        /// The text before the colon.
        kind: String,
    },
}

/// How to reach processes on other nodes.
fn elsewhere(target: &str) -> String {
    match target
        .strip_prefix("slurm:")
        .map(|id| id.split('.').next().unwrap_or(id))
    {
        Some(job) => {
            format!("; on the job's nodes: srun --jobid {job} --overlap --pty tuneagent attach {target}")
        }
        None => String::new(),
    }
}

/// Maximum length of a process's name, in bytes: the kernel cuts off the rest (proc(5), `/proc/pid/comm`).
const COMMAND_NAME_MAX: usize = 15;

/// The processes of a target: those with this pid, of this job or container, or of the program with this name. A program has
/// the name of its processes, else that of its executable file, else that of the script which an interpreter runs. The name
/// must match exactly one program: processes of that name with the same parent are one program. If the caller runs one of that
/// name, those of other users are ignored.
pub fn resolve(
    target: &str,
    table: &ProcessTable,
    is_own: impl Fn(i32) -> bool,
) -> Result<Vec<i32>, TargetError> {
    if let Ok(pid) = target.parse() {
        return Ok(vec![pid]);
    }
    if let Some((kind, id)) = target.split_once(':') {
        let selector = JobSelector::of(kind, id).ok_or_else(|| TargetError::Kind { kind: kind.into() })?;
        let found = selector.topmost(table);
        let no_member = || TargetError::NoProcessOf {
            target: target.into(),
        };
        return (!found.is_empty()).then_some(found).ok_or_else(no_member);
    }
    let searches: [fn(&str, &ProcessTable) -> Vec<i32>; 3] = [named, by_file, by_script];
    let mut found = searches.iter().map(|search| search(target, table));
    let found = found.find(|pids| !pids.is_empty()).unwrap_or_default();
    let own: Vec<i32> = found.iter().copied().filter(|pid| is_own(*pid)).collect();
    one_program(target, if own.is_empty() { found } else { own }, table)
}

fn named(name: &str, table: &ProcessTable) -> Vec<i32> {
    let cut = name.get(..COMMAND_NAME_MAX).unwrap_or(name);
    let named = table.iter().filter(|(_, entry)| entry.name == cut);
    named.map(|(pid, _)| pid).collect()
}

/// An interpreter that was started through a link has the name of the link.
fn by_file(name: &str, table: &ProcessTable) -> Vec<i32> {
    let is_of_file = |pid: &i32| {
        let file = std::fs::read_link(format!("/proc/{pid}/exe"));
        file.is_ok_and(|file| file.file_name() == Some(name.as_ref()))
    };
    table.iter().map(|(pid, _)| pid).filter(is_of_file).collect()
}

/// A session shows an interpreter with its script.
fn by_script(file: &str, table: &ProcessTable) -> Vec<i32> {
    let runs_script = |pid: &i32| name::script_of(*pid).as_deref() == Some(file);
    table.iter().map(|(pid, _)| pid).filter(runs_script).collect()
}

/// The processes of a name that have one parent. A process whose parent has the name, too, is left out.
fn one_program(name: &str, named: Vec<i32>, table: &ProcessTable) -> Result<Vec<i32>, TargetError> {
    let parent = |pid: &i32| table.get(*pid).map(|entry| entry.parent);
    let first_of_each: Vec<i32> = named
        .iter()
        .enumerate()
        .filter(|(index, pid)| {
            let started_by_another = named.iter().any(|other| Some(*other) == parent(pid));
            let mut earlier = named[..*index].iter();
            !started_by_another && !earlier.any(|earlier| parent(earlier) == parent(pid))
        })
        .map(|(_, pid)| *pid)
        .collect();
    match first_of_each[..] {
        [] => Err(TargetError::NoSuchProgram { name: name.into() }),
        [only] => {
            let siblings = named.into_iter().filter(|pid| parent(pid) == parent(&only));
            Ok(siblings.collect())
        }
        _ => Err(TargetError::Ambiguous {
            name: name.into(),
            count: first_of_each.len(),
            listed: first_of_each
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tuneagent_e2e::line_program::LineProgram;

    use super::*;

    #[test]
    fn of_programs_of_one_name_the_callers_own_comes_first() {
        let table = ProcessTable::of(&[(30, 1, "twice"), (31, 2, "twice"), (32, 3, "twice")]);
        assert_eq!(resolve("twice", &table, |pid| pid == 31), Ok(vec![31]));
        let two = resolve("twice", &table, |pid| pid != 31).unwrap_err().to_string();
        assert!(
            two.starts_with("2 programs named twice run here: 30, 32"),
            "{two}"
        );
    }

    #[test]
    fn a_script_is_found_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("fit.sh");
        std::fs::write(&script, "cat; true").unwrap();
        let mut running = LineProgram::start(Command::new("bash").arg(&script)).unwrap();
        // Its arguments are there once it runs.
        running.say("a line").unwrap();
        let pid = i32::try_from(running.pid()).unwrap();
        let table = ProcessTable::of(&[(pid, 1, "bash")]);
        assert_eq!(resolve("fit.sh", &table, |_| true), Ok(vec![pid]));
        assert!(resolve("fit", &table, |_| true).is_err());
    }

    #[test]
    fn a_name_must_mean_one_program() {
        let table = ProcessTable::of(&[
            (10, 1, "mpirun"),
            (11, 10, "lmp"),
            (12, 10, "lmp"),
            (20, 1, "app"),
            (21, 20, "app"),
            (30, 1, "twice"),
            (31, 2, "twice"),
        ]);
        let resolve = |target: &str, table| resolve(target, table, |_| false);
        assert_eq!(resolve("4711", &table), Ok(vec![4711]));
        assert_eq!(resolve("lmp", &table), Ok(vec![11, 12]));
        assert_eq!(resolve("app", &table), Ok(vec![20]));
        insta::assert_snapshot!(resolve("twice", &table).unwrap_err(), @"2 programs named twice run here: 30, 31; give the number of one, or of several to watch them together");
        insta::assert_snapshot!(resolve("none", &table).unwrap_err(), @"no program named none runs here");
        insta::assert_snapshot!(resolve("slurm:4711.0", &table).unwrap_err(), @"no process of slurm:4711.0 is visible to you on this machine; check the name, or try with sudo; on the job's nodes: srun --jobid 4711 --overlap --pty tuneagent attach slurm:4711.0");
        insta::assert_snapshot!(resolve("container:3f9c", &table).unwrap_err(), @"no process of container:3f9c is visible to you on this machine; check the name, or try with sudo");
        insta::assert_snapshot!(resolve("pbs:12", &table).unwrap_err(), @"there are no targets of the form pbs:…; there are 8123 (a process), lmp (a program), slurm:4711, slurm:4711.0, container:3f9c, pmix:2283995137, hydra:n1:40123");
    }
}
