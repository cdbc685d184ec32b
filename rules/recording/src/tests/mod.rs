//! Laws, the documented example, damage, sizes, merging.

mod damage;
mod example;
mod laws;
mod merging;
mod sizes;

use proptest::prelude::*;

use super::stored::{Block, Stored, is_active};
use super::*;
use rules::{IterationTeams, LoopNumber, Measure, ProcessFacts, ProcessId, Time};

/// A recording of these records.
fn written(header: &Header, records: &[Record]) -> Vec<u8> {
    let mut writer = RecordingWriter::new(header).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.finish()
}

/// The records that can be read, and the error after them.
fn read(bytes: &[u8]) -> (Vec<Record>, Option<ReadError>) {
    let reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    for item in reader {
        match item {
            Ok(record) => records.push(record),
            Err(error) => return (records, Some(error)),
        }
    }
    (records, None)
}

fn watermark(process: u32, time: u64) -> Record {
    Record::Watermark {
        process: ProcessId(process),
        time: Time(time),
    }
}

fn loss(time: u64, kind: &str, count: u64) -> Record {
    Record::Loss {
        time: Time(time),
        kind: kind.to_owned(),
        count,
    }
}

/// Numbers of all lengths: small ones, those at the boundaries of bytes, any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3_u64,
        (0..64_u32, 0..3_u64).prop_map(|(bits, more)| (1_u64 << bits).wrapping_sub(1).wrapping_add(more)),
        any::<u64>()
    ]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..4_u32, 1 => any::<u32>()]
}

fn time() -> impl Strategy<Value = Time> {
    number().prop_map(Time)
}

/// Texts as sessions write them: made printable before they are recorded.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,3}", ".{0,20}"].prop_map(|text| text.replace(is_active, "?"))
}

fn captured() -> impl Strategy<Value = Captured> {
    let reason = proptest::sample::select(vec![
        MissingReason::Unknown,
        MissingReason::NotMeasured,
        MissingReason::Unreadable,
        MissingReason::Lost,
        MissingReason::Incomplete,
        MissingReason::InsideCall,
    ]);
    prop_oneof![
        reason.prop_map(Captured::None),
        any::<i64>().prop_map(Captured::Signed),
        (-3..3_i64).prop_map(Captured::Signed),
        number().prop_map(Captured::Unsigned),
        any::<f64>().prop_map(Captured::Float),
        any::<bool>().prop_map(Captured::Boolean),
        text().prop_map(Captured::Text),
    ]
}

fn facts() -> impl Strategy<Value = ProcessFacts> {
    let texts = || proptest::collection::btree_set(text(), 0..4);
    let number = || proptest::option::of(small());
    let known = || proptest::option::of(text());
    (number(), number(), text(), known(), texts(), texts(), known()).prop_map(
        |(rank, size, exe, mpi, libraries, symbols, host)| ProcessFacts {
            rank,
            size,
            exe,
            mpi,
            libraries,
            symbols,
            host,
            ..ProcessFacts::default()
        },
    )
}

fn definition() -> impl Strategy<Value = ProbeDefinition> {
    let place = proptest::sample::select(vec![ProbePlace::Entry, ProbePlace::Return, ProbePlace::Span]);
    let of = proptest::sample::select(vec![
        CapturedType::Signed,
        CapturedType::Unsigned,
        CapturedType::Float,
        CapturedType::Boolean,
        CapturedType::Text,
    ]);
    let captures = proptest::collection::vec((text(), of), 0..4);
    (text(), text(), place, captures).prop_map(|(name, function, place, captures)| ProbeDefinition {
        name,
        function,
        place,
        captures,
    })
}

fn hit() -> impl Strategy<Value = Record> {
    let captures = proptest::collection::vec(captured(), 0..4);
    let duration = proptest::option::of(number());
    (small(), small(), small(), time(), duration, captures).prop_map(
        |(probe, process, thread, time, duration_ns, captures)| {
            Record::Hit(RecordedHit {
                probe: ProbeKey(probe),
                process: ProcessId(process),
                thread,
                time,
                duration_ns,
                captures,
            })
        },
    )
}

fn teams() -> impl Strategy<Value = Result<IterationTeams, String>> {
    let known = (small(), number(), number(), number(), number()).prop_map(
        |(threads, sequential_ns, working_ns, overhead_ns, waiting_ns)| IterationTeams {
            threads,
            sequential_ns,
            working_ns,
            overhead_ns,
            waiting_ns,
        },
    );
    prop_oneof![known.prop_map(Ok), text().prop_map(Err)]
}

fn loop_number() -> impl Strategy<Value = LoopNumber> {
    (small(), number()).prop_map(|(of, iteration)| LoopNumber { of, iteration })
}

fn record() -> impl Strategy<Value = Record> {
    let process = || small().prop_map(ProcessId);
    let series = || {
        let measure = proptest::sample::select(Measure::ALL.to_vec());
        (proptest::option::of(process()), measure, time())
    };
    prop_oneof![
        5 => hit(),
        1 => (process(), time(), facts())
            .prop_map(|(process, time, facts)| Record::ProcessJoined { process, time, facts }),
        1 => (process(), time(), facts())
            .prop_map(|(process, time, facts)| Record::ProcessLearned { process, time, facts }),
        1 => (process(), time()).prop_map(|(process, time)| Record::ProcessLeft { process, time }),
        1 => (small(), definition()).prop_map(|(probe, definition)| Record::ProbeDefined {
            probe: ProbeKey(probe), definition
        }),
        2 => (series(), number())
            .prop_map(|((process, measure, time), total)| Record::Counter { process, measure, time, total }),
        2 => (series(), any::<f64>())
            .prop_map(|((process, measure, time), value)| Record::Gauge { process, measure, time, value }),
        2 => (small(), process(), time(), number(), number()).prop_map(
            |(probe, process, time, count, duration_sum_ns)| Record::ProbeTotals {
                probe: ProbeKey(probe), process, time, count, duration_sum_ns
            }),
        1 => (process(), time()).prop_map(|(process, time)| Record::Watermark { process, time }),
        1 => time().prop_map(|time| Record::Tick { time }),
        1 => (process(), time(), time())
            .prop_map(|(process, from, to)| Record::HitsLost { process, from, to }),
        1 => (time(), text(), text()).prop_map(|(time, rule, mode)| Record::RuleSet { time, rule, mode }),
        1 => (process(), time(), number(), number(), number(), number(), number()).prop_map(
            |(process, time, count, sum_ns, elapsed_ns, mpi_ns, calls_per_1000)| Record::Iterations {
                process, time, count, sum_ns, elapsed_ns, mpi_ns, calls_per_1000
            }),
        1 => (process(), time(), number(), proptest::option::of(0..u64::MAX), number(), proptest::option::of(0..u64::MAX)).prop_map(
            |(process, time, count, inside_ns, watched_ns, until_ns)| Record::Regions {
                process, time, count, inside_ns, watched_ns, until_ns
            }),
        1 => (process(), time(), small(), loop_number()).prop_map(|(process, time, thread, number)| {
            Record::IterationBegan { process, time, thread, number }
        }),
        1 => (process(), time(), small(), (number(), loop_number()), teams()).prop_map(
            |(process, time, thread, (duration_ns, number), teams)| Record::IterationEnded {
                process, time, duration_ns, thread, number, teams
            }),
        1 => (process(), time()).prop_map(|(process, time)| Record::LoopWatermark { process, time }),
        1 => (process(), time(), text(), any::<f64>())
            .prop_map(|(process, time, name, value)| Record::Variable { process, time, name, value }),
        1 => (process(), small(), time(), (number(), number(), number()), proptest::option::of(0..u64::MAX), any::<f64>()).prop_map(
            |(process, probe, time, (counted, counted_bytes, from), to, watched)| Record::Estimated {
                process, probe: ProbeKey(probe), time, counted, counted_bytes, from, to, watched
            }),
        1 => (small(), process(), time(), number()).prop_map(|(probe, process, time, open_ns)| {
            Record::OpenCalls { probe: ProbeKey(probe), process, time, open_ns }
        }),
        1 => (time(), proptest::collection::vec((small(), small(), number(), number()), 0..4), number())
            .prop_map(|(time, pairs, cut)| Record::Sent { time, pairs, cut }),
        1 => (time(), text(), text(), text())
            .prop_map(|(time, kind, rule, text)| Record::Marked { time, kind, rule, text }),
        1 => (time(), text(), number()).prop_map(|(time, kind, count)| Record::Loss { time, kind, count }),
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let notes = proptest::collection::btree_map(text(), text(), 0..4);
    (text(), text(), number(), time(), notes).prop_map(|(host, program, wall_start_ns, origin, notes)| {
        Header {
            host,
            program,
            wall_start_ns,
            origin,
            notes,
        }
    })
}
