// Properties of all texts read as a rule file. Included by the fuzz target and by the tests of `rules`.

/// Parsing, checking and rendering of errors do not panic, and neither does the evaluation of an accepted
/// rule on any observations. With debug assertions the evaluation also checks that each value has its static
/// type.
fn rule_file(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else {
        return;
    };
    match rules::CheckedRule::from_source(source) {
        Ok(rule) => {
            rules::render("rule.yaml", source, rule.warnings());
            // A seed that depends on the text, for reproducible data.
            let seed = bytes.iter().fold(7, |seed: u64, byte| {
                seed.wrapping_mul(31).wrapping_add(u64::from(*byte))
            });
            Farm::new(rule.clone(), 0, Data(None)).run();
            Farm::new(rule.clone(), 3, Data(None)).run();
            Farm::new(rule, 3, Data(Some(seed))).run();
        }
        Err(wrong) => assert_ne!(rules::render("rule.yaml", source, &wrong), ""),
    }
}

/// Source of observations: values that increase from window to window or, with a seed, pseudo-random values.
struct Data(Option<u64>);

impl Data {
    /// A random number below `limit`, or `else_it_is` without a seed.
    fn below(&mut self, limit: u64, else_it_is: u64) -> u64 {
        let Some(state) = &mut self.0 else {
            return else_it_is;
        };
        *state = rules::pseudo_random::mixed(*state);
        *state % limit.max(1)
    }

    fn number(&mut self, else_it_is: f64) -> f64 {
        match self.below(12, 12) {
            0 => 0.0,
            1 => -1.0,
            2 => 0.1,
            3 => 1e300,
            4 => -1e300,
            5 => 1e-300,
            6..=9 => self.below(4, 0) as f64,
            _ => else_it_is,
        }
    }

    fn gauge(&mut self, else_it_is: f64) -> f64 {
        match self.below(20, 20) {
            0 => f64::NAN,
            1 => f64::NEG_INFINITY,
            _ => self.number(else_it_is),
        }
    }

    fn captured(&mut self, capture: &rules::PlannedCapture, window: u64) -> Result<rules::Scalar, rules::WhyUnknown> {
        if self.below(16, 1) == 0 {
            return Err("not resident".to_string());
        }
        Ok(match capture.layout {
            Some(rules::Layout::Bool) => rules::Scalar::Boolean(self.below(2, window % 2) == 0),
            _ => rules::Scalar::Number(self.number(window as f64)),
        })
    }
}

/// A job of some processes in which every decision is carried out.
struct Farm {
    engine: rules::Engine,
    plan: rules::Plan,
    processes: u32,
    /// Nanoseconds between two ticks.
    every: u64,
    data: Data,
}

impl Farm {
    fn new(rule: rules::CheckedRule, processes: u32, mut data: Data) -> Farm {
        let plan = rule.plan().clone();
        let timed = plan.windows.iter().filter_map(|window| window.every).min();
        let mut engine = rules::Engine::new(vec![rule], rules::Time(0)).expect("one rule has no conflicts");
        engine.set_mode(rules::RuleId(0), rules::Mode::Applying);
        for rank in 0..processes {
            let facts = rules::ProcessFacts {
                rank: (data.below(8, 1) > 0).then_some(rank),
                exe: "simulate".to_string(),
                mpi: Some("Open MPI".to_string()),
                libraries: plan.libraries.clone(),
                symbols: plan.symbols.clone(),
                ..rules::ProcessFacts::default()
            };
            engine.process_joined(rules::ProcessId(rank), facts, rules::Time(0));
        }
        Farm {
            engine,
            plan,
            processes,
            every: timed.unwrap_or(500_000_000).max(1),
            data,
        }
    }

    fn run(mut self) {
        let id = rules::RuleId(0);
        for window in 1..12_u64 {
            let time = rules::Time(self.every.saturating_mul(window));
            for process in (0..self.processes).map(rules::ProcessId) {
                self.observe(process, window);
            }
            if self.data.below(10, 1) == 0 {
                self.engine.process_left(rules::ProcessId(2), time);
            }
            for output in self.engine.tick(time) {
                if let rules::Output::Decision(decision) = output {
                    self.engine.receipt(decision.id, rules::DecisionOutcome::Applied, time);
                }
            }
            self.engine.status();
            self.engine.findings();
            self.engine.metrics(id);
            for closed in self.engine.drain_windows() {
                assert_eq!(closed.metrics.len(), closed.readings.len());
                let readings = closed.readings.iter().flatten();
                readings.for_each(|of| assert!(of.low <= of.mean && of.mean <= of.high, "{of:?}"));
            }
            self.engine.dropped(id);
        }
    }

    fn observe(&mut self, process: rules::ProcessId, window: u64) {
        let time = rules::Time(self.every.saturating_mul(window));
        self.sample(process, window, time);
        // Every probe is hit in file order; with a seed, zero to two times.
        let between = self.every / (self.plan.probes.len() as u64 + 1);
        for index in 0..self.plan.probes.len() {
            let hits = self.data.below(3, 1);
            for _ in 0..hits {
                let later = self.data.below(self.every, between * (index as u64 + 1));
                self.hit(process, index, window, later);
            }
            self.engine.observe(rules::Observation::ProbeTotals {
                rule: rules::RuleId(0),
                probe: rules::ProbeId(index),
                process,
                time,
                count: window,
                duration_sum_ns: (u64::from(process.0) + 1) * window * window,
            });
        }
        if self.data.below(12, window) == 7 {
            let from = rules::Time(self.every.saturating_mul(window - 1));
            self.engine.observe(rules::Observation::Lost {
                process,
                from,
                to: time,
            });
        }
        self.engine
            .observe(rules::Observation::Watermark { process, time });
    }

    fn sample(&mut self, process: rules::ProcessId, window: u64, time: rules::Time) {
        let pace = u64::from(process.0) + 1;
        for &measure in rules::Measure::ALL {
            let process = (measure.scope() == rules::Scope::Process).then_some(process);
            let of = rules::Subject::of(process, rules::Machine(0));
            let observation = match measure.kind() {
                rules::MeasureKind::Counter => rules::Observation::counter(of, measure, time, self.data.below(u64::MAX, window * window * pace * 100_000_000)),
                rules::MeasureKind::Gauge => rules::Observation::gauge(of, measure, time, self.data.gauge(3.0 - window as f64)),
            };
            self.engine.observe(observation);
        }
    }

    fn hit(&mut self, process: rules::ProcessId, index: usize, window: u64, later: u64) {
        let captures = &self.plan.probes[index].captures;
        // Captures of the hit; in some windows they are missing or fewer than planned.
        let captures = match window % 5 {
            3 => vec![Err("not resident".to_string()); captures.len()],
            4 => Vec::new(),
            _ => captures
                .iter()
                .map(|capture| self.data.captured(capture, window))
                .collect(),
        };
        let longest = u64::MAX / 4;
        let duration_ns = match self.data.below(8, 8) {
            0 => 0,
            1 => self.data.below(longest, 0),
            _ => (u64::from(process.0) + 1) * window,
        };
        self.engine.observe(rules::Observation::Hit {
            rule: rules::RuleId(0),
            probe: rules::ProbeId(index),
            process,
            thread: 1,
            time: rules::Time(self.every.saturating_mul(window - 1).saturating_add(later)),
            duration_ns,
            captures: captures.into(),
        });
    }
}
