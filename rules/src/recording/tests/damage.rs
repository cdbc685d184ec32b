//! What is wrong on purpose: lengths that lie, records of later versions, blocks in another order.

use super::*;

/// A recording of one made-up record, with right sums.
fn forged(kind: u64, body: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(&Header::default()).unwrap();
    writer.foreign(kind, body).unwrap();
    writer.finish()
}

fn wrong(bytes: &[u8]) -> &'static str {
    match read(bytes) {
        (_, Some(ReadError::Corrupt { what, .. })) => what,
        other => panic!("{other:?}"),
    }
}

/// Bytes that a value holds apart from itself.
fn heap(record: &Record) -> usize {
    let of_facts = |facts: &ProcessFacts| {
        let texts = facts.libraries.iter().chain(&facts.symbols);
        let texts: usize = texts.map(|text| text.capacity() + 2 * size_of::<String>()).sum();
        let known = facts.mpi.iter().chain(&facts.host);
        texts + facts.exe.capacity() + known.map(String::capacity).sum::<usize>()
    };
    match record {
        Record::ProcessJoined { facts, .. } | Record::ProcessLearned { facts, .. } => of_facts(facts),
        Record::ProbeDefined { definition, .. } => {
            let names: usize = definition.captures.iter().map(|(name, _)| name.capacity()).sum();
            let list = definition.captures.capacity() * size_of::<(String, CapturedType)>();
            names + list + definition.name.capacity() + definition.function.capacity()
        }
        Record::Hit(hit) => {
            let texts = hit.captures.iter().map(|value| match value {
                Captured::Text(text) => text.capacity(),
                _ => 0,
            });
            texts.sum::<usize>() + hit.captures.capacity() * size_of::<Captured>()
        }
        Record::Loss { kind, .. } => kind.capacity(),
        Record::Variable { name, .. } => name.capacity(),
        Record::Marked { kind, rule, text, .. } => kind.capacity() + rule.capacity() + text.capacity(),
        Record::RuleSet { rule, mode, .. } => rule.capacity() + mode.capacity(),
        Record::ProcessLeft { .. }
        | Record::Counter { .. }
        | Record::Gauge { .. }
        | Record::ProbeTotals { .. }
        | Record::HitsLost { .. }
        | Record::Iterations { .. }
        | Record::Estimated { .. }
        | Record::Tick { .. }
        | Record::Watermark { .. } => 0,
    }
}

#[test]
fn a_length_cannot_make_the_reader_take_more_than_some_dozen_times_the_bytes() {
    let mut huge = Vec::new();
    wire::put_number(&mut huge, u64::MAX);
    let mut large = Vec::new();
    wire::put_number(&mut large, 4096);
    for kind in 0..20 {
        for length in [&huge, &large] {
            for place in 0..12 {
                for filling in [0, 1, 5] {
                    let body = [vec![filling; place], length.clone(), vec![filling; 9]].concat();
                    let bytes = forged(kind, &body);
                    let (records, _) = read(&bytes);
                    let taken: usize = records
                        .iter()
                        .map(|record| size_of::<Record>() + heap(record))
                        .sum();
                    assert!(
                        taken <= 64 * bytes.len(),
                        "kind {kind}: {taken} of {}",
                        bytes.len()
                    );
                }
            }
        }
    }
    // The densest there is: hits that cost a byte for each of their values.
    let captures = vec![Captured::Signed(0); MAX_CAPTURES];
    let hit = Record::Hit(Hit {
        probe: ProbeKey(0),
        process: ProcessId(0),
        thread: 0,
        time: Time(0),
        duration_ns: None,
        captures,
    });
    let bytes = written(&Header::default(), &vec![hit; 1000]);
    let (records, _) = read(&bytes);
    let taken: usize = records
        .iter()
        .map(|record| size_of::<Record>() + heap(record))
        .sum();
    assert!(taken <= 64 * bytes.len(), "{taken} of {}", bytes.len());
}

#[test]
fn what_a_newer_version_adds_is_left_out_and_counted() {
    let first = Record::Watermark {
        process: ProcessId(1),
        time: Time(5),
    };
    let second = Record::Watermark {
        process: ProcessId(1),
        time: Time(6),
    };
    let mut writer = Writer::new(&Header::default()).unwrap();
    writer.write(&first).unwrap();
    writer.foreign(1000, &[1, 2, 3]).unwrap();
    // A stream of an unknown type, and a record of it: one nanosecond later.
    writer.foreign(body::kind::STREAM, &[99, 1]).unwrap();
    writer.foreign(body::kind::SAMPLE, &[0, 2, 7]).unwrap();
    // The same moment again, by a record with a field at its end that is not known.
    writer.foreign(body::kind::WATERMARK, &[1, 0, 9, 9]).unwrap();
    let bytes = writer.finish();
    let mut reader = Reader::new(&bytes).unwrap();
    let records: Result<Vec<Record>, ReadError> = reader.by_ref().collect();
    assert_eq!(records.unwrap(), [first, second]);
    assert_eq!(reader.skipped(), 2);
}

#[test]
fn a_measure_or_a_type_that_is_not_known_is_left_out() {
    let mut name = vec![2, 0];
    wire::put_text(&mut name, "", "moon.phase").unwrap();
    let mut writer = Writer::new(&Header::default()).unwrap();
    writer.foreign(body::kind::STREAM, &name).unwrap();
    writer.foreign(body::kind::SAMPLE, &[0, 0, 0]).unwrap();
    // A probe at a place, and one with a capture, of later versions.
    writer.foreign(body::kind::PROBE, &[0, 0, 0, 9, 0]).unwrap();
    writer.foreign(body::kind::PROBE, &[0, 0, 0, 1, 1, 0, 9]).unwrap();
    let bytes = writer.finish();
    let mut reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.by_ref().next(), None);
    assert_eq!(reader.skipped(), 3);
}

#[test]
fn what_makes_no_sense_is_named() {
    for (kind, body, expected) in [
        (0, &[][..], "there is no such record here"),
        (body::kind::HEADER, &[], "there is no such record here"),
        (
            body::kind::END,
            &[7],
            "the end counts other records than there are",
        ),
        (body::kind::END, &[1], "something follows the end"),
        (body::kind::SAMPLE, &[0, 0, 0], "a stream was not described"),
        (body::kind::WATERMARK, &[1], "something is cut off"),
        (body::kind::LOSS, &[0, 1, 0xff, 0], "a text is not UTF-8"),
        (
            body::kind::LOSS,
            &[0, 9, b'a'],
            "something is longer than what it is in",
        ),
        (
            body::kind::LOSS,
            &[0, 0xff, 0x7f],
            "a text is longer than texts may be",
        ),
        (
            body::kind::STREAM,
            &[
                1, 0, 0, 0, 0, 17, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
            ],
            "a hit has more captures than hits may have",
        ),
    ] {
        assert_eq!(wrong(&forged(kind, body)), expected, "{kind} {body:?}");
    }
}

#[test]
fn a_block_that_is_missing_or_in_another_place_is_damage() {
    let mut writer = Writer::new(&Header::default()).unwrap();
    let mut chunks = vec![writer.take()];
    for time in 0..3 {
        let process = ProcessId(0);
        writer
            .write(&Record::Watermark {
                process,
                time: Time(time),
            })
            .unwrap();
        writer.flush();
        chunks.push(writer.take());
    }
    chunks.push(writer.finish());
    for order in [
        &[0, 2, 3, 4][..],
        &[0, 2, 1, 3, 4],
        &[0, 1, 1, 2, 3, 4],
        &[0, 1, 2, 4],
    ] {
        let bytes: Vec<u8> = order.iter().flat_map(|place| chunks[*place].clone()).collect();
        assert_eq!(wrong(&bytes), "a block has another sum", "{order:?}");
    }
    let twice = [chunks.concat(), chunks.concat()].concat();
    assert_eq!(wrong(&twice), "something follows the end");
}

#[test]
fn each_way_of_not_being_a_recording_says_what_to_do() {
    let good = written(&Header::default(), &[]);
    let mut newer = good.clone();
    newer[8] = 2;
    for (bytes, expected) in [
        (
            &b"rule: x"[..],
            "this is not a recording of tuneagent; give a file made by --record",
        ),
        (
            b"",
            "the recording is empty: the session that wrote it was stopped at once, or the copy is incomplete",
        ),
        (
            &newer,
            "the recording has format 2, this program reads format 1; use the tuneagent that made it, or a newer one",
        ),
        (
            &good[..good.len() - 1],
            "the recording breaks off at byte 31: the session that wrote it was stopped, or the copy is incomplete; the data before is good",
        ),
        (
            &[&good[..], b"x"].concat(),
            "the recording is damaged at byte 46 (something follows the end); the data before is good; copy it again for the rest",
        ),
    ] {
        assert_eq!(read(bytes).1.unwrap().to_string(), expected);
    }
}

#[test]
fn what_is_too_large_is_refused_and_the_recording_goes_on() {
    let mut writer = Writer::new(&Header::default()).unwrap();
    let good = Record::Loss {
        time: Time(7),
        kind: "ring_full".into(),
        count: 1,
    };
    writer.write(&good).unwrap();
    let long = "x".repeat(MAX_TEXT + 1);
    let hit = |captures| {
        let (probe, process) = (ProbeKey(0), ProcessId(0));
        Record::Hit(Hit {
            probe,
            process,
            thread: 0,
            time: Time(9),
            duration_ns: None,
            captures,
        })
    };
    let facts = ProcessFacts {
        libraries: (0..100).map(|number| format!("{number:04000}")).collect(),
        ..ProcessFacts::default()
    };
    for (record, expected) in [
        (
            hit(vec![Captured::Boolean(true); MAX_CAPTURES + 1]),
            ("the list of a hit's captures", 17, 16),
        ),
        (
            hit(vec![Captured::Text(long.clone())]),
            ("a captured text", 4097, 4096),
        ),
        (
            Record::Loss {
                time: Time(8),
                kind: long.clone(),
                count: 1,
            },
            ("the name of a loss", 4097, 4096),
        ),
        (
            Record::ProcessJoined {
                process: ProcessId(0),
                time: Time(8),
                facts,
            },
            ("a record", 400_211, MAX_RECORD),
        ),
    ] {
        let (what, size, limit) = expected;
        assert_eq!(writer.write(&record), Err(TooLarge { what, size, limit }));
    }
    writer.write(&good).unwrap();
    assert_eq!(read(&writer.finish()), (vec![good.clone(), good], None));
    assert!(
        Writer::new(&Header {
            host: long,
            ..Header::default()
        })
        .is_err()
    );
}

/// A recording may be anybody's, and what it says is printed on the terminal of root.
#[test]
fn what_a_terminal_would_act_on_is_replaced() {
    let header = Header {
        host: "a\x1b[2J\u{202e}b\n".to_owned(),
        ..Header::default()
    };
    let bytes = Writer::new(&header).unwrap().finish();
    let reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.header().host, "a\u{fffd}[2J\u{fffd}b\u{fffd}");
}
