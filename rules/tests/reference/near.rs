//! Compares numbers with those of a source, which has them rounded.

/// Asserts `found => expected` up to this number of decimal places.
macro_rules! near {
    ($found:expr => $expected:expr, $digits:expr, $($what:tt)+) => {
        $crate::near::near($found, $expected, $digits, &format!($($what)+))
    };
}

#[track_caller]
pub(crate) fn near(found: f64, expected: f64, digits: i32, what: &str) {
    let off = 0.500_001 * 10_f64.powi(-digits);
    assert!(
        (found - expected).abs() <= off,
        "{what}: {found} is not {expected} to {digits} digits"
    );
}
