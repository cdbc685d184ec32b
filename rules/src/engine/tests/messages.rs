//! Reports and schedules as messages.

use proptest::prelude::*;

use super::*;
use crate::engine::instance_table::Entry;
use crate::engine::node::Scheduled;
use crate::engine::timed::TimedEntry;
use crate::engine::{MESSAGE_MAX, MessageError, Node, Report, Schedule};
use crate::partial_sum::{Group, PartialSum, Sums};
use crate::value::Key;

/// Every reduction, so that reports have every kind of state.
const FOLDS: &str = "\
rule: folds
about: all states
roles:
  one: rank >= 0
probes:
  turn: {role: one, entry: t}
  stop: {role: one, entry: s}
  x: {role: one, span: f}
capture:
  turn.number: n
  x.number: n
  x.a: a
  x.b: b
windows:
  w: {from: turn, to: stop, key: number}
  t: {every: 1s}
metrics:
  t_x: {in: t, value: sum(x.a)}
  t_count: {in: t, value: count(x) * 1s + max(x.duration)}
  t_rows: {in: t, value: argmax(cpu.time)}
  t_load: {in: t, value: mean(useful.share) + last(threads / 2)}
  m_count: {in: w, value: 'count(x)'}
  m_sum: {in: w, value: 'sum(x.a)'}
  m_spread: {in: w, value: 'stddev(x.duration)'}
  m_least: {in: w, value: 'min(x.a)'}
  m_most: {in: w, value: 'max(x.a)'}
  m_first: {in: w, value: 'first(x.a)'}
  m_last: {in: w, value: 'last(x.a)'}
  m_any: {in: w, value: 'any(x.a > 2)'}
  m_rows: {in: w, value: 'sum(x.a * 0.1) by x.b'}
  m_half: {in: w, value: 'quantile(x.a, 50%)'}
  m_line: {in: w, value: 'slope(x.a, x.b)'}
  m_all: {in: w, value: 'product(x.a + 1)'}
  m_one: {in: w, value: 'only(x.b)'}
";

fn any_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        (0i32..50).prop_map(|tenths| f64::from(tenths) / 10.0),
        Just(-0.0)
    ]
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        3 => any_double().prop_map(Scalar::Number),
        1 => any::<bool>().prop_map(Scalar::Boolean),
        1 => "[a-z\u{e9}]{0,9}".prop_map(Scalar::Text),
    ]
}

fn any_read() -> impl Strategy<Value = Result<Scalar, String>> {
    prop_oneof![4 => any_scalar().prop_map(Ok), 1 => "[a-z ]{0,9}".prop_map(Err)]
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let process = || any::<u32>().prop_map(ProcessId);
    let time = || any::<u64>().prop_map(Time);
    let measure = || prop::sample::select(Measure::ALL);
    let reads = prop::collection::vec(any_read(), 0..5);
    let sums = (any::<i128>(), any::<u128>(), any::<i64>(), any::<i64>());
    let sums = sums.prop_map(|(sum, squares, least, greatest)| Sums {
        sum,
        squares,
        least,
        greatest,
    });
    let hit = (0usize..3, process(), any::<u32>(), time(), any::<u64>(), reads);
    let hit = hit.prop_map(
        |(probe, process, thread, time, duration_ns, reads)| Observation::Hit {
            rule: RuleId(probe),
            probe: ProbeId(probe),
            process,
            thread,
            time,
            duration_ns,
            captures: reads.into(),
        },
    );
    let sum = (
        process(),
        any::<i64>(),
        time(),
        any::<u64>(),
        prop::collection::vec(sums, 0..3),
    );
    let sum = sum.prop_map(|(process, key, time, count, sums)| Observation::PartialSum {
        rule: RuleId(0),
        probe: ProbeId(2),
        process,
        partial_sum: PartialSum {
            group: Group::Key(key),
            first: time,
            last: time,
            count,
            sums,
        },
    });
    prop_oneof![
        hit,
        sum,
        (process(), time()).prop_map(|(process, time)| Observation::Watermark { process, time }),
        (process(), measure(), time(), any_double()).prop_map(|(of, measure, time, value)| {
            Observation::gauge(Subject::Process(of), measure, time, value)
        }),
        (any::<u32>(), measure(), time(), any::<u64>()).prop_map(|(of, measure, time, total)| {
            Observation::counter(Subject::Machine(Machine(of)), measure, time, total)
        }),
        (process(), "[a-z.]{0,9}", time(), any_scalar()).prop_map(|(process, name, time, value)| {
            Observation::Variable {
                process,
                name,
                time,
                value,
            }
        }),
    ]
}

/// Reads of `x` in one instance.
fn any_hits() -> impl Strategy<Value = Vec<(u32, u64, f64, f64)>> {
    let hit = (0u32..3, 0u64..5_000_000_000, any_double(), 0i32..4);
    prop::collection::vec(
        hit.prop_map(|(process, duration, a, b)| (process, duration, a, b.into())),
        0..100,
    )
}

/// The report of a node that has folded these hits, and passes on these observations.
fn report(hits: &[(u32, u64, f64, f64)], observations: Vec<Observation>) -> Report {
    let mut node = Node::new(Machine(3), 9, vec![checked(FOLDS)]);
    (0..3).for_each(|rank| node.process_joined(ProcessId(rank), ProcessFacts::of_rank(rank), Time(0)));
    for (number, (process, duration_ns, a, b)) in (10u64..).zip(hits) {
        let (process, time) = (ProcessId(*process), Time(number));
        node.observe(hit(ProbeId(2), process, time, *duration_ns, &[1.0, *a, *b]));
    }
    for rank in 0..3 {
        let of = Subject::Process(ProcessId(rank));
        node.observe(Observation::gauge(
            of,
            Measure::UsefulShare,
            Time(1),
            f64::from(rank) / 7.0,
        ));
        for time in [0, 2_000_000_000] {
            node.observe(Observation::counter(of, Measure::CpuTime, Time(time), time));
            let count = hits.iter().filter(|hit| hit.0 == rank).count() as u64;
            let count = if time == 0 { 0 } else { count };
            node.observe(totals((2, rank), Time(time), (count, time)));
        }
    }
    observations
        .into_iter()
        .for_each(|observation| node.observe(observation));
    node.learn(&schedule());
    let report = node.report();
    assert_eq!(report.parts.len(), 1);
    report
}

fn schedule() -> Schedule {
    let entry = |index: u64, key: Key, over: Option<u64>| Entry {
        index,
        key: Some(key),
        begun: Time(index),
        over: over.map(Time),
    };
    let entries = vec![
        entry(0, Key::of(&Scalar::Text("zero".to_string())), Some(1)),
        entry(1, Key::of(&Scalar::Number(1.0)), Some(1000)),
    ];
    Schedule {
        rules: vec![Scheduled {
            reach: Some(Time(1000)),
            windows: vec![entries],
            timed: vec![TimedEntry {
                window: 1,
                index: 5,
                span: (Time(0), Time(2_000_000_000)),
            }],
        }],
    }
}

proptest! {
    #[test]
    fn a_report_arrives_as_it_was_sent_to_the_last_bit(
        hits in any_hits(),
        observations in prop::collection::vec(any_observation(), 0..20),
    ) {
        let sent = report(&hits, observations);
        let folded: usize = sent.partials.iter().map(|partial| partial.content.len()).sum();
        prop_assert_eq!(folded, hits.len());
        let message = sent.encode().unwrap();
        let arrived = Report::decode(&message).unwrap();
        // NaN equals nothing: bytes are compared, and what has no NaN.
        prop_assert_eq!(arrived.encode(), Ok(message));
        prop_assert_eq!(&arrived.partials, &sent.partials);
    }

    #[test]
    fn no_bytes_are_too_strange_for_a_message(
        hits in any_hits(),
        observations in prop::collection::vec(any_observation(), 0..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut message = report(&hits, observations).encode().unwrap();
        for (index, byte) in changes {
            let index = index.index(message.len());
            message[index] = byte;
        }
        message.truncate(cut.map_or(message.len(), |cut| cut.index(message.len() + 1)));
        let mut farm = super::probed::Farm::new(FOLDS, 3);
        farm.engine.node_joined(Machine(0));
        if let Ok(mut report) = Report::decode(&message) {
            report.node = Machine(0);
            farm.engine.take_report(report);
        }
        farm.hits(&[("turn", 0, 0, 0, vec![1.0])]);
        farm.all_until(100_000);
        farm.closed();
    }
}

#[test]
fn a_schedule_arrives_as_it_was_sent() {
    let message = schedule().encode().unwrap();
    assert_eq!(Schedule::decode(&message), Ok(schedule()));
    let expected = Err(MessageError::Kind { expected: "report" });
    assert_eq!(Report::decode(&message), expected);
}

#[test]
fn a_message_of_another_format_or_length_is_refused_and_the_error_says_why() {
    let good = report(&[(0, 1, 1.5, 0.0)], Vec::new()).encode().unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = good.clone();
        change(&mut message);
        Report::decode(&message).unwrap_err().to_string()
    };
    assert_eq!(
        with(&|message| message[0] = 7),
        "the message has format 7, and this program reads format 3: use the same version on all nodes"
    );
    assert_eq!(with(&|message| message[1] = 2), "the message is no report");
    assert_eq!(with(&Vec::clear), "the message is no report");
    assert_eq!(
        with(&|message| message.push(0)),
        "1 bytes follow the last item of the message"
    );
    assert!(with(&|message| message.truncate(message.len() - 1)).starts_with("item "));
    let bytes = MESSAGE_MAX + 1;
    let expected = format!("the message has {bytes} bytes; at most {MESSAGE_MAX} are accepted");
    assert_eq!(with(&|message| message.resize(bytes, 0)), expected);
}

#[test]
fn a_message_that_needs_more_memory_than_there_is_room_for_is_refused() {
    // A watermark has 3 bytes as an item; in memory it is as large as any observation.
    let watermark = Observation::Watermark {
        process: ProcessId(1),
        time: Time(1),
    };
    let many = Report {
        observations: vec![watermark; 1_000_000],
        ..Report::default()
    };
    assert_eq!(many.encode(), Err(MessageError::TooLarge));
    // A message that says that it has more items than bytes.
    let mut message = Report::default().encode().unwrap();
    let observations = message.len() - 3;
    message.splice(observations..=observations, [0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(matches!(
        Report::decode(&message),
        Err(MessageError::Broken { item: 1, .. })
    ));
}
