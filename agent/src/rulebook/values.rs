//! The newest value of each metric of each rule, for display and for `--progress`.

use profile::{RULE_VALUES_MAX, RuleValue};
use rules::{ClosedWindow, Mode};

use super::RuleBook;

impl RuleBook {
    /// The values of the rules' metrics in their last closed windows; without rules that are off, whose
    /// values are old.
    pub(crate) fn values(&self) -> Vec<RuleValue> {
        let on = self.engine.rules().filter(|(_, _, mode)| *mode != Mode::Off);
        let values = on.flat_map(|(id, rule, _)| {
            let windows = self.engine.last_windows(id).into_iter();
            windows.flat_map(|window| values_of(rule.name(), window))
        });
        values.take(RULE_VALUES_MAX).collect()
    }

    /// The value of a rule's metric in its last closed window; `None` if it has none there.
    pub(crate) fn value(&self, rule: &str, metric: &str) -> Option<f64> {
        let (id, ..) = self.engine.rules().find(|(_, of, _)| of.name() == rule)?;
        let windows = self.engine.last_windows(id).into_iter();
        let mut values = windows.flat_map(|window| values_of(rule, window));
        values
            .find(|value| value.metric == metric)
            .map(|value| value.value)
    }

    /// Whether a loaded rule has this metric; `name` is `rule.metric`.
    pub(crate) fn has_metric(&self, name: &str) -> bool {
        let Some((rule, metric)) = name.split_once('.') else {
            return false;
        };
        let mut rules = self.engine.rules().filter(|(_, of, _)| of.name() == rule);
        rules.any(|(_, of, _)| of.has_metric(metric))
    }
}

fn values_of(rule: &str, window: ClosedWindow) -> impl Iterator<Item = RuleValue> + use<> {
    let rule = rule.to_owned();
    let metrics = window.metrics.into_iter().zip(window.readings);
    metrics.filter_map(move |((metric, text), reading)| {
        Some(RuleValue {
            rule: rule.clone(),
            metric,
            value: reading?.mean,
            text,
        })
    })
}

#[cfg(test)]
mod tests {
    use rules::MetricReading;

    use super::*;

    #[test]
    fn what_has_no_value_is_not_there() {
        let reading = MetricReading {
            low: 1.0,
            mean: 2.0,
            high: 3.0,
            dimension: None,
            is_share: false,
        };
        let window = ClosedWindow {
            rule: rules::RuleId(0),
            window: "w".into(),
            index: 0,
            duration: Some(0.5),
            metrics: vec![
                ("a".into(), "1 to 3".into()),
                ("b".into(), "none (no rows)".into()),
            ],
            readings: vec![Some(reading), None],
        };
        let values: Vec<RuleValue> = values_of("r", window).collect();
        let expected = RuleValue {
            rule: "r".into(),
            metric: "a".into(),
            value: 2.0,
            text: "1 to 3".into(),
        };
        assert_eq!(values, [expected]);
    }
}
