//! Tables of costs and effects.
