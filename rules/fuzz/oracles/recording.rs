// Properties of all byte sequences read as a recording. Included by the fuzz target and by the tests of
// `rules`.

/// Reading does not panic, and records are unchanged after they are written and read again. Tests the bytes
/// themselves, and the bytes as a block with valid checksums, which random inputs do not have.
fn recording(bytes: &[u8]) {
    round_trip(bytes);
    let mut writer = recording::RecordingWriter::new(&Default::default()).expect("an empty header is small");
    if writer.foreign(bytes).is_ok() {
        round_trip(&writer.finish());
    }
}

fn round_trip(bytes: &[u8]) {
    let Ok(reader) = recording::Reader::new(bytes) else {
        return;
    };
    let once = written_again(reader.clone());
    let again = recording::Reader::new(&once).expect("it was just written");
    assert_eq!(again.clone().find_map(Result::err), None);
    // Compares bytes and not values, because NaN equals nothing.
    assert_eq!(written_again(again), once);
    for item in recording::RecordingMerge::new(vec![reader.clone(), reader]) {
        let _ = item.map_err(|broken| broken.to_string());
    }
}

fn written_again(reader: recording::Reader<'_>) -> Vec<u8> {
    let mut writer = recording::RecordingWriter::new(reader.header()).expect("what was read can be written");
    for record in reader.flatten() {
        writer.write(&record).expect("what was read can be written");
    }
    writer.finish()
}
