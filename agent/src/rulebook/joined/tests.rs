//! Tests of the snapshot that recordings make.

use recording::RecordingWriter;
use rules::Time;

use super::*;

/// A recording of ranks of a job of four, which are inside MPI for these parts of a second.
fn recording(host: &str, ranks: &[(u32, f64)], has_iterations: bool) -> (String, Vec<u8>) {
    let header = Header {
        host: host.into(),
        program: "simulate".into(),
        notes: [("user".to_owned(), "ana".to_owned())].into(),
        ..Header::default()
    };
    let mut writer = RecordingWriter::new(&header).unwrap();
    for (slot, (rank, mpi)) in (0..).zip(ranks) {
        let process = ProcessId(slot);
        let facts = ProcessFacts {
            rank: Some(*rank),
            size: Some(4),
            mpi: Some("MPICH".into()),
            host: Some(host.into()),
            ..ProcessFacts::default()
        };
        let time = Time(5);
        writer
            .write(&Record::ProcessJoined { process, time, facts })
            .unwrap();
        let mpi_ns = (mpi * 1e9) as u64;
        let totals = [
            (Measure::MpiTime, mpi_ns),
            (Measure::CpuTime, 1_000_000_000),
            (Measure::RunqueueTime, 0),
        ];
        for (time, part) in [(1_000, 0), (1_000_001_000, 1)] {
            for (measure, total) in totals {
                let (process, time) = (Some(process), Time(time));
                let total = 77 + total * part;
                writer
                    .write(&Record::Counter {
                        process,
                        measure,
                        time,
                        total,
                    })
                    .unwrap();
            }
        }
        if has_iterations {
            let record = Record::Iterations {
                process,
                time,
                count: 10,
                sum_ns: 1_000_000_000,
                elapsed_ns: 1_000_000_000,
                mpi_ns,
                calls_per_1000: 2_500,
            };
            writer.write(&record).unwrap();
        }
    }
    (host.to_owned(), writer.finish())
}

#[test]
fn recordings_of_two_nodes_are_one_job_with_load_balance_between_them() {
    let a = recording("a", &[(0, 0.2), (1, 0.2)], true);
    let b = recording("b", &[(2, 0.6), (3, 0.6)], true);
    let snapshot = joined(&[b, a]).unwrap();
    let found = snapshot.sequence.efficiencies.unwrap();
    assert!((found.of.parallel - 0.6).abs() < 1e-9);
    assert!((found.of.within_nodes - 1.0).abs() < 1e-9);
    assert!((found.between_nodes.unwrap() - 0.75).abs() < 1e-9);
    assert_eq!((found.nodes, found.ranks, found.over_iterations), (2, 4, true));
    let ranks: Vec<_> = snapshot.processes.iter().map(|process| process.rank).collect();
    assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(snapshot.processes[2].host.as_deref(), Some("b"));
    assert_eq!(snapshot.sequence.iteration.unwrap().calls, 2.5);
    assert_eq!(snapshot.job.user, "ana");
}

#[test]
fn one_node_of_two_says_nothing_of_the_balance_between_them() {
    let snapshot = joined(&[recording("a", &[(0, 0.2), (1, 0.6)], false)]).unwrap();
    let found = snapshot.sequence.efficiencies.unwrap();
    assert_eq!((found.between_nodes, found.over_iterations), (None, false));
    assert!((found.of.load_balance - 0.75).abs() < 1e-9);
}

#[test]
fn a_function_that_was_timed_now_and_then_has_no_time_and_steps_without_mpi_are_of_regions() {
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    let (process, time) = (ProcessId(0), Time(5));
    let facts = ProcessFacts::default();
    writer
        .write(&Record::ProcessJoined { process, time, facts })
        .unwrap();
    for (function, first, timed) in [("seldom", 0, 20), ("always", 2, 1000)] {
        for (place, probe, count) in [
            (ProbePlace::Entry, first, 1000),
            (ProbePlace::Span, first + 1, timed),
        ] {
            let probe = ProbeKey(probe);
            let definition = ProbeDefinition {
                name: function.into(),
                function: function.into(),
                place,
                captures: Vec::new(),
            };
            writer.write(&Record::ProbeDefined { probe, definition }).unwrap();
            let totals = Record::ProbeTotals {
                probe,
                process,
                time,
                count,
                duration_sum_ns: 3_000,
            };
            writer.write(&totals).unwrap();
        }
    }
    let snapshot = joined(&[("a".to_owned(), writer.finish())]).unwrap();
    assert_eq!(snapshot.sequence.steps, Steps::Regions);
    let functions = &snapshot.processes[0].functions;
    let times: Vec<_> = functions
        .iter()
        .map(|of| (of.name.as_str(), of.time_ns))
        .collect();
    assert_eq!(times, [("always", Some(3_000)), ("seldom", None)]);
    assert_eq!(functions[1].mean_of_returned_ns(), None);
}

#[test]
fn parallel_regions_are_shown_as_in_the_session_with_the_time_until_which_they_were_probed() {
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    let process = ProcessId(0);
    for (time_s, total_s) in [(0, 0), (20, 10)] {
        for measure in [Measure::CpuTime, Measure::RunqueueTime] {
            let counter = Record::Counter {
                process: Some(process),
                measure,
                time: Time(time_s * 1_000_000_000),
                total: total_s * 1_000_000_000,
            };
            writer.write(&counter).unwrap();
        }
    }
    let time = Time(20_000_000_000);
    let regions = Record::Regions {
        process,
        time,
        count: 587,
        inside_ns: Some(192_000_000),
        watched_ns: 200_000_000,
        until_ns: Some(210_000_000),
    };
    let iterations = Record::Iterations {
        process,
        time,
        count: 587,
        sum_ns: 587 * 353_000,
        elapsed_ns: 0,
        mpi_ns: 0,
        calls_per_1000: 1_000,
    };
    [regions, iterations]
        .iter()
        .for_each(|record| writer.write(record).unwrap());
    let snapshot = joined(&[("a".to_owned(), writer.finish())]).unwrap();
    let lines = report::view::closing(&snapshot, false).join("\n");
    for part in [
        " one step of the detected loop took ~353 us on average   (587 steps in sampling windows, the last at 210 ms, ",
        " parallel regions (probed too rarely to know their rate):   inside them 96 % of the time, outside 4 %   (measured in ",
    ] {
        assert!(lines.contains(part), "{part:?} is missing:\n{lines}");
    }
}

#[test]
fn regions_that_were_probed_for_a_part_of_the_time_have_the_rate_of_that_part() {
    let mut all = Recorded {
        read: Some((0, 20_000_000_000)),
        regions: Some(RegionsView {
            regions: 250,
            watched_ns: 5_000_000_000,
            ..RegionsView::default()
        }),
        ..Recorded::default()
    };
    let mut rate = |calls| {
        let of = FunctionTotals {
            calls,
            ..FunctionTotals::default()
        };
        all.functions.insert("GOMP_parallel".to_owned(), of);
        all.view().functions[0].counted
    };
    assert_eq!(rate(250), Some(0.25));
    assert_eq!(rate(1_000), None, "a rule counted them all the time");
}

#[test]
fn what_was_estimated_in_the_session_is_marked_in_its_recording() {
    let mut writer = RecordingWriter::new(&Header::default()).unwrap();
    let process = ProcessId(0);
    for (probe, (function, counted)) in (0..).zip([
        ("MPI_Send", None),
        ("MPI_Iprobe", Some(40)),
        ("MPI_Accumulate", Some(0)),
    ]) {
        let (probe, time) = (ProbeKey(probe), Time(5));
        let definition = ProbeDefinition {
            name: function.into(),
            function: function.into(),
            place: ProbePlace::Entry,
            captures: Vec::new(),
        };
        writer.write(&Record::ProbeDefined { probe, definition }).unwrap();
        let totals = Record::ProbeTotals {
            probe,
            process,
            time,
            count: if counted == Some(0) { 0 } else { 1000 },
            duration_sum_ns: 0,
        };
        writer.write(&totals).unwrap();
        if let Some(counted) = counted {
            let estimated = Record::Estimated {
                process,
                probe,
                time,
                counted,
                counted_bytes: 0,
                from: counted * 20,
                to: None,
                watched: 0.04,
            };
            writer.write(&estimated).unwrap();
        }
    }
    let snapshot = joined(&[("a".to_owned(), writer.finish())]).unwrap();
    let lines = report::view::closing(&snapshot, false).join("\n");
    assert!(lines.contains("MPI_Iprobe") && lines.contains("≥800"), "{lines}");
    let functions = &snapshot.processes[0].functions;
    let estimates: Vec<_> = functions
        .iter()
        .map(|of| of.estimate.map(|of| (of.counted, of.to)))
        .collect();
    // Functions that were sampled but never called are recorded, but are not part of a profile.
    assert_eq!(estimates, [Some((40, None)), None], "{functions:?}");
}

#[test]
fn a_loop_of_which_not_all_time_inside_mpi_was_seen_is_shown_without_its_efficiency() {
    for (elapsed_ns, over_iterations) in [(1_000_000_000, true), (0, false)] {
        let mut process = Recorded {
            facts: ProcessFacts {
                rank: Some(0),
                mpi: Some("mpich".into()),
                ..ProcessFacts::default()
            },
            ..Recorded::default()
        };
        process.read_total(Measure::MpiTime, 0, 0);
        process.read_total(Measure::MpiTime, 2_000_000_000, 400_000_000);
        process.iterate(&Record::Iterations {
            process: ProcessId(0),
            time: Time(0),
            count: 113,
            sum_ns: 113 * 43_800_000,
            elapsed_ns,
            mpi_ns: elapsed_ns / 5,
            calls_per_1000: 2_000,
        });
        let snapshot = snapshot(&[process], &[], 1, Vec::new());
        let iteration = snapshot.sequence.iteration.unwrap();
        assert_eq!((iteration.count, iteration.mean_ns), (113, 43.8e6));
        let efficiencies = snapshot.sequence.efficiencies.unwrap();
        assert_eq!(efficiencies.over_iterations, over_iterations);
        assert!((efficiencies.of.parallel - 0.8).abs() < 1e-9);
    }
}

#[test]
fn recordings_of_different_jobs_are_not_joined() {
    let a = recording("a", &[(0, 0.2), (1, 0.2)], true);
    let b = recording("b", &[(1, 0.6)], true);
    let error = joined(&[a, b]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rank 1 was recorded on a and on b: these are recordings of different jobs, or one was given twice"
    );
}
