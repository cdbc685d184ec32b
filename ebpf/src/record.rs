//! The pointer arguments of global functions, which the verifier checks apart from their callers.

/// A record that a global function is passed; `None` if it is passed null.
#[inline(always)]
pub fn record<'a, T>(argument: *const T) -> Option<&'a T> {
    // SAFETY: null or a complete `T` of the caller: the verifier rejects a call with anything else (BTF).
    unsafe { argument.as_ref() }
}

/// As [`record`], to be changed. No caller passes one record twice.
#[inline(always)]
pub fn record_mut<'a, T>(argument: *mut T) -> Option<&'a mut T> {
    // SAFETY: null or a complete `T` of the caller: the verifier rejects a call with anything else (BTF).
    unsafe { argument.as_mut() }
}
