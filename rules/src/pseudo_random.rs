//! Pseudo-random numbers for tests, simulations and pauses, from a seed.

/// splitmix64 (Steele, Lea, Flood 2014): reproducible in a replay, not predictable for a program.
pub fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
