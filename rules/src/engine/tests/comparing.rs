//! A change that a single comparison does not confirm is reverted and repeated for further comparisons.

use super::*;

/// A program that is faster by a factor while the change is in force.
struct Program {
    job: Job,
    in_force: bool,
    outputs: Vec<Output>,
}

impl Program {
    fn new() -> Program {
        let mut job = Job::busy_wait(2.0).applying();
        job.until_applied(SPINNING);
        Program {
            job,
            in_force: true,
            outputs: Vec::new(),
        }
    }

    /// A window with `times` as many calls as before the change; decisions are carried out.
    fn window(&mut self, times: u64) {
        let pace = Pace {
            calls: SPINNING.calls * times,
            ..SPINNING
        };
        for output in self.job.window(pace) {
            match &output {
                Output::Verdict(verdict) => self.in_force = verdict.keep,
                Output::Decision(decision) => {
                    self.in_force = true;
                    self.job.receipt(decision.id.0, DecisionOutcome::Applied);
                }
                _ => {}
            }
            self.outputs.push(output);
        }
    }

    fn last(&self) -> &Verdict {
        verdicts(&self.outputs).last().copied().unwrap()
    }
}

#[test]
fn a_gain_that_comes_and_goes_with_the_change_is_confirmed() {
    let mut program = Program::new();
    (0..5).for_each(|_| program.window(2));
    while program.in_force {
        program.window(2);
    }
    let reverted = program.last();
    assert!(reverted.compares && !reverted.keep && reverted.verdict.is_none());
    let first = reverted.text.clone();
    program.window(1);
    let (standing, why) = program.job.status();
    assert_eq!(standing, Standing::OnTrial);
    assert_eq!(
        why,
        format!(
            "on trial, reverted to compare: 0 of 1 windows; first comparison: {first}; a verdict comes within 3.38 min of the first change"
        )
    );
    // Windows of half a second: 6 to 406 of them.
    let takes = |program: &Program| program.job.engine.time_to_verdict();
    assert_eq!(
        takes(&program).into_iter().collect::<Vec<_>>(),
        [("openmpi-busy-wait".to_owned(), (3.0, 203.0))]
    );
    while matches!(program.job.status().0, Standing::OnTrial | Standing::Pending) {
        let times = if program.in_force { 2 } else { 1 };
        program.window(times);
    }
    assert!(takes(&program).is_empty());
    let verdict = program.last();
    assert!(verdict.keep && program.in_force);
    assert_eq!(verdict.verdict, Some(plan::GuardEffect::Confirmed));
    assert_eq!(
        verdict.text,
        "pace: 840/s -> 1 680/s (7 windows each, in turns): 2 times [2, 2], confirmed"
    );
    program.job.stands(Standing::Applied, "applied");
}

/// The program is four times as fast when the change is reverted as before it was made.
#[test]
fn a_verdict_in_turns_has_the_pace_before_the_first_change_if_that_was_another_one() {
    let mut program = Program::new();
    (0..5).for_each(|_| program.window(8));
    while program.in_force {
        program.window(8);
    }
    while matches!(program.job.status().0, Standing::OnTrial | Standing::Pending) {
        let times = if program.in_force { 8 } else { 4 };
        program.window(times);
    }
    let verdict = program.last();
    assert!(
        verdict
            .text
            .ends_with("2 times [2, 2], confirmed; before the first change it was 840/s"),
        "{}",
        verdict.text
    );
}

#[test]
fn a_jump_of_the_programs_own_at_the_moment_of_the_change_is_not_confirmed() {
    let mut program = Program::new();
    (0..100).for_each(|_| program.window(2));
    let verdict = program.last();
    assert!(!verdict.keep && !program.in_force);
    assert_eq!(verdict.verdict, Some(plan::GuardEffect::NoEffect));
    assert!(verdict.text.ends_with(", no effect"), "{}", verdict.text);
    assert_eq!(program.job.status().0, Standing::OnHold);
}

#[test]
fn what_cannot_be_made_again_is_over() {
    let mut program = Program::new();
    while program.in_force {
        program.window(2);
    }
    let again = loop {
        let outputs = program.job.window(SPINNING);
        if let Some(Output::Decision(decision)) = outputs.into_iter().next() {
            break decision;
        }
    };
    let outcome = DecisionOutcome::Refused("not writable".into());
    assert!(program.job.engine.receipt(again.id, outcome, program.job.now));
    program
        .job
        .stands(Standing::OnHold, "on hold: refused: not writable");
    assert_eq!(program.job.engine.findings()[0].state, FindingState::Open);
}

#[test]
fn a_rule_that_is_switched_while_its_change_is_reverted_decides_nothing_more() {
    let mut program = Program::new();
    while program.in_force {
        program.window(2);
    }
    assert_eq!(program.job.engine.set_mode(RuleId(0), Mode::Advising), []);
    assert_eq!(decisions(&program.job.windows(40, SPINNING)), 0);
}
