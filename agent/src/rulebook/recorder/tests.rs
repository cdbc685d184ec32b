//! Tests of what is written, and of its bound.

use recording::{BLOCK_TARGET, Reader};

use super::*;

fn recorder(name: &std::path::Path, limit: u64) -> Recorder {
    let name = name.to_str().unwrap();
    let recorder = Recorder::create(name, "node17", "solver".to_owned(), []).unwrap();
    Recorder { limit, ..recorder }
}

/// Records ticks whose times cannot be compressed.
fn ticks(recorder: &mut Recorder, count: u64) {
    for number in 0..count {
        recorder.ticked(Time(rules::pseudo_random::mixed(number) >> 24));
    }
}

#[test]
fn a_recording_has_a_bound_and_is_complete_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("run.rec");
    let limit = TAIL_BYTES + 1_000_000;
    let mut recorder = recorder(&name, limit);
    ticks(&mut recorder, 1_000);
    assert_eq!(recorder.news(), None);
    ticks(&mut recorder, 400_000);
    let news = recorder.news().unwrap();
    assert!(
        news.contains("run.rec ends here: it would have more than"),
        "{news}"
    );
    assert_eq!(recorder.news(), None, "it is said once");
    let lacks = recorder.lacks;
    let error = recorder.finish().unwrap_err().to_string();
    assert!(error.contains(&format!("lacks {lacks} records")), "{error}");
    let bytes = std::fs::read(&name).unwrap();
    assert!((1_000_000 - BLOCK_TARGET..limit as usize).contains(&bytes.len()));
    let mut count = 0;
    for record in Reader::new(&bytes).unwrap() {
        record.expect("it is whole, and has its end");
        count += 1;
    }
    assert_eq!(count + lacks, 401_000);
}

#[test]
fn what_cannot_be_written_is_shown_with_the_reason_and_nothing_comes_after_it() {
    let mut recorder = recorder("/dev/full".as_ref(), BYTES_MAX);
    ticks(&mut recorder, 200_000);
    let news = recorder.news().unwrap();
    assert!(news.contains("No space left"), "{news}");
    let error = recorder.finish().unwrap_err().to_string();
    assert!(
        error.contains("/dev/full lacks 200000 records: it could not be written: No space left"),
        "{error}"
    );
}

#[test]
fn what_was_captured_is_the_same_after_recording() {
    for (bits, type_name) in [
        (u64::MAX, "i64"),
        (u64::MAX, "u64"),
        (1.5_f64.to_bits(), "f64"),
        (u64::from(1.5_f32.to_bits()), "f32"),
        (0xfe, "i8"),
        (1, "bool"),
        (65, "char"),
    ] {
        let again = raw(&captured(bits, type_name), type_name).unwrap();
        assert_eq!(
            number_of(again, type_name),
            number_of(bits, type_name),
            "{type_name}"
        );
    }
}
