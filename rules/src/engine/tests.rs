use crate::ids::ProbeId;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::measure::Measure;
use crate::value::{Machine, Scalar, Subject};

const MS: u64 = 1_000_000;

fn checked(source: &str) -> CheckedRule {
    CheckedRule::from_source(source)
        .unwrap_or_else(|wrong| panic!("{}", crate::render("rule.yaml", source, &wrong)))
}

/// A hit for the only rule, with numbers as reads.
fn hit(probe: ProbeId, process: ProcessId, time: Time, duration_ns: u64, reads: &[f64]) -> Observation {
    Observation::Hit {
        rule: RuleId(0),
        probe,
        process,
        thread: 0,
        time,
        duration_ns,
        captures: reads.iter().map(|value| Ok(Scalar::Number(*value))).collect(),
    }
}

/// The hits of a probe of the only rule in a process so far, and the sum of their durations.
fn totals((probe, process): (usize, u32), time: Time, (count, duration_sum_ns): (u64, u64)) -> Observation {
    Observation::ProbeTotals {
        rule: RuleId(0),
        probe: ProbeId(probe),
        process: ProcessId(process),
        time,
        count,
        duration_sum_ns,
    }
}

/// The hits of a process between two times in ms were lost.
fn lost(process: u32, (from, to): (u64, u64)) -> Observation {
    Observation::Lost {
        process: ProcessId(process),
        from: Time(from * MS),
        to: Time(to * MS),
    }
}

/// The engine of a rule, with this number of ranks.
fn of_ranks(source: &str, ranks: u32) -> Engine {
    let mut engine = Engine::new(vec![checked(source)], Time(0)).unwrap();
    (0..ranks).for_each(|rank| engine.process_joined(ProcessId(rank), ProcessFacts::of_rank(rank), Time(0)));
    engine
}

/// A tick whose decisions are carried out at once.
fn carried_out(engine: &mut Engine, now: Time) -> Vec<Output> {
    let outputs = engine.tick(now);
    for decision in decided(&outputs) {
        engine.receipt(decision.id, DecisionOutcome::Applied, now);
    }
    outputs
}

fn cpu_time(process: u32, time: Time, total: u64) -> Observation {
    let (of, measure) = (Subject::Process(ProcessId(process)), Measure::CpuTime);
    Observation::counter(of, measure, time, total)
}

fn gauge(process: u32, measure: Measure, time: Time, value: f64) -> Observation {
    let of = Subject::Process(ProcessId(process));
    Observation::gauge(of, measure, time, value)
}

/// The counters of one rank in a second; MPI calls are counted over all ranks.
#[derive(Clone, Copy)]
struct Pace {
    cpu_ms: u64,
    queue_ms: u64,
    mpi_ms: u64,
    switches: u64,
    calls: u64,
}

/// Six ranks that spin on two CPUs.
const SPINNING: Pace = Pace {
    cpu_ms: 333,
    queue_ms: 660,
    mpi_ms: 900,
    switches: 60,
    calls: 140,
};
/// The same ranks after the change: they still demand the CPUs, but messages are delivered.
const YIELDING: Pace = Pace {
    cpu_ms: 333,
    queue_ms: 660,
    mpi_ms: 500,
    switches: 20_000,
    calls: 14_000,
};
/// Six ranks with CPUs of their own, which spin too.
const HEALTHY: Pace = Pace {
    cpu_ms: 995,
    queue_ms: 1,
    mpi_ms: 400,
    switches: 2,
    calls: 20_000,
};

/// A job whose ranks are observed every 500 ms, just before each tick.
struct Job {
    engine: Engine,
    now: Time,
    ranks: BTreeSet<u32>,
    cpus: f64,
    totals: [u64; 5],
    missing: Option<Measure>,
}

impl Job {
    fn new(source: &str, cpus: f64) -> Job {
        let engine = Engine::new(vec![checked(source)], Time(0)).unwrap();
        let mut job = Job {
            engine,
            now: Time(0),
            ranks: BTreeSet::new(),
            cpus,
            totals: [0; 5],
            missing: None,
        };
        (0..6).for_each(|rank| job.join(rank));
        job.observe();
        job
    }

    fn busy_wait(cpus: f64) -> Job {
        Job::new(crate::library()[0].1, cpus)
    }

    fn join(&mut self, rank: u32) {
        let facts = ProcessFacts {
            mpi: Some("Open MPI".into()),
            symbols: ["opal_progress_yield_when_idle".to_string()].into(),
            ..ProcessFacts::of_rank(rank)
        };
        self.engine.process_joined(ProcessId(rank), facts, self.now);
        self.ranks.insert(rank);
    }

    fn observe(&mut self) {
        let [cpu, queue, mpi, switches, calls] = self.totals;
        let counters = [
            (Measure::CpuTime, cpu),
            (Measure::RunqueueTime, queue),
            (Measure::MpiTime, mpi),
            (Measure::SwitchesInvoluntary, switches),
            (Measure::MpiCalls, calls),
        ];
        for rank in self.ranks.clone() {
            let of = Subject::Process(ProcessId(rank));
            let followed = |(measure, _): &(Measure, u64)| self.missing != Some(*measure);
            for (measure, total) in counters.into_iter().filter(followed) {
                self.engine
                    .observe(Observation::counter(of, measure, self.now, total));
            }
            self.engine
                .observe(gauge(rank, Measure::CpusAvailable, self.now, self.cpus));
        }
        // One value serves as both: the CPUs of each rank, and those of the job.
        let of = Subject::Machine(Machine(0));
        self.engine
            .observe(Observation::gauge(of, Measure::JobCpus, self.now, self.cpus));
    }

    /// One window at this pace; returns the outputs at its end.
    fn window(&mut self, pace: Pace) -> Vec<Output> {
        let times = [pace.cpu_ms, pace.queue_ms, pace.mpi_ms].map(|ms| ms * MS);
        let each_second = times.into_iter().chain([pace.switches, pace.calls]);
        for (total, each_second) in self.totals.iter_mut().zip(each_second) {
            *total += each_second / 2;
        }
        self.now = Time(self.now.0 + 500 * MS);
        self.observe();
        self.engine.tick(self.now)
    }

    fn windows(&mut self, count: usize, pace: Pace) -> Vec<Output> {
        (0..count).flat_map(|_| self.window(pace)).collect()
    }

    fn status(&self) -> (Standing, String) {
        let status = self.engine.status().remove(0);
        (status.standing, status.why)
    }

    #[track_caller]
    fn stands(&self, standing: Standing, why: &str) {
        assert_eq!(self.status(), (standing, why.to_string()));
    }

    /// Passes the receipt of a decision to the engine. Returns whether the engine was waiting for it.
    fn receipt(&mut self, decision: u64, outcome: DecisionOutcome) -> bool {
        self.engine.receipt(DecisionId(decision), outcome, self.now)
    }

    fn applying(mut self) -> Job {
        assert_eq!(self.engine.set_mode(RuleId(0), Mode::Applying), []);
        self
    }

    /// Windows at `pace` until the decision, which is applied.
    fn until_applied(&mut self, pace: Pace) -> Decision {
        for _ in 0..20 {
            for output in self.window(pace) {
                if let Output::Decision(decision) = output {
                    assert!(self.receipt(decision.id.0, DecisionOutcome::Applied));
                    return decision;
                }
            }
        }
        panic!("no decision: {:?}", self.status());
    }
}

fn verdicts(outputs: &[Output]) -> Vec<&Verdict> {
    let verdicts = outputs.iter().filter_map(|output| match output {
        Output::Verdict(verdict) => Some(verdict),
        _ => None,
    });
    verdicts.collect()
}

/// The only verdict among them.
#[track_caller]
fn verdict(outputs: &[Output]) -> &Verdict {
    let [verdict] = verdicts(outputs)[..] else {
        panic!("{outputs:?}")
    };
    verdict
}

fn decided(outputs: &[Output]) -> Vec<&Decision> {
    let decisions = outputs.iter().filter_map(|output| match output {
        Output::Decision(decision) => Some(decision),
        _ => None,
    });
    decisions.collect()
}

fn decisions(outputs: &[Output]) -> usize {
    decided(outputs).len()
}

#[test]
fn ranks_that_spin_on_too_few_cpus_are_found_after_three_windows() {
    let mut job = Job::busy_wait(2.0);
    assert_eq!(job.windows(2, SPINNING), []);
    job.stands(Standing::Counting, "its condition has held for 2 of 3 windows");
    let found = job.window(SPINNING);
    let [Output::FindingOpened(finding)] = found.as_slice() else {
        panic!("{found:?}")
    };
    insta::assert_debug_snapshot!("finding", finding);
    assert_eq!(job.windows(20, SPINNING), []);
    job.stands(Standing::Advising, "advising: its condition holds");
}

#[test]
fn a_healthy_job_is_left_alone_and_the_reason_is_shown() {
    let mut job = Job::busy_wait(8.0).applying();
    assert_eq!(job.windows(50, HEALTHY), []);
    let (standing, why) = job.status();
    assert_eq!(standing, Standing::Quiet);
    insta::assert_snapshot!("healthy", why);
    // Six busy ranks with one CPU less than they demand are not changed while none of them waits for a CPU.
    assert_eq!(
        job.engine.metrics(RuleId(0))[1],
        ("wanted".to_string(), "5.98".to_string())
    );
    let mut bound = Job::busy_wait(1.0).applying();
    assert_eq!(bound.windows(50, HEALTHY), []);
}

#[test]
fn a_missing_counter_is_never_taken_for_zero() {
    for measure in [
        Measure::MpiTime,
        Measure::RunqueueTime,
        Measure::CpuTime,
        Measure::SwitchesInvoluntary,
    ] {
        let mut job = Job::busy_wait(2.0).applying();
        job.missing = Some(measure);
        job.engine
            .process_joined(ProcessId(0), ProcessFacts::default(), Time(0));
        (0..6).for_each(|rank| job.join(rank));
        assert_eq!(job.windows(20, SPINNING), []);
        let (standing, why) = job.status();
        assert_eq!(standing, Standing::NoValue);
        let reason = format!(
            "not evaluated: {} of rank 0 was not observed in the window",
            measure.name()
        );
        assert_eq!(why, reason);
    }
}

#[test]
fn an_applying_rule_decides_once_for_every_rank_and_keeps_a_hundredfold_gain() {
    let mut job = Job::busy_wait(2.0).applying();
    let decision = job.until_applied(SPINNING);
    assert_eq!(job.now, Time(5 * 500 * MS));
    let ranks: Vec<u32> = decision.changes.iter().map(|change| change.process.0).collect();
    assert_eq!(ranks, [0, 1, 2, 3, 4, 5]);
    assert!(
        decision
            .changes
            .iter()
            .all(|change| change.action.value() == Some(&Scalar::Boolean(true)))
    );
    job.stands(
        Standing::OnTrial,
        "on trial: waiting for the first window after the change; a verdict comes within 3.38 min of the first change",
    );
    assert_eq!(job.windows(4, YIELDING), []);
    job.stands(
        Standing::OnTrial,
        "on trial: 3 of 5 windows; a verdict comes within 3.38 min of the first change",
    );
    assert_eq!(job.window(YIELDING), []);
    let end = job.window(YIELDING);
    let verdict = verdict(&end);
    assert!(verdict.keep);
    assert_eq!(verdict.verdict, Some(plan::GuardEffect::Confirmed));
    assert!((verdict.ratio.unwrap() - 100.0).abs() < 1e-9);
    assert_eq!(
        verdict.text,
        "pace: 840/s -> 84 000/s (5 windows each): 100 times [100, 100], confirmed"
    );
    assert_eq!(job.windows(30, YIELDING), []);
    job.stands(Standing::Applied, "applied");
    assert_eq!(job.engine.findings()[0].state, FindingState::Applied);
}

#[test]
fn a_loss_is_reverted_and_the_tune_put_on_hold_until_it_is_reported_again() {
    let mut job = Job::busy_wait(2.0).applying();
    job.until_applied(SPINNING);
    let worse = Pace {
        calls: 100,
        ..SPINNING
    };
    let end = job.windows(6, worse);
    let verdict = verdict(&end);
    assert!(!verdict.keep);
    let text = "pace: 840/s -> 600/s (5 windows each): -28.6 % [-28.6, -28.6], worse";
    assert_eq!(verdict.text, text);
    assert_eq!(job.windows(30, SPINNING), []);
    job.stands(Standing::OnHold, &format!("on hold: {text}"));
    assert_eq!(job.engine.set_mode(RuleId(0), Mode::Applying), []);
    assert_eq!(decisions(&job.windows(5, SPINNING)), 1);
}

/// A program may not make the counted calls any more because of the change, and be faster.
#[test]
fn a_change_after_which_nothing_is_counted_is_reverted_and_not_called_worse() {
    let mut job = Job::busy_wait(2.0).applying();
    job.until_applied(SPINNING);
    let silent = Pace { calls: 0, ..SPINNING };
    let end = job.windows(6, silent);
    let verdict = verdict(&end);
    assert!(!verdict.keep);
    assert_eq!((verdict.verdict, verdict.means), (None, None));
    assert_eq!(
        verdict.text,
        "could not be judged: pace: 840/s -> 0/s (5 windows each): what it counts no longer happens, so the program's pace is not known"
    );
}

#[test]
fn a_change_that_cannot_be_judged_is_reverted() {
    let mut job = Job::busy_wait(2.0).applying();
    job.until_applied(SPINNING);
    job.missing = Some(Measure::MpiCalls);
    let end = job.windows(30, YIELDING);
    let verdict = verdict(&end);
    assert!(!verdict.keep);
    assert_eq!(verdict.means, None);
    assert!(
        verdict.text.contains("mpi.calls of rank 0 was not observed"),
        "{}",
        verdict.text
    );
}

#[test]
fn a_refusal_puts_the_tune_on_hold_with_its_reason() {
    let mut job = Job::busy_wait(2.0).applying();
    let outputs = job.windows(5, SPINNING);
    assert_eq!(decisions(&outputs), 1);
    assert!(!job.receipt(9, DecisionOutcome::Applied));
    assert!(job.receipt(1, DecisionOutcome::Refused("not writable".into())));
    assert_eq!(job.windows(20, SPINNING), []);
    job.stands(Standing::OnHold, "on hold: refused: not writable");
    assert_eq!(job.engine.findings()[0].state, FindingState::Open);
}

#[test]
fn a_finding_stays_while_the_receipt_of_its_change_is_outstanding() {
    let mut job = Job::busy_wait(2.0).applying();
    assert_eq!(decisions(&job.windows(5, SPINNING)), 1);
    job.windows(10, HEALTHY);
    assert!(job.receipt(1, DecisionOutcome::Applied));
    assert_eq!(job.engine.findings()[0].state, FindingState::OnTrial);
}

#[test]
fn what_every_process_had_already_is_not_judged_and_no_finding_until_the_condition_fails() {
    let mut job = Job::busy_wait(2.0).applying();
    assert_eq!(decisions(&job.windows(5, SPINNING)), 1);
    let there = DecisionOutcome::There("it was there already in 6 processes".into());
    assert!(job.receipt(1, there));
    let outputs = job.windows(20, SPINNING);
    assert_eq!(decisions(&outputs), 0);
    assert!(verdicts(&outputs).is_empty(), "{outputs:?}");
    assert!(job.engine.findings().is_empty(), "{:?}", job.engine.findings());
    let why = "it was there already in 6 processes";
    job.stands(Standing::Quiet, why);
    job.windows(4, HEALTHY);
    assert_eq!(decisions(&job.windows(5, SPINNING)), 1, "{:?}", job.status());
}

#[test]
fn a_change_that_something_was_in_the_way_of_is_decided_on_again_after_twenty_windows_and_after_forty() {
    let mut job = Job::busy_wait(2.0).applying();
    assert_eq!(decisions(&job.windows(5, SPINNING)), 1);
    let hindered = DecisionOutcome::Hindered("no thread suits".into());
    assert!(job.receipt(1, hindered));
    assert_eq!(decisions(&job.windows(20, SPINNING)), 0);
    // The guard needs its five windows again.
    assert_eq!(decisions(&job.windows(6, SPINNING)), 1, "{:?}", job.status());
    let hindered = DecisionOutcome::Hindered("no thread suits".into());
    assert!(job.receipt(2, hindered));
    let status = "on hold for 40 more windows: could not be done: no thread suits";
    job.stands(Standing::OnHold, status);
}

#[test]
fn switching_a_rule_while_its_change_is_on_trial_reverts_it() {
    for (mode, applied) in [(Mode::Off, true), (Mode::Advising, true), (Mode::Off, false)] {
        let mut job = Job::busy_wait(2.0).applying();
        if applied {
            job.until_applied(SPINNING);
        } else {
            job.windows(5, SPINNING);
        }
        let outputs = job.engine.set_mode(RuleId(0), mode);
        assert!(matches!(verdicts(&outputs)[..], [Verdict { keep: false, .. }]));
        assert!(!job.receipt(1, DecisionOutcome::Applied));
        assert_eq!(job.engine.findings().is_empty(), mode == Mode::Off);
    }
}

#[test]
fn an_empty_last_window_is_reported_and_whether_there_was_ever_a_value() {
    let mut job = Job::busy_wait(2.0);
    let reported = |job: &Job| {
        let status = job.engine.status().remove(0);
        (status.saw_no_process, status.had_processes, status.had_value)
    };
    assert_eq!(reported(&job), (true, false, false), "no window has closed");
    job.window(SPINNING);
    assert_eq!(reported(&job), (false, true, true));
    job.now = Time(job.now.0 + 100 * MS);
    (0..6).for_each(|rank| job.engine.process_left(ProcessId(rank), job.now));
    job.now = Time(job.now.0 - 100 * MS);
    for _ in 0..2 {
        job.window(SPINNING);
        assert_eq!(reported(&job), (true, true, true));
        assert_eq!(job.status().0, Standing::NoValue);
    }
}

#[test]
fn a_finding_closes_when_its_condition_has_failed_as_long_as_it_had_to_hold() {
    let mut job = Job::busy_wait(8.0);
    job.cpus = 2.0;
    job.windows(3, SPINNING);
    job.cpus = 8.0;
    assert_eq!(job.windows(2, HEALTHY), []);
    assert_eq!(
        job.window(HEALTHY),
        [Output::FindingClosed {
            rule: RuleId(0),
            tune: 0
        }]
    );
}

#[test]
fn a_late_tick_makes_a_long_window_of_its_actual_duration() {
    let source = "rule: slow\nabout: b\nroles:\n  r: rank >= 0\nwindows:\n  w: {every: 500ms}\ntune:\n  - {when: w.duration > 600ms, finding: '{w.duration} in window {w.index}'}\n";
    let mut job = Job::new(source, 2.0);
    job.engine.tick(Time(500 * MS));
    assert_eq!(job.engine.tick(Time(900 * MS)), []);
    let outputs = job.engine.tick(Time(1200 * MS));
    let [Output::FindingOpened(finding)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(finding.text, "700 ms in window 1");
}

/// Sets each worker's share of 12 threads, within bounds.
const SHARES: &str = "\
rule: shares
about: gives each process threads by the CPUs it may use
roles:
  worker: rank > 0
windows:
  w: {every: 500ms}
tune:
  - set: nthreads
    role: worker
    value: cpus.available * 2
    range: 1 <= value <= 8
    when: max(cpus.available) > 1
    guard: {maximize: 'sum(mpi.calls)', over: 1, undo_if_worse_by: 0%, keep: not_worse}
    cooldown: 2s
";

mod boundaries;
mod changes;
mod comparing;
mod following;
mod hits;
mod joining;
mod keywords;
mod law;
mod laws;
mod loops;
mod memory;
mod messages;
mod models;
mod nested;
mod nodes;
mod pairs;
mod placed;
mod probed;
mod shares;
