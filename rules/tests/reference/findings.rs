//! The rules about MPI time (`rules/library/runtime`): their findings for ranks with given times, and cases
//! without findings.

use std::collections::BTreeMap;

use rules::{CheckedRule, Engine, Measure, Observation, ProcessFacts, ProcessId, Subject, Time};

const SECOND: u64 = 1_000_000_000;

/// Activity of one rank per second.
#[derive(Clone, Default)]
struct Rank {
    useful: f64,
    /// Time waiting for a CPU, in ms, and the part of it inside MPI.
    queue_ms: u64,
    queue_in_mpi_ms: u64,
    /// Function, calls, their time in ms, and sent bytes.
    calls: Vec<(&'static str, u64, u64, u64)>,
}

/// The finding of a rule after four seconds of this activity.
fn finding(rule: &str, ranks: &[Rank]) -> Option<String> {
    let (_, source) = rules::library()
        .iter()
        .find(|(name, _)| *name == rule)
        .expect("a shipped rule");
    let rule = CheckedRule::from_source(source).expect("it checks");
    let mut engine = Engine::new(vec![rule], Time(0)).expect("it runs");
    for number in 0..ranks.len() as u32 {
        let facts = ProcessFacts {
            rank: Some(number),
            ..ProcessFacts::default()
        };
        engine.process_joined(ProcessId(number), facts, Time(0));
    }
    for half in 0..=8 {
        let time = Time(half * SECOND / 2);
        for (rank, process) in ranks.iter().zip((0..).map(ProcessId)) {
            observe(&mut engine, rank, process, time);
        }
        engine.tick(time);
    }
    engine.findings().into_iter().next().map(|finding| finding.text)
}

fn observe(engine: &mut Engine, rank: &Rank, process: ProcessId, time: Time) {
    let so_far = |each_second: u64| each_second * (time.0 / 1_000_000) / 1000;
    engine.observe(Observation::gauge(
        Subject::Process(process),
        Measure::UsefulShare,
        time,
        rank.useful,
    ));
    let in_mpi_ns = ((1.0 - rank.useful) * 1e9) as u64;
    for (measure, each_second) in [
        (Measure::MpiTime, in_mpi_ns),
        (Measure::RunqueueTime, rank.queue_ms * 1_000_000),
        (Measure::MpiRunqueueTime, rank.queue_in_mpi_ms * 1_000_000),
    ] {
        engine.observe(Observation::counter(
            Subject::Process(process),
            measure,
            time,
            so_far(each_second),
        ));
    }
    for (call, calls, ms, bytes) in &rank.calls {
        let totals = BTreeMap::from([
            (Measure::MpiCalls, *calls),
            (Measure::MpiTime, ms * 1_000_000),
            (Measure::MpiBytes, *bytes),
        ]);
        for (measure, each_second) in totals {
            engine.observe(Observation::CallCounter {
                process,
                measure,
                call: (*call).to_owned(),
                time,
                total: so_far(each_second),
            });
        }
    }
}

fn computing(useful: f64) -> Rank {
    Rank {
        useful,
        ..Rank::default()
    }
}

#[test]
fn the_rank_that_computes_longest_is_named_with_its_excess() {
    let shares = [0.4, 0.4, 0.3, 0.9].map(computing);
    let text = finding("load-imbalance", &shares).expect("a finding");
    assert_eq!(
        text,
        "rank 3 spends 1.8 times as long outside MPI as the mean of the 4 ranks:\nload balance 55.6 %; the others wait for it."
    );
}

#[test]
fn ranks_that_compute_alike_or_share_cpus_are_no_imbalance() {
    assert_eq!(finding("load-imbalance", &[0.8, 0.9, 0.7].map(computing)), None);
    let sharing = [0.2, 0.9].map(|useful| Rank {
        queue_ms: 500,
        ..computing(useful)
    });
    assert_eq!(finding("load-imbalance", &sharing), None);
}

#[test]
fn a_rank_that_takes_longer_because_it_waits_for_its_cpu_is_no_imbalance() {
    // The fourth rank waits for less than a fifth of the time that all ranks are outside MPI.
    let mut ranks = [0.45, 0.45, 0.45, 0.9].map(computing);
    ranks[3].queue_ms = 400;
    assert_eq!(finding("load-imbalance", &ranks), None);
    ranks[3].queue_ms = 100;
    assert!(finding("load-imbalance", &ranks).is_some());
}

#[test]
fn ranks_that_yield_inside_mpi_do_not_wait_for_a_cpu_there() {
    let yielding = [0.2, 0.9].map(|useful| Rank {
        queue_ms: 500,
        queue_in_mpi_ms: 480,
        ..computing(useful)
    });
    let text = finding("load-imbalance", &yielding).expect("a finding");
    assert!(
        text.starts_with("rank 1 spends 1.64 times as long outside MPI"),
        "{text}"
    );
}

fn calling(call: &'static str, calls: u64, ms: u64, bytes: u64) -> Rank {
    Rank {
        useful: 1.0 - ms as f64 / 1000.0,
        queue_ms: 0,
        queue_in_mpi_ms: 0,
        calls: vec![(call, calls, ms, bytes), ("MPI_Irecv", calls, 1, 0)],
    }
}

#[test]
fn waiting_is_measured_by_the_calls_that_wait() {
    let collective = vec![calling("MPI_Allreduce", 1000, 400, 8000); 2];
    let messages = vec![calling("MPI_Waitall", 1000, 400, 0); 2];
    let text = finding("waiting-in-collectives", &collective).expect("a finding");
    assert!(
        text.starts_with("40 % of the ranks' time is spent in collective calls"),
        "{text}"
    );
    let text = finding("waiting-for-messages", &messages).expect("a finding");
    assert!(
        text.starts_with("40 % of the ranks' time is spent waiting for messages"),
        "{text}"
    );
    assert_eq!(finding("waiting-in-collectives", &messages), None);
    assert_eq!(finding("waiting-for-messages", &collective), None);
}

#[test]
fn the_imbalance_of_ranks_that_hardly_compute_is_no_cause() {
    let unequal = |useful: [f64; 2]| {
        useful.map(|useful| Rank {
            useful,
            ..calling("MPI_Allreduce", 1000, 900, 8000)
        })
    };
    let text = finding("waiting-in-collectives", &unequal([0.001, 0.003])).expect("a finding");
    assert!(
        text.ends_with("although the load is balanced\n(imbalance explains 0.1 % of their time)."),
        "{text}"
    );
    assert_eq!(finding("waiting-in-collectives", &unequal([0.05, 0.15])), None);
}

#[test]
fn many_small_messages_are_reported_and_few_or_large_ones_are_not() {
    let of = |calls: u64, size: u64| vec![calling("MPI_Send", calls, 300, calls * size); 2];
    let text = finding("small-messages", &of(50_000, 64)).expect("a finding");
    assert!(text.contains("64 B each on average"), "{text}");
    assert_eq!(finding("small-messages", &of(5_000, 64)), None);
    assert_eq!(finding("small-messages", &of(50_000, 4096)), None);
}
