//! Merging recordings of several hosts.

use super::*;
use std::collections::BTreeSet;

fn on(host: &str, wall_start_ns: u64, origin: u64) -> Header {
    Header {
        host: host.into(),
        wall_start_ns,
        origin: Time(origin),
        ..Header::default()
    }
}

fn defined(probe: u32, name: &str) -> Record {
    let definition = ProbeDefinition {
        name: name.into(),
        function: "f".into(),
        place: ProbePlace::Entry,
        captures: Vec::new(),
    };
    Record::ProbeDefined {
        probe: ProbeKey(probe),
        definition,
    }
}

fn hit(probe: u32, process: u32, time: u64) -> Record {
    Record::Hit(RecordedHit {
        probe: ProbeKey(probe),
        process: ProcessId(process),
        thread: 0,
        time: Time(time),
        duration_ns: None,
        captures: Vec::new(),
    })
}

fn merged(recordings: &[&Vec<u8>]) -> Vec<Result<Merged, Broken>> {
    RecordingMerge::new(
        recordings
            .iter()
            .map(|bytes| Reader::new(bytes).unwrap())
            .collect(),
    )
    .collect()
}

fn records(recordings: &[&Vec<u8>]) -> Vec<Record> {
    merged(recordings)
        .into_iter()
        .map(|item| item.unwrap().record)
        .collect()
}

#[test]
fn one_recording_keeps_its_times_and_order() {
    let given = [watermark(0, 50), watermark(1, 20), watermark(0, 70)];
    assert_eq!(records(&[&written(&on("a", 1_000, 10), &given)]), given);
}

#[test]
fn clocks_are_joined_and_processes_are_distinguished() {
    // At wall-clock time 10 000 the clock of a was 100, at 10 050 that of b was 9 000: b's clock began first.
    let lost = |process, from, to| Record::HitsLost {
        process: ProcessId(process),
        from: Time(from),
        to: Time(to),
    };
    let a = written(&on("a", 10_000, 100), &[watermark(0, 100), lost(0, 150, 160)]);
    let b = written(
        &on("b", 10_050, 9_000),
        &[watermark(0, 9_000), watermark(7, 9_011)],
    );
    let mut merge = RecordingMerge::new(vec![Reader::new(&b).unwrap(), Reader::new(&a).unwrap()]);
    let found: Vec<Record> = merge.by_ref().map(|item| item.unwrap().record).collect();
    let expected = [
        watermark(0, 8_950),
        watermark(1, 9_000),
        lost(0, 9_000, 9_010),
        watermark(2, 9_011),
    ];
    assert_eq!(found, expected);
    let hosts: Vec<Option<&str>> = (0..4).map(|process| merge.host(ProcessId(process))).collect();
    assert_eq!(hosts, [Some("a"), Some("b"), Some("b"), None]);
}

#[test]
fn probes_of_one_definition_become_one_and_others_never_do() {
    let a = written(
        &on("a", 0, 0),
        &[
            defined(0, "x"),
            defined(1, "y"),
            hit(0, 0, 1),
            hit(1, 0, 3),
            hit(5, 0, 5),
        ],
    );
    let b = written(
        &on("b", 0, 0),
        &[defined(0, "y"), hit(0, 0, 2), defined(0, "z"), hit(0, 0, 4)],
    );
    assert_eq!(
        records(&[&a, &b]),
        [
            defined(0, "x"),
            defined(1, "y"),
            hit(0, 0, 1),
            hit(1, 1, 2),
            defined(2, "z"),
            hit(1, 0, 3),
            hit(2, 1, 4),
            hit(3, 0, 5),
        ]
    );
}

#[test]
fn probes_of_one_recording_stay_apart_even_if_they_are_defined_alike() {
    // Two rules watch the same function under the same name: a hit is recorded for each.
    let twice = [
        defined(0, "x"),
        defined(1, "x"),
        defined(1, "x"),
        hit(0, 0, 1),
        hit(1, 0, 1),
    ];
    let a = written(&on("a", 0, 0), &twice);
    let b = written(&on("b", 0, 0), &twice);
    let expected = [
        defined(0, "x"),
        defined(1, "x"),
        hit(0, 0, 1),
        hit(1, 0, 1),
        hit(0, 1, 1),
        hit(1, 1, 1),
    ];
    assert_eq!(records(&[&a, &b]), expected);
}

#[test]
fn a_torn_recording_is_named_and_the_others_go_on() {
    let whole = written(&on("a", 0, 0), &[watermark(0, 1), watermark(0, 9)]);
    let mut writer = RecordingWriter::new(&on("b", 0, 0)).unwrap();
    writer.write(&watermark(0, 2)).unwrap();
    writer.flush();
    let torn = writer.take();
    let found = merged(&[&torn, &whole]);
    let broken = found.iter().filter_map(|item| item.as_ref().err());
    let texts: Vec<String> = broken.map(Broken::to_string).collect();
    assert_eq!(texts.len(), 1);
    assert!(
        texts[0].starts_with("b: the recording breaks off at byte"),
        "{texts:?}"
    );
    let good: Vec<&Record> = found.iter().flatten().map(|item| &item.record).collect();
    assert_eq!(good, [&watermark(0, 1), &watermark(1, 2), &watermark(0, 9)]);
}

fn recording() -> impl Strategy<Value = (Header, Vec<Record>)> {
    (header(), proptest::collection::vec(record(), 0..20))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn the_order_of_the_files_does_not_matter_and_nothing_is_lost(
        given in proptest::collection::vec(recording(), 1..5), by in 0..5_usize
    ) {
        let bytes: Vec<Vec<u8>> = given.iter().map(|(header, records)| written(header, records)).collect();
        let mut order: Vec<&Vec<u8>> = bytes.iter().collect();
        let once = merged(&order);
        let turns = by % order.len();
        order.rotate_left(turns);
        // Recordings with equal headers differ only in the order of the arguments.
        let headers: BTreeSet<String> = given.iter().map(|(header, _)| format!("{header:?}")).collect();
        if headers.len() == given.len() {
            prop_assert_eq!(format!("{once:?}"), format!("{:?}", merged(&order)));
        }
        let definitions = |record: &Record| matches!(record, Record::ProbeDefined { .. });
        let others = given.iter().flat_map(|(_, records)| records).filter(|record| !definitions(record)).count();
        let found = once.iter().flatten().filter(|item| !definitions(&item.record)).count();
        prop_assert_eq!(found, others);
    }

    #[test]
    fn recordings_in_order_give_a_merged_one_in_order(
        times in proptest::collection::vec((0..1000_u64, 0..1000_u64, proptest::collection::vec(0..5000_u64, 0..20)), 1..5)
    ) {
        let bytes: Vec<Vec<u8>> = times
            .into_iter()
            .enumerate()
            .map(|(place, (wall, origin, mut times))| {
                times.sort_unstable();
                let records: Vec<Record> = times.into_iter().map(|time| watermark(0, time)).collect();
                written(&on(&place.to_string(), wall, origin), &records)
            })
            .collect();
        let all: Vec<&Vec<u8>> = bytes.iter().collect();
        let times: Vec<Option<Time>> = records(&all).iter().map(Record::time).collect();
        prop_assert!(times.is_sorted());
    }
}
