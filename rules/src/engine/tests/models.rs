//! The shipped models, on streams whose values were computed by hand.

use super::probed::{Farm, Sent};
use super::*;

fn model(name: &str) -> &'static str {
    let (_, text) = crate::models().iter().find(|(known, _)| *known == name).unwrap();
    text
}

/// An iteration of 300 ms with `workers` workers of 20 ms each and sends of 10 ms: V = 1 100 B for each
/// worker, Tc = 20 ms for each worker; the last reply comes `reply` ms after the begin, by the last worker.
fn farmed(number: u64, workers: u32, reply: u64) -> Vec<Sent> {
    let (start, n) = (number * 1000, number as f64);
    let mut hits = vec![
        ("begin", 0, start, 0, vec![n, workers.into()]),
        ("end", 0, start + 300, 0, vec![n]),
    ];
    for worker in 1..=workers {
        let at = u64::from(worker);
        hits.push(("send", 0, start + 10 * at, 10, vec![1000.0]));
        hits.push(("compute", worker, start + 10 * at + 30, 20, vec![n]));
        let reply = reply - 3 * u64::from(workers - worker);
        hits.push(("reply", 0, start + reply, 0, vec![worker.into(), 100.0]));
    }
    hits
}

#[test]
fn the_condition_of_mate_decides_the_same_and_its_closed_form_is_the_least_of_the_model() {
    // MATE thesis (2007), section 5.1: act when the optimum is more than two workers away.
    let source = model("optimal-workers").replace(
        "T(begin.workers) > (1 + gain) * T(best)",
        "abs(best - begin.workers) > 2",
    );
    // MATE thesis (2007), section 5.1: Nopt = sqrt((λV + Tc) / tl).
    let closed = "  closed: sqrt((lambda * V + Tc) / latency)\n\ntune:";
    let mut farm = Farm::new(&source.replace("\ntune:", closed), 9);
    for (number, workers, reply, optimum) in [(1, 8, 200, "5"), (2, 8, 260, "5.57"), (3, 7, 180, "4.69")] {
        farm.hits(&farmed(number, workers, reply));
        let outputs = farm.all_until(number * 1000 + 900);
        assert_eq!(outputs.len(), usize::from(number < 3), "{outputs:?}");
        let shown = farm.engine.drain_windows().remove(0).metrics;
        let value = |name: &str| shown.iter().find(|(known, _)| known == name).unwrap().1.clone();
        assert_eq!(value("closed"), optimum);
        let (best, closed): (f64, f64) = (value("best").parse().unwrap(), optimum.parse().unwrap());
        assert!(best == closed.floor() || best == closed.ceil());
    }
}

#[test]
fn a_rule_is_bound_to_the_names_of_another_program() {
    let file = crate::RuleFile::parse(model("optimal-workers")).unwrap();
    let declared: Vec<&str> = file.names().map(|(name, _)| name).collect();
    assert!(
        ["begin_iteration", "nw"]
            .iter()
            .all(|name| declared.contains(name)),
        "{declared:?}"
    );
    let bindings = BTreeMap::from([
        ("begin_iteration".to_string(), "Master::loop".to_string()),
        ("nw".to_string(), "workers".to_string()),
    ]);
    let rule = file
        .clone()
        .bind(&bindings)
        .unwrap()
        .check(&BTreeMap::new())
        .unwrap();
    let begin = &rule.plan().probes[0];
    assert_eq!(begin.function, "Master::loop");
    assert_eq!(begin.captures[1].source, crate::Source::global("workers"));
    let wrong = file
        .bind(&BTreeMap::from([("nv".to_string(), "x".to_string())]))
        .unwrap_err();
    assert_eq!(wrong[0].help.as_deref(), Some("did you mean `nw`?"));
}
