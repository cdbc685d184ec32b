use std::collections::{BTreeMap, BTreeSet};

use contract::Contract;
use rules::pseudo_random::mixed;

use super::ranks_tests::{Calling, called, messages, reports as steady};
use super::*;

const MESH: &str = include_str!("../../../../tests/programs/mesh.yaml");

/// Messages of each pair of ranks, and their bytes.
type Sent = BTreeMap<(u32, u32), (u64, u64)>;

/// The program `mesh`, frame by frame: a tile is drawn by one or the other by lot.
#[derive(Default)]
struct Mesh {
    sent: Sent,
    activations: [u64; 9],
    lot: u64,
}

impl Mesh {
    fn send(&mut self, from: u32, to: u32, bytes: u64) {
        let sent = self.sent.entry((from, to)).or_default();
        *sent = (sent.0 + 1, sent.1 + bytes);
        self.activations[to as usize] += 1;
    }

    fn frame(&mut self) {
        self.activations[0] += 1;
        self.send(0, 1, 4096);
        self.send(0, 2, 4096);
        if self.activations[1].is_multiple_of(4) {
            self.send(1, 7, 512);
        }
        for _ in 0..3 {
            self.send(2, 3, 16384);
            self.tile();
        }
    }

    fn tile(&mut self) {
        self.lot = mixed(self.lot);
        if self.lot % 10 < 4 {
            self.send(3, 5, 16384);
            self.send(5, 8, 65536);
            return;
        }
        self.send(3, 4, 16384);
        self.send(4, 6, 65536);
        if self.activations[6].is_multiple_of(2) {
            self.send(6, 3, 16384);
            self.tile();
        } else {
            self.send(6, 8, 65536);
        }
    }

    /// After `seconds`, in which the ranks were busy for these times in each activation, and rank 3 waited here.
    fn report(&self, seconds: f64, busy_s: &[f64; 9], waits_in: &str) -> RankReport {
        let process = |rank: usize| {
            let idle_s = seconds - busy_s[rank] * self.activations[rank] as f64;
            let waits = match rank {
                0 => "MPI_Ssend",
                3 => waits_in,
                _ => "MPI_Recv",
            };
            let call = |name, time_s| called(name, self.activations[rank], time_s);
            let receives = (rank != 0).then_some("MPI_Recv");
            let sends = match rank {
                3 => Some("MPI_Issend"),
                7 | 8 => None,
                _ => Some("MPI_Ssend"),
            };
            let names: BTreeSet<&str> = receives.into_iter().chain(sends).chain([waits]).collect();
            let functions = names
                .into_iter()
                .map(|name| call(name, if name == waits { idle_s } else { 0.0 }));
            RankTotals {
                pid: None,
                rank: Some(rank as u32),
                runqueue_time_s: Some(0.0),
                mpi_runqueue_time_s: Some(0.0),
                functions: functions.collect(),
            }
        };
        let sent = self.sent.iter();
        RankReport {
            elapsed_s: seconds,
            processes: (0..9).map(process).collect(),
            changes: Vec::new(),
            matrix: messages(sent.map(|((from, to), (count, bytes))| (*from, *to, *count, *bytes))),
        }
    }
}

/// Reports of `mesh` every two seconds, ten frames a second, from the first to the last of these frames.
fn reports(frames: u64, busy_s: &[f64; 9], waits_in: &str) -> Vec<RankReport> {
    let mut mesh = Mesh::default();
    let mut reports = Vec::new();
    for frame in 1..=frames {
        mesh.frame();
        if frame % 20 == 0 {
            reports.push(mesh.report(frame as f64 / 10.0, busy_s, waits_in));
        }
    }
    reports
}

/// The service times that mesh.yaml states, in seconds.
const BUSY_S: [f64; 9] = [0.03, 0.02, 0.02, 0.0, 0.02, 0.03, 0.008, 0.0, 0.0];

type Graph = BTreeSet<(BTreeSet<String>, BTreeSet<String>, bool)>;

fn graph(contract: &Contract) -> Graph {
    let streams = contract.stream_outlines().into_iter();
    streams
        .map(|stream| {
            (
                stream.from.into_iter().collect(),
                stream.to.into_iter().collect(),
                stream.is_on_demand,
            )
        })
        .collect()
}

/// Items that a module sends or takes in an activation, by module and ends of the stream.
fn coefficients(contract: &Contract) -> BTreeMap<(String, Vec<String>), f64> {
    let assessment = contract.assess().unwrap();
    let mut out = BTreeMap::new();
    for stream in contract.stream_outlines() {
        for module in stream.from.iter().chain(&stream.to) {
            let rate = |feature: &str| assessment.rate(feature).unwrap();
            let value = rate(&format!("{module}.{}", stream.name)) / rate(module);
            let ends = [stream.from.as_slice(), &stream.to].concat();
            out.insert((module.clone(), ends), value);
        }
    }
    out
}

#[test]
fn the_mesh_is_learned_from_200_activations_as_it_was_written() {
    // The first report is where it begins.
    let seen = observed_ranks(&reports(220, &BUSY_S, "MPI_Recv")).unwrap();
    let learned = learn(&seen, "mesh", "Learned.").unwrap();
    assert!(learned.wrong.is_empty(), "{:?}\n{}", learned.wrong, learned.text);
    let read = |text: &str| {
        Contract::parse(text)
            .map_err(|wrong| rules::render("mesh.yaml", text, &wrong))
            .unwrap()
    };
    let (written, learned_as) = (read(MESH), read(&learned.text));
    assert_eq!(graph(&learned_as), graph(&written), "{}", learned.text);
    let (expected, found) = (coefficients(&written), coefficients(&learned_as));
    assert_eq!(found.len(), expected.len());
    for (at, value) in expected {
        let is_near = (found[&at] / value - 1.0).abs() <= 0.02;
        assert!(is_near, "{at:?}: {} for {value}\n{}", found[&at], learned.text);
    }
    for module in written.module_outlines() {
        if let Some(stated) = written.busy_s(&module.name) {
            let learned_s = learned_as.busy_s(&module.name).unwrap();
            assert!(
                (learned_s / stated - 1.0).abs() <= 0.05,
                "{}: {learned_s}\n{}",
                module.name,
                learned.text
            );
        }
    }
    // What the counts do not show is said, and in the file.
    for doubt in [
        "rank0 sends as many items to rank1 and rank2: each of them to all (a broadcast, as stated), or to each in turn",
        "rank3 sends items of one size to rank4 and rank5: to whichever is free (on demand, as stated), or by a choice",
    ] {
        assert!(
            learned.doubts.iter().any(|said| said.starts_with(doubt)),
            "{:#?}",
            learned.doubts
        );
        assert!(learned.text.contains(doubt), "{}", learned.text);
    }
    assert_eq!(learned.doubts.len(), 2);
}

#[test]
fn counts_that_differ_by_messages_on_their_way_determine_the_rates_of_the_mesh() {
    let steady = reports(220, &BUSY_S, "MPI_Recv");
    let mut state = 1_u64;
    for case in 0..30 {
        // Of each pair, up to two messages are not counted yet when a report is made.
        let counted = steady.iter().cloned().map(|mut report| {
            let matrix = report.matrix.iter_mut();
            for pair in matrix.flat_map(|matrix| &mut matrix.sent) {
                state = mixed(state);
                let missing = state % 3;
                pair.bytes -= pair.bytes / pair.messages * missing;
                pair.messages -= missing;
            }
            report
        });
        let seen = observed_ranks(&counted.collect::<Vec<_>>()).unwrap();
        match learn(&seen, "mesh", "Learned.") {
            Ok(learned) => assert!(
                learned.wrong.is_empty(),
                "{case}: {:?}\n{}",
                learned.wrong,
                learned.text
            ),
            Err(reason) => panic!("{case}: {reason}"),
        }
    }
}

#[test]
fn a_sender_that_waits_for_one_receiver_while_another_has_nothing_to_do_does_not_send_on_demand() {
    // Rank 3 waits for room, and both receivers wait for input for half of the time.
    let seen = observed_ranks(&reports(220, &BUSY_S, "MPI_Waitany")).unwrap();
    assert_eq!(seen.modules[3].shares.verdict(), ModuleVerdict::Blocked);
    let learned = learn(&seen, "mesh", "Learned.").unwrap();
    let streams = [
        "rank3_to_rank4: {from: rank3, to: rank4,",
        "rank3_to_rank5: {from: rank3, to: rank5,",
    ];
    assert!(
        streams.iter().all(|stream| learned.text.contains(stream)),
        "{}",
        learned.text
    );
    assert_eq!(learned.doubts.len(), 1, "{:?}", learned.doubts);
}

/// Messages from one rank to another: how many a second, of how many bytes.
type Flow = (u32, u32, u64, u64);

/// Ranks, their messages, a part of the learned contract or of the refusal, and the begin of the doubt.
type FlowRow<'a> = (&'a [Calling<'a>], [Flow; 2], Result<&'a str, &'a str>, &'a str);

/// Messages, a part of the learned contract or of the refusal, and the begin of a doubt.
type BothWaysRow<'a> = (&'a [Flow], Result<&'a str, &'a str>, &'a str);

/// Functions with shares of time, the verdict on them, and whether it is in doubt.
type RequestRow<'a> = (&'a [(&'a str, f64)], ModuleVerdict, bool);

const SENDS: Calling<'_> = (&[("MPI_Send", 0.5)], 0.0);
const SENDS_LATER: Calling<'_> = (&[("MPI_Isend", 0.0), ("MPI_Wait", 0.5)], 0.0);
const RECEIVES: Calling<'_> = (&[("MPI_Recv", 0.5)], 0.0);
const RECEIVES_LATER: Calling<'_> = (&[("MPI_Irecv", 0.0), ("MPI_Wait", 0.5)], 0.0);

#[test]
fn what_counts_do_not_show_of_several_inputs_is_a_doubt_or_refused() {
    let two_senders = [SENDS, SENDS_LATER, RECEIVES];
    assert_flows(&[
        // 25 items of one for 10 of the other are no activation.
        (
            &two_senders,
            [(0, 2, 10, 8), (1, 2, 25, 8)],
            Ok("from: [rank0, rank1], to: rank2, item: 8B"),
            "",
        ),
        (
            &two_senders,
            [(0, 2, 10, 8), (1, 2, 10, 8)],
            Ok("takes: [rank0_to_rank2, rank1_to_rank2]"),
            "rank2 takes as many items of rank0_to_rank2 and rank1_to_rank2 at each time: one of each for an activation, as stated",
        ),
        // Items of other sizes are not merged: one of each is the only reading.
        (
            &two_senders,
            [(0, 2, 10, 8), (1, 2, 10, 80)],
            Ok("takes: [rank0_to_rank2, rank1_to_rank2]"),
            "",
        ),
        (
            &two_senders,
            [(0, 2, 10, 8), (1, 2, 30, 8)],
            Ok(
                "computations: {from_rank0: {takes: [rank0_to_rank2], work: rank2}, from_rank1: {takes: [rank1_to_rank2]}}",
            ),
            "rank2 takes items of rank0_to_rank2 and rank1_to_rank2 at rates of their own: each of them starts an activation, \
             as stated, since they keep step",
        ),
        (
            &two_senders,
            [(0, 2, 10, 8), (1, 2, 25, 80)],
            Ok(
                "computations: {from_rank0: {takes: [rank0_to_rank2], work: rank2}, from_rank1: {takes: [rank1_to_rank2]}}",
            ),
            "rank2 takes items of rank0_to_rank2 and rank1_to_rank2 at rates of their own: each of them starts an activation, \
             as stated, since their items differ in size",
        ),
    ]);
}

/// Rank 2 sends on, so it matters what starts its activations.
#[test]
fn what_is_sent_on_from_inputs_at_different_rates_is_refused() {
    let sends_on: Calling<'_> = (&[("MPI_Recv", 0.3), ("MPI_Send", 0.1)], 0.0);
    let ranks = [SENDS, SENDS_LATER, sends_on, RECEIVES];
    for (per_s, bytes, part) in [
        (
            30,
            8,
            "takes 3 items of rank1_to_rank2 for one of rank0_to_rank2: which of them belong to one activation is not \
             known, since they keep step",
        ),
        (25, 80, "not known, since their items differ in size"),
    ] {
        let flows = [(0, 2, 10, 8), (1, 2, per_s, bytes), (2, 3, 20, 8)];
        let why = observed_ranks(&steady(&ranks, &flows)).unwrap_err().to_string();
        assert!(why.contains(part), "{part}: {why}");
    }
}

/// Ranks that send to each other: what is learned, or why not.
#[test]
fn two_ranks_may_send_both_ways_if_a_third_one_feeds_them() {
    let through: Calling<'_> = (&[("MPI_Recv", 0.3), ("MPI_Send", 0.1)], 0.0);
    let helps: Calling<'_> = (&[("MPI_Recv", 0.3), ("MPI_Ssend", 0.1)], 0.0);
    let ranks = [SENDS, through, helps, RECEIVES];
    let comes_back = "rank1 takes as many items of rank0_to_rank1 and rank2_to_rank1 as come back to it: each of them starts";
    let rows: [BothWaysRow<'_>; 4] = [
        // A request for each item, and what follows from the reply.
        (
            &[(0, 1, 10, 80), (1, 2, 10, 8), (2, 1, 10, 8), (1, 3, 10, 80)],
            Ok(
                "computations: {from_rank0: {takes: [rank0_to_rank1], gives: {rank1_to_rank2: 1}, work: rank1}, from_rank2: \
                {takes: [rank2_to_rank1], gives: {rank1_to_rank3: 1}}}",
            ),
            comes_back,
        ),
        // A quarter of what rank 2 takes is done again: both are tasks of rank 1.
        (
            &[(0, 1, 9, 80), (1, 2, 12, 80), (2, 1, 3, 80), (2, 3, 9, 8)],
            Ok("takes: [rank0_and_rank2_to_rank1], gives: {rank1_to_rank2: 1}"),
            "",
        ),
        // Nothing but the two of them.
        (
            &[(1, 2, 10, 8), (2, 1, 10, 8)],
            Err("ranks 1 and 2 send to each other"),
            "",
        ),
        // One of them feeds the other, and no one feeds it.
        (
            &[(1, 2, 10, 8), (2, 1, 10, 8), (2, 3, 10, 8)],
            Err("ranks 1 and 2 send to each other"),
            "",
        ),
    ];
    for (flows, expected, doubt) in rows {
        match (observed_ranks(&steady(&ranks, flows)), expected) {
            (Ok(seen), Ok(part)) => {
                let learned = learn(&seen, "both", "Learned.").unwrap();
                assert!(learned.text.contains(part), "{part}\n{}", learned.text);
                assert_eq!(learned.wrong, [""; 0], "{}", learned.text);
                let is_said = learned.doubts.iter().any(|said| said.starts_with(doubt));
                assert!(is_said || doubt.is_empty(), "{doubt}: {:?}", learned.doubts);
                // The rates that were seen follow from that of the source.
                let contract = Contract::parse(&learned.text).unwrap();
                let mut watch = ContractWatch::of(&contract, &contract.assess().unwrap()).unwrap();
                for window in 0..3 {
                    let lines = watch.window(f64::from(window), &seen).unwrap();
                    assert_eq!(lines, [""; 0], "{}", learned.text);
                }
                assert!(watch.summary().holds, "{:?}", watch.summary().lines());
            }
            (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{part}: {why}"),
            (other, _) => panic!("{flows:?}: {other:?}"),
        }
    }
    // Of one role, as in an exchange of boundaries, although a third one sends to both.
    let exchanges = [SENDS, through, through, RECEIVES];
    let flows = [(0, 1, 5, 8), (0, 2, 5, 8), (1, 2, 10, 8), (2, 1, 10, 8)];
    let why = observed_ranks(&steady(&exchanges, &flows))
        .unwrap_err()
        .to_string();
    assert!(why.contains("ranks 1 and 2 send to each other"), "{why}");
}

#[test]
fn what_counts_do_not_show_of_several_outputs_is_a_doubt() {
    let two_receivers = [SENDS, RECEIVES, RECEIVES_LATER];
    assert_flows(&[
        (
            &two_receivers,
            [(0, 1, 10, 8), (0, 2, 10, 8)],
            Ok("from: rank0, to: [rank1, rank2], item: 8B}"),
            "rank0 sends as many items to rank1 and rank2: each of them to all (a broadcast, as stated), or to each",
        ),
        (
            &two_receivers,
            [(0, 1, 10, 8), (0, 2, 30, 8)],
            Ok("gives: {rank0_to_rank1: 1, rank0_to_rank2: 3}"),
            "rank0 sends items to rank1 and rank2 in a fixed ratio: streams of their own, as stated, or receivers on",
        ),
        (
            &two_receivers,
            [(0, 1, 10, 8), (0, 2, 25, 8)],
            Ok("from: rank0, to: [rank1, rank2], item: 8B, kind: on-demand}"),
            "rank0 sends items of one size to rank1 and rank2: to whichever is free (on demand, as stated), or by a",
        ),
    ]);
}

fn assert_flows(rows: &[FlowRow<'_>]) {
    for (ranks, flows, expected, doubt) in rows {
        match (observed_ranks(&steady(ranks, flows)), expected) {
            (Ok(seen), Ok(text)) => {
                let learned = learn(&seen, "film", "Learned.").unwrap();
                assert!(learned.text.contains(text), "{text}\n{}", learned.text);
                let is_said = match &learned.doubts[..] {
                    [] => doubt.is_empty(),
                    [only] => !doubt.is_empty() && only.starts_with(doubt),
                    _ => false,
                };
                assert!(is_said, "{doubt}: {:?}", learned.doubts);
                assert_eq!(learned.wrong, [""; 0], "{}", learned.text);
            }
            (Err(why), Err(text)) => assert!(why.to_string().contains(text), "{text}: {why}"),
            (other, _) => panic!("{flows:?}: {other:?}"),
        }
    }
}

#[test]
fn waiting_for_requests_is_that_for_what_was_requested() {
    let rows: [RequestRow<'_>; 4] = [
        (
            &[("MPI_Recv", 0.1), ("MPI_Issend", 0.0), ("MPI_Waitany", 0.7)],
            ModuleVerdict::Blocked,
            false,
        ),
        (
            &[("MPI_Irecv", 0.0), ("MPI_Ssend", 0.1), ("MPI_Waitany", 0.7)],
            ModuleVerdict::Starved,
            false,
        ),
        (
            &[("MPI_Irecv", 0.0), ("MPI_Isend", 0.0), ("MPI_Waitany", 0.7)],
            ModuleVerdict::Starved,
            true,
        ),
        // It polls for messages: that requests nothing.
        (
            &[
                ("MPI_Iprobe", 0.1),
                ("MPI_Recv", 0.0),
                ("MPI_Isend", 0.0),
                ("MPI_Wait", 0.7),
            ],
            ModuleVerdict::Blocked,
            false,
        ),
    ];
    let (send, receive): (Calling<'_>, Calling<'_>) =
        ((&[("MPI_Send", 0.1)], 0.0), (&[("MPI_Recv", 0.1)], 0.0));
    for (calls, verdict, is_in_doubt) in rows {
        let seen = observed_ranks(&steady(
            &[send, (calls, 0.0), receive],
            &[(0, 1, 10, 8), (1, 2, 10, 8)],
        ))
        .unwrap();
        assert_eq!(seen.modules[1].shares.verdict(), verdict, "{calls:?}");
        let doubt = "rank 1 requests sends and receives, and waits for both in one call: that is counted as waiting for input";
        assert_eq!(
            seen.doubts.iter().any(|said| said == doubt),
            is_in_doubt,
            "{:?}",
            seen.doubts
        );
    }
}

#[test]
fn the_mesh_is_judged_by_the_streams_that_its_contract_states() {
    let contract = Contract::parse(MESH).unwrap();
    let (assessment, _) = contract.capacity().unwrap();
    let mut watch = ContractWatch::of(&contract, &assessment).unwrap();
    let reports = reports(400, &BUSY_S, "MPI_Recv");
    let counted = |from: usize, to: usize| {
        let window: Vec<&RankReport> = reports[from..=to].iter().collect();
        counted_ranks(&reports[0], &window).unwrap()
    };
    assert_eq!(watch.is_filled(&counted(0, 1)), Ok(true));
    for window in 0..4 {
        watch
            .window(
                f64::from(window),
                &counted(4 * window as usize, 4 * window as usize + 4),
            )
            .unwrap();
    }
    let summary = watch.summary();
    let rate = |feature: &str| {
        summary
            .rates
            .iter()
            .find(|rate| rate.feature == feature)
            .unwrap()
            .rate
            .unwrap()
    };
    assert_eq!(
        [
            rate("rank0"),
            rate("rank1.frames"),
            rate("rank2.frames"),
            rate("notes")
        ],
        [10.0, 10.0, 10.0, 2.5]
    );
    // All tiles are drawn, and all that are not drawn again are stored.
    assert!((rate("tiles") - rate("rank4.jobs") - rate("rank5.jobs")).abs() < 1e-9);
    assert!((rate("pictures") - 30.0).abs() < 0.1, "{}", rate("pictures"));
    assert!(
        summary.rates.iter().all(|rate| rate.rate.is_some()),
        "{:?}",
        summary.rates
    );
}

#[test]
fn each_computation_of_a_module_is_judged_by_its_own_input() {
    // Rank 2 takes ten pictures and 25 notes a second, whose activations are not of one kind.
    let source = "contract: sorted
streams: {pictures: {from: rank0, to: rank2}, notes: {from: rank1, to: rank2}, results: {from: rank2, to: rank3}}
modules:
  rank0: {gives: {pictures: 1}}
  rank1: {gives: {notes: 1}}
  rank2:
    computations:
      draw: {takes: [pictures], gives: {results: 1}, work: draw}
      write: {takes: [notes], gives: {results: 1/5}}
  rank3: {takes: [results]}
work: {draw: {time: 20ms}}
require: [rank2.draw >= 9/s, notes >= LEAST/s]
adapt: {rank2: {set: n, range: 1..4}}
";
    let read = |least: &str| Contract::parse(&source.replace("LEAST", least)).unwrap();
    let receives_and_sends: Calling<'_> = (&[("MPI_Recv", 0.3), ("MPI_Send", 0.1)], 0.0);
    let ranks = [SENDS, SENDS_LATER, receives_and_sends, RECEIVES];
    let reports = steady(&ranks, &[(0, 2, 10, 80), (1, 2, 25, 8), (2, 3, 15, 8)]);
    let window: Vec<&RankReport> = reports[..4].iter().collect();
    let seen = counted_ranks(&reports[0], &window).unwrap();
    let judged = |least: &str| {
        let contract = read(least);
        let mut watch = ContractWatch::of(&contract, &contract.assess().unwrap()).unwrap();
        let windows = (0..3).map(|end| watch.window(f64::from(end), &seen).unwrap());
        let lines: Vec<String> = windows.flatten().collect();
        (watch.summary(), lines)
    };
    let (summary, lines) = judged("20");
    assert_eq!(lines, [""; 0]);
    assert!(summary.holds, "{:?}", summary.lines());
    let rates = summary
        .rates
        .iter()
        .map(|one| (one.feature.as_str(), one.rate.unwrap()));
    let expected = [
        ("rank0", 10.0),
        ("rank1", 25.0),
        ("rank2.draw", 10.0),
        ("rank2.write", 25.0),
        ("rank3", 15.0),
    ];
    assert_eq!(rates.take(5).collect::<Vec<_>>(), expected);
    let (_, lines) = judged("30");
    assert!(
        lines[0].ends_with("notes: 25/s of 30/s, violated; also rank1, rank2.write"),
        "{lines:?}"
    );
    let why = read("20").variable_of("rank2").unwrap_err();
    assert_eq!(
        why.to_string(),
        "rank2 has several computations, whose times are not measured"
    );
}
