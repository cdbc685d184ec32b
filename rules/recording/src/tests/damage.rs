//! Deliberate errors: wrong lengths, records of later versions, blocks in another order.

use super::*;

/// A recording of these artificial records, with correct checksums.
fn forged(records: Vec<Stored>) -> Vec<u8> {
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    records.into_iter().for_each(|record| writer.push(record));
    writer.finish()
}

fn stored_loss(text: &str) -> Stored {
    Stored::Json(format!(r#"{{"loss":{{"time":1,"kind":"{text}","count":1}}}}"#))
}

fn stored_hit(captures: Vec<Captured>) -> Stored {
    Stored::Hit {
        after_ns: 0,
        probe: 0,
        process: 0,
        thread: 0,
        duration_ns: None,
        captures,
    }
}

fn wrong(bytes: &[u8]) -> &'static str {
    match read(bytes) {
        (_, Some(ReadError::Corrupt { what, .. })) => what,
        other => panic!("{other:?}"),
    }
}

/// The densest records: a block of the maximum size with records of few bits each.
#[test]
fn the_records_of_a_block_take_bounded_memory() {
    let block = |count: usize, record: &Stored| {
        bitcode::encode(&Block {
            start: 0,
            records: vec![record.clone(); count],
        })
    };
    let captured = [Captured::Boolean(false), Captured::None(MissingReason::Lost)];
    let hits = captured
        .iter()
        .flat_map(|value| [0, 1, 1000].map(|count| stored_hit(vec![value.clone(); count])));
    for record in hits.chain([
        Stored::Tick { after_ns: 0 },
        Stored::End(0),
        Stored::Json(String::new()),
    ]) {
        // The size of one is determined from a thousand.
        let fit = BLOCK_MAX * 1000 / block(1000, &record).len();
        let of_one = match &record {
            Stored::Hit { captures, .. } => captures.len() * size_of::<Captured>(),
            _ => 0,
        };
        let taken = fit * (size_of::<Stored>() + of_one);
        assert!(taken <= OPEN_MAX, "{taken} by {record:?}");
    }
}

#[test]
fn a_block_that_is_too_large_is_not_decompressed() {
    let mut bytes = RecordingWriter::new(&Header::default()).unwrap().take();
    let sum = u32::from_le_bytes(*bytes[16..].first_chunk().unwrap());
    block::seal(&mut bytes, &vec![0; BLOCK_MAX + 1], sum);
    assert_eq!(wrong(&bytes), "a block is longer than blocks may be");
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    assert!(writer.foreign(&vec![0; BLOCK_MAX + 1]).is_err());
}

#[test]
fn records_of_newer_versions_are_left_out_and_counted() {
    let json = |json: &str| Stored::Json(json.to_owned());
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    writer.write(&watermark(1, 5)).unwrap();
    // An unknown kind, an unknown measure and an unknown type of a capture; a known field that is null.
    writer.push(json(r#"{"eclipse":{"time":3}}"#));
    writer.push(Stored::Counter {
        after_ns: 1,
        process: None,
        measure: "moon.phase".to_owned(),
        total: 7,
    });
    writer.push(json(
        r#"{"probe_defined":{"probe":0,"definition":{"name":"","function":"","place":"entry","captures":[["x","complex"]]}}}"#,
    ));
    writer.push(json(
        r#"{"loss":{"time":9,"kind":"ring_full","count":3,"colour":"red"}}"#,
    ));
    writer.push(Stored::Watermark {
        after_ns: 2,
        process: 1,
    });
    let bytes = writer.finish();
    let mut reader = Reader::new(&bytes).unwrap();
    let records: Result<Vec<Record>, ReadError> = reader.by_ref().collect();
    let expected = [watermark(1, 5), loss(9, "ring_full", 3), watermark(1, 8)];
    assert_eq!(records.unwrap(), expected);
    assert_eq!(reader.skipped(), 3);
}

#[test]
fn invalid_values_are_named() {
    let hit = stored_hit(vec![Captured::Boolean(true); CAPTURES_MAX + 1]);
    let long = "x".repeat(TEXT_MAX + 1);
    for (record, expected) in [
        (Stored::End(7), "the end counts other records than there are"),
        (Stored::End(0), "something follows the end"),
        (Stored::Json("{".to_owned()), "a record is not JSON"),
        (
            Stored::Json(" ".repeat(RECORD_MAX + 1)),
            "a record is longer than records may be",
        ),
        (stored_loss(&long), "a text is longer than texts may be"),
        (hit, "a hit has more captures than hits may have"),
    ] {
        assert_eq!(wrong(&forged(vec![record])), expected);
    }
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    writer.foreign(b"no records").unwrap();
    assert_eq!(wrong(&writer.finish()), "a block makes no sense");
}

#[test]
fn what_a_decoder_says_of_bytes_with_right_checksums_is_the_cause() {
    let cause = |bytes: &[u8]| match read(bytes) {
        (_, Some(error)) => std::error::Error::source(&error).map(ToString::to_string),
        other => panic!("{other:?}"),
    };
    let said = cause(&forged(vec![Stored::Json("{".to_owned())]));
    assert!(
        said.as_ref().is_some_and(|said| said.contains("line 1")),
        "{said:?}"
    );
    // No decoder has read it.
    assert_eq!(cause(&forged(vec![Stored::End(7)])), None);
}

#[test]
fn a_block_that_is_missing_or_in_another_place_is_damage() {
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    let mut chunks = vec![writer.take()];
    for time in 0..3 {
        writer.write(&watermark(0, time)).unwrap();
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
    newer[8] = 3;
    let header = RecordingWriter::new(&Header::default()).unwrap().take().len();
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
            "the recording has format 3, this program reads format 2; use the tuneagent that made it, or a newer one",
        ),
        (
            &good[..good.len() - 1],
            &format!(
                "the recording breaks off at byte {header}: the session that wrote it was stopped, or the copy is incomplete; the data before is good"
            ),
        ),
        (
            &[&good[..], b"x"].concat(),
            &format!(
                "the recording is damaged at byte {} (something follows the end); the data before is good; copy it again for the rest",
                good.len()
            ),
        ),
    ] {
        assert_eq!(read(bytes).1.unwrap().to_string(), expected);
    }
}

#[test]
fn a_record_that_is_too_large_is_refused_and_the_recording_continues() {
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    let good = loss(7, "ring_full", 1);
    writer.write(&good).unwrap();
    let long = "x".repeat(TEXT_MAX + 1);
    let hit = |captures| {
        let (probe, process) = (ProbeKey(0), ProcessId(0));
        Record::Hit(RecordedHit {
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
            hit(vec![Captured::Boolean(true); CAPTURES_MAX + 1]),
            ("the list of a hit's captures", 17, 16),
        ),
        (
            hit(vec![Captured::Text(long.clone())]),
            ("a captured text", 4097, 4096),
        ),
        (loss(8, &long, 1), ("a text", 4097, 4096)),
        (
            Record::ProcessJoined {
                process: ProcessId(0),
                time: Time(8),
                facts,
            },
            ("a record", 400_434, RECORD_MAX),
        ),
    ] {
        let (what, size, limit) = expected;
        assert_eq!(writer.write(&record), Err(TooLarge { what, size, limit }));
    }
    writer.write(&good).unwrap();
    assert_eq!(read(&writer.finish()), (vec![good.clone(), good], None));
    assert!(
        RecordingWriter::new(&Header {
            host: long,
            ..Header::default()
        })
        .is_err()
    );
}

/// A recording is untrusted, and its texts may be printed on a terminal of root.
#[test]
fn control_characters_are_replaced() {
    let header = Header {
        host: "a\x1b[2J\u{202e}b\n".to_owned(),
        ..Header::default()
    };
    let bytes = RecordingWriter::new(&header).unwrap().finish();
    let reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.header().host, "a\u{fffd}[2J\u{fffd}b\u{fffd}");
    let hit = stored_hit(vec![Captured::Text("\x1b[2J".to_owned())]);
    let (records, _) = read(&forged(vec![hit, stored_loss("\\u001b[2J")]));
    let [Record::Hit(hit), Record::Loss { kind, .. }] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(hit.captures, [Captured::Text("\u{fffd}[2J".to_owned())]);
    assert_eq!(kind, "\u{fffd}[2J");
}
