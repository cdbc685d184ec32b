//! The names of a rule, with what formulas may know of what they stand for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::scope::MetricScope;
use crate::target::Site;
use crate::term::{FoldRange, Typed};
use crate::types::Type;
use crate::value::Scalar;

/// The names of a rule.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) parameters: BTreeMap<String, Option<(Scalar, Type)>>,
    /// Parameters that are known only when the processes are: counts of roles.
    pub(crate) counted: BTreeMap<String, Typed>,
    pub(crate) roles: BTreeMap<String, usize>,
    pub(crate) probes: BTreeMap<String, ProbeNames>,
    pub(crate) windows: Vec<WindowNames>,
    /// Where each metric lives. Every name of a metric is in it.
    pub(crate) scopes: BTreeMap<String, MetricScope>,
    /// By name and window. `None` stands for a metric that is wrong itself and was reported.
    pub(crate) metrics: BTreeMap<(String, usize), Option<MetricNames>>,
}

/// A window, and the probes that are its boundaries; a timed one has none.
pub(crate) struct WindowNames {
    pub(crate) name: String,
    pub(crate) timed: bool,
    pub(crate) boundaries: Vec<usize>,
    /// The probes at which its instances begin and end.
    pub(crate) begin: Option<usize>,
    pub(crate) end: Option<usize>,
    pub(crate) within: Option<usize>,
    /// For each probe the capture that places its hits; nothing for a key that is wrong and was reported.
    pub(crate) keys: Option<Vec<Option<usize>>>,
}

/// A metric that was read.
#[derive(Clone)]
pub(crate) struct MetricNames {
    pub(crate) index: usize,
    pub(crate) window: usize,
    pub(crate) of: Type,
    /// How much there is to compute for it.
    pub(crate) cost: u64,
    /// Of a metric with a parameter, or with a value for each hit.
    pub(crate) body: Option<Arc<Typed>>,
    /// The probe, if it has a value for each of its hits.
    pub(crate) stream: Option<usize>,
    /// Which hits these are, where it says so.
    pub(crate) range: Option<FoldRange>,
}

/// What formulas may say of a probe's hits.
pub(crate) struct ProbeNames {
    pub(crate) index: usize,
    pub(crate) site: Site,
    /// In their order; `None` stands for one that is wrong itself and was reported.
    pub(crate) captures: Vec<(String, Option<Type>)>,
}
