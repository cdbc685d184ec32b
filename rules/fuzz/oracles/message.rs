// Properties of all byte sequences read as a message between nodes. Included by the fuzz target and by the
// tests of `rules`.

/// The processes of the job: the odd ones are on machine 1, the others on machine 0.
const PROCESSES: u32 = 4;

/// Reading does not panic. What was read is unchanged after it is written and read again, and neither a
/// coordinator nor a node panics at it, or at what follows.
fn message(bytes: &[u8]) {
    if let Ok(report) = rules::Report::decode(bytes) {
        let once = report.encode().expect("what was read can be written");
        let again = rules::Report::decode(&once).expect("it was just written");
        // Compares bytes and not values, because NaN equals nothing.
        assert_eq!(again.encode(), Ok(once));
        coordinate(report);
    }
    if let Ok(schedule) = rules::Schedule::decode(bytes) {
        let once = schedule.encode().expect("what was read can be written");
        let again = rules::Schedule::decode(&once).expect("it was just written");
        assert_eq!(again.encode(), Ok(once));
        let mut node = node(rules::Machine(1), 1);
        observe(&mut node, 1);
        node.learn(&schedule);
        node.report();
    }
}

/// The rule of which a message may speak: each of its windows and folds, and measures of processes.
fn named_window() -> rules::CheckedRule {
    let text = include_str!("message.yaml");
    rules::CheckedRule::from_source(text).expect("it checks")
}

fn facts(process: u32) -> rules::ProcessFacts {
    rules::ProcessFacts {
        machine: rules::Machine(process % 2),
        rank: Some(process),
        ..rules::ProcessFacts::default()
    }
}

fn node(machine: rules::Machine, incarnation: u64) -> rules::Node {
    let mut node = rules::Node::new(machine, incarnation, vec![named_window()]);
    let own = (0..PROCESSES).filter(|process| facts(*process).machine == machine);
    own.for_each(|process| node.process_joined(rules::ProcessId(process), facts(process), rules::Time(0)));
    node
}

fn coordinator() -> rules::Engine {
    let mut engine = rules::Engine::new(vec![named_window()], rules::Time(0)).expect("one rule has no conflict");
    (0..2).for_each(|machine| engine.node_joined(rules::Machine(machine)));
    for process in 0..PROCESSES {
        engine.process_joined(rules::ProcessId(process), facts(process), rules::Time(0));
    }
    engine
}

/// Hits of one instance of the window, and of the time after it.
fn observe(node: &mut rules::Node, machine: u32) {
    let hit = |process: u32, probe: usize, time: u64, reads: &[f64]| rules::Observation::Hit {
        rule: rules::RuleId(0),
        probe: rules::ProbeId(probe),
        process: rules::ProcessId(process),
        thread: 1,
        time: rules::Time(time),
        duration_ns: 70,
        captures: reads.iter().map(|read| Ok(rules::Scalar::Number(*read))).collect(),
    };
    for process in (0..PROCESSES).filter(|process| facts(*process).machine.0 == machine) {
        node.observe(hit(process, 0, 100, &[1.0]));
        (0..3).for_each(|more| node.observe(hit(process, 2, 200 + more, &[1.0, 0.1 * more as f64, 2.0])));
        node.observe(hit(process, 1, 900, &[]));
        let (process, time) = (rules::ProcessId(process), rules::Time(1000));
        node.observe(rules::Observation::Watermark { process, time });
    }
}

/// Takes a report, then honest ones of the same node and of the other.
fn coordinate(report: rules::Report) {
    let mut engine = coordinator();
    engine.take_report(report);
    for machine in 0..2 {
        let mut node = node(rules::Machine(machine), u64::MAX);
        observe(&mut node, machine);
        engine.take_report(node.report());
        engine.tick(rules::Time(2_000));
        node.learn(&engine.schedule());
        engine.take_report(node.report());
    }
    engine.tick(rules::Time(10_000_000_000));
    engine.drain_windows();
}
