//! Tests of the effects of keys.

use super::*;

#[test]
fn keys_choose_tabs_rules_and_orders_and_ask_the_session() {
    let snapshot = snapshot();
    let mut state = State::default();
    use KeyCode::{BackTab, Char, Down, Tab as TabKey, Up};
    press(&mut state, &snapshot, &[TabKey, TabKey]);
    assert_eq!(state.tab, Tab::Functions);
    press(&mut state, &snapshot, &[BackTab, Char('s'), Char('s')]);
    assert_eq!((state.tab, state.order(Tab::Ranks)), (Tab::Ranks, 2));
    // Modes can be requested only in the tab of the rules.
    assert_eq!(press(&mut state, &snapshot, &[Char('p'), Char('o')]), []);
    let wish = |rule: &str, mode| UserRequest::Switch {
        rule: rule.into(),
        mode,
    };
    let requested = press(
        &mut state,
        &snapshot,
        &[
            Char('5'),
            Char('o'),
            Down,
            Char('p'),
            Down,
            Down,
            Down,
            Char('a'),
            Up,
            Up,
            Up,
            Char('a'),
        ],
    );
    assert_eq!(
        requested,
        [
            wish("openmpi-busy-wait", Mode::Off),
            wish("shared-core", Mode::Applying),
            wish("blas-threads", Mode::Advising),
            wish("openmpi-busy-wait", Mode::Advising),
        ]
    );
    assert_eq!(
        press(&mut state, &snapshot, &[Char('q')]),
        [UserRequest::End("ended by the user")]
    );
    let control_c = KeyEvent::new(Char('c'), KeyModifiers::CONTROL);
    assert_eq!(
        state.press(control_c, &snapshot),
        Some(UserRequest::End("Ctrl-C"))
    );
}

#[test]
fn a_rule_that_goes_while_it_is_chosen_leaves_another_chosen() {
    let mut snapshot = snapshot();
    let mut state = state(Tab::Rules, &snapshot);
    press(&mut state, &snapshot, &[KeyCode::Down, KeyCode::Down]);
    snapshot.rules.truncate(1);
    state.look(&snapshot);
    let requested = press(&mut state, &snapshot, &[KeyCode::Char('o')]);
    let first = UserRequest::Switch {
        rule: "openmpi-busy-wait".into(),
        mode: Mode::Off,
    };
    assert_eq!(requested, [first]);
}

#[test]
fn details_are_opened_and_left_rows_are_filtered_and_keys_are_listed() {
    let snapshot = snapshot();
    let mut state = state(Tab::Functions, &snapshot);
    let shown = |state: &mut State, codes: &[KeyCode]| {
        press(state, &snapshot, codes);
        picture(80, 24, &snapshot, state)
    };
    use KeyCode::{Backspace, Char, Down, Enter, Esc};
    shown(&mut state, &[]);
    let function = shown(&mut state, &[Down, Enter]);
    assert!(function.contains(" MPI_Isend: 192 120 calls"), "{function}");
    assert!(function.contains("comm_brick.cpp:468"), "{function}");
    assert!(!function.contains("comm_brick.cpp:471"), "{function}");
    assert!(shown(&mut state, &[Esc]).contains(" MPI_Waitall "));
    assert_eq!(state.chosen(Tab::Functions), 1);
    let filtered = shown(&mut state, &[Char('/'), Char('Q'), Backspace, Char('W'), Enter]);
    assert!(
        filtered.contains(" MPI_Waitall ") && !filtered.contains(" MPI_Isend "),
        "{filtered}"
    );
    assert!(filtered.contains("filter: W (Esc: all)"), "{filtered}");
    assert!(shown(&mut state, &[Esc]).contains(" MPI_Isend "));
    // While a text is typed, a letter belongs to it; otherwise it is a command.
    let reversed = shown(&mut state, &[Char('r')]);
    let at = |name: &str| reversed.find(name).unwrap_or_default();
    assert!(at(" MPI_Testsome ") < at(" MPI_Waitall "), "{reversed}");
    let rank = shown(&mut state, &[Char('2')]);
    assert!(!rank.contains("rank 1, process"), "{rank}");
    let rank = shown(&mut state, &[Down, Enter]);
    assert!(rank.contains(" rank 1, process 8121"), "{rank}");
    insta::assert_snapshot!(shown(&mut state, &[Char('?')]));
    let back = shown(&mut state, &[Char('x')]);
    assert_eq!(back, rank);
}
