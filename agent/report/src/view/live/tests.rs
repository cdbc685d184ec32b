use std::{collections::BTreeSet, time::Duration};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use plan::Mode;
use profile::outcome::{ChangeOutcome, GuardVerdict};
use profile::{
    ChangeView, Counters, FindingView, FunctionTotals, GuardView, IterationView, MatrixView,
    Messages as Amount, PairView, ProcessView, Rates, RuleValue, RuleView, SequenceView, Snapshot, Standing,
};
use proptest::prelude::*;
use ratatui::{Terminal, backend::TestBackend};

use super::{
    bars::Glyphs,
    log::Log,
    page,
    state::{State, Tab, UserRequest},
};
use crate::example::{call_site, efficiencies, finding, job, rule};

mod keys;

fn rank(number: u32) -> ProcessView {
    let part = f64::from(number % 7) / 8.0;
    let function = |name: &str, share: f64, sent: bool| FunctionTotals {
        name: name.into(),
        calls: 12_000 + u64::from(number),
        time_ns: Some((share * 60e9) as u64),
        returned: 12_000 + u64::from(number),
        returned_ns: (share * 60e9) as u64,
        bytes: sent.then_some(3 << 30),
        bytes_kind: sent.then_some("sent"),
        calls_per_s: 350.0,
        share,
        mean_ns: Some(6.1e6 * share),
        ..FunctionTotals::default()
    };
    ProcessView {
        pid: 8120 + number as i32,
        rank: Some(number),
        counters: Some(Counters {
            resident_bytes: 700 << 20,
            ..Counters::default()
        }),
        rates: Some(Rates {
            mpi: Some(1.0 - part),
            cpu: 0.9,
            runqueue: part / 2.0,
            calls_per_s: 1412.0,
            sent_per_s: 3.4 * 1024.0 * 1024.0,
            switches_per_s: 83.0,
            sampled: None,
            ..Rates::default()
        }),
        functions: vec![
            function("MPI_Waitall", (1.0 - part) * 0.9, false),
            function("MPI_Isend", (1.0 - part) * 0.1, true),
            function("MPI_Testsome", 0.000_01, false),
        ],
        ..ProcessView::default()
    }
}

fn changes() -> Vec<ChangeView> {
    let change = |rank: u32, decision: u64| ChangeView {
        decision,
        number: decision,
        pid: 8120 + rank.cast_signed(),
        rank: Some(rank),
        rule: "openmpi-busy-wait".into(),
        variable: "opal_progress_yield_when_idle".into(),
        old: "0".into(),
        new: "1".into(),
        at: Duration::from_millis(3200),
        expect: Some("61.2 ms".into()),
        because: vec!["wanted: 16.0".into(), "cpus: 4".into()],
        outcome: ChangeOutcome::Written,
        guard: Some(GuardView {
            verdict: GuardVerdict::Kept,
            text: "share of time on a CPU spent asking MPI for messages: 99 % -> 3.1 % (5 windows each)"
                .into(),
            ..GuardView::default()
        }),
        ..ChangeView::default()
    };
    (0..16)
        .map(|rank| change(rank, 1))
        .chain([change(3, 2)])
        .collect()
}

fn sequence() -> SequenceView {
    // Call sites at which the ranks wait, and at which they send.
    let sites = [("MPI_Waitall", 471, 400), ("MPI_Isend", 468, 40)];
    let sites = sites.map(|(function, line, seconds)| call_site(function, line, 12_000, seconds, 16));
    SequenceView {
        iteration: Some(IterationView {
            calls: 36.0,
            count: 652,
            mean_ns: 9.5e7,
            recent_ns: Some(9.14e7),
            change: Some(1.12),
            ..IterationView::default()
        }),
        recent_efficiencies: Some(efficiencies([0.9, 0.6, 0.6, 0.6])),
        call_sites: sites.into(),
        ..SequenceView::default()
    }
}

/// A ring that also communicates with the opposite rank, and with the first one.
fn matrix(ranks: u32) -> MatrixView {
    let pair = |from: u32, to: u32, bytes: u64| PairView {
        from,
        to: to % ranks,
        of: Amount {
            count: 1 + bytes / 1024,
            bytes,
        },
    };
    let sent: Vec<PairView> = (0..ranks)
        .flat_map(|rank| {
            [
                pair(rank, rank + 1, 3 << 20),
                pair(rank, rank + ranks - 1, 1 << 19),
                pair(rank, rank + ranks / 2, 100 << 10),
                pair(rank, 0, 2000),
            ]
        })
        .collect();
    let mut matrix = MatrixView {
        unresolved_sent: Amount {
            count: 900,
            bytes: 1 << 20,
        },
        ..MatrixView::default()
    };
    sent.iter().for_each(|pair| matrix.all_sent += pair.of);
    MatrixView { sent, ..matrix }
}

fn snapshot() -> Snapshot {
    let rule = |name: &str, mode: Mode, state: &str| {
        let is_applied = state == "applied";
        let standing = if is_applied {
            Standing::Applied
        } else {
            Standing::Quiet
        };
        RuleView {
            mode,
            ..rule(name, standing, state)
        }
    };
    let mut snapshot = Snapshot {
        job: job(Some(16)),
        elapsed: Duration::from_secs(62),
        sequence: sequence(),
        matrix: Some(matrix(16)),
        processes: (0..16).map(rank).collect(),
        rules: vec![
            rule("openmpi-busy-wait", Mode::Applying, "applied"),
            rule("shared-core", Mode::Advising, "condition false: rivals = 0, the rule asks for more than 0"),
            rule("shared-core", Mode::Advising, "no value: cores has no value because the quota is not known"),
            rule("blas-threads", Mode::Off, "off"),
        ],
        rule_values: vec![RuleValue {
            rule: "shared-core".into(),
            metric: "rivals".into(),
            value: 0.0,
            text: "0".into(),
        }],
        findings: vec![FindingView {
            at: Duration::from_millis(2_100),
            rule: "openmpi-busy-wait".into(),
            text: "16 ranks share 4 CPUs and spin while they wait: 99 % of the CPU time that they get is spent asking MPI for messages."
                .into(),
            next_start: Some("mpirun --mca mpi_yield_when_idle 1".into()),
            repaired: true,
            ..FindingView::default()
        }],
        changes: changes(),
        lost: vec![("ring_full", 3)],
        ..Snapshot::default()
    };
    snapshot.processes[5].ended = true;
    snapshot.processes[6].rates = None;
    snapshot
}

fn log() -> Log {
    let said = [
        "14:02:11  openmpi-busy-wait   16 changes written and read back",
        "14:02:12  guard    91.4 ms -> 1.31 ms a step (10 steps each): 70 times; kept, and this line is longer than a screen",
    ];
    let mut log = Log::default();
    let said = said.into_iter().zip([2_000, 64_000]);
    said.for_each(|(line, at)| log.say(Duration::from_millis(at), line.to_owned()));
    log
}

/// A state with samples of some snapshots.
fn state(tab: Tab, snapshot: &Snapshot) -> State {
    let mut state = State::default();
    state.tab = tab;
    for load in 0..90 {
        let mut then = snapshot.clone();
        for rates in then
            .processes
            .iter_mut()
            .filter_map(|process| process.rates.as_mut())
        {
            rates.runqueue = f64::from(load % 30) / 30.0;
        }
        state.look(&then);
    }
    state.look(snapshot);
    state
}

fn picture(columns: u16, rows: u16, snapshot: &Snapshot, state: &mut State) -> String {
    with_log(columns, rows, snapshot, state, &log())
}

fn with_log(columns: u16, rows: u16, snapshot: &Snapshot, state: &mut State, log: &Log) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| page::draw(frame, snapshot, state, log, Glyphs::Blocks))
        .unwrap();
    terminal.backend().to_string()
}

#[test]
fn every_tab_fits_a_terminal_of_80_by_24_and_uses_one_of_120_by_40() {
    let snapshot = snapshot();
    for tab in Tab::ALL {
        for (columns, rows) in [(80, 24), (120, 40)] {
            let text = picture(columns, rows, &snapshot, &mut state(tab, &snapshot));
            let name = format!("{}_{columns}x{rows}", tab.name().to_lowercase().replace(' ', "_"));
            insta::assert_snapshot!(name, text);
        }
    }
}

#[test]
fn no_number_is_cut_at_the_right_edge_and_how_to_leave_is_seen() {
    let mut snapshot = snapshot();
    for process in &mut snapshot.processes {
        process.watched_ns = 62_000_000_000;
    }
    let rank = snapshot.processes[0].pid.to_string();
    let function = snapshot.functions()[0].name.clone();
    for (tab, detail, columns) in [
        (Tab::Ranks, None, 60),
        (Tab::Ranks, None, 80),
        (Tab::Ranks, Some(&rank), 60),
        (Tab::Ranks, Some(&rank), 80),
        (Tab::Functions, Some(&function), 60),
        (Tab::Functions, Some(&function), 80),
    ] {
        let wide = 140;
        let of = |columns| {
            let mut state = state(tab, &snapshot);
            state.detail = detail.cloned();
            picture(columns, 24, &snapshot, &mut state)
        };
        let (narrow, wide) = (of(columns), of(wide));
        let units = |text: &str| {
            // The mean in the line above the ranks is left out if there is no room.
            let rows = text.lines().filter(|line| !line.contains("least"));
            rows.map(|line| line.matches(" %").count()).sum::<usize>()
        };
        assert!(units(&narrow) > 0, "{narrow}");
        assert_eq!(units(&narrow), units(&wide), "{narrow}\n{wide}");
        if detail.is_none() {
            assert_eq!(narrow.contains("sent/s"), narrow.contains("iB "), "{narrow}");
        }
        assert!(
            narrow.contains(" q quit ") || narrow.contains(" Esc back "),
            "{narrow}"
        );
    }
}

#[test]
fn a_job_of_which_nothing_is_known_yet_is_shown_too() {
    let snapshot = Snapshot::default();
    let pictures = Tab::ALL.map(|tab| picture(60, 10, &snapshot, &mut state(tab, &snapshot)));
    insta::assert_snapshot!(pictures.join("\n"));
}

#[test]
fn a_program_without_mpi_is_shown_by_its_processes() {
    let mut snapshot = snapshot();
    snapshot.job.mpi = None;
    snapshot.sequence = SequenceView::default();
    snapshot.matrix = None;
    snapshot.processes.truncate(3);
    for process in &mut snapshot.processes {
        process.rank = None;
        process.pid += 1_000_000;
        process.functions.clear();
        process.rates = process.rates.map(|rates| Rates { mpi: None, ..rates });
    }
    let tabs = [Tab::Overview, Tab::Ranks];
    let pictures = tabs.map(|tab| picture(80, 12, &snapshot, &mut state(tab, &snapshot)));
    insta::assert_snapshot!(pictures.join("\n"));
}

#[test]
fn the_first_line_says_whether_the_session_may_write_at_any_width() {
    let mut snapshot = snapshot();
    let first = |snapshot: &Snapshot, columns| {
        let text = picture(columns, 12, snapshot, &mut state(Tab::Log, snapshot));
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert!(first(&snapshot, 40).contains(" may write "));
    snapshot
        .rules
        .iter_mut()
        .for_each(|rule| rule.mode = Mode::Advising);
    let written = profile::ChangeView {
        outcome: ChangeOutcome::Written,
        ..profile::ChangeView::default()
    };
    snapshot.changes = vec![written];
    assert!(first(&snapshot, 40).contains(" changes in force "));
    snapshot.changes[0].outcome = ChangeOutcome::Reverted;
    assert!(first(&snapshot, 40).contains(" only watches "));
    // On a narrow terminal the tabs are numbers, and the chosen one has its name.
    let text = picture(50, 12, &snapshot, &mut state(Tab::CallSites, &snapshot));
    assert!(text.contains("\" 1 2 3 4 Call sites 5 6 7 8 "), "{text}");
}

#[test]
fn a_text_of_several_lines_keeps_them_in_the_log() {
    let mut log = Log::default();
    log.say(
        Duration::from_secs(3),
        "finding  r   they wait:\n    98 % of their time".into(),
    );
    let text = with_log(
        80,
        12,
        &Snapshot::default(),
        &mut state(Tab::Log, &Snapshot::default()),
        &log,
    );
    assert!(text.contains("3 s  finding  r   they wait: "), "{text}");
    assert!(text.contains("\"            98 % of their time "), "{text}");
}

fn press(state: &mut State, snapshot: &Snapshot, codes: &[KeyCode]) -> Vec<UserRequest> {
    let wishes = codes
        .iter()
        .filter_map(|code| state.press(KeyEvent::new(*code, KeyModifiers::NONE), snapshot));
    wishes.collect()
}

#[test]
fn what_does_not_fit_is_reached_by_scrolling_and_no_further() {
    let snapshot = snapshot();
    let mut state = state(Tab::Ranks, &snapshot);
    assert!(!picture(80, 12, &snapshot, &mut state).contains("\"   15  "));
    press(&mut state, &snapshot, &[KeyCode::End]);
    let last = picture(80, 12, &snapshot, &mut state);
    assert!(
        last.contains("\"   15  ") && last.contains("rank  in MPI"),
        "{last}"
    );
    press(&mut state, &snapshot, &[KeyCode::Down, KeyCode::PageDown]);
    assert_eq!(picture(80, 12, &snapshot, &mut state), last);
    press(&mut state, &snapshot, &[KeyCode::Home]);
    assert!(picture(80, 12, &snapshot, &mut state).contains("\"    0  "));
}

#[test]
fn what_is_below_is_counted_and_no_page_passes_over_a_row() {
    let snapshot = snapshot();
    let mut state = state(Tab::Ranks, &snapshot);
    let on_it = |text: &str| -> BTreeSet<u32> {
        let is_there = |rank: &u32| text.contains(&format!("\"{rank:>5}  "));
        (0..16).filter(is_there).collect()
    };
    let first = picture(80, 12, &snapshot, &mut state);
    let below = 16 - on_it(&first).len();
    assert!(
        first.contains(&format!(" and {below} more lines: Down ")),
        "{first}"
    );
    let mut seen = on_it(&first);
    for _ in 0..16 {
        press(&mut state, &snapshot, &[KeyCode::PageDown]);
        seen.extend(on_it(&picture(80, 12, &snapshot, &mut state)));
    }
    assert_eq!(seen.len(), 16);
    let last = picture(80, 12, &snapshot, &mut state);
    assert!(!last.contains("more line"), "{last}");
    // In the tab of the rules Down chooses a rule, so scrolling uses another key.
    state.tab = Tab::Rules;
    let rules = picture(80, 16, &snapshot, &mut state);
    assert!(rules.contains("more lines: PgDn "), "{rules}");
}

#[test]
fn a_header_that_is_too_long_lacks_complete_parts() {
    let mut snapshot = snapshot();
    snapshot.job.program = "a-program-with-a-long-name".into();
    let text = picture(80, 12, &snapshot, &mut state(Tab::Overview, &snapshot));
    let first = text.lines().next().unwrap_or_default();
    assert_eq!(
        first.trim_matches('"').trim_end(),
        "a-program-with-a-long-name: 16 ranks, this node only            62 s  may write"
    );
}

#[test]
fn a_rule_that_gives_way_to_another_says_to_which() {
    let trial = "another change is on trial, of openmpi-busy-wait";
    let claimed = "the variable nw is claimed by openmpi-busy-wait, whose priority is 2";
    for (state_of, columns) in [(trial, 100), (claimed, 120)] {
        let mut snapshot = snapshot();
        (snapshot.rules[2].mode, snapshot.rules[2].state) = (Mode::Applying, state_of.into());
        snapshot.rules[2].standing = Standing::GivesWay;
        snapshot.rules.remove(1);
        let mut state = state(Tab::Rules, &snapshot);
        press(&mut state, &snapshot, &[KeyCode::Down]);
        let text = picture(columns, 24, &snapshot, &mut state);
        for line in [
            format!(" shared-core                  applying   {state_of} "),
            format!("    state  {state_of} "),
        ] {
            assert!(text.contains(&line), "{line} is not in:\n{text}");
        }
        if state_of == trial {
            // In the list of a narrow screen the text is cut, with a mark.
            let text = picture(80, 24, &snapshot, &mut state);
            assert!(
                text.contains("another change is on trial, of openm...\""),
                "{text}"
            );
        }
        // It is also on the first screen, next to findings of other rules and to its own.
        state.tab = Tab::Overview;
        let text = picture(120, 40, &snapshot, &mut state);
        let line = format!("    shared-core              {state_of} ");
        assert!(text.contains(&line), "{line} is not in:\n{text}");
        snapshot.findings = vec![finding("shared-core", "2 ranks share a core with others")];
        let text = picture(columns, 24, &snapshot, &mut state);
        assert!(text.contains(&format!("    state  {state_of} ")), "{text}");
    }
}

#[test]
fn a_matrix_of_many_ranks_is_folded_into_blocks() {
    let mut snapshot = snapshot();
    snapshot.job.size = Some(200);
    snapshot.matrix = Some(matrix(200));
    let mut state = state(Tab::Matrix, &snapshot);
    press(&mut state, &snapshot, &[KeyCode::Char('s')]);
    insta::assert_snapshot!(picture(80, 24, &snapshot, &mut state));
}

/// The regions of an OpenMP program are a sequence too, and every sequence has a matrix.
#[test]
fn a_program_without_mpi_has_no_matrix_and_ranks_that_sent_nothing_have_an_empty_one() {
    let mut snapshot = snapshot();
    snapshot.matrix = Some(MatrixView::default());
    let none = " no rank has sent another one a message yet";
    let without = " not measured: the program has no MPI";
    for (mpi, line) in [(snapshot.job.mpi.clone(), none), (None, without)] {
        snapshot.job.mpi = mpi;
        let mut state = state(Tab::Matrix, &snapshot);
        let text = picture(80, 24, &snapshot, &mut state);
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}

#[test]
fn terminals_without_blocks_get_plain_characters() {
    assert_eq!(Glyphs::Plain.bar(0.5, 4), "##  ");
    assert_eq!(Glyphs::Blocks.bar(0.5, 3), "█▌ ");
    assert_eq!(Glyphs::Blocks.bar(f64::NAN, 2), "  ");
    assert_eq!(Glyphs::Blocks.curve(&[0.0, 0.001, 0.5, 1.0], 3), "▁▄█");
    assert_eq!(Glyphs::Plain.curve(&[0.0, 0.5, 9.0], 9), " -#");
    assert_eq!(
        [0.0, 0.001, 0.05, 0.2, 1.0]
            .map(|share| Glyphs::Plain.shade(share))
            .concat(),
        " .:+#"
    );
}

fn any_code() -> impl Strategy<Value = KeyCode> {
    prop_oneof![
        any::<char>().prop_map(KeyCode::Char),
        prop::sample::select("12345678sjkaopgGr?/ ".chars().collect::<Vec<_>>()).prop_map(KeyCode::Char),
        prop::sample::select(vec![
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::End,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Esc,
            KeyCode::Enter,
            KeyCode::Backspace,
        ]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn no_keys_on_no_size_make_it_panic(
        codes in prop::collection::vec(any_code(), 0..20), columns in 1u16..200, rows in 1u16..60, is_known: bool
    ) {
        let snapshot = if is_known { snapshot() } else { Snapshot::default() };
        let mut state = State::default();
        state.look(&snapshot);
        for code in codes {
            press(&mut state, &snapshot, &[code]);
            picture(columns, rows, &snapshot, &mut state);
        }
    }

    #[test]
    fn every_line_of_a_wrapped_text_fits_and_no_word_is_lost(text in "[a-zé ]{0,300}", columns in 30usize..100) {
        let lines = page::wrapped("    ", &text, columns);
        let words = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        let all: String = lines.iter().map(|line| line.to_string()).collect();
        prop_assert_eq!(words(&all), words(&text));
        for line in lines {
            prop_assert!(line.width() <= columns, "{line}");
        }
    }
}
