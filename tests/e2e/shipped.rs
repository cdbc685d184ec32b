//! Each shipped rule on a running program with a known result. Rules without another test are rows of one
//! table; for the others the source file of their test is listed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, median, with_folder};
use crate::iterations::wait_for_report;

/// Rules with another test, and the source file of that test.
const ELSEWHERE: [(&str, &str); 27] = [
    ("adjusting-factoring", "e2e/fire.rs"),
    ("balanced-workers", "e2e/fire.rs"),
    ("workers-by-index", "e2e/fire.rs"),
    ("halo-width", "e2e/halo.rs"),
    ("optimal-workers", "e2e/models.rs"),
    ("gpu-host-bound", "e2e/gpu.rs"),
    ("onnx-threads", "e2e/runtime.rs"),
    ("lost-threads", "e2e/scaling.rs"),
    ("threads", "e2e/detected.rs"),
    ("scaling", "e2e/shapes.rs"),
    ("cpu-shares", "e2e/scaling.rs"),
    ("blas-oversubscribed", "e2e/rights.rs"),
    ("openmpi-oversubscribed", "e2e/rights.rs"),
    ("openmp-oversubscribed", "e2e/rights.rs"),
    ("load-imbalance", "e2e/iterations.rs"),
    ("openmpi-busy-wait", "src/repairs.rs"),
    // Cases of e2e/runtime.rs.
    ("blas-threads", "src/repairs.rs"),
    ("memory-given-back", "src/repairs.rs"),
    ("memory-kept", "src/repairs.rs"),
    ("mkl-threads", "src/repairs.rs"),
    ("mpich-busy-wait", "src/repairs.rs"),
    ("openmp-team-size", "src/repairs.rs"),
    ("openmp-stated-team-size", "src/repairs.rs"),
    ("pytorch-threads", "src/repairs.rs"),
    ("xgboost-threads", "src/repairs.rs"),
    ("ggml-threads", "src/repairs.rs"),
    ("shared-core", "src/repairs.rs"),
];

/// A rule, and its known results.
type Rule = (&'static str, &'static [Known]);

/// A program, and rules for it.
struct Session {
    /// How to start the program.
    program: Program,
    /// A function that the first process calls once per turn, and the required number of calls; `None` if a
    /// finding ends the session.
    turns: Option<(&'static str, u64)>,
    rules: &'static [Rule],
}

enum Program {
    /// The program `known`: number of ranks, mode.
    Known(usize, &'static str),
    /// The program `loops`: number of ranks, arguments.
    Loops(usize, &'static str),
    /// A master/worker program: its arguments, and its names for the rule's symbols.
    Farm {
        name: &'static str,
        ranks: usize,
        given: &'static str,
        names: &'static [(&'static str, &'static str)],
    },
    /// The program `losses` with four threads and two in turn.
    Scaling,
}

enum Known {
    /// Median of the metric's means over all windows, with a relative tolerance.
    About(&'static str, f64, f64),
    /// Every value of the metric.
    Is(&'static str, f64),
    /// Every value of the metric, of each process, is an integer.
    Whole(&'static str),
    /// Median of the metric's means over those windows in which another metric has a value, with a relative
    /// tolerance.
    Where(&'static str, (&'static str, f64), f64, f64),
    /// The last value of the metric.
    Last(&'static str, f64),
    /// A finding with this text.
    Finding(&'static str),
}
use Known::{About, Finding, Is, Last, Where, Whole};

const NETWORK: Program = Program::Farm {
    name: "quadrature",
    ranks: 2,
    given: "workers=1 factor=0.5 work_us=5000 latency_us=0 realtime=1 payload=300 network_us=5000 network_mbs=1",
    names: &programs::NETWORK_NAMES,
};

const BODIES: Program = Program::Farm {
    name: "nbody",
    ranks: 5,
    given: "workers=4 work_us=96000 latency_us=100 slow_worker=1 slow=3 realtime=1",
    names: &programs::FACTORING_NAMES,
};

/// Relative tolerance for times of tens of milliseconds on a busy machine: sleeps, messages and span begins
/// take longer. Tests of the rules check the formulas exactly.
const CLOSE: f64 = 0.25;

const TABLE: [Session; 8] = [
    session(
        Program::Known(3, "phases"),
        Some(("loop_start", 30)),
        &[
            // Of 100 ms, rank 0 waits 0 ms and rank 2 waits 60 ms.
            (
                "barrier-imbalance",
                &[About("imbalance", 0.6, CLOSE), About("loop_time", 0.1, CLOSE)],
            ),
            // Ranks 0 and 1 wait 20 of 100 ms in receives.
            ("communication-share", &[About("worst", 0.2, CLOSE)]),
            // Useful times are 80, 40 and 20 ms of 80 ms.
            (
                "efficiencies",
                &[
                    About("load_balance", 140.0 / 240.0, CLOSE),
                    About("communication_efficiency", 1.0, CLOSE),
                    Finding("of the ranks' time is useful: load balance"),
                ],
            ),
            (
                "loop-counter",
                &[Whole("iterations"), About("iterations", 10.0, 0.15)],
            ),
            (
                "mean-iteration-time",
                &[About("slow", 0.1, CLOSE), About("recent", 0.1, CLOSE)],
            ),
            // 100 + 200 + 300 items of 8 bytes per turn, and the sum over twenty turns.
            ("send-volume", &[Is("volume", 4800.0), Last("recent", 96_000.0)]),
        ],
    ),
    session(
        Program::Known(2, "parts"),
        Some(("Process", 14)),
        &[(
            "iteration-time",
            &[
                About("T_Ini", 0.030, CLOSE),
                About("T_Send", 0.020, CLOSE),
                About("T_Proc", 0.040, CLOSE),
                About("T_Recv", 0.005, 0.3),
                About("T_Fin", 0.015, CLOSE),
                About("T_Ex", 0.110, CLOSE),
            ],
        )],
    ),
    session(
        Program::Known(2, "token"),
        None,
        &[(
            "waiting-for-messages",
            &[Finding(
                "of the ranks' time is spent waiting for messages, although the load is balanced",
            )],
        )],
    ),
    session(
        Program::Loops(2, "turns 20 1 5"),
        None,
        &[(
            "waiting-in-collectives",
            &[Finding(
                "of the ranks' time is spent in collective calls, although the load is balanced",
            )],
        )],
    ),
    session(
        Program::Known(2, "small"),
        None,
        &[("small-messages", &[Finding("8 B each on average")])],
    ),
    // T(p) = 10 + 120 / p ms, so S(p) is 130 ms / T(p).
    session(
        Program::Scaling,
        None,
        &[(
            "speedup",
            &[
                Where("S", ("p", 4.0), 130.0 / 40.0, CLOSE),
                Where("S", ("p", 2.0), 130.0 / 70.0, CLOSE),
                Where("f", ("p", 4.0), 1.0 / 13.0, 0.5),
            ],
        )],
    ),
    // A byte takes 1 µs, and a message 5 ms more.
    session(
        NETWORK,
        Some(("mw_iterate", 18)),
        &[(
            "network",
            &[About("latency", 0.005, CLOSE), About("per_byte", 1e-6, CLOSE)],
        )],
    ),
    // A task takes 0.8 ms, on one of four workers three times as long: x_0 is 1 + 0.693/1.2 sqrt(4/2).
    session(
        BODIES,
        Some(("mw_begin_iteration", 25)),
        &[(
            "factoring",
            &[
                About("mu", 0.0012, 0.2),
                About("sigma", 0.000_693, 0.2),
                About("F_0", 16.0, 0.1),
            ],
        )],
    ),
];

const fn session(program: Program, turns: Option<(&'static str, u64)>, rules: &'static [Rule]) -> Session {
    Session {
        program,
        turns,
        rules,
    }
}

impl Program {
    fn start(&self) -> Outcome<Job> {
        let words = |given: &str| given.split(' ').map(str::to_owned).collect();
        let under_mpi = |mpi, ranks, program, given: &str| {
            Job::mpi(mpi, Waiting::Yielding, ranks, program, |folder| {
                with_folder(folder, words(given))
            })
        };
        let (job, ranks) = match self {
            Program::Known(ranks, mode) => {
                let program = programs::mpi("known", Mpi::OpenMpi)?;
                (under_mpi(Mpi::OpenMpi, *ranks, &program, mode)?, *ranks)
            }
            Program::Loops(ranks, given) => {
                let program = programs::mpi("loops", Mpi::OpenMpi)?;
                (under_mpi(Mpi::OpenMpi, *ranks, &program, given)?, *ranks)
            }
            Program::Farm {
                name, ranks, given, ..
            } => {
                let program = programs::master_worker(name, Mpi::Mpich)?;
                let given = format!("iterations=1000000 {given}");
                (under_mpi(Mpi::Mpich, *ranks, &program, &given)?, *ranks)
            }
            Program::Scaling => {
                let program = programs::openmp("losses")?;
                let given = words("clause 10000 120000 0 0 4 2");
                (Job::alone(&program, |folder| with_folder(folder, given))?, 1)
            }
        };
        job.events("ready", ranks, SOON)?;
        job.open("go")?;
        Ok(job)
    }

    fn names(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Program::Farm { names, .. } => names,
            _ => &[],
        }
    }
}

/// A metric in one window: mean, minimum and maximum of its rows.
struct Value {
    window: String,
    metric: String,
    mean: f64,
    ends: [f64; 2],
}

/// Values of a rule in the table of `replay --csv`, without windows in which the metric has no value.
fn values(table: &str, rule: &str) -> Vec<Value> {
    let value = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [_, of, window, index, metric, _, mean, least, greatest, ..] = cells[..] else {
            return None;
        };
        Some(Value {
            window: format!("{window} {index}"),
            metric: metric.to_owned(),
            mean: mean.parse().ok().filter(|_| of == rule)?,
            ends: [least.parse().ok()?, greatest.parse().ok()?],
        })
    };
    table.lines().skip(1).filter_map(value).collect()
}

impl Session {
    /// Whether the program has made its turns, every rule has enough windows, and each finding is there.
    fn is_seen(&self, report: &serde_json::Value) -> bool {
        let calls = |name: &str| {
            let mut of = report["processes"][0]["functions"].as_array()?.iter();
            of.find(|function| function["name"] == name)?["calls"].as_u64()
        };
        let mut rules = report["rules"].as_array().into_iter().flatten();
        // The program changes its number of threads every sixty iterations.
        let least = if matches!(self.program, Program::Scaling) {
            100
        } else {
            3
        };
        let have_windows = rules.all(|rule| rule["windows"].as_u64() >= Some(least));
        let findings = report["findings"].to_string();
        let mut known = self.rules.iter().flat_map(|(_, known)| *known);
        have_windows
            && self.turns.is_none_or(|(name, least)| calls(name) >= Some(least))
            && known.all(|known| !matches!(known, Finding(part) if !findings.contains(part)))
    }

    /// Differences to the known results.
    fn wrong(&self) -> Outcome<Vec<String>> {
        let mut job = self.program.start()?;
        let folder = tempfile::tempdir()?;
        let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (recording, table) = (file("it.rec"), file("it.csv"));
        let names = self.program.names().iter();
        let names: Vec<String> = names.map(|(name, is)| format!("{name}={is}")).collect();
        let mut rules = vec!["--rules", "none"];
        rules.extend(self.rules.iter().map(|(rule, _)| *rule));
        rules.extend(names.iter().flat_map(|name| ["--bind", name]));

        let flags = [&rules[..], &["--record", &recording]].concat();
        let mut agent = Agent::attach_armed(job.pid(), &flags)?;
        wait_for_report(&agent, |now| self.is_seen(now))?;
        let report = agent.stop()?;
        job.open("stop")?;
        job.finish(SOON)?;

        let replay = [&["replay", &recording], &rules[..], &["--csv", &table]].concat();
        Agent::succeed(&replay)?;
        let table = fs::read_to_string(&table).context(&table)?;
        let findings = report["findings"].to_string();
        let mut wrong = Vec::new();
        for (rule, knows) in self.rules {
            let values = values(&table, rule);
            let of_it = knows.iter().filter_map(|known| known.wrong(&values, &findings));
            wrong.extend(of_it.map(|wrong| format!("{rule}: {wrong}")));
        }
        Ok(wrong)
    }
}

impl Known {
    /// The difference to this known result, if any.
    fn wrong(&self, values: &[Value], findings: &str) -> Option<String> {
        let of = |metric: &str| {
            values
                .iter()
                .filter(move |value| value.metric == metric)
                .collect::<Vec<_>>()
        };
        let about = |found: Vec<&Value>, wanted: f64, share: f64| {
            let middle = median(found.iter().map(|value| value.mean).collect());
            let is_near = (middle / wanted - 1.0).abs() <= share;
            (!is_near).then(|| format!("{middle} in the middle of {} windows, not {wanted}", found.len()))
        };
        let every = |found: Vec<&Value>, is_right: &dyn Fn(f64) -> bool| {
            let all: Vec<f64> = found.iter().flat_map(|value| value.ends).collect();
            (all.is_empty() || !all.iter().all(|value| is_right(*value))).then(|| format!("{all:?}"))
        };
        let (metric, wrong) = match self {
            About(metric, wanted, share) => (*metric, about(of(metric), *wanted, *share)),
            Where(metric, (other, is), wanted, share) => {
                let there = of(other).into_iter().filter(|value| value.mean == *is);
                let there: BTreeSet<&str> = there.map(|value| value.window.as_str()).collect();
                let mut found = of(metric);
                found.retain(|value| there.contains(value.window.as_str()));
                (*metric, about(found, *wanted, *share))
            }
            Is(metric, wanted) => (*metric, every(of(metric), &|value| value == *wanted)),
            Whole(metric) => (*metric, every(of(metric), &|value| value.fract() == 0.0)),
            Last(metric, wanted) => {
                let last = of(metric).last().map(|value| value.mean);
                (
                    *metric,
                    (last != Some(*wanted)).then(|| format!("{last:?}, not {wanted}")),
                )
            }
            Finding(part) => (
                *part,
                (!findings.contains(part)).then(|| format!("is not in {findings}")),
            ),
        };
        wrong.map(|wrong| format!("{metric}: {wrong}"))
    }
}

#[test]
fn rules_that_are_shipped_find_what_is_known_of_running_programs() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi, Mpich, Cc);
    let mut wrong = Vec::new();
    for session in TABLE {
        let problem = |problem| vec![format!("{}: {problem}", session.rules[0].0)];
        wrong.extend(session.wrong().unwrap_or_else(problem));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn every_shipped_rule_is_attached_to_a_running_program_by_a_test() -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (rule, file) in ELSEWHERE {
        let text = fs::read_to_string(root.join(file)).context(file)?;
        assert!(
            text.contains(&format!("\"{rule}\"")),
            "{file} does not attach {rule}"
        );
    }
    let elsewhere = ELSEWHERE.iter().map(|(rule, _)| (*rule).to_owned());
    let rows = TABLE.iter().flat_map(|session| session.rules);
    let tried: BTreeSet<String> = rows
        .map(|(rule, _)| (*rule).to_owned())
        .chain(elsewhere)
        .collect();
    let mut shipped = BTreeSet::new();
    for kind in ["metrics", "models", "runtime"] {
        for entry in fs::read_dir(root.join("../rules/library").join(kind))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            shipped.extend(name.strip_suffix(".yaml").map(str::to_owned));
        }
    }
    assert_eq!(shipped, tried);
    Ok(())
}
