//! Tables of hits and times.
