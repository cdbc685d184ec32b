use syntax::diag::render;

use super::*;

const RULE: &str = "\
rule: fitting
about: a rule that is compared with programs
names:
  lenght: the number of rows
roles:
  master: rank == 0
  worker: rank > 0
  helper: exe == \"helper\"
probes:
  step: {role: worker, span: do_step}
  send: {role: master, entry: send_task}
capture:
  step.rows: lenght
  step.kind: kind as i32
  send.size: arg(1) * 1B
  send.weight: arg(2) as i32
windows:
  pulse: {every: 500ms}
metrics:
  rows: sum(step.rows / step.kind)
  size: sum(send.size / send.weight)
tune:
  - set: threads
    role: worker
    value: max(1, floor(rows))
    range: 1 <= value <= 8
    when: size > 1KiB
    at: {entry: end_step}
    guard: {maximize: rows, over: 5, undo_if_worse_by: 5%}
  - set: is_fast
    role: worker
    value: true
    when: size > 1KiB
    guard: {maximize: rows, over: 5, undo_if_worse_by: 5%}
";

fn variable(of: &str, now: &str) -> Result<SeenVariable, NoVariable> {
    Ok(SeenVariable {
        file: "/usr/bin/simulate".into(),
        of: Some(of.into()).filter(|of: &String| !of.is_empty()),
        now: Some(now.into()),
        refusal: None,
    })
}

/// Three ranks that have all names of the rule.
fn program() -> Vec<SeenProcess> {
    let rank = |rank: u32| SeenProcess {
        name: format!("process {}", 100 + rank),
        facts: ProcessFacts {
            rank: Some(rank),
            exe: "simulate".into(),
            ..ProcessFacts::default()
        },
        functions: ["do_step", "send_task", "end_step"]
            .map(|name| (name.to_string(), vec!["/usr/bin/simulate".to_string()]))
            .into(),
        parameters: [(("send_task".to_string(), 1), "u64".to_string())].into(),
        variables: [
            ("lenght".to_string(), variable("i64", "100")),
            ("kind".to_string(), variable("i32", "2")),
            ("threads".to_string(), variable("i32", "4")),
            ("is_fast".to_string(), variable("bool", "false")),
        ]
        .into(),
        ..SeenProcess::default()
    };
    (0..3).map(rank).collect()
}

fn compared(program: &[SeenProcess]) -> (String, Vec<String>) {
    let file = RuleFile::parse(RULE).unwrap();
    let rule = file
        .check(&BTreeMap::new())
        .unwrap_or_else(|wrong| panic!("{}", render("rule.yaml", RULE, &wrong)));
    let names = AllNames {
        functions: ["do_steps", "main", "send_tasks"].map(String::from).into(),
        variables: ["length", "thread"].map(String::from).into(),
        ..AllNames::default()
    };
    let fit = fit(&file, &rule, program, &names);
    (render("rule.yaml", RULE, &fit.diagnostics), fit.effects)
}

#[test]
fn the_names_that_a_rule_needs_of_a_program_are_resolved() {
    let rule = CheckedRule::from_source(RULE).unwrap();
    insta::assert_debug_snapshot!("request", rule.request());
}

#[test]
fn a_rule_that_fits_has_effects_with_types_and_files() {
    let (reported, effects) = compared(&program());
    assert!(
        reported.starts_with("warning[E0160]: none of the 3 processes has the role `helper`"),
        "{reported}"
    );
    assert_eq!(reported.matches("[E").count(), 1, "{reported}");
    insta::assert_snapshot!("effects", effects.join("\n"));
}

#[test]
fn rules_that_do_not_fit_are_shown_with_place_and_remedy() {
    let mut cases: Vec<(&str, Vec<SeenProcess>)> = Vec::new();
    let mut case = |name, change: &dyn Fn(&mut SeenProcess)| {
        let mut program = program();
        program.iter_mut().for_each(change);
        cases.push((name, program));
    };
    case("nothing_is_there", &|process| {
        process.functions.clear();
        process.variables.clear();
    });
    case("one_lacks_it", &|process| {
        if process.facts.rank == Some(2) {
            process.functions.remove("do_step");
            process.variables.insert("kind".into(), Err(NoVariable::Missing));
        }
    });
    case("twice", &|process| {
        let files = ["/usr/bin/simulate".to_string(), "/usr/lib/libstep.so".to_string()];
        process
            .variables
            .insert("threads".into(), Err(NoVariable::Several(files.to_vec())));
        process.functions.insert("do_step".into(), files.to_vec());
    });
    case("types", &|process| {
        process.variables.insert("lenght".into(), variable("", "?"));
        process.variables.insert("kind".into(), variable("i64", "2"));
        process.parameters.insert(("send_task".into(), 1), "f64".into());
        process
            .variables
            .insert("threads".into(), variable("bool", "true"));
        let refusal = Some(WriteObstacle::Type("`is_fast` is i32, not bool".into()));
        let seen = variable("i32", "0").map(|seen| SeenVariable { refusal, ..seen });
        process.variables.insert("is_fast".into(), seen);
    });
    case("read_only", &|process| {
        let refusal = Some(WriteObstacle::ReadOnly(
            "`threads` in /usr/bin/simulate is read-only (section .rodata)".into(),
        ));
        let seen = variable("i32", "0").map(|seen| SeenVariable { refusal, ..seen });
        process.variables.insert("threads".into(), seen);
        process.variables.insert(
            "is_fast".into(),
            Err(NoVariable::Other("`is_fast` is thread-local".into())),
        );
        process.parameters.clear();
    });
    case("another_program", &|process| process.facts.rank = None);
    for (name, program) in cases {
        insta::assert_snapshot!(name, compared(&program).0);
    }
}

#[test]
fn a_mark_is_looked_for_with_its_arguments() {
    let source = "rule: a\nabout: b\nprobes:\n  hit: {mark: app:step}\ncapture:\n  hit.x: arg(0)\n  hit.y: arg(1) as f64\n  \
                  hit.z: arg(2)\nwindows:\n  i: {from: hit}\nmetrics:\n  x: sum(hit.x + hit.y + hit.z)\n";
    let (file, rule) = (
        RuleFile::parse(source).unwrap(),
        CheckedRule::from_source(source).unwrap(),
    );
    let names = AllNames {
        marks: vec!["app:stop".into(), "app:steps".into()],
        ..AllNames::default()
    };
    let mark = SeenMark {
        files: vec!["/usr/bin/app".into()],
        arguments: ["i32", "u64", "u64"].map(|of| Ok(of.to_string())).into(),
    };
    let reported = |mark: Option<SeenMark>| {
        let process = SeenProcess {
            name: "process 7".into(),
            marks: mark
                .into_iter()
                .map(|mark| ("app:step".to_string(), mark))
                .collect(),
            ..SeenProcess::default()
        };
        let fit = fit(&file, &rule, &[process], &names);
        (render("rule.yaml", source, &fit.diagnostics), fit.effects)
    };
    let (wrong, effects) = reported(Some(mark.clone()));
    assert_eq!(wrong, "");
    assert_eq!(effects, ["probes the mark app:step in /usr/bin/app, process 7"]);
    let mut other = mark;
    other.arguments = vec![
        Ok("i32".into()),
        Err("it lies in the variable dt: capture that by its name".into()),
    ];
    insta::assert_snapshot!(
        "marks",
        format!("{}\n{}", reported(None).0, reported(Some(other)).0)
    );
}

/// The diagnostics of a rule that sets an argument, for a program whose debug information has the type
/// `known`.
fn of_an_argument(set_arg: &str, known: Option<&str>) -> Vec<String> {
    let text = format!(
        "rule: arguments\nabout: sets an argument\nwindows:\n  pulse: {{every: 1s}}\ntune:\n  - set_arg: {set_arg}\n    value: min(original, 1)\n    when: sum(threads) > 1\n"
    );
    let file = RuleFile::parse(&text).unwrap();
    let rule = file.check(&BTreeMap::new()).unwrap();
    let key = ("send_block".to_owned(), 1);
    assert_eq!(rule.request().parameters, [key.clone()].into());
    let process = SeenProcess {
        name: "process 1".to_owned(),
        functions: [("send_block".to_owned(), vec!["/usr/bin/simulate".to_owned()])].into(),
        parameters: known.map(|of| (key, of.to_owned())).into_iter().collect(),
        ..SeenProcess::default()
    };
    let fit = fit(&file, &rule, &[process], &AllNames::default());
    let codes = fit.diagnostics.iter();
    codes
        .map(|one| render("rule.yaml", &text, std::slice::from_ref(one)))
        .collect()
}

#[test]
fn an_argument_without_a_type_is_refused_where_it_stands() {
    assert_eq!(of_an_argument("send_block(1)", Some("i64")), [""; 0]);
    assert_eq!(of_an_argument("send_block(1) as u32", None), [""; 0]);
    let wrong = of_an_argument("send_block(1)", None);
    let [wrong] = wrong.as_slice() else {
        panic!("{wrong:?}");
    };
    for part in [
        "error[E0164]: the type of `send_block(1)` is not known",
        "6 |   - set_arg: send_block(1)",
        "help: state it: `send_block(1) as i32`",
    ] {
        assert!(wrong.contains(part), "{part} is not in\n{wrong}");
    }
}

/// The diagnostics of `rule check` for a rule that sets a variable to a constant, first without a program,
/// then for a program in which it has the type `of`.
fn of_a_constant(set: &str, value: &str, of: &str) -> Vec<String> {
    let text = format!(
        "rule: constants\nabout: sets a variable\nwindows:\n  pulse: {{every: 1s}}\ntune:\n  - set: {set}\n    value: {value}\n    when: sum(threads) > 1\n"
    );
    let file = RuleFile::parse(&text).unwrap();
    let wrong = match file.check(&BTreeMap::new()) {
        Err(wrong) => wrong,
        Ok(rule) => {
            let process = SeenProcess {
                variables: [("chunk".to_owned(), variable(of, "8"))].into(),
                ..SeenProcess::default()
            };
            fit(&file, &rule, &[process], &AllNames::default()).diagnostics
        }
    };
    wrong
        .into_iter()
        .map(|one| format!("{}: {}", one.code, one.message))
        .collect()
}

#[test]
fn a_constant_that_is_no_value_of_the_type_is_refused() {
    let no_integer = "E0165: `1.5` is not a value of type i32: expected an integer";
    for (set, value, of, expected) in [
        ("chunk as i32", "3 / 2", "", no_integer),
        ("chunk", "1.5", "i32", no_integer),
        (
            "chunk as u8",
            "300",
            "",
            "E0165: 300 does not fit into u8, which holds 0 to 255",
        ),
        (
            "chunk",
            "-1",
            "u32",
            "E0165: -1 does not fit into u32, which holds 0 to 4294967295",
        ),
        ("chunk", "1.5", "f64", ""),
        ("chunk as i32", "2 * 3", "i32", ""),
        // A measured value is known later.
        ("chunk", "sum(threads) / 2", "i32", ""),
    ] {
        let found = of_a_constant(set, value, of).join("\n");
        assert_eq!(found, expected, "{set}: {value} for {of}");
    }
}

#[test]
fn a_window_that_several_ranks_begin_needs_a_key() {
    let check = |key: &str, condition: &str| {
        let text = format!(
            "rule: steps\nabout: counts steps\nroles:\n  stepper: {condition}\nprobes:\n  step: {{role: stepper, entry: do_step}}\n\
             capture:\n  step.number: arg(1) as i32\nwindows:\n  iteration: {{from: step{key}}}\nmetrics:\n  steps: count(step)\n"
        );
        let file = RuleFile::parse(&text).unwrap();
        let rule = file.check(&BTreeMap::new()).unwrap();
        let found = fit(&file, &rule, &program(), &AllNames::default()).diagnostics;
        let found = found.iter().filter(|one| one.code == "E0182");
        found.map(|one| one.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        check("", "rank >= 0"),
        ["the window `iteration` has no values: 3 processes begin it, and it has no key"]
    );
    assert!(check(", key: number", "rank >= 0").is_empty());
    assert!(check("", "rank == 0").is_empty());
}
