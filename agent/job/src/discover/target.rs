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
    #[error("no process that you may inspect here belongs to {target}{}", elsewhere(.target))]
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

/// The processes of a target. A name must match exactly one program: processes of that name with the same
/// parent are one program. If the caller runs one of that name, those of other users are ignored.
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
    let cut = target.get(..15).unwrap_or(target);
    let named = table.iter().filter(|(_, entry)| entry.name == cut);
    let mut named: Vec<i32> = named.map(|(pid, _)| pid).collect();
    if named.is_empty() {
        // An interpreter that was started through a link has the name of the link.
        let of_file = |pid: &i32| {
            let file = std::fs::read_link(format!("/proc/{pid}/exe"));
            file.is_ok_and(|file| file.file_name() == Some(target.as_ref()))
        };
        named.extend(table.iter().map(|(pid, _)| pid).filter(of_file));
    }
    if named.is_empty() {
        // A session shows an interpreter with its script.
        let runs_script = |pid: &i32| name::script_of(*pid).as_deref() == Some(target);
        named.extend(table.iter().map(|(pid, _)| pid).filter(runs_script));
    }
    let own: Vec<i32> = named.iter().copied().filter(|pid| is_own(*pid)).collect();
    let named = if own.is_empty() { named } else { own };
    let parent = |pid: &i32| table.get(*pid).map(|entry| entry.parent);
    let first_of_each: Vec<i32> = named
        .iter()
        .enumerate()
        .filter(|(index, pid)| {
            let started_by_another = named.iter().any(|other| Some(*other) == parent(pid));
            !started_by_another
                && !named[..*index]
                    .iter()
                    .any(|earlier| parent(earlier) == parent(pid))
        })
        .map(|(_, pid)| *pid)
        .collect();
    match first_of_each[..] {
        [] => Err(TargetError::NoSuchProgram { name: target.into() }),
        [only] => {
            let siblings = named.into_iter().filter(|pid| parent(pid) == parent(&only));
            Ok(siblings.collect())
        }
        _ => Err(TargetError::Ambiguous {
            name: target.into(),
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
        insta::assert_snapshot!(resolve("slurm:4711.0", &table).unwrap_err(), @"no process that you may inspect here belongs to slurm:4711.0; on the job's nodes: srun --jobid 4711 --overlap --pty tuneagent attach slurm:4711.0");
        insta::assert_snapshot!(resolve("container:3f9c", &table).unwrap_err(), @"no process that you may inspect here belongs to container:3f9c");
        insta::assert_snapshot!(resolve("pbs:12", &table).unwrap_err(), @"there are no targets of the form pbs:…; there are 8123 (a process), lmp (a program), slurm:4711, slurm:4711.0, container:3f9c, pmix:2283995137, hydra:n1:40123");
    }
}
