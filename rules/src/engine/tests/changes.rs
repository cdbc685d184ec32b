//! Changes without a guard, conditions for each process, numbers of processes, and all kinds of changes.

use super::*;
use plan::{Action, Argument, Expression, Inverse, Invocation, PatchRequest, Switch, ValueType};

const FRAME: &str = "\
rule: changes
about: changes of all kinds
roles:
  worker: {if: rank >= 0, count: 2..3}
probes:
  step: {entry: step}
windows:
  w: {every: 500ms}
metrics:
  busy: cpu.time / w.duration
tune:
";

/// Processes whose shares of CPU time are given window by window.
struct Shares {
    engine: Engine,
    totals: Vec<u64>,
    now: u64,
}

impl Shares {
    fn new(tunes: &str, processes: u32) -> Shares {
        let mut engine = of_ranks(&format!("{FRAME}{tunes}"), processes);
        engine.set_mode(RuleId(0), Mode::Applying);
        let mut shares = Shares {
            engine,
            totals: vec![0; processes as usize],
            now: 0,
        };
        shares.report();
        shares
    }

    fn report(&mut self) {
        for (process, total) in (0..).zip(&self.totals) {
            self.engine.observe(cpu_time(process, Time(self.now), *total));
        }
    }

    /// A window in which the processes use these percentages of a CPU; every decision is carried out.
    fn window(&mut self, percent: &[u64]) -> Vec<Output> {
        self.now += 500 * MS;
        for (total, percent) in self.totals.iter_mut().zip(percent) {
            *total += percent * 5 * MS;
        }
        self.report();
        carried_out(&mut self.engine, Time(self.now))
    }

    fn actions(&mut self, percent: &[u64]) -> Vec<String> {
        let outputs = self.window(percent);
        let changes = decided(&outputs)
            .into_iter()
            .flat_map(|decision| &decision.changes);
        let change = |change: &ProcessAction| format!("{}: {}", change.process.0, change.action);
        changes.map(change).collect()
    }

    fn why(&self) -> String {
        self.engine.status()[0].why.clone()
    }
}

#[test]
fn without_a_guard_a_tune_acts_whenever_its_value_differs_and_nothing_is_tried() {
    let mut shares = Shares::new("  - {set: n, value: floor(sum(busy) * 10)}\n", 2);
    assert_eq!(shares.actions(&[20, 30]), ["0: set n = 5", "1: set n = 5"]);
    assert_eq!(shares.actions(&[20, 30]), [""; 0]);
    assert_eq!(shares.why(), "what it would do is in force");
    assert_eq!(shares.actions(&[20, 40]), ["0: set n = 6", "1: set n = 6"]);
    assert!(
        !shares
            .window(&[20, 50])
            .iter()
            .any(|output| matches!(output, Output::Verdict(_) | Output::FindingOpened(_)))
    );
}

#[test]
fn a_rule_that_only_advises_switches_its_probes_which_is_no_finding() {
    let mut shares = Shares::new(
        "  - {enable: step, when: sum(busy) > 0.1}\n  - {remove_call: log_state, when: sum(busy) > 0.5}\n",
        2,
    );
    shares.engine.set_mode(RuleId(0), Mode::Advising);
    assert_eq!(shares.actions(&[10, 10]), ["0: enable step", "1: enable step"]);
    assert!(shares.engine.findings().is_empty());
    assert_eq!(shares.actions(&[50, 50]), [""; 0]);
    let found = shares.engine.findings().into_iter().map(|finding| finding.tune);
    assert_eq!(found.collect::<Vec<_>>(), [1]);
}

#[test]
fn a_guarded_change_on_trial_does_not_keep_others_from_acting() {
    let guarded =
        "  - {set: m, value: 1, when: true, guard: {maximize: sum(busy), over: 1, undo_if_worse_by: 5%}}\n";
    let mut shares = Shares::new(
        &format!("{guarded}  - {{set: n, value: floor(sum(busy) * 10)}}\n"),
        2,
    );
    assert_eq!(shares.actions(&[20, 30]).len(), 4);
    assert_eq!(shares.actions(&[20, 50]), ["0: set n = 7", "1: set n = 7"]);
}

#[test]
fn a_condition_for_each_process_changes_those_for_which_it_held_long_enough() {
    let tune = "  - {set: n, value: floor(busy * 10), when: busy > 50%, for: 2}\n";
    let mut shares = Shares::new(tune, 3);
    assert_eq!(shares.actions(&[60, 10, 10]), [""; 0]);
    assert_eq!(shares.why(), "its condition has held for 1 of 2 windows");
    assert_eq!(shares.actions(&[60, 70, 10]), ["0: set n = 6"]);
    assert_eq!(shares.actions(&[60, 70, 10]), ["1: set n = 7"]);
    assert_eq!(shares.actions(&[80, 70, 10]), ["0: set n = 8"]);
}

#[test]
fn what_is_in_force_is_reverted_in_the_processes_whose_condition_failed() {
    let mut shares = Shares::new("  - {set: n, value: 1, while: busy > 50%}\n", 2);
    assert_eq!(shares.actions(&[60, 60]).len(), 2);
    let outputs = shares.window(&[60, 10]);
    let reverted = verdict(&outputs);
    assert!(!reverted.keep && reverted.processes == Some([ProcessId(1)].into()));
    assert_eq!(shares.actions(&[60, 70]), ["1: set n = 1"], "it holds again");
    let outputs = shares.window(&[10, 10]);
    assert_eq!(verdicts(&outputs).len(), 2, "both decisions are reverted");
    assert_eq!(shares.actions(&[10, 10]), [""; 0]);
}

#[test]
fn a_rule_waits_for_the_processes_it_is_for() {
    let mut shares = Shares::new("  - {set: n, value: 1}\n", 1);
    assert_eq!(shares.actions(&[60]), [""; 0]);
    assert_eq!(
        shares.why(),
        "waits for processes: 1 of at least 2 have the role worker"
    );
    let mut shares = Shares::new("  - {set: n, value: 1}\n", 4);
    assert_eq!(shares.actions(&[60; 4]), [""; 0]);
    assert_eq!(
        shares.why(),
        "waits: 4 processes have the role worker, it is for at most 3"
    );
}

#[test]
fn a_decision_says_what_is_to_be_done() {
    let tunes = [
        "  - {call: \"flush(cfg.level, floor(sum(busy)))\", was: level(3), inverse: \"flush(was, floor(sum(busy)) + 5)\", at: {return: libmpi.so:MPI_Send}}",
        "  - {set_arg: send_block(2) as u32, value: \"clamp(original * 2, floor(sum(busy)), 64)\"}",
        "  - {insert_call: sched_yield(), in: progress, place: return}",
        "  - {remove_call: log_state}",
        "  - {enable: step}\n",
    ];
    let tunes = tunes.join("\n");
    let mut shares = Shares::new(&tunes, 2);
    let outputs = shares.window(&[100, 100]);
    let decisions = decided(&outputs);
    let actions = decisions.iter().map(|decision| &decision.changes[0].action);
    let texts: Vec<String> = actions.map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "call flush(cfg.level, 2)",
            "set_arg send_block(2) = min(max((original * 2), 2), 64)",
            "insert_call sched_yield in progress",
            "remove_call log_state",
            "enable step",
        ]
    );
    assert_eq!(decisions[0].at, "return:libmpi.so:MPI_Send".parse().ok());
    let call = |text| Invocation::parse(text).unwrap();
    let expected = Invocation {
        arguments: vec![Argument::Variable("cfg.level".into()), Argument::Integer(2)],
        ..call("flush")
    };
    let inverse = Inverse::Call {
        call: call("flush(was, 7)"),
        was: Some(call("level(3)")),
        remains: None,
    };
    assert_eq!(decisions[0].changes[0].action, Action::call(expected, inverse));
    let Action::Patch(PatchRequest::SetArgument {
        value,
        value_type: Some(ValueType::U32),
        ..
    }) = &decisions[1].changes[0].action
    else {
        panic!()
    };
    assert_eq!(*value, Expression::parse("clamp(original * 2, 2, 64)").unwrap());
    assert!(matches!(
        decisions[4].changes[0].action,
        Action::Switch(Switch {
            probe: 0,
            on: true,
            ..
        })
    ));
}

#[test]
fn what_is_computed_goes_into_its_place() {
    for (tune, action) in [
        // Integral numbers are passed as integers, whatever the parameter's type turns out to be.
        (
            "call: \"f(sum(busy), true, 2.5, cfg.level)\"",
            "call f(2, 1, 2.5, cfg.level)",
        ),
        (
            "insert_call: \"f(2, sum(busy) / 4)\", in: g",
            "insert_call f in g with 2, 0.5",
        ),
        (
            "set_arg: f(1), value: \"max(original - -1, 4, 0.5)\"",
            "set_arg f(1) = max(max((original - -1), 4), 0.5)",
        ),
        (
            "set_arg: f(1), value: \"-original\"",
            "set_arg f(1) = (0 - original)",
        ),
        ("set_arg: f(1), value: sum(busy)", "set_arg f(1) = 2"),
        (
            "set_arg: openmp.size, value: \"min(original, sum(busy))\"",
            "set_arg openmp.size = min(original, 2)",
        ),
        ("set: cfg.level, value: sum(busy) > 1", "set cfg.level = true"),
        ("remove_call: f, in: g", "remove_call f in g"),
        ("replace: 'libm.so:f', with: g", "replace libm.so:f with g"),
        ("affinity: compact", "affinity: compact"),
    ] {
        let mut shares = Shares::new(&format!("  - {{{tune}}}\n"), 2);
        assert_eq!(shares.actions(&[100, 100])[0], format!("0: {action}"), "{tune}");
    }
    let mut shares = Shares::new("  - {call: f(1 / (sum(busy) - 2))}\n", 2);
    assert_eq!(shares.actions(&[100, 100]), [""; 0], "infinity cannot be passed");
}

#[test]
fn two_rules_that_change_the_same_are_not_run_together() {
    let rule = |name: &str, tune: &str| {
        let source = format!(
            "{}{tune}",
            FRAME.replace("rule: changes", &format!("rule: {name}"))
        );
        CheckedRule::from_source(&source).unwrap()
    };
    let together = |a: &str, b: &str| Engine::new(vec![rule("a", a), rule("b", b)], Time(0)).err();
    let replace = "  - {replace: f, with: g}\n";
    let argument = "  - {set_arg: f(1), value: 2}\n";
    for (tune, claim) in [(replace, "the function f;"), (argument, "argument 1 of f;")] {
        let conflict = together(tune, tune).unwrap().to_string();
        assert!(conflict.contains(&format!("claim {claim}")), "{conflict}");
    }
    assert!(together(argument, "  - {set_arg: f(2), value: 2}\n").is_none());
    assert!(together("  - {call: f()}\n", "  - {call: f()}\n").is_none());
}

#[test]
fn a_latecomer_is_given_what_was_kept_in_the_others_though_the_condition_has_ended() {
    let tune = "  - {set: n, value: 4, when: sum(busy) > 50%, guard: {minimize: sum(busy), over: 1, undo_if_worse_by: 5%, keep: not_worse}}\n";
    let mut shares = Shares::new(tune, 2);
    assert_eq!(shares.actions(&[40, 40]), ["0: set n = 4", "1: set n = 4"]);
    // On trial, then kept; the change itself has ended the condition.
    let kept = |outputs: &[Output]| verdicts(outputs).iter().any(|verdict| verdict.keep);
    let judged: Vec<Output> = (0..3).flat_map(|_| shares.window(&[5, 5])).collect();
    assert!(kept(&judged));
    shares
        .engine
        .process_joined(ProcessId(2), ProcessFacts::of_rank(2), Time(shares.now));
    shares.totals.push(0);
    shares.report();
    assert_eq!(shares.actions(&[5, 5, 5]), ["2: set n = 4"]);
    // The change was judged in the other processes, so in this one it is kept without a trial, and made once.
    let outputs = shares.window(&[5, 5, 5]);
    assert!(kept(&outputs), "{outputs:?}");
    assert_eq!(shares.window(&[5, 5, 5]), []);
}

/// Observes that all processes hold `value` in `n` at this moment.
fn hold(shares: &mut Shares, after_ms: u64, values: &[f64]) {
    for (process, value) in (0..).zip(values) {
        shares.engine.observe(Observation::Variable {
            process: ProcessId(process),
            name: "n".into(),
            time: Time(shares.now + after_ms * MS),
            value: Scalar::Number(*value),
        });
    }
}

#[test]
fn a_rule_has_one_finding_whichever_of_its_tunes_finds_it() {
    let tunes = "  - {set: n, value: true, when: sum(busy) > 50%}\n  - {finding: they are busy, when: sum(busy) > 50%, next_start: N=1}\n";
    let mut shares = Shares::new(tunes, 2);
    shares.window(&[60, 60]);
    let findings = shares.engine.findings();
    let reported: Vec<_> = findings
        .iter()
        .map(|finding| (finding.text.as_str(), finding.next_start.as_deref()))
        .collect();
    assert_eq!(reported, [("they are busy", Some("N=1")); 2]);
}

/// A command is copied: `OMP_NUM_THREADS=2 000` would be two words.
#[test]
fn numbers_of_what_to_start_with_next_time_have_no_space_between_thousands() {
    let tunes = "  - {finding: \"size {2000}\", when: sum(busy) > 50%, next_start: \"N={2000} --share {50%:%} --more {1234567}\"}\n";
    let mut shares = Shares::new(tunes, 2);
    shares.window(&[60, 60]);
    let findings = shares.engine.findings();
    let finding = findings.first().unwrap();
    assert_eq!(finding.text, "size 2 000");
    assert_eq!(
        finding.next_start.as_deref(),
        Some("N=2000 --share 50 % --more 1234567")
    );
}

#[test]
fn a_tune_that_only_finds_has_no_finding_while_the_change_of_its_rule_would_change_nothing() {
    let tunes = "  - {set: n, value: true, in: all, when: sum(busy) > 50%}\n  - {finding: they are busy, when: sum(busy) > 50%}\n";
    for (values, findings) in [([1.0, 1.0], 0), ([1.0, 0.0], 2)] {
        let mut shares = Shares::new(tunes, 2);
        hold(&mut shares, 500, &values);
        shares.window(&[60, 60]);
        let found = shares.engine.findings();
        assert_eq!(found.len(), findings, "{values:?}: {found:?}");
    }
}

#[test]
fn a_set_that_would_change_nothing_is_no_decision_and_no_finding() {
    let tune = "  - {set: n, value: true, when: sum(busy) > 50%, finding: they are busy}\n";
    let mut shares = Shares::new(tune, 2);
    hold(&mut shares, 500, &[1.0, 1.0]);
    let outputs = shares.window(&[60, 60]);
    assert!(outputs.is_empty(), "{outputs:?}");
    assert_eq!(
        shares.why(),
        "nothing to change: n is true in all 2 processes already"
    );
    // One process lacks the value: it is changed, and the finding is true.
    hold(&mut shares, 500, &[1.0, 0.0]);
    let outputs = shares.window(&[60, 60]);
    assert!(
        outputs
            .iter()
            .any(|output| matches!(output, Output::FindingOpened(_)))
    );
    let [decision] = decided(&outputs)[..] else {
        panic!("{outputs:?}")
    };
    let changed: Vec<_> = decision.changes.iter().map(|change| change.process.0).collect();
    assert_eq!(changed, [1]);
    // A value set by the tune itself does not end the change as unnecessary.
    hold(&mut shares, 500, &[1.0, 1.0]);
    assert!(shares.window(&[60, 60]).is_empty());
    assert_eq!(shares.why(), "applied");
    // If the condition fails, that is the reason.
    let mut calm = Shares::new(tune, 2);
    hold(&mut calm, 500, &[1.0, 1.0]);
    calm.window(&[10, 10]);
    assert!(calm.why().starts_with("condition false"), "{}", calm.why());
}

#[test]
fn the_reason_of_a_false_condition_has_only_comparisons_that_make_it_false() {
    for (condition, why) in [
        (
            "sum(busy) > 2 and max(busy) > 0.5",
            "sum(busy) > 2 (1.2 is not > 2)",
        ),
        ("not (sum(busy) > 1)", "sum(busy) > 1 holds (1.2 > 1)"),
        (
            "not (sum(busy) > 2 or max(busy) > 0.5)",
            "max(busy) > 0.5 holds (0.6 > 0.5)",
        ),
    ] {
        let mut shares = Shares::new(&format!("  - {{set: n, value: 2, when: {condition}}}\n"), 2);
        shares.window(&[60, 60]);
        assert_eq!(shares.why(), format!("condition false: {why}"));
    }
}

#[test]
fn a_window_is_over_when_the_next_tick_would_close_it() {
    let mut shares = Shares::new("  - {set: n, value: floor(sum(busy) * 10)}\n", 2);
    for end in [500 * MS, 1000 * MS, 1500 * MS] {
        assert!(!shares.engine.has_timed_window_over(Time(end - 1)));
        assert!(shares.engine.has_timed_window_over(Time(end)));
        shares.engine.tick(Time(end));
        assert_eq!(shares.engine.drain_windows().len(), 1);
        assert!(!shares.engine.has_timed_window_over(Time(end)));
    }
}

#[test]
fn what_was_read_before_the_window_says_nothing_about_it() {
    let tune = "  - {set: n, value: 1, when: sum(busy) > 50%}\n";
    let mut shares = Shares::new(tune, 2);
    hold(&mut shares, 500, &[1.0, 1.0]);
    assert_eq!(shares.actions(&[60, 60]), [""; 0]);
    assert_eq!(shares.actions(&[60, 60]), ["0: set n = 1", "1: set n = 1"]);
}

#[test]
fn a_rule_shows_how_many_windows_it_had_and_what_was_left_out_of_them() {
    let source = "rule: turns\nabout: b\nprobes: {step: {entry: step}}\nwindows:\n  w: {from: step, skip: 3}\n\
                  metrics: {n: count(step)}\ntune:\n  - {finding: found, when: n > 5}\n";
    let rule = checked(source);
    let mut engine = Engine::new(vec![rule], Time(0)).unwrap();
    engine.process_joined(ProcessId(0), ProcessFacts::default(), Time(0));
    let step = |engine: &mut Engine, ms: u64| {
        let (process, time) = (ProcessId(0), Time(ms * MS));
        engine.observe(hit(ProbeId(0), process, time, 0, &[]));
        engine.observe(Observation::Watermark { process, time });
        engine.tick(Time(ms * MS));
    };
    for ms in [10, 20, 30] {
        step(&mut engine, ms);
    }
    let status = &engine.status()[0];
    assert_eq!((status.standing, status.windows), (Standing::NoValue, 0));
    assert_eq!(
        status.why,
        "not evaluated: all 2 windows were left out: 2 skipped, as the first are"
    );
    for ms in [40, 50, 60] {
        step(&mut engine, ms);
    }
    let status = &engine.status()[0];
    let left_out = status.dropped.windows();
    assert_eq!((status.windows, left_out.len()), (2, 1));
    assert_eq!((left_out[0].reason, left_out[0].count), ("skipped", 3));
}
