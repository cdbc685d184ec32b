//! Cases of the run-time rules: programs started with wrong settings, the rule that repairs them, and the
//! same programs started with the right settings.
//!
//! Tests check that each becomes faster; the experiment `runtime` measures by how much.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::crowd::{Crowd, Program, Results, Said};
use crate::group::Group;
use crate::job::{Job, Mpi, Waiting};
use crate::needs::Need;
use crate::wheels::Wheel;
use crate::{Outcome, gromacs, lammps, programs, wheels};

/// The settings with which programs are started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// The settings that the rule repairs.
    Wrong,
    /// The settings that the rule recommends.
    Right,
}

impl Start {
    fn either<T>(self, wrong: T, right: T) -> T {
        match self {
            Start::Wrong => wrong,
            Start::Right => right,
        }
    }
}

/// A case of one rule and one kind of program.
pub struct Case {
    /// Name of the case.
    pub name: &'static str,
    /// Name of the rule.
    pub rule: &'static str,
    /// Requirements of the programs.
    pub needs: &'static [Need],
    /// The agent's texts about the change and its verdict; the latter is empty if no guard judges.
    pub done: [&'static str; 2],
    /// Unit of the pace.
    pub unit: &'static str,
    /// Minimum ratio of the paces after and before, on an idle machine.
    pub gain: fn() -> f64,
    /// Starts the programs with these settings.
    pub start: fn(Start) -> Outcome<Crowd>,
}

/// Paces by the programs' own clocks.
#[derive(Clone, Copy, Debug)]
pub struct Paces {
    /// As they were started.
    pub before: f64,
    /// After the rule has acted and the agent has left.
    pub after: f64,
    /// Programs started with the right settings.
    pub right: f64,
}

/// Result of one trial of a case.
#[derive(Debug)]
pub struct Tried {
    /// Measured paces of the programs.
    pub paces: Paces,
    /// Output of the agent.
    pub text: String,
    /// Results of the repaired programs.
    pub results: Results,
    /// Results of the programs started with the right settings.
    pub expected: Results,
}

/// Steps of a run; more than the guard needs on any machine.
const ENDLESS: u64 = 10_000_000;

/// Turns of the repaired programs and of those started with the right settings.
const TURNS: usize = 2;

const KEEPS: &str = "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4294967296";

const ONE_BLAS_THREAD: &str = "OPENBLAS_NUM_THREADS=1";

const TEAMS_OF_ONE: [&str; 2] = [
    "set_arg openmp.size = min(original, 1): done in 2 processes",
    "kept",
];

/// All cases, at least one for each run-time rule.
pub static CASES: [Case; 19] = [
    Case {
        name: "LAMMPS melt, 6 ranks of Open MPI",
        rule: "openmpi-busy-wait",
        needs: &[Need::Root, Need::OpenMpi, Need::Lammps],
        done: ["6 changes written and read back", "kept"],
        unit: "steps/s",
        gain: || 20.0,
        start: |start| {
            let job = lammps::start(waiting(start), 6, ENDLESS)?;
            Ok(Crowd::of_others(job, LAMMPS))
        },
    },
    Case {
        name: "GROMACS water, 4 ranks of Open MPI",
        rule: "openmpi-busy-wait",
        needs: &[Need::Root, Need::OpenMpi, Need::Gromacs],
        done: ["4 changes written and read back", "kept"],
        unit: "steps/s",
        gain: || 20.0,
        start: |start| Ok(Crowd::of_others(gromacs::start(waiting(start), 4)?, GROMACS)),
    },
    Case {
        name: "mpi4py sums, 4 ranks of Open MPI",
        rule: "openmpi-busy-wait",
        needs: &[Need::Root, Need::OpenMpi, Need::Mpi4py],
        done: ["4 changes written and read back", "kept"],
        unit: "iterations/s",
        // An iteration in Python takes longer than a message in MPI, which limits the gain.
        gain: || 10.0,
        start: |start| {
            let script = programs::source("sums.py");
            let job = Job::mpi(
                Mpi::OpenMpi,
                waiting(start),
                4,
                Path::new("/usr/bin/python3"),
                |folder| texts([&script, folder]).to_vec(),
            )?;
            Ok(Crowd::of(job))
        },
    },
    Case {
        name: "allreduce, 6 ranks of MPICH",
        rule: "mpich-busy-wait",
        needs: &[Need::Root, Need::Mpich],
        done: [
            "insert_call sched_yield in ucp_worker_progress: done in 6 processes",
            "kept",
        ],
        unit: "iterations/s",
        gain: || 20.0,
        start: |start| {
            let environment = yielding(start)?;
            let program = programs::mpi("allreduce", Mpi::Mpich)?;
            let job = Job::mpi(Mpi::Mpich, Waiting::Spinning, 6, Path::new("env"), |folder| {
                let words = texts([&program, folder]);
                environment.into_iter().chain(words).collect()
            })?;
            Ok(Crowd::of(job))
        },
    },
    Case {
        name: "4 NumPy processes, products of 160 rows",
        rule: "blas-threads",
        needs: &[Need::Root, Need::PythonWheels],
        done: ["4 changes written and read back", "guard"],
        unit: "products/s",
        gain: || 20.0,
        start: |start| products(4, &with(start, ONE_BLAS_THREAD), 160),
    },
    Case {
        name: "allreduce, 6 ranks of MPICH 5",
        rule: "mpich-busy-wait",
        needs: &[Need::Root, Need::MpiWheels],
        done: [
            "insert_call sched_yield in ucp_worker_progress: done in 6 processes",
            "kept",
        ],
        unit: "iterations/s",
        gain: || 20.0,
        start: |start| of_wheel(wheels::MPICH, &[], yielding(start)?),
    },
    Case {
        name: "4 MKL processes, products of 96 rows",
        rule: "mkl-threads",
        needs: &[Need::Root, Need::Mkl],
        done: ["call MKL_Set_Num_Threads(1): done in 4 processes", "guard"],
        unit: "products/s",
        gain: || 1.5,
        start: |start| {
            let program = programs::mkl("products")?;
            let environment = with(start, "MKL_NUM_THREADS=1");
            Crowd::start(4, &environment, &program, &["DIRECTORY", "96"])
        },
    },
    Case {
        name: "2 OpenMP programs, short loops",
        rule: "openmp-team-size",
        needs: &[Need::Root, Need::Cc],
        done: ["done in 2 processes", "kept"],
        unit: "regions/s",
        gain: || 2.0,
        start: |start| teams(2, start),
    },
    Case {
        name: "2 programs that state their teams",
        rule: "openmp-stated-team-size",
        needs: &[Need::Root, Need::Cc],
        done: TEAMS_OF_ONE,
        unit: "regions/s",
        gain: || 2.0,
        start: |start| {
            let threads = start.either("2", "1");
            let program = programs::openmp("teams")?;
            Crowd::start(2, &[], &program, &["DIRECTORY", "2000", threads])
        },
    },
    Case {
        name: "2 LightGBM processes, 2 threads each",
        rule: "openmp-stated-team-size",
        needs: &[Need::Root, Need::PythonWheels],
        done: TEAMS_OF_ONE,
        unit: "trees/s",
        gain: || 20.0,
        start: |start| trees("lightgbm", 2, start),
    },
    Case {
        // XGBoost divides its work by the requested size: a smaller team would omit some of it.
        name: "2 XGBoost processes, 2 threads each",
        rule: "xgboost-threads",
        needs: &[Need::Root, Need::PythonWheels],
        done: [
            "replace omp_get_thread_limit with omp_get_num_teams: done in 2 processes",
            "kept",
        ],
        unit: "trees/s",
        gain: || 20.0,
        start: |start| trees("xgboost", 2, start),
    },
    Case {
        name: "3 blocks of 64 MiB an iteration",
        rule: "memory-given-back",
        needs: &[Need::Root, Need::Cc],
        done: ["call mallopt(-1, -1): done in 1 process", "kept"],
        unit: "iterations/s",
        gain: || 5.0,
        start: churn,
    },
    Case {
        name: "2 programs bound to one core",
        rule: "shared-core",
        needs: &[Need::Root, Need::OpenMpi, Need::IdleCore],
        done: ["affinity: spread: done in 2 processes", "kept"],
        unit: "regions/s",
        gain: || 1.4,
        start: |start| {
            let bind = start.either("core", "none");
            let program = programs::openmp("teams")?;
            let program = program.to_string_lossy();
            // Two independent jobs both bind their ranks from the first core on.
            let words = format!("--allow-run-as-root -n 1 --bind-to {bind} {program} DIRECTORY 2000");
            let words: Vec<&str> = words.split(' ').collect();
            Crowd::start(2, &["OMP_NUM_THREADS=1"], Path::new("mpirun.openmpi"), &words)
        },
    },
    Case {
        name: "2 programs on LLVM's OpenMP, 4 threads each",
        rule: "openmp-team-size",
        needs: &[Need::Root, Need::Cc, Need::LlvmOpenMp],
        done: ["call omp_set_num_threads(1): done in 2 processes", "kept"],
        unit: "regions/s",
        gain: || 2.0,
        start: |start| {
            // The wrong size is the CPU count of the machine, as of a program in a container with fewer CPUs.
            let threads = start.either("OMP_NUM_THREADS=4", "OMP_NUM_THREADS=1");
            Crowd::start(2, &[threads], &programs::kmpc("kmpc")?, &["DIRECTORY", "2000"])
        },
    },
    Case {
        name: "2 programs that state teams of 4 to LLVM's OpenMP",
        rule: "openmp-stated-team-size",
        needs: &[Need::Root, Need::Cc, Need::LlvmOpenMp],
        done: TEAMS_OF_ONE,
        unit: "regions/s",
        gain: || 2.0,
        start: |start| {
            let threads = start.either("4", "1");
            let program = programs::kmpc("kmpc")?;
            Crowd::start(2, &[], &program, &["DIRECTORY", "2000", threads])
        },
    },
    Case {
        name: "a team of 2 that bound itself to one core",
        rule: "shared-core",
        needs: &[Need::Root, Need::Cc, Need::IdleCore],
        done: ["affinity: spread: done in 1 process", "kept"],
        unit: "regions/s",
        gain: || 1.5,
        start: |start| {
            let program = programs::openmp("teams")?;
            let program = program.to_string_lossy();
            // Regions that are long compared with the wake-up of a thread. `taskset` executes the program,
            // which inherits its mask.
            let words = ["taskset", "-c", "0", &program, "DIRECTORY", "2000000"];
            let words = &words[start.either(0, 3)..];
            Crowd::start(1, &["OMP_NUM_THREADS=2"], Path::new("env"), words)
        },
    },
    Case {
        name: "8 threads that freed 512 MiB in small blocks",
        rule: "memory-kept",
        needs: &[Need::Root, Need::Cc],
        done: ["call malloc_trim(0): done in 1 process", ""],
        // Number of processes that fit into 1 GiB.
        unit: "processes/GiB",
        gain: || 1.5,
        start: |start| {
            let words = ["DIRECTORY", "8", "512", "trims"];
            let words = &words[..start.either(3, 4)];
            Crowd::start(1, &[], &programs::c_with_math("arenas")?, words)
        },
    },
    Case {
        // With one thread it begins no parallel region any more, as PyTorch does.
        name: "2 programs on PyTorch's number of threads",
        rule: "pytorch-threads",
        needs: &[Need::Root, Need::Cc],
        done: ["call omp_set_num_threads(1): done in 2 processes", "kept"],
        unit: "operations/s",
        gain: || 2.0,
        start: |start| {
            let library = programs::openmp_library("libtorch_cpu")?;
            let words = ["DIRECTORY", "2000", &*library.to_string_lossy()];
            let threads = start.either("OMP_NUM_THREADS=2", "OMP_NUM_THREADS=1");
            Crowd::start(2, &[threads], &programs::openmp("serial")?, &words)
        },
    },
    Case {
        name: "2 llama.cpp processes, 2 threads each",
        rule: "ggml-threads",
        needs: &[Need::Root, Need::LlamaCpp],
        done: [
            "set_arg ggml_graph_plan(2) = min(original, 1): done in 2 processes",
            "kept",
        ],
        unit: "tokens/s",
        gain: || 5.0,
        start: |start| tokens(2, start.either(2, 1)),
    },
];

/// A program that needs no rule.
pub struct Healthy {
    /// Name of the program.
    pub name: &'static str,
    /// Requirements of the program.
    pub needs: &'static [Need],
    /// Starts one instance of the program.
    pub start: fn() -> Outcome<Crowd>,
    /// Length of a turn for measuring the pace, in seconds.
    pub turn_s: f64,
}

/// Short turns, so that a disturbance of the machine affects both programs of a pair.
const TURN_S: f64 = 0.5;

/// One program of each kind, alone and with the right settings.
pub static HEALTHY: [Healthy; 9] = [
    Healthy {
        name: "LAMMPS, 32 000 atoms, 2 ranks",
        needs: &[Need::Root, Need::OpenMpi, Need::Lammps],
        start: || {
            let job = lammps::start_large(&[], Waiting::Yielding, 2, ENDLESS)?;
            Ok(Crowd::of_others(job, LAMMPS))
        },
        // It reports its progress eight times per second.
        turn_s: 2.0,
    },
    Healthy {
        name: "GROMACS water, 2 ranks",
        needs: &[Need::Root, Need::OpenMpi, Need::Gromacs],
        start: || Ok(Crowd::of_others(gromacs::start(Waiting::Yielding, 2)?, GROMACS)),
        turn_s: 2.0,
    },
    Healthy {
        // Open MPI 5 yields by itself if there are more ranks than CPUs.
        name: "allreduce, 6 ranks of Open MPI 5",
        needs: &[Need::Root, Need::MpiWheels],
        start: || {
            let flags = ["--allow-run-as-root", "--oversubscribe"];
            of_wheel(wheels::OPEN_MPI, &flags, None)
        },
        turn_s: TURN_S,
    },
    Healthy {
        name: "NumPy, one thread",
        needs: &[Need::Root, Need::PythonWheels],
        start: || products(1, &[ONE_BLAS_THREAD], 160),
        turn_s: TURN_S,
    },
    Healthy {
        name: "LightGBM, one thread",
        needs: &[Need::Root, Need::PythonWheels],
        start: || trees("lightgbm", 1, Start::Right),
        turn_s: TURN_S,
    },
    Healthy {
        name: "linear models in R",
        needs: &[Need::Root, Need::R],
        start: || {
            let script = programs::source("fits.R");
            let words = [&*script.to_string_lossy(), "DIRECTORY"];
            Crowd::start(1, &["OPENBLAS_NUM_THREADS=1"], Path::new("Rscript"), &words)
        },
        turn_s: TURN_S,
    },
    Healthy {
        // A container with half a CPU: the wait is intended.
        name: "OpenMP, one thread under a quota",
        needs: &[Need::Root, Need::Cc, Need::Quota],
        start: || teams(1, Start::Right)?.within(Group::with_quota(0.5)?),
        turn_s: TURN_S,
    },
    Healthy {
        name: "OpenMP, one thread",
        needs: &[Need::Root, Need::Cc],
        start: || teams(1, Start::Right),
        turn_s: TURN_S,
    },
    Healthy {
        name: "blocks that are kept",
        needs: &[Need::Root, Need::Cc],
        start: || churn(Start::Right),
        turn_s: TURN_S,
    },
];

/// MPICH has no parameter, so a library that does what the rule does is preloaded.
fn yielding(start: Start) -> Outcome<Option<String>> {
    let library = programs::library("yielding", 1)?;
    Ok((start == Start::Right).then(|| format!("LD_PRELOAD={}", library.display())))
}

/// Ranks on shared CPUs, under an MPI from the Python Package Index.
fn of_wheel(mpi: Wheel, flags: &[&str], environment: Option<String>) -> Outcome<Crowd> {
    let launcher = mpi.file().ok_or("this MPI was not brought: cargo xtask setup")?;
    let program = programs::mpi_of_wheel("allreduce", &launcher)?;
    let job = Job::alone(&launcher, |folder| {
        let mut words: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        words.extend(["-n", "6", "env"].map(str::to_owned));
        words.extend(environment);
        words.extend(texts([&program, folder]));
        words
    })?;
    Ok(Crowd::of(job))
}

/// The case with this name.
pub fn case(name: &str) -> Outcome<&'static Case> {
    let found = CASES.iter().find(|case| case.name.contains(name));
    Ok(found.ok_or_else(|| format!("there is no case {name}"))?)
}

impl Case {
    /// Starts programs with wrong settings, repairs them, and runs them in turns with programs started with
    /// the right settings. Each pace is measured over at least `over` seconds.
    pub fn tried(&self, over: f64) -> Outcome<Tried> {
        let crowd = (self.start)(Start::Wrong)?;
        let before = crowd.pace(over)?;
        let text = crowd.repair(self.rule, self.done)?;
        let others = (self.start)(Start::Right)?;
        let mut turns = Vec::new();
        // Without this, the first turns would include the start of the others.
        others.pace(0.1)?;
        for _ in 0..TURNS {
            turns.push(crowd.paces_beside(&others, over / TURNS as f64)?);
        }
        let mean = |of: fn(&(f64, f64)) -> f64| turns.iter().map(of).sum::<f64>() / TURNS as f64;
        let (after, right) = (mean(|(ours, _)| *ours), mean(|(_, theirs)| *theirs));
        Ok(Tried {
            paces: Paces { before, after, right },
            text,
            results: crowd.finish()?,
            expected: others.finish()?,
        })
    }
}

impl Tried {
    /// Number of parts of the work for which both have results, and the first part with different results.
    pub fn compared(&self) -> (usize, Option<u64>) {
        let both: Vec<(u64, bool)> = self
            .results
            .iter()
            .filter_map(|(of, ours)| {
                let theirs = self.expected.get(of)?;
                Some((*of, ours.len() == 1 && ours == theirs))
            })
            .collect();
        let different = both.iter().find(|(_, same)| !same).map(|(of, _)| *of);
        (both.len(), different)
    }
}

/// How to read the output of LAMMPS.
pub const LAMMPS: Program = Program {
    said: |lines| {
        let said = |line: lammps::Thermo| Said {
            seconds: line.seconds,
            count: line.step as f64,
        };
        lammps::thermo(lines).into_iter().map(said).collect()
    },
    results: |job| {
        let of = |line: lammps::Thermo| (line.step, line.values.join(" "));
        Ok(lammps::thermo(&job.lines.all()).into_iter().map(of).collect())
    },
    has_gate: false,
};

/// How to read the output of GROMACS.
pub const GROMACS: Program = Program {
    said: |lines| {
        let steps = gromacs::steps(lines);
        let began = steps.first().map(|(_, at)| *at);
        let said = |(step, at): (u64, Instant)| Said {
            seconds: began.map_or(0.0, |began| at.duration_since(began).as_secs_f64()),
            count: step as f64,
        };
        steps.into_iter().map(said).collect()
    },
    results: |job| Ok(gromacs::energies(job)?.into_iter().collect()),
    has_gate: false,
};

fn waiting(start: Start) -> Waiting {
    start.either(Waiting::Spinning, Waiting::Yielding)
}

/// Paths as arguments of a command line.
fn texts(paths: [&Path; 2]) -> [String; 2] {
    paths.map(|path| path.to_string_lossy().into_owned())
}

fn with(start: Start, environment: &'static str) -> Vec<&'static str> {
    start.either(Vec::new(), vec![environment])
}

/// Starts processes that multiply matrices of `rows` rows.
pub fn products(number: usize, environment: &[&str], rows: u32) -> Outcome<Crowd> {
    let script = programs::source("products.py");
    let script = script.to_string_lossy();
    let python = python()?;
    let rows = rows.to_string();
    let words = [&*script, "DIRECTORY", &rows];
    Crowd::start(number, environment, &python, &words)
}

fn teams(number: usize, start: Start) -> Outcome<Crowd> {
    let environment = with(start, "OMP_NUM_THREADS=1");
    let program = programs::openmp("teams")?;
    Crowd::start(number, &environment, &program, &["DIRECTORY", "2000"])
}

fn python() -> Outcome<PathBuf> {
    Ok(wheels::PYTHON
        .file()
        .ok_or("NumPy is not there: cargo xtask setup")?)
}

/// Starts processes that train trees with a library for gradient boosting.
fn trees(library: &str, number: usize, start: Start) -> Outcome<Crowd> {
    let threads = start.either("2", "1");
    let script = programs::source("trees.py");
    let script = script.to_string_lossy();
    Crowd::start(number, &[], &python()?, &[&script, "DIRECTORY", library, threads])
}

/// Starts LightGBM with so much data that its regions are long, and with OpenMP's number of threads: two.
pub fn large_trees() -> Outcome<Crowd> {
    let script = programs::source("trees.py");
    let words = [&*script.to_string_lossy(), "DIRECTORY", "lightgbm", "0", "100000"];
    Crowd::start(1, &["OMP_NUM_THREADS=2"], &python()?, &words)
}

/// Starts processes that compute tokens of a language model.
pub fn tokens(number: usize, threads: u32) -> Outcome<Crowd> {
    let (script, threads) = (programs::source("tokens.py"), threads.to_string());
    let python = wheels::LLAMA_CPP
        .file()
        .ok_or("llama.cpp is not there: cargo xtask setup")?;
    let words = [&script.to_string_lossy(), "DIRECTORY", &threads];
    Crowd::start(number, &[], &python, &words)
}

fn churn(start: Start) -> Outcome<Crowd> {
    let words = ["DIRECTORY", "3", "64"];
    Crowd::start(1, &with(start, KEEPS), &programs::c("churn")?, &words)
}
