//! The names of a rule, with what formulas need of their definitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::scope::MetricScope;
use crate::target::Site;
use crate::term::{FoldRange, Typed};
use crate::types::Type;
use crate::value::Scalar;

/// The names of a rule.
#[derive(Default)]
pub(crate) struct RuleNames {
    pub(crate) parameters: BTreeMap<String, Option<(Scalar, Type)>>,
    /// Parameters that depend on the processes: counts of roles.
    pub(crate) counted: BTreeMap<String, Typed>,
    pub(crate) roles: BTreeMap<String, usize>,
    pub(crate) probes: BTreeMap<String, ProbeNames>,
    pub(crate) windows: Vec<WindowNames>,
    /// The scope of each metric. Contains the names of all metrics.
    pub(crate) scopes: BTreeMap<String, MetricScope>,
    /// By name and window. `None` stands for a metric with a reported error.
    pub(crate) metrics: BTreeMap<(String, usize), Option<MetricNames>>,
}

/// A window with the probes that are its boundaries; a timed one has none.
#[derive(Default)]
pub(crate) struct WindowNames {
    pub(crate) name: String,
    pub(crate) timed: bool,
    pub(crate) boundaries: Vec<usize>,
    /// The probes at which its instances begin and end.
    pub(crate) begin: Option<usize>,
    pub(crate) end: Option<usize>,
    pub(crate) within: Option<usize>,
    /// For each probe, the capture that is the key of its hits; `None` for a key with a reported error.
    pub(crate) keys: Option<Vec<Option<usize>>>,
}

#[derive(Clone)]
pub(crate) struct MetricNames {
    pub(crate) index: usize,
    pub(crate) window: usize,
    pub(crate) type_of: Type,
    /// The cost of its evaluation.
    pub(crate) cost: u64,
    /// Present for a metric with a parameter, or with a value for each hit.
    pub(crate) body: Option<Arc<Typed>>,
    /// The probe, if it has a value for each hit.
    pub(crate) stream: Option<usize>,
    /// The range of these hits, if it states one.
    pub(crate) range: Option<FoldRange>,
}

/// What formulas may use of a probe's hits.
pub(crate) struct ProbeNames {
    pub(crate) index: usize,
    pub(crate) site: Site,
    /// In their order; `None` stands for a capture with a reported error.
    pub(crate) captures: Vec<(String, Option<Type>)>,
}
