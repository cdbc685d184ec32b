use contract::Contract;

use super::tests::assert_learned;
use super::*;

/// Functions that a rank calls, with the share of its time in each, and its share of waiting for a CPU.
pub(super) type Calling<'a> = (&'a [(&'a str, f64)], f64);

pub(super) fn called(name: &str, calls: u64, time_s: f64) -> CalledTotals {
    CalledTotals {
        name: name.to_owned(),
        calls,
        time_s: Some(time_s),
        estimated: false,
    }
}

/// All messages, each with its sender, its receiver, their number and their bytes.
pub(super) fn messages(sent: impl Iterator<Item = (u32, u32, u64, u64)>) -> Option<SentMessages> {
    let sent = sent.map(|(from, to, messages, bytes)| SentPair {
        from,
        to,
        messages,
        bytes,
    });
    let (sent, pairs_cut) = (sent.collect(), 0);
    Some(SentMessages { sent, pairs_cut })
}

/// Reports every two seconds of ranks that call functions and send messages.
pub(super) fn reports(ranks: &[Calling<'_>], pairs: &[(u32, u32, u64, u64)]) -> Vec<RankReport> {
    let report = |at: u64| {
        let seconds = at as f64;
        let totals = |(rank, (calls, runqueue)): (usize, &Calling<'_>)| RankTotals {
            pid: None,
            rank: Some(rank as u32),
            runqueue_time_s: Some(runqueue * seconds),
            mpi_runqueue_time_s: Some(0.0),
            functions: (calls.iter())
                .map(|(name, share)| called(name, 10 * at, share * seconds))
                .collect(),
        };
        let sent = pairs
            .iter()
            .map(|(from, to, per_s, bytes)| (*from, *to, per_s * at, per_s * at * bytes));
        RankReport {
            elapsed_s: seconds,
            processes: ranks.iter().enumerate().map(totals).collect(),
            changes: Vec::new(),
            matrix: messages(sent),
        }
    };
    (0..8).map(|step| report(2 * step + 1)).collect()
}

/// Request, two that render, collect twelve, encode, store.
fn film() -> Vec<RankReport> {
    let ranks: [Calling<'_>; 6] = [
        (&[("MPI_Ssend", 0.95)], 0.0),
        (&[("MPI_Recv", 0.02), ("MPI_Ssend", 0.0)], 0.0),
        (&[("MPI_Recv", 0.02), ("MPI_Ssend", 0.0)], 0.0),
        (&[("MPI_Recv", 0.9), ("MPI_Ssend", 0.05)], 0.0),
        (&[("MPI_Recv", 0.5), ("MPI_Ssend", 0.0)], 0.1),
        (&[("MPI_Recv", 1.0)], 0.0),
    ];
    let pairs = [
        (0, 1, 60, 54),
        (0, 2, 60, 54),
        (1, 3, 60, 1_244_164),
        (2, 3, 60, 1_244_164),
        (3, 4, 10, 14_929_924),
        (4, 5, 10, 2_097_156),
    ];
    reports(&ranks, &pairs)
}

#[test]
fn ranks_of_one_role_are_a_module_and_messages_between_modules_a_stream() {
    let seen = observed_ranks(&film()).unwrap();
    let names: Vec<&str> = seen.modules.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(names, ["rank0", "ranks1_2", "rank3", "rank4", "rank5"]);
    let learned = learn(&seen, "film", "Learned from ranks.").unwrap();
    assert_learned(
        &learned,
        &[
            "rank0_to_ranks1_2: {from: rank0, to: ranks1_2, item: 54B}",
            "rank3_to_rank4: {from: rank3, to: rank4, item: 14929924B}",
            "gives: {rank3_to_rank4: 0.083333}",
            // Busy 98 % of two workers, for 120 items a second.
            "ranks1_2: {time: 16.333ms}",
            "waiting for a CPU 10 %",
            // It waits all the time: nothing is stated about its service time.
            "  rank5: {takes: [rank4_to_rank5]}",
        ],
    );
    let sentence = learned.bottleneck.sentence();
    assert!(
        sentence.starts_with("ranks1_2 holds the pipeline up: busy 98 %"),
        "{sentence}"
    );
    assert!(
        sentence.contains("rank0 is blocked writing to ranks1_2 95 %"),
        "{sentence}"
    );
    let contract = Contract::parse(&learned.text).unwrap();
    let (_, capacity) = contract.capacity().unwrap();
    assert_eq!(capacity.resources[0].resource, "ranks1_2");
}

#[test]
fn what_is_no_stream_program_is_refused_with_the_reason() {
    let receive: Calling<'_> = (&[("MPI_Recv", 0.5)], 0.0);
    let send: Calling<'_> = (&[("MPI_Send", 0.5)], 0.0);
    let reduce: Calling<'_> = (&[("MPI_Send", 0.1), ("MPI_Allreduce", 0.3)], 0.0);
    let seldom: Calling<'_> = (&[("MPI_Send", 0.1), ("MPI_Bcast", 0.001)], 0.0);
    let exchange: Calling<'_> = (&[("MPI_Sendrecv", 0.1)], 0.0);
    let to_next = [(0, 1, 10, 8)];
    let rows: [(&[_], &[_], &str); 5] = [
        (
            &[reduce, receive],
            &to_next,
            "rank 0 waits for all others in MPI_Allreduce",
        ),
        (
            &[exchange, receive],
            &to_next,
            "rank 0 exchanges messages with others in MPI_Sendrecv",
        ),
        (
            &[send, receive],
            &[(0, 1, 10, 8), (1, 0, 10, 8)],
            "ranks 0 and 1 send to each other",
        ),
        (&[send, receive], &[], "too few messages between ranks"),
        (&[send, send, receive], &[(0, 2, 10, 8), (1, 2, 30, 8)], ""),
    ];
    for (ranks, pairs, part) in rows {
        match observed_ranks(&reports(ranks, pairs)) {
            // Two senders of one role are one module.
            Ok(seen) => assert!(part.is_empty() && seen.modules[0].workers == 2, "{part}"),
            Err(why) => assert!(!part.is_empty() && why.to_string().contains(part), "{why}"),
        }
    }
    assert!(
        observed_ranks(&reports(&[seldom, receive], &to_next)).is_ok(),
        "a rare collective"
    );
    let wait: Calling<'_> = (&[("MPI_Isend", 0.0), ("MPI_Wait", 0.7)], 0.0);
    // Waiting for sends only is waiting for room.
    let seen = observed_ranks(&reports(&[wait, receive], &to_next)).unwrap();
    assert_eq!(seen.modules[0].shares.verdict(), ModuleVerdict::Blocked);
}

/// What `film` is required to deliver. Messages are items, so none has a size.
const REQUIRED: &str = include_str!("../../../../tests/programs/pipeline.yaml");

fn film_watch() -> ContractWatch {
    let contract = Contract::parse(&REQUIRED.replace("RATE", "9.8")).unwrap();
    let (assessment, _) = contract.capacity().unwrap();
    ContractWatch::of(&contract, &assessment).unwrap()
}

#[test]
fn messages_are_the_items_of_a_contract_and_each_module_is_judged() {
    let (mut watch, reports) = (film_watch(), film());
    let window: Vec<&RankReport> = reports[2..7].iter().collect();
    let seen = counted_ranks(&reports[0], &window).unwrap();
    assert_eq!(watch.is_filled(&seen), Ok(true));
    for end in [1.0, 2.0, 3.0, 4.0] {
        assert!(watch.window(end, &seen).unwrap().is_empty());
    }
    let summary = watch.summary();
    assert!(summary.holds, "{:?}", summary.lines());
    let rates: Vec<(&str, f64)> = summary
        .rates
        .iter()
        .map(|rate| (rate.feature.as_str(), rate.rate.unwrap_or_default()))
        .collect();
    let expected = [
        ("rank0", 120.0),
        ("ranks1_2", 120.0),
        ("rank3", 120.0),
        ("rank4", 10.0),
        ("rank5", 10.0),
    ];
    assert_eq!(rates[..5], expected);
    let verdicts: Vec<ModuleVerdict> = summary.modules.iter().map(|module| module.verdict).collect();
    use ModuleVerdict::{Blocked, ComputeBound, Starved};
    // By name: rank0, rank3, rank4, rank5, ranks1_2.
    assert_eq!(verdicts, [Blocked, Starved, Starved, Starved, ComputeBound]);
    assert!(watch.has_sizes().is_err(), "bytes of pipes could not be counted");
}

#[test]
fn numbers_that_the_program_does_not_have_are_said_once_with_what_was_measured() {
    // It collects twelve pictures of 1 244 164 bytes, and films have 2 097 156.
    let sized = [
        ("groups: 1/12", "groups: 1/6"),
        ("to: rank3}", "to: rank3, item: 2MB}"),
    ];
    let sized = [&sized[..], &[("to: rank5}", "to: rank5, item: 2.1MB}")]].concat();
    let text = sized
        .iter()
        .fold(REQUIRED.replace("RATE", "9.8"), |text, (from, to)| {
            assert!(text.contains(from), "{text}");
            text.replace(from, to)
        });
    let contract = Contract::parse(&text).unwrap();
    let mut watch = ContractWatch::of(&contract, &contract.assess().unwrap()).unwrap();
    let reports = film();
    let window: Vec<&RankReport> = reports[2..7].iter().collect();
    let seen = counted_ranks(&reports[0], &window).unwrap();
    let lines: Vec<Vec<String>> = (1..=5)
        .map(|end| watch.window(f64::from(end), &seen).unwrap())
        .collect();
    let advice = "`contract learn` makes one of the program as it is";
    let expected = [
        format!(
            "      3 s  rank3 sends 0.0833 items of groups in an activation, and the contract states 0.167: measured \
             [0.0833, 0.0833]; {advice}"
        ),
        format!(
            "      3 s  an item of pictures has 1.19 MiB, and the contract states 1.91 MiB: measured [1.19 MiB, 1.19 MiB]; \
             {advice}"
        ),
    ];
    assert_eq!(lines[2], expected);
    let others = [&lines[..2], &lines[3..]].concat();
    assert!(others.iter().all(Vec::is_empty), "{others:?}");
}

#[test]
fn targets_follow_from_the_items_that_were_measured() {
    // Twelve pictures are grouped, and the contract states 24.
    let contract = Contract::parse(&REQUIRED.replace("RATE", "9.8").replace("1/12", "1/24")).unwrap();
    let mut watch = ContractWatch::of(&contract, &contract.assess().unwrap()).unwrap();
    let target = |watch: &ContractWatch, feature: &str| {
        let rates = watch.last_window(1.0).rates;
        rates.iter().find(|rate| rate.feature == feature).unwrap().target
    };
    assert!((target(&watch, "pictures") / (9.8 * 24.0) - 1.0).abs() < 1e-6);
    let reports = film();
    let window: Vec<&RankReport> = reports[2..7].iter().collect();
    let seen = counted_ranks(&reports[0], &window).unwrap();
    let lines: Vec<String> = (1..=6)
        .flat_map(|end| watch.window(f64::from(end), &seen).unwrap())
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0]
            .contains("rank3 sends 0.0833 items of groups in an activation, and the contract states 0.0417")
    );
    for (feature, least) in [("film", 9.8), ("pictures", 9.8 * 12.0), ("rank0", 9.8 * 12.0)] {
        let target = target(&watch, feature);
        assert!((target / least - 1.0).abs() < 1e-6, "{feature}: {target}");
    }
    assert!(watch.summary().holds, "{:?}", watch.summary().lines());
    // What acts takes them, too; and so do other requirements.
    let rates = watch.as_measured().assess().unwrap();
    assert!((rates.rate("rank3").unwrap() / (9.8 * 12.0) - 1.0).abs() < 1e-6);
    let mut other = contract.clone();
    other.require("film >= 5/s").unwrap();
    watch.require(&other, &other.assess().unwrap()).unwrap();
    assert!(
        (target(&watch, "pictures") / 60.0 - 1.0).abs() < 1e-6,
        "{}",
        target(&watch, "pictures")
    );
}

#[test]
fn groups_that_are_counted_before_or_after_the_end_of_a_window_are_no_drift() {
    let mut watch = film_watch();
    let mut seen = counted_ranks(&film()[0], &[&film()[0], &film()[1]]).unwrap();
    let has_groups =
        |stream: &ObservedStream| ["rank3_to_rank4", "rank4_to_rank5"].contains(&stream.name.as_str());
    for (end, (pictures, sent)) in
        (1..).zip([(24.0, 3.0), (24.0, 3.0), (24.0, 4.0), (24.0, 4.0), (24.0, 1.0)])
    {
        for stream in &mut seen.streams {
            let items = if has_groups(stream) { sent } else { pictures };
            stream
                .sent
                .iter_mut()
                .chain(&mut stream.received)
                .for_each(|end| end.items = vec![items]);
        }
        let lines = watch.window(f64::from(end), &seen).unwrap();
        assert!(
            lines.iter().all(|line| !line.contains("in an activation")),
            "{lines:?}"
        );
    }
}

#[test]
fn a_stream_that_rests_for_a_window_is_a_stream_still() {
    let (mut watch, mut reports) = (film_watch(), film());
    let stopped = reports[3].matrix.clone();
    reports[4..]
        .iter_mut()
        .for_each(|report| report.matrix.clone_from(&stopped));
    let before = counted_ranks(&reports[0], &[&reports[0], &reports[0]]);
    assert!(before.is_err(), "nothing was sent since the begin");
    let window: Vec<&RankReport> = reports[3..8].iter().collect();
    let seen = counted_ranks(&reports[0], &window).unwrap();
    let lines: Vec<String> = (1..4)
        .flat_map(|end| watch.window(end.into(), &seen).unwrap())
        .collect();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("film: 0/s of 9.8/s, violated; also rank0, ranks1_2")),
        "{lines:?}"
    );
    // A part of the graph, as before the first item has arrived at the end.
    let mut part = film();
    for report in &mut part {
        report
            .matrix
            .iter_mut()
            .for_each(|matrix| matrix.sent.retain(|pair| pair.to != 5));
    }
    let seen = counted_ranks(&part[0], &[&part[0], &part[3]]).unwrap();
    assert_eq!(watch.is_filled(&seen), Ok(false));
    // With a stream that the contract does not have it is about another program.
    let mut other = film();
    for report in &mut other {
        let pairs = report.matrix.iter_mut().flat_map(|matrix| &mut matrix.sent);
        pairs.filter(|pair| pair.to == 5).for_each(|pair| pair.to = 6);
    }
    let seen = counted_ranks(&other[0], &[&other[0], &other[3]]).unwrap();
    let missing = watch.is_filled(&seen).unwrap_err().to_string();
    assert!(
        missing.contains("it has rank4 to rank5, and here are rank0 to ranks1_2"),
        "{missing}"
    );
}
