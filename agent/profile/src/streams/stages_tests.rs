use contract::Contract;

use super::ranks_tests::called;
use super::tests::assert_learned;
use super::*;

/// A function with its calls a second and the share of the time in it, summed over threads.
type StageCall<'a> = (&'a str, u64, f64);

/// Reports every second of processes: the functions of each, and its share of waiting for a CPU.
fn reports(processes: &[(&[StageCall<'_>], f64)]) -> Vec<RankReport> {
    let report = |at: u64| {
        let seconds = at as f64;
        let function = |(name, per_s, share): &StageCall<'_>| called(name, per_s * at, share * seconds);
        let totals = |(number, (functions, runqueue)): (usize, &(&[StageCall<'_>], f64))| RankTotals {
            pid: Some(100 + number as i32),
            rank: None,
            runqueue_time_s: Some(5.0 + runqueue * seconds),
            mpi_runqueue_time_s: None,
            functions: functions.iter().map(function).collect(),
        };
        RankReport {
            elapsed_s: seconds,
            processes: processes.iter().enumerate().map(totals).collect(),
            changes: Vec::new(),
            matrix: None,
        }
    };
    (0..8).map(report).collect()
}

fn stages(texts: &[&str]) -> Vec<StageFunctions> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_stage_is_a_name_and_up_to_three_functions_with_commas_in_their_brackets() {
    let none = None::<&str>;
    for (text, work, take, put) in [
        ("a=f", "f", none, none),
        ("a=f,g", "f", Some("g"), none),
        ("a=f,,h", "f", none, Some("h")),
        ("a=f, g, h", "f", Some("g"), Some("h")),
        (
            "a=Q<int, 8>::f(int, int),Q<int, 8>::g()",
            "Q<int, 8>::f(int, int)",
            Some("Q<int, 8>::g()"),
            none,
        ),
    ] {
        let stage: StageFunctions = text.parse().unwrap();
        let functions = (stage.work.as_str(), stage.take.as_deref(), stage.put.as_deref());
        assert_eq!(
            (stage.name.as_str(), functions),
            ("a", (work, take, put)),
            "{text}"
        );
    }
    for (text, part) in [
        ("render", "expected NAME=WORK"),
        ("a=f,g,h,i", "expected NAME=WORK"),
        ("a=", "the stage a has no WORK function"),
        ("a=,g", "the stage a has no WORK function"),
        ("a b=f", "`a b` is no name of a module"),
    ] {
        let why = text.parse::<StageFunctions>().unwrap_err().to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn a_chain_has_several_stages_and_each_name_once() {
    for (texts, part) in [
        (&["a=f", "b=g"][..], ""),
        (&[], ""),
        (&["a=f"], "one stage is no chain"),
        (&["a=f", "a=g"], "the stage a is named twice"),
        (&["a=f,,q", "b=g,q"], "q is named twice (a, b)"),
        (&["a=f,f", "b=g"], "f is named twice (a, a)"),
    ] {
        match StageFunctions::check(&stages(texts)) {
            Ok(()) => assert!(part.is_empty(), "{texts:?}"),
            Err(why) => assert!(!part.is_empty() && why.to_string().contains(part), "{why}"),
        }
    }
}

/// Two threads render what one reads, and one stores groups of four. Rendering holds the others up.
const FILM: [&str; 3] = [
    "read=read_scene,,put_scene",
    "render=render_frame,take_scene,put_frame",
    "store=store_group,take_frame",
];
const CALLS: [StageCall<'_>; 7] = [
    ("read_scene", 40, 0.2),
    ("put_scene", 40, 0.8),
    ("render_frame", 40, 1.9),
    ("take_scene", 40, 0.06),
    ("put_frame", 40, 0.04),
    ("store_group", 10, 0.1),
    ("take_frame", 40, 0.9),
];

#[test]
fn a_chain_of_stages_is_learned_from_the_calls_of_its_functions() {
    let seen = observed_stages(&stages(&FILM), &reports(&[(&CALLS, 0.0)])).unwrap();
    let learned = learn(&seen, "film", "Learned from functions.").unwrap();
    assert_learned(
        &learned,
        &[
            "# 40/s [40, 40]: 240 calls of put_scene and 240 of take_scene\n  read_to_render: {from: read, to: render}",
            "# works in render_frame, takes in take_scene, sends in put_frame",
            "render: {kind: task-parallel, takes: [read_to_render], gives: {render_to_store: 1}, work: render, workers: 2}",
            // Two threads that are busy 95 % of the time.
            "render: {time: 47.5ms}",
            // The time of a group, by item.
            "store: {time: 2.5ms}",
            "- store >= 39.96/s",
        ],
    );
    let sentence = learned.bottleneck.sentence();
    assert_eq!(
        sentence,
        "render holds the pipeline up: busy 95 % of the time; read is blocked writing to render 80 %; store waits \
         90 % for input from render"
    );
    let contract = Contract::parse(&learned.text).unwrap();
    assert_eq!(contract.capacity().unwrap().1.resources[0].resource, "render");
}

/// The functions of a stage, the share of the time in each, the threads and shares that follow, and what is in doubt.
type TimesRow<'a> = (&'a str, &'a [f64], u32, [f64; 3], &'a str);

#[test]
fn times_show_how_many_threads_a_stage_has_and_whether_its_waiting_is_within_its_work() {
    let rows: [TimesRow<'_>; 9] = [
        ("work,take,put", &[0.3, 0.5, 0.2], 1, [0.3, 0.5, 0.2], ""),
        // Within: it would be more than one thread else.
        ("work,take,put", &[0.99, 0.5, 0.2], 1, [0.3, 0.5, 0.2], ""),
        ("work,take,put", &[1.98, 1.5, 0.2], 2, [0.3, 1.5, 0.2], ""),
        ("work,take,put", &[2.4, 0.3, 0.28], 3, [2.42, 0.3, 0.28], ""),
        // Three threads, or two whose waiting is within.
        (
            "work,take,put",
            &[2.0, 0.6, 0.4],
            3,
            [2.0, 0.6, 0.4],
            "the times do not show whether take or put is",
        ),
        (
            "work,take,put",
            &[0.3, 0.2, 0.1],
            1,
            [0.7, 0.2, 0.1],
            "40 % of the time, which counts as work",
        ),
        (
            "work",
            &[0.3],
            1,
            [0.3, 0.7, 0.0],
            "70 % of the time, which counts as waiting for input",
        ),
        (
            "work,take",
            &[0.3, 0.2],
            1,
            [0.3, 0.2, 0.5],
            "50 % of the time, which counts as waiting for room",
        ),
        ("work,take", &[0.95, 0.04], 1, [0.95, 0.04, 0.01], ""),
    ];
    for (functions, shares, workers, expected, doubt) in rows {
        let chain = stages(&["a=first", &format!("b={functions}"), "c=last"]);
        let calls = functions
            .split(',')
            .zip(shares)
            .map(|(name, share)| (name, 10, *share));
        let all: Vec<StageCall<'_>> = [("first", 10, 1.0), ("last", 10, 1.0)]
            .into_iter()
            .chain(calls)
            .collect();
        let seen = observed_stages(&chain, &reports(&[(&all, 0.0)])).unwrap();
        let (module, doubts) = (&seen.modules[1], seen.doubts.join("; "));
        assert_eq!(module.workers, workers, "{functions} {shares:?}");
        let sum: f64 = expected.iter().sum();
        let found = [module.shares.busy, module.shares.starved, module.shares.blocked];
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected / sum).abs() < 0.006,
                "{functions} {shares:?}: {found}, {expected}"
            );
        }
        assert_eq!(doubts.is_empty(), doubt.is_empty(), "{doubts}");
        assert!(doubts.contains(doubt), "{doubts}");
    }
}

#[test]
fn waiting_for_a_cpu_is_no_work_where_a_process_has_one_stage_and_in_doubt_else() {
    let chain = stages(&["a=f", "b=g"]);
    let (f, g) = (("f", 10, 1.0), ("g", 10, 1.0));
    let seen = observed_stages(&chain, &reports(&[(&[f], 0.4), (&[g], 0.0)])).unwrap();
    let waits: Vec<f64> = seen.modules.iter().map(|one| one.shares.waits_for_cpu).collect();
    assert!((waits[0] - 0.4).abs() < 1e-9 && waits[1] == 0.0, "{waits:?}");
    assert!(seen.doubts.is_empty());
    let seen = observed_stages(&chain, &reports(&[(&[f, g], 0.4)])).unwrap();
    assert_eq!(seen.modules[0].shares.waits_for_cpu, 0.0);
    let doubt = "threads of process 100 waited for a CPU 40 % of the time";
    assert!(seen.doubts[0].contains(doubt), "{:?}", seen.doubts);
}

#[test]
fn a_stage_that_is_never_activated_is_refused_and_so_is_too_little_of_it() {
    let all = reports(&[(&CALLS, 0.0)]);
    let never = stages(&[
        "read=read_scene",
        "render=render_frame,take_other",
        "store=store_group",
    ]);
    let why = observed_stages(&never, &all).unwrap_err().to_string();
    assert!(
        why.starts_with("take_other of the stage render was not called in 7 s"),
        "{why}"
    );
    assert_eq!(observed_stages(&stages(&FILM), &all[4..]).map(|_| ()), Ok(()));
    assert_eq!(
        observed_stages(&stages(&FILM), &all[5..]).map(|_| ()),
        Err(NotLearned::TooFew)
    );
}

#[test]
fn windows_of_stages_are_judged_as_those_of_ranks() {
    let chain = stages(&FILM);
    let reports = reports(&[(&CALLS, 0.0)]);
    let learned = learn(&observed_stages(&chain, &reports).unwrap(), "film", "Learned.").unwrap();
    let mut contract = Contract::parse(&learned.text).unwrap();
    contract.require("store >= 60/s").unwrap();
    let (assessment, _) = contract.capacity().unwrap();
    let mut watch = ContractWatch::of(&contract, &assessment).unwrap();
    let mut windows = RankWindows::of(&chain);
    for report in reports {
        if windows.take(report, &watch) {
            windows.judge(&mut watch).unwrap();
        }
    }
    assert_eq!(windows.not_begun(), None);
    let last = watch.last_window(windows.end_s());
    let store = last.rates.iter().find(|rate| rate.feature == "store").unwrap();
    assert_eq!((store.target, store.rate), (60.0, Some(40.0)));
    assert_eq!(last.bottleneck.unwrap().name, "render");
}
