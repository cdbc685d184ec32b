//! What formulas see of an instance of a window from probe to probe: what was made of its hits, and its
//! surroundings.
//!
//! Which hits belong to the instance is decided elsewhere, see [`super::track`]; how they are folded, in
//! [`crate::eval::partial`].

use std::sync::Arc;

use super::instance::Surroundings;
use crate::eval::WindowData;
use crate::eval::partial::Content;

/// What formulas see of the instance with this content. Measures are not in it.
pub(super) fn data(content: &Arc<Content>, index: u64, around: &Surroundings<'_>) -> WindowData {
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
