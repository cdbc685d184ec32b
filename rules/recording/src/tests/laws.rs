//! Laws on generated recordings: what was written is read, a prefix gives a prefix, and every flipped bit is
//! detected.

use super::*;

/// A recording in small blocks: `flushes` says after which records a block is closed.
fn chunked(header: &Header, records: &[(Record, bool)]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut writer = RecordingWriter::new(header).unwrap();
    let mut chunks = vec![writer.take()];
    for (record, flush) in records {
        writer.write(record).unwrap();
        if *flush {
            writer.flush();
            chunks.push(writer.take());
        }
    }
    chunks.push(writer.finish());
    (chunks.concat(), chunks)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn records_are_read_in_the_order_in_which_they_were_written(
        header in header(), records in proptest::collection::vec((record(), any::<bool>()), 0..60)
    ) {
        let (bytes, _) = chunked(&header, &records);
        let reader = Reader::new(&bytes).unwrap();
        prop_assert_eq!(reader.header(), &header);
        let records: Vec<Record> = records.into_iter().map(|(record, _)| record).collect();
        prop_assert_eq!(read(&bytes), (records, None));
    }

    #[test]
    fn every_bit_of_a_float_is_kept(bits in proptest::collection::vec(any::<u64>(), 1..9)) {
        let captures = bits.iter().map(|bits| Captured::Float(f64::from_bits(*bits))).collect();
        let hit = RecordedHit {
            probe: ProbeKey(0), process: ProcessId(0), thread: 0, time: Time(0), duration_ns: None, captures
        };
        let (records, error) = read(&written(&Header::default(), &[Record::Hit(hit.clone()), Record::Hit(hit)]));
        prop_assert_eq!(error, None);
        for record in records {
            let Record::Hit(RecordedHit { captures, .. }) = record else { panic!() };
            let found: Vec<u64> = captures
                .into_iter()
                .map(|value| match value { Captured::Float(value) => value.to_bits(), _ => panic!() })
                .collect();
            prop_assert_eq!(&found, &bits);
        }
    }
}

proptest! {
    // Each case reads thousands of recordings.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn every_beginning_of_a_recording_gives_the_beginning_of_its_records_and_is_torn(
        header in header(), records in proptest::collection::vec((record(), any::<bool>()), 0..12)
    ) {
        let (bytes, chunks) = chunked(&header, &records);
        // The number of complete bytes and records after each chunk.
        let mut whole = vec![(0, 0)];
        let mut flushed = (0..records.len()).filter(|place| records[*place].1);
        for chunk in &chunks[..chunks.len() - 1] {
            let count = if whole.len() == 1 { 0 } else { flushed.next().unwrap() + 1 };
            whole.push((whole.last().unwrap().0 + chunk.len(), count));
        }
        let records: Vec<Record> = records.into_iter().map(|(record, _)| record).collect();
        for length in 0..bytes.len() {
            let (at, count) = *whole.iter().rev().find(|(at, _)| *at <= length).unwrap();
            // The first chunk has two parts: the prelude and the header's block.
            let at = if at == 0 && length >= 12 { 12 } else { at };
            let (found, error) = read(&bytes[..length]);
            prop_assert_eq!(error, Some(ReadError::Torn { at }), "{} bytes", length);
            prop_assert_eq!(&found, &records[..count], "{} bytes", length);
        }
    }

    #[test]
    fn a_flipped_bit_is_damage_and_never_a_wrong_record(
        header in header(), records in proptest::collection::vec((record(), any::<bool>()), 0..8)
    ) {
        let (mut bytes, _) = chunked(&header, &records);
        let records: Vec<Record> = records.into_iter().map(|(record, _)| record).collect();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (found, error) = read(&bytes);
            prop_assert!(records.starts_with(&found), "bit {}", bit);
            let at = match error {
                Some(ReadError::NotARecording) => 0,
                Some(ReadError::UnknownVersion { .. }) => 8,
                Some(ReadError::Corrupt { at, .. }) => at,
                Some(ReadError::Torn { .. }) | None => panic!("bit {bit}: {error:?}"),
            };
            prop_assert!(at <= bit / 8 || (bit / 8 >= 10 && at == 12), "bit {} is not behind {}", bit, at);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
