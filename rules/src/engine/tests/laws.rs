//! Invariants of an engine under arbitrary events.

use proptest::prelude::*;

use super::*;

/// An event of an engine, at a time in units of 50 ms.
fn any_event() -> impl Strategy<Value = (u8, u32, u64, u64)> {
    (0u8..10, 0u32..3, 0u64..12, 0u64..1_000_000_000)
}

fn happen(job: &mut Job, (what, process, early, number): (u8, u32, u64, u64)) -> Vec<Output> {
    let time = Time(job.now.0 + early * 50 * MS);
    let id = ProcessId(process);
    let measure = Measure::ALL[number as usize % Measure::ALL.len()];
    match what {
        0 => job.join(process),
        1 => job.engine.process_left(id, time),
        2..=4 => {
            job.engine
                .observe(Observation::counter(Subject::Process(id), measure, time, number));
        }
        5 => job.engine.observe(Observation::gauge(
            Subject::Process(id),
            measure,
            time,
            number as f64,
        )),
        6 => {
            let mode = [Mode::Off, Mode::Advising, Mode::Applying][number as usize % 3];
            return job.engine.set_mode(RuleId(0), mode);
        }
        7 => {
            job.engine
                .receipt(DecisionId(number % 4), DecisionOutcome::Applied, time);
        }
        _ => {
            job.now = time;
            return job.engine.tick(time);
        }
    }
    Vec::new()
}

#[test]
fn the_same_stream_gives_the_same_outputs() {
    let run = || {
        let mut job = Job::busy_wait(2.0).applying();
        job.until_applied(SPINNING);
        (
            job.windows(10, YIELDING),
            job.engine.status(),
            job.engine.findings(),
        )
    };
    assert_eq!(run(), run());
}

proptest! {
    #[test]
    fn no_stream_makes_the_engine_panic_or_judge_what_it_did_not_decide(
        events in prop::collection::vec(any_event(), 0..200),
        spinning in 0usize..12,
    ) {
        let mut job = Job::busy_wait(2.0).applying();
        let mut outputs = job.windows(spinning, SPINNING);
        for event in events {
            outputs.extend(happen(&mut job, event));
            job.engine.status();
        }
        let mut open = None;
        for output in outputs {
            match output {
                Output::Decision(decision) => {
                    prop_assert_eq!(open.replace(decision.id), None, "two changes on trial");
                }
                Output::Verdict(verdict) => prop_assert_eq!(open.take(), Some(verdict.decision)),
                Output::FindingOpened(_) | Output::FindingClosed { .. } => {}
            }
        }
    }

    #[test]
    fn the_order_of_what_is_observed_at_one_time_does_not_matter(order in Just((0..36usize).collect::<Vec<_>>()).prop_shuffle()) {
        let mut usual = Job::busy_wait(2.0);
        let mut shuffled = Job::busy_wait(2.0);
        let expected = usual.windows(3, SPINNING);
        let mut outputs = Vec::new();
        for _ in 0..3 {
            let steps = [166_500_000, 330_000_000, 450_000_000, 30, 70];
            shuffled.totals.iter_mut().zip(steps).for_each(|(total, step)| *total += step);
            shuffled.now = Time(shuffled.now.0 + 500 * MS);
            let (time, totals) = (shuffled.now, shuffled.totals);
            let measures = [
                Measure::CpuTime, Measure::RunqueueTime, Measure::MpiTime, Measure::SwitchesInvoluntary, Measure::MpiCalls,
            ];
            for index in &order {
                let of = Subject::Process(ProcessId(*index as u32 / 6));
                shuffled.engine.observe(match index % 6 {
                    5 => Observation::Gauge { of: Subject::Machine(Machine(0)), measure: Measure::JobCpus, time, value: 2.0 },
                    i => Observation::Counter { of, measure: measures[i], time, total: totals[i] },
                });
            }
            outputs.extend(shuffled.engine.tick(time));
        }
        prop_assert_eq!(outputs, expected);
    }
}
