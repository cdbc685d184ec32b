//! Pseudo-random numbers, the same for the same seed.

/// The number after this one in the generator of Knuth's MMIX, which test programs use, too.
pub fn mmix(number: u64) -> u64 {
    number
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// Numbers that are drawn at random, from this seed.
pub struct Draw(pub u64);

impl Draw {
    /// A number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = mmix(self.0);
        // The low bits repeat soon.
        ((self.0 >> 33) % u64::from(bound.max(1))) as u32
    }
}
