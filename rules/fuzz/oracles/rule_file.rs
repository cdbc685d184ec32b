// What holds for every text that is given as a rule file. Included by the fuzz target and by the tests of `rules`.

/// Parsing, checking and showing what is wrong do not panic; nor does the evaluation of what was accepted.
fn rule_file(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else {
        return;
    };
    match rules::CheckedRule::from_source(source) {
        Ok(rule) => {
            rules::render("rule.yaml", source, rule.warnings());
            evaluate(rule.clone(), 0);
            evaluate(rule, 3);
        }
        Err(wrong) => assert_ne!(rules::render("rule.yaml", source, &wrong), ""),
    }
}

/// A job of so many processes, everything of which goes up from window to window; every decision is followed.
fn evaluate(rule: rules::CheckedRule, processes: u32) {
    let plan = rule.plan().clone();
    let every = plan.windows.iter().filter_map(|window| window.every).min().unwrap_or(500_000_000).max(1);
    let id = rules::RuleId(0);
    let mut engine = rules::Engine::new(vec![rule], rules::Time(0)).expect("one rule has no conflicts");
    engine.set_mode(id, rules::Mode::Applying);
    for rank in 0..processes {
        let facts = rules::ProcessFacts {
            rank: Some(rank),
            exe: "simulate".to_string(),
            mpi: Some("Open MPI".to_string()),
            libraries: plan.libraries.clone(),
            symbols: plan.symbols.clone(),
            ..rules::ProcessFacts::default()
        };
        engine.process_joined(rules::ProcessId(rank), facts, rules::Time(0));
    }
    for window in 1..12_u64 {
        let time = rules::Time(every.saturating_mul(window));
        for process in (0..processes).map(rules::ProcessId) {
            observe(&mut engine, &plan, process, window, time);
        }
        for process in (0..processes).map(rules::ProcessId) {
            engine.observe(rules::Observation::Watermark { process, time });
        }
        for output in engine.tick(time) {
            if let rules::Output::Decision(decision) = output {
                engine.receipt(decision.id, rules::Outcome::Applied, time);
            }
        }
        engine.status();
        engine.findings();
        engine.metrics(id);
    }
}

fn observe(
    engine: &mut rules::Engine,
    plan: &rules::Plan,
    process: rules::ProcessId,
    window: u64,
    time: rules::Time,
) {
    let (rule, of) = (rules::RuleId(0), u64::from(process.0) + 1);
    for &measure in rules::Measure::ALL {
        let process = (measure.scope() == rules::Scope::Process).then_some(process);
        engine.observe(match measure.kind() {
            rules::Kind::Counter => rules::Observation::Counter {
                process,
                measure,
                time,
                total: window * window * of * 100_000_000,
            },
            rules::Kind::Gauge => rules::Observation::Gauge {
                process,
                measure,
                time,
                value: 3.0 - window as f64,
            },
        });
    }
    for probe in (0..plan.probes.len()).map(rules::ProbeId) {
        engine.observe(rules::Observation::Hit {
            rule,
            probe,
            process,
            thread: 1,
            time,
            duration_ns: of * window,
            // Fewer than the plan asks for, as many, and one that could not be read.
            captures: match window % 3 {
                0 => Vec::new(),
                1 => vec![Ok(rules::Scalar::Number(window as f64)); plan.probes[probe.0].captures.len()],
                _ => vec![Err("not resident".to_string()); plan.probes[probe.0].captures.len()],
            },
        });
        engine.observe(rules::Observation::ProbeTotals {
            rule,
            probe,
            process,
            time,
            count: window,
            duration_sum_ns: of * window * window,
        });
    }
}
