#![no_std]
//! The records that the kernel side and the user side share.
