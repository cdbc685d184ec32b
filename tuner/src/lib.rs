//! Looks into a live process and changes it.
