//! Programs that run side by side: a shell starts them, alone or under `tuneagent run`, and prints their exit
//! codes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi};
use tuneagent_e2e::lines::Lines;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, Problem};

use super::rows::Row;
use crate::expected::SOON;

/// The process that runs the shell.
enum Runner {
    Alone(Job),
    Watched(Agent),
}

/// A set of programs running at the same time.
pub(super) struct Batch {
    runner: Runner,
    rows: Vec<Row>,
    folder: TempDir,
    /// For each ended row, the step after which its end was first seen.
    ended: Mutex<BTreeMap<String, String>>,
    failures: Mutex<Vec<String>>,
}

/// Exit code and last lines of each row.
pub(super) struct Verdicts {
    of: BTreeMap<String, (String, Vec<String>)>,
    /// For each row, the step after which its end was first seen.
    ended: BTreeMap<String, String>,
    failures: Vec<String>,
}

impl Batch {
    /// Starts the programs; with flags, under `tuneagent run`.
    pub(super) fn start(rows: &[Row], run: Option<&Vec<&str>>) -> Outcome<Batch> {
        let folder = tempfile::tempdir()?;
        let mut script = "ulimit -c 0; export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
                          OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,vader\n"
            .to_owned();
        let mut words = vec!["sh".to_owned(), "-c".into(), String::new(), "hostile".into()];
        for row in rows {
            let file = folder.path().join(row.name());
            fs::write(&file, [0; 16]).context(file.display())?;
            // Two launchers that create their common folder at the same time fail, so each has its own.
            let sessions = folder.path().join(format!("{}.sessions", row.name()));
            fs::create_dir(&sessions).context(sessions.display())?;
            let program = row.program()?.to_string_lossy().into_owned();
            script += &format!(
                "(export OMPI_MCA_orte_tmpdir_base='{}'; {}; echo \"{}: exit $?\") &\n",
                sessions.display(),
                command(row, &program, &file)?,
                row.name()
            );
            if !words.contains(&program) {
                words.push(program);
            }
        }
        script += "wait\n";
        words[2] = script;
        let runner = match run {
            None => Runner::Alone(Job::alone(Path::new("sh"), |_| words[1..].to_vec())?),
            Some(flags) => Runner::Watched(Agent::starting(flags, &words)?),
        };
        let batch = Batch {
            runner,
            rows: rows.to_vec(),
            folder,
            ended: Mutex::default(),
            failures: Mutex::default(),
        };
        for row in rows {
            let line = format!("{}: pid ", row.name());
            batch.lines().wait_for_line(&line, SOON)?;
        }
        Ok(batch)
    }

    fn lines(&self) -> &Lines {
        match &self.runner {
            Runner::Alone(job) => &job.lines,
            Runner::Watched(agent) => &agent.lines,
        }
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds a failure that is not caused by a single row.
    pub(super) fn fails(&self, what: String) {
        locked(&self.failures).push(what);
    }

    /// Lines of a row with this prefix, without it.
    fn said(&self, row: &Row, what: &str) -> Vec<String> {
        let start = format!("{}: {what}", row.name());
        let lines = self.lines().all();
        let found = lines.iter().filter_map(|line| line.text.strip_prefix(&start));
        found.map(str::to_owned).collect()
    }

    /// Process number of a row (of one of its ranks), if the row has not ended.
    pub(super) fn pid_of(&self, row: &Row) -> Option<String> {
        let pid = self.said(row, "pid ").into_iter().next()?;
        self.lives(row).then_some(pid)
    }

    /// Process numbers of all ranks of all rows that have not ended.
    pub(super) fn pids(&self) -> Outcome<Vec<String>> {
        let rows = self.rows.iter().filter(|row| self.lives(row));
        Ok(rows.flat_map(|row| self.said(row, "pid ")).collect())
    }

    pub(super) fn lives(&self, row: &Row) -> bool {
        self.said(row, "exit ").is_empty()
    }

    fn rounds_of(&self, row: &Row) -> Outcome<u64> {
        let file = self.folder.path().join(row.name());
        let mut bytes = [0; 8];
        File::open(&file)?
            .read_exact_at(&mut bytes, 0)
            .context(file.display())?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Waits until every running program has made `count` more rounds.
    pub(super) fn makes_rounds(&self, count: u64) -> Outcome {
        let mut wanted = Vec::new();
        for row in &self.rows {
            wanted.push((*row, self.rounds_of(row)? + count));
        }
        wanted
            .into_iter()
            .try_for_each(|(row, count)| self.reaches(&row, count))
    }

    pub(super) fn makes_rounds_of(&self, row: &Row, count: u64) -> Outcome {
        self.reaches(row, self.rounds_of(row)? + count)
    }

    fn reaches(&self, row: &Row, count: u64) -> Outcome {
        let has_reached = || Ok(self.rounds_of(row)? >= count || !self.lives(row));
        wait_until(&format!("more rounds of {}", row.name()), SOON, has_reached)
            .map_err(|problem| Problem::new(format!("{problem}:\n{}", self.lines().text())))
    }

    /// Records the rows that have ended by now.
    pub(super) fn look(&self, what: &str) {
        for row in &self.rows {
            if !self.lives(row) {
                locked(&self.ended)
                    .entry(row.name())
                    .or_insert_with(|| what.to_owned());
            }
        }
    }

    /// Lets all programs end and collects their verdicts.
    pub(super) fn ends(mut self) -> Outcome<Verdicts> {
        for row in &self.rows {
            let file = self.folder.path().join(row.name());
            let file = File::options().write(true).open(file)?;
            file.write_all_at(&1_u64.to_le_bytes(), 8)?;
        }
        for row in &self.rows {
            self.lines()
                .wait_for_line(&format!("{}: exit ", row.name()), SOON)?;
        }
        match &mut self.runner {
            Runner::Alone(job) => job.finish(SOON)?,
            // The exit code of `run` is that of the command.
            Runner::Watched(agent) => match agent.wait(SOON)? {
                0 => {}
                code => {
                    let text = agent.lines.text();
                    locked(&self.failures).push(format!("`run` ended with {code}: {text}"));
                }
            },
        }
        let verdict = |row: &Row| {
            let code = self.said(row, "exit ").join(" ");
            let mut last = self.said(row, "ok");
            last.extend(self.said(row, "wrong"));
            (row.name(), (code, last))
        };
        Ok(Verdicts {
            of: self.rows.iter().map(verdict).collect(),
            ended: std::mem::take(&mut *locked(&self.ended)),
            failures: std::mem::take(&mut *locked(&self.failures)),
        })
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Command line of a row for the shell.
fn command(row: &Row, program: &str, file: &Path) -> Outcome<String> {
    let launcher = match (row.mpi, row.ranks) {
        // Without a launcher Open MPI would start a daemon.
        (Some(Mpi::OpenMpi), _) => {
            format!("mpirun.openmpi --oversubscribe --bind-to none -n {} ", row.ranks)
        }
        (Some(Mpi::Mpich), 2..) => format!("mpirun.mpich -n {} ", row.ranks),
        _ => String::new(),
    };
    let mut words = format!(
        "{launcher}'{program}' {} {} '{}'",
        row.mode,
        row.name(),
        file.display()
    );
    for argument in row.arguments()? {
        words += &format!(" '{}'", argument.display());
    }
    Ok(words)
}

impl Verdicts {
    /// Failures of untouched programs, which must all end with success.
    pub(super) fn failures(&self) -> Vec<String> {
        let bad = self
            .of
            .iter()
            .filter(|(_, (code, last))| code != "0" || last.is_empty());
        bad.map(|(name, verdict)| format!("{name} alone: {verdict:?}"))
            .collect()
    }

    /// Differences to the verdicts without the agent.
    pub(super) fn differences(&self, alone: &Verdicts, round: usize) -> Vec<String> {
        let mut found = self.failures.clone();
        for (name, verdict) in &self.of {
            if alone.of.get(name) != Some(verdict) {
                let after = self.ended.get(name).map_or("at its end", String::as_str);
                found.push(format!("round {round}: {name}, {after}: {verdict:?}"));
            }
        }
        found
    }
}
