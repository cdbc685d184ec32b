//! The data of an instance of a window from probe to probe for formulas: aggregates of its hits, and its
//! environment.
//!
//! Which hits belong to the instance is decided elsewhere, see [`super::track`]; [`crate::eval::partial`]
//! folds them.

use std::sync::Arc;

use super::instance::InstanceEnvironment;
use crate::eval::WindowData;
use crate::eval::partial::Content;

/// The data of the instance with this content, without measures.
pub(super) fn data(content: &Arc<Content>, index: u64, around: &InstanceEnvironment<'_>) -> WindowData {
    WindowData {
        index,
        duration: Ok(0.0),
        roles: around.roles.to_vec(),
        probe_roles: around.rule.probe_roles(),
        ranks: around.ranks.clone(),
        ..WindowData::default()
    }
    .with(Arc::clone(content))
}
