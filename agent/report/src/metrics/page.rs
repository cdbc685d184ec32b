//! The page while it is filled: declared metrics, values, text.

use std::cell::RefCell;

use prometheus::{CounterVec, GaugeVec, Opts, Registry, TextEncoder, proto};

use super::declared::{DeclaredMetric, METRICS, MetricKind};

enum MetricVec {
    Counter(CounterVec),
    Gauge(GaugeVec),
    /// Filled directly, because the crate can only count single observations.
    Histogram(RefCell<Vec<proto::Metric>>),
}

/// A distribution that was counted elsewhere.
pub(super) struct Distribution {
    /// Upper bound and cumulative count of each bucket.
    pub(super) buckets: Vec<(u64, u64)>,
    pub(super) count: u64,
    pub(super) sum: u64,
}

pub(super) struct Page {
    registry: Registry,
    families: Vec<(&'static DeclaredMetric, MetricVec)>,
}

impl Page {
    pub(super) fn new() -> prometheus::Result<Page> {
        let registry = Registry::new();
        let mut families = Vec::with_capacity(METRICS.len());
        for metric in METRICS {
            let options = Opts::new(metric.name, metric.help);
            let family = match metric.kind {
                MetricKind::Counter => {
                    let family = CounterVec::new(options, metric.labels)?;
                    registry.register(Box::new(family.clone()))?;
                    MetricVec::Counter(family)
                }
                MetricKind::Gauge => {
                    let family = GaugeVec::new(options, metric.labels)?;
                    registry.register(Box::new(family.clone()))?;
                    MetricVec::Gauge(family)
                }
                MetricKind::Histogram => MetricVec::Histogram(RefCell::default()),
            };
            families.push((metric, family));
        }
        Ok(Page { registry, families })
    }

    /// Adds to a series. The page is new at each scrape, so the first addition sets the value.
    pub(super) fn add(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let family = self.families.iter().find(|(metric, _)| metric.name == name);
        let Some((metric, family)) = family else {
            debug_assert!(false, "{name} is not declared");
            return;
        };
        debug_assert!(
            metric.labels.iter().eq(labels.iter().map(|(label, _)| label)),
            "{name} has no labels {labels:?}"
        );
        let values: Vec<&str> = labels.iter().map(|(_, value)| *value).collect();
        match family {
            MetricVec::Counter(family) => family.with_label_values(&values).inc_by(value),
            MetricVec::Gauge(family) => family.with_label_values(&values).add(value),
            MetricVec::Histogram(_) => debug_assert!(false, "{name} is a distribution"),
        }
    }

    pub(super) fn distribute(&self, name: &str, labels: &[(&str, &str)], of: &Distribution) {
        let mut families = self.families.iter();
        let family = families.find_map(|(metric, family)| match family {
            MetricVec::Histogram(series) if metric.name == name => Some(series),
            _ => None,
        });
        let Some(family) = family else {
            debug_assert!(false, "{name} is not a declared distribution");
            return;
        };
        let bucket = |(up_to, count): &(u64, u64)| {
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(*up_to as f64);
            bucket.set_cumulative_count(*count);
            bucket
        };
        let mut histogram = proto::Histogram::default();
        histogram.set_bucket(of.buckets.iter().map(bucket).collect());
        histogram.set_sample_count(of.count);
        histogram.set_sample_sum(of.sum as f64);
        let mut labels = labels.to_vec();
        labels.sort_unstable();
        let label = |(name, value): &(&str, &str)| {
            let mut label = proto::LabelPair::default();
            label.set_name((*name).to_owned());
            label.set_value((*value).to_owned());
            label
        };
        let mut metric = proto::Metric::from_label(labels.iter().map(label).collect());
        metric.set_histogram(histogram);
        family.borrow_mut().push(metric);
    }

    pub(super) fn text(&self) -> prometheus::Result<String> {
        let mut gathered = self.registry.gather();
        for (metric, family) in &self.families {
            let MetricVec::Histogram(series) = family else {
                continue;
            };
            if series.borrow().is_empty() {
                continue;
            }
            let mut family = proto::MetricFamily::default();
            family.set_name(metric.name.to_owned());
            family.set_help(metric.help.to_owned());
            family.set_field_type(proto::MetricType::HISTOGRAM);
            family.set_metric(series.borrow().clone());
            gathered.push(family);
        }
        gathered.sort_by(|a, b| a.name().cmp(b.name()));
        TextEncoder::new().encode_to_string(&gathered)
    }
}
