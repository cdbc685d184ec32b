use contract::Contract;

use super::{counted::Names, *};

const SECOND: u64 = 1_000_000_000;

/// `zstd | awk | xz`: what each did in one second.
fn counts(cpu: f64, waiting: f64, moved: (f64, f64), samples: [u32; 4]) -> StageCounts {
    let [running, reading, writing, elsewhere] = samples;
    StageCounts {
        cpu_ns: (cpu * 1e9) as u64,
        runqueue_ns: (waiting * 1e9) as u64,
        read_bytes: (moved.0 * 1e6) as u64,
        written_bytes: (moved.1 * 1e6) as u64,
        running,
        reading,
        writing,
        elsewhere,
        workers: 1,
    }
}

fn pipeline(stages: &[&str], pipes: &[(&[usize], &[usize])]) -> Pipeline {
    let stage = |name: &&str| Stage {
        name: (*name).to_owned(),
        about: format!("process 8123: {name}"),
        ..Stage::default()
    };
    let pipe = |(from, to): &(&[usize], &[usize])| Pipe {
        from: from.to_vec(),
        to: to.to_vec(),
    };
    Pipeline {
        stages: stages.iter().map(stage).collect(),
        pipes: pipes.iter().map(pipe).collect(),
    }
}

fn chain() -> Pipeline {
    pipeline(&["zstd", "awk", "xz"], &[(&[0], &[1]), (&[1], &[2])])
}

/// Seconds in which the three did the same, with a little more and less in turn.
fn slices(stages: &[StageCounts], number: usize) -> Vec<Slice> {
    let scaled = |factor: f64| {
        let scale = |count: u64| (count as f64 * factor) as u64;
        let stages = stages.iter().map(|stage| StageCounts {
            read_bytes: scale(stage.read_bytes),
            written_bytes: scale(stage.written_bytes),
            ..*stage
        });
        Slice {
            ns: SECOND,
            stages: stages.collect(),
        }
    };
    (0..number).map(|at| scaled([0.98, 1.02][at % 2])).collect()
}

fn xz_is_slow() -> [StageCounts; 3] {
    [
        counts(0.05, 0.0, (1.0, 5.0), [5, 0, 95, 0]),
        counts(0.2, 0.0, (5.0, 10.0), [20, 16, 64, 0]),
        counts(0.97, 0.01, (10.0, 0.4), [99, 1, 0, 0]),
    ]
}

#[test]
fn the_state_of_a_process_is_that_of_the_thread_that_goes_on() {
    use ThreadState::{Elsewhere, Polls, Reads, Runs, Writes};
    let rows: [(&[ThreadState], bool, bool, Activity); 10] = [
        (&[Runs], true, true, Activity::Running),
        (&[Reads, Runs], true, false, Activity::Running),
        (&[Reads], false, false, Activity::Reading),
        (&[Elsewhere, Writes], false, false, Activity::Writing),
        (&[Reads, Writes], true, true, Activity::Writing),
        (&[Polls], true, false, Activity::Reading),
        (&[Polls], true, true, Activity::Writing),
        (&[Polls], false, false, Activity::Elsewhere),
        (&[Elsewhere], true, true, Activity::Elsewhere),
        (&[], true, true, Activity::Elsewhere),
    ];
    for (threads, is_empty, is_full, expected) in rows {
        assert_eq!(activity(threads, is_empty, is_full), expected, "{threads:?}");
    }
    let rows = [
        ('R', "", Runs),
        ('S', "pipe_read", Reads),
        ('S', "anon_pipe_read", Reads),
        ('S', "fifo_pipe_write", Writes),
        ('S', "pipe_wait_writable", Writes),
        ('S', "do_sys_poll", Polls),
        ('S', "do_select", Polls),
        ('S', "0", Polls),
        ('S', "hrtimer_nanosleep", Elsewhere),
        ('D', "folio_wait_bit_common", Elsewhere),
    ];
    for (letter, function, expected) in rows {
        assert_eq!(ThreadState::of(letter, function), expected, "{letter} {function}");
    }
}

/// Nothing is wrong or in doubt, and the contract has these texts.
pub(super) fn assert_learned(learned: &Learned, texts: &[&str]) {
    let (wrong, doubts, text) = (&learned.wrong, &learned.doubts, &learned.text);
    assert!(
        wrong.is_empty() && doubts.is_empty(),
        "{wrong:?} {doubts:?}\n{text}"
    );
    for part in texts {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[test]
fn a_contract_is_learned_that_the_reader_of_contracts_takes_and_that_says_what_was_seen() {
    let seen = observed(&chain(), &slices(&xz_is_slow(), 20)).unwrap();
    let learned = learn(&seen, "zstd-awk-xz", "Learned.").unwrap();
    assert_learned(&learned, &[]);
    assert_eq!(
        learned.bottleneck.sentence(),
        "xz holds the pipeline up: busy 97 % of the time; awk is blocked writing to xz 64 %; zstd is blocked \
         writing to awk 95 %"
    );
    let paths: Vec<String> = learned
        .bottleneck
        .victims
        .iter()
        .map(|victim| victim.path.join(" "))
        .collect();
    assert_eq!(paths, ["xz awk", "xz awk zstd"]);
    let contract =
        Contract::parse(&learned.text).map_err(|wrong| rules::render("learned.yaml", &learned.text, &wrong));
    let (assessment, capacity) = contract.unwrap().capacity().unwrap();
    let rate = |name: &str| assessment.rate(name).unwrap();
    // An item is 1 MB where a megabyte or more flows a second.
    assert!((rate("zstd.zstd_to_awk") - 5.0).abs() < 0.05, "{}", learned.text);
    assert!((rate("xz") - 10.0).abs() < 0.05, "{}", learned.text);
    let first = &capacity.resources[0];
    assert_eq!(first.resource, "xz");
    assert!((first.utilisation - 0.97).abs() < 0.01, "{first:?}");
    assert!(
        learned
            .text
            .contains("busy 97 %, waiting for a CPU 1 %, starved 2 %"),
        "{}",
        learned.text
    );
    assert!(
        learned.text.contains("the two counts differ by 0 %"),
        "{}",
        learned.text
    );
}

#[test]
fn names_of_programs_become_names_of_modules() {
    let mut names = Names::default();
    let of = ["xz", "yes", "7z", "g++", "xz", "and"].map(|program| names.unique(program));
    assert_eq!(of, ["xz", "p_yes", "p_7z", "g__", "xz_2", "p_and"]);
}

#[test]
fn who_holds_the_pipeline_up_is_who_waits_for_no_other() {
    let waits = counts(0.4, 0.55, (10.0, 0.0), [96, 4, 0, 0]);
    let sleeps = counts(0.02, 0.0, (1.0, 5.0), [2, 0, 3, 95]);
    let starved = counts(0.1, 0.0, (5.0, 10.0), [10, 90, 0, 0]);
    let starved_last = counts(0.3, 0.0, (10.0, 0.4), [30, 70, 0, 0]);
    let [zstd, awk, _] = xz_is_slow();
    let rows = [
        (
            [zstd, awk, waits],
            "xz",
            ModuleVerdict::WaitsForCpu,
            "xz holds the pipeline up: busy 40 % of the time, 55 % waiting for a CPU",
        ),
        (
            [sleeps, starved, starved_last],
            "zstd",
            ModuleVerdict::ComputeBound,
            "busy 97 % of the time (98 % of it asleep: disk, network or timer)",
        ),
        (
            [sleeps, starved, starved_last],
            "zstd",
            ModuleVerdict::ComputeBound,
            "; awk waits 90 % for input from zstd; xz waits 70 % for input from awk",
        ),
        (
            [starved, starved, starved_last],
            "xz",
            ModuleVerdict::ComputeBound,
            "no module is busy for most of the time",
        ),
    ];
    for (stages, name, verdict, part) in rows {
        let seen = observed(&chain(), &slices(&stages, 4)).unwrap();
        let bottleneck = bottleneck(&seen).unwrap();
        // A source that reads waits for something outside: it is busy.
        let expected = if stages[0] == starved { "zstd" } else { name };
        assert_eq!(bottleneck.name, expected, "{}", bottleneck.sentence());
        if expected == name {
            assert_eq!(bottleneck.verdict, verdict);
            assert!(bottleneck.sentence().contains(part), "{}", bottleneck.sentence());
        }
    }
}

#[test]
fn a_process_with_several_workers_has_their_number_and_the_time_of_all() {
    let mut stages = xz_is_slow();
    stages[2] = StageCounts {
        workers: 2,
        cpu_ns: 2 * SECOND,
        ..counts(0.0, 0.0, (10.0, 0.4), [100, 0, 0, 0])
    };
    let seen = observed(&chain(), &slices(&stages, 10)).unwrap();
    let text = learn(&seen, "two", "Learned.").unwrap().text;
    // Two workers, busy all the time, take 10 items a second.
    assert!(text.contains("work: xz, workers: 2"), "{text}");
    let time = text.lines().find(|line| line.starts_with("  xz: {time")).unwrap();
    assert_eq!(time, "  xz: {time: 199.98ms}");
}

#[test]
fn fan_out_merge_and_join_have_their_patterns() {
    // `tee` to a named pipe: what it writes is more than what each reader takes.
    let tee = pipeline(
        &["zstd", "tee", "wc", "xz"],
        &[(&[0], &[1]), (&[1], &[2]), (&[1], &[3])],
    );
    let stages = [
        counts(0.05, 0.0, (1.0, 5.0), [5, 0, 95, 0]),
        counts(0.1, 0.0, (5.0, 10.0), [10, 0, 90, 0]),
        counts(0.2, 0.0, (5.0, 0.0), [20, 80, 0, 0]),
        counts(0.97, 0.0, (5.0, 0.1), [97, 3, 0, 0]),
    ];
    let text = learn(&observed(&tee, &slices(&stages, 10)).unwrap(), "tee", "Learned.")
        .unwrap()
        .text;
    assert!(text.contains("gives: {tee_to_wc: 1, tee_to_xz: 1}"), "{text}");
    assert!(text.contains("read by xz, whose only traffic it is"), "{text}");

    // Two writers of one pipe: a merge, whose rates are not determined by the sink's.
    let merge = pipeline(&["a", "b", "c"], &[(&[0, 1], &[2])]);
    let stages = [
        counts(0.3, 0.0, (0.0, 2.0), [30, 0, 70, 0]),
        counts(0.3, 0.0, (0.0, 3.0), [30, 0, 70, 0]),
        counts(0.9, 0.0, (5.0, 0.0), [90, 10, 0, 0]),
    ];
    let text = learn(
        &observed(&merge, &slices(&stages, 10)).unwrap(),
        "merge",
        "Learned.",
    )
    .unwrap()
    .text;
    assert!(text.contains("from: [a, b], to: c"), "{text}");
    assert!(
        text.contains("- a >= 1.998/s") && text.contains("- b >= 2.997/s"),
        "{text}"
    );

    // `paste` takes from two pipes: an activation takes an item of each, so their items differ in size.
    let join = pipeline(&["a", "b", "paste"], &[(&[0], &[2]), (&[1], &[2])]);
    let mut stages = stages;
    stages[2] = counts(0.9, 0.0, (5.0, 0.0), [90, 10, 0, 0]);
    let seen = observed(&join, &slices(&stages, 10)).unwrap();
    let text = learn(&seen, "join", "Learned.").unwrap().text;
    assert!(text.contains("takes: [a_to_paste, b_to_paste]"), "{text}");
    assert!(
        text.contains("b_to_paste: {from: b, to: paste, item: 1500000B}"),
        "{text}"
    );
}

#[test]
fn a_shell_that_only_holds_ends_is_no_module() {
    let with_shell = pipeline(&["bash", "zstd", "xz"], &[(&[0, 1], &[2])]);
    let stages = [
        StageCounts::default(),
        counts(0.05, 0.0, (1.0, 10.0), [5, 0, 95, 0]),
        counts(0.97, 0.01, (10.0, 0.4), [99, 1, 0, 0]),
    ];
    let seen = observed(&with_shell, &slices(&stages, 4)).unwrap();
    let names: Vec<&str> = seen.modules.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(names, ["zstd", "xz"]);
    assert_eq!(seen.streams[0].name, "zstd_to_xz");
}

#[test]
fn what_does_not_flow_or_cannot_be_distinguished_is_refused() {
    let mut stages = xz_is_slow();
    stages[1].written_bytes = 0;
    stages[2].read_bytes = 0;
    let refused = observed(&chain(), &slices(&stages, 10)).unwrap_err().to_string();
    assert!(
        refused.starts_with("xz took nothing from awk in 10 s"),
        "{refused}"
    );

    let crossed = pipeline(&["a", "b", "c"], &[(&[0], &[1]), (&[0], &[2]), (&[1], &[2])]);
    let refused = observed(&crossed, &slices(&xz_is_slow(), 10))
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("what flows from a to c cannot be distinguished"),
        "{refused}"
    );
}

#[test]
fn a_source_that_a_stage_needed_nothing_from_is_left_out() {
    // It decompresses what it took before.
    let mut stages = xz_is_slow();
    stages[0].written_bytes = 0;
    stages[1].read_bytes = 0;
    let seen = observed(&chain(), &slices(&stages, 10)).unwrap();
    assert_eq!(
        seen.doubts,
        ["awk took nothing from zstd in this time, which is left out"]
    );
    let text = learn(&seen, "short", "Learned.").unwrap().text;
    assert!(
        text.contains("awk: {gives: {awk_to_xz: 1}, work: awk}") && !text.contains("zstd:"),
        "{text}"
    );
}

#[test]
fn what_lessens_the_confidence_is_said() {
    let mut odd = chain();
    odd.stages[1].other_outputs = vec!["log.txt".to_owned()];
    let mut stages = xz_is_slow();
    stages[1].written_bytes *= 3;
    let seen = observed(&odd, &slices(&stages, 10)).unwrap();
    assert_eq!(seen.doubts, ["read by xz; awk moved 3 times as much, by log.txt"]);
    // The smaller count is used: the coefficient is still that of the pipe.
    let learned = learn(&seen, "odd", "Learned.").unwrap();
    assert!(learned.text.contains("gives: {awk_to_xz: 2}"), "{}", learned.text);
    assert!(
        learned.text.contains("Confidence: limited, since read by xz;"),
        "{}",
        learned.text
    );
    let seen = observed(&chain(), &slices(&xz_is_slow(), 10)[..1]).unwrap();
    assert!(seen.doubts.is_empty(), "100 samples: {:?}", seen.doubts);
    stages[1].reading -= 1;
    let seen = observed(&chain(), &slices(&stages, 10)[..1]).unwrap();
    assert!(
        seen.doubts[1].contains("looked at 99 times only"),
        "{:?}",
        seen.doubts
    );
}

/// The contract of `zstd | awk | xz`, which requires this rate of xz.
fn required(least: f64) -> (Contract, contract::Assessment) {
    let source = format!(
        "contract: film\nstreams:\n  raw: {{from: zstd, to: awk, item: 1MB}}\n  wide: {{from: awk, to: xz, item: 1MB}}\n\
         modules:\n  zstd: {{gives: {{raw: 1}}}}\n  awk: {{takes: [raw], gives: {{wide: 2}}}}\n  xz: {{takes: [wide]}}\n\
         require: [xz >= {least}/s]\n"
    );
    let contract = Contract::parse(&source)
        .map_err(|wrong| rules::render("c.yaml", &source, &wrong))
        .unwrap();
    let assessment = contract.assess().unwrap();
    (contract, assessment)
}

fn watch(least: f64) -> ContractWatch {
    let (contract, assessment) = required(least);
    ContractWatch::of(&contract, &assessment).unwrap()
}

/// What xz takes in each window, and the lines that the windows print.
fn watched(watch: &mut ContractWatch, rates: &[f64]) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, rate) in rates.iter().enumerate() {
        let mut stages = xz_is_slow();
        let scale = |bytes: u64| (bytes as f64 * rate / 10.0) as u64;
        for stage in &mut stages {
            (stage.read_bytes, stage.written_bytes) = (scale(stage.read_bytes), scale(stage.written_bytes));
        }
        let seen = counted(&watch.part_of(&chain()), &slices(&stages, 10)).unwrap();
        lines.extend(watch.window(10.0 * (at + 1) as f64, &seen).unwrap());
    }
    lines
}

#[test]
fn a_rate_is_violated_after_three_windows_below_and_holds_again_at_its_target() {
    let mut film = watch(10.0);
    assert_eq!(watched(&mut film, &[10.0, 9.0, 9.0, 10.0, 9.0, 9.0]), [""; 0]);
    let lines = watched(&mut watch(10.0), &[9.0, 9.0, 9.0, 9.0, 10.0]);
    let [violated, bottleneck, hold] = &lines[..] else {
        panic!("{lines:#?}");
    };
    assert_eq!(
        violated,
        "     30 s  xz: 9/s of 10/s, violated; also zstd, awk, raw, wide"
    );
    assert!(bottleneck.contains("xz holds the pipeline up"));
    assert_eq!(
        hold,
        "     50 s  xz: 10/s of 10/s, no longer violated; also zstd, awk, raw, wide"
    );
    // The count's own uncertainty: slices of 9.5/s with this variation may come from 10/s.
    assert_eq!(watched(&mut watch(10.0), &[9.93; 9]), [""; 0]);
}

#[test]
fn requirements_may_change_while_the_program_runs() {
    let mut film = watch(8.0);
    assert_eq!(watched(&mut film, &[10.0; 4]), [""; 0]);
    let require = |film: &mut ContractWatch, least: f64| {
        let (contract, assessment) = required(least);
        film.require(&contract, &assessment).unwrap()
    };
    assert_eq!(
        require(&mut film, 12.0),
        ["xz is required at 12/s, no longer at 8/s"]
    );
    let lines = watched(&mut film, &[10.0; 3]);
    assert!(
        lines[0].contains("xz: 10/s of 12/s, violated; also zstd"),
        "{lines:?}"
    );
    assert_eq!(require(&mut film, 12.0), [""; 0]);
    // What was violated has not held, whatever is required later.
    require(&mut film, 8.0);
    assert_eq!(watched(&mut film, &[10.0; 4]), [""; 0]);
    let summary = film.summary();
    assert!(!summary.holds && summary.windows == 11, "{summary:?}");
}

#[test]
fn s3_38_rates_are_smoothed_for_display() {
    let mut film = watch(8.0);
    let mut smoothed = Vec::new();
    for rate in [10.0, 20.0, 20.0, 20.0, 20.0] {
        watched(&mut film, &[rate]);
        let rates = film.last_window(1.0).rates;
        let xz = rates.iter().find(|rate| rate.feature == "xz").unwrap();
        smoothed.push((xz.smoothed.unwrap() * 10.0).round() / 10.0);
    }
    assert_eq!(smoothed, [10.0, 14.0, 16.4, 17.8, 18.7]);
}

#[test]
fn a_watched_contract_says_what_it_delivered_who_waits_for_whom_and_what_is_too_much() {
    let mut film = watch(8.0);
    assert_eq!(watched(&mut film, &[10.0; 4]), [""; 0]);
    let summary = film.summary();
    assert!(summary.holds && summary.windows == 4);
    let xz = summary.rates.iter().find(|rate| rate.feature == "xz").unwrap();
    assert_eq!(xz.waste.map(|more| (more * 100.0).round()), Some(25.0));
    let verdicts: Vec<(&str, ModuleVerdict)> = summary
        .modules
        .iter()
        .map(|one| (one.module.as_str(), one.verdict))
        .collect();
    let expected = [
        ("awk", ModuleVerdict::Blocked),
        ("xz", ModuleVerdict::ComputeBound),
        ("zstd", ModuleVerdict::Blocked),
    ];
    assert_eq!(verdicts, expected);
    let lines = summary.lines();
    assert_eq!(
        lines[3],
        "xz             10/s         8/s  25 % more than required"
    );
    assert_eq!(lines.last().map(String::as_str), Some("the contract film holds"));

    let mut film = watch(12.0);
    assert_eq!(watched(&mut film, &[10.0; 4]).len(), 2);
    let text = film.summary().lines().join("\n");
    let mut short = watch(8.0);
    watched(&mut short, &[10.0; 2]);
    let last = short.summary().lines().pop().unwrap();
    assert_eq!(
        last,
        "the contract film was seen in 2 windows, and 3 are needed to judge it"
    );
    assert!(!short.summary().holds);
    assert!(
        text.contains("violated in 2 of 4 windows") && text.contains("film does not hold"),
        "{text}"
    );
}

#[test]
fn a_stalled_program_violates_and_another_program_is_refused() {
    let lines = watched(&mut watch(10.0), &[0.0, 0.0, 0.0]);
    assert!(
        lines
            .iter()
            .any(|line| line.contains("xz: 0/s of 10/s, violated")),
        "{lines:#?}"
    );

    let other = pipeline(&["cat", "wc"], &[(&[0], &[1])]);
    let mut film = watch(10.0);
    let seen = counted(&other, &slices(&xz_is_slow()[..2], 3)).unwrap();
    let refused = film.window(1.0, &seen).unwrap_err().to_string();
    let expected =
        "the contract is about another program: it has awk to xz, zstd to awk, and here are cat to wc";
    assert_eq!(refused, expected);
    let none = counted(&film.part_of(&other), &slices(&xz_is_slow()[..2], 3)).unwrap();
    let refused = film.window(1.0, &none).unwrap_err().to_string();
    assert!(
        refused.ends_with("and here nothing joins modules of those names"),
        "{refused}"
    );
}

#[test]
fn a_module_is_judged_from_the_counts_of_its_own_end_alone() {
    let judged = |mangle: &dyn Fn(&mut ObservedStream)| {
        let mut film = watch(12.0);
        for second in 1..=3 {
            let mut seen = counted(&chain(), &slices(&xz_is_slow(), 10)).unwrap();
            seen.streams.iter_mut().for_each(mangle);
            film.window(f64::from(second), &seen).unwrap();
        }
        let summary = film.summary();
        let xz = summary.rates.iter().find(|rate| rate.feature == "xz").unwrap();
        (xz.rate, xz.is_violated)
    };
    let whole = judged(&|_| ());
    assert!(whole.1, "{whole:?}");
    // All other counts are withheld: what xz takes decides.
    let withheld = judged(&|stream| {
        let others = stream.sent.iter_mut();
        let others = others.chain(stream.received.iter_mut().filter(|end| end.module != 2));
        others.for_each(|end| end.items.iter_mut().for_each(|items| *items = 0.0));
    });
    assert_eq!(withheld, whole);
}
