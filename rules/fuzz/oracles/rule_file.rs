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
    let timed = plan.windows.iter().filter_map(|window| window.every).min();
    let every = timed.unwrap_or(500_000_000).max(1);
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
            observe(&mut engine, &plan, process, window, every);
        }
        for output in engine.tick(time) {
            if let rules::Output::Decision(decision) = output {
                engine.receipt(decision.id, rules::Outcome::Applied, time);
            }
        }
        engine.status();
        engine.findings();
        engine.metrics(id);
        engine.drain_windows();
        engine.dropped(id);
    }
}

fn observe(
    engine: &mut rules::Engine,
    plan: &rules::Plan,
    process: rules::ProcessId,
    window: u64,
    every: u64,
) {
    let (rule, of) = (rules::RuleId(0), u64::from(process.0) + 1);
    let time = rules::Time(every.saturating_mul(window));
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
    // The probes are hit one after the other, in the order of the file.
    let between = every / (plan.probes.len() as u64 + 1);
    for (place, probe) in plan.probes.iter().enumerate() {
        let later = between * (place as u64 + 1);
        let probe_id = rules::ProbeId(place);
        engine.observe(rules::Observation::Hit {
            rule,
            probe: probe_id,
            process,
            thread: 1,
            time: rules::Time(every.saturating_mul(window - 1).saturating_add(later)),
            duration_ns: of * window,
            // A key if one is asked for; now and then none, or fewer than there should be.
            captures: match window % 5 {
                3 => vec![Err("not resident".to_string()); probe.captures.len()],
                4 => Vec::new(),
                _ => vec![Ok(rules::Scalar::Number(window as f64)); probe.captures.len()],
            },
        });
        engine.observe(rules::Observation::ProbeTotals {
            rule,
            probe: probe_id,
            process,
            time,
            count: window,
            duration_sum_ns: of * window * window,
        });
    }
    if window == 7 {
        let from = rules::Time(every.saturating_mul(6));
        engine.observe(rules::Observation::Lost {
            process,
            from,
            to: time,
        });
    }
    engine.observe(rules::Observation::Watermark { process, time });
}
