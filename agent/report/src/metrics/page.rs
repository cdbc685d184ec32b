//! The page while it is filled: declared metrics, their series, and the text format of Prometheus
//! (prometheus.io/docs/instrumenting/exposition_formats).

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::{Display, Write},
};

use super::declared::{DeclaredMetric, METRICS, MetricKind};

/// A distribution that was counted elsewhere.
pub(super) struct Distribution {
    /// Upper bound and cumulative count of each bucket.
    pub(super) buckets: Vec<(u64, u64)>,
    pub(super) count: u64,
    pub(super) sum: u64,
}

enum SeriesValue {
    Value(f64),
    Distribution(Distribution),
}

/// Labels with their values, by the labels' names.
type Labels = Vec<(String, String)>;

type MetricSeries = (&'static DeclaredMetric, BTreeMap<Labels, SeriesValue>);

/// The families of series by the name of their metric, in the order of the text.
#[derive(Default)]
pub(super) struct Page(RefCell<BTreeMap<&'static str, MetricSeries>>);

impl Page {
    /// Adds to a series. The page is new at each scrape, so the first addition sets the value. A value that was not
    /// measured makes no series.
    pub(super) fn add(&self, name: &str, labels: &[(&str, &str)], value: impl Into<Option<f64>>) {
        let Some(value) = value.into() else { return };
        self.with_series(name, labels, |series| match series {
            Some(SeriesValue::Value(sum)) => *sum += value,
            series => *series = Some(SeriesValue::Value(value)),
        });
    }

    pub(super) fn distribute(&self, name: &str, labels: &[(&str, &str)], of: Distribution) {
        self.with_series(name, labels, |series| {
            *series = Some(SeriesValue::Distribution(of))
        });
    }

    fn with_series(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        change: impl FnOnce(&mut Option<SeriesValue>),
    ) {
        let Some(metric) = METRICS.iter().find(|metric| metric.name == name) else {
            debug_assert!(false, "{name} is not declared");
            return;
        };
        debug_assert!(
            metric.labels.iter().eq(labels.iter().map(|(label, _)| label)),
            "{name} has no labels {labels:?}"
        );
        let owned = labels
            .iter()
            .map(|(label, value)| ((*label).to_owned(), (*value).to_owned()));
        let mut labels: Labels = owned.collect();
        labels.sort_unstable();
        let mut families = self.0.borrow_mut();
        let (_, series) = families
            .entry(metric.name)
            .or_insert_with(|| (metric, BTreeMap::new()));
        let mut one = series.remove(&labels);
        change(&mut one);
        series.extend(one.map(|one| (labels, one)));
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, (metric, all)) in self.0.borrow().iter() {
            let kind = match metric.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            // Writing into memory does not fail.
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
            for (labels, series) in all {
                let labels = labels
                    .iter()
                    .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
                let labels = labels.collect::<Vec<_>>().join(",");
                let mut sample = |suffix: &str, bucket: &str, value: &dyn Display| {
                    let _ = writeln!(text, "{name}{suffix}{{{labels}{bucket}}} {value}");
                };
                match series {
                    SeriesValue::Value(value) => sample("", "", value),
                    SeriesValue::Distribution(of) => {
                        for (most, count) in &of.buckets {
                            sample("_bucket", &format!(",le=\"{most}\""), count);
                        }
                        sample("_bucket", ",le=\"+Inf\"", &of.count);
                        sample("_sum", "", &of.sum);
                        sample("_count", "", &of.count);
                    }
                }
            }
        }
        text
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('"', "\\\"")
}
