//! Parses the records of the rings. The size shows the type of a record; `ebpf/abi` defines the types.

use abi::{Filling, HitRecord, SumCell, TextRecord};

/// Parses a hit, with or without its last captures; `None` if the size is not that of a hit.
pub fn read_hit(bytes: &[u8]) -> Option<HitRecord> {
    let mut hit = HitRecord::default();
    let is_hit = [size_of::<HitRecord>(), HitRecord::SHORT_BYTES].contains(&bytes.len());
    let part = bytemuck::bytes_of_mut(&mut hit).get_mut(..bytes.len());
    part.filter(|_| is_hit)?.copy_from_slice(bytes);
    Some(hit)
}

/// Parses a captured text; `None` if the size differs.
pub fn read_text(bytes: &[u8]) -> Option<TextRecord> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// Parses an aggregate; `None` if the size differs.
pub fn read_sum_cell(bytes: &[u8]) -> Option<SumCell> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// Whether this record says that a ring of calls is half full.
pub fn is_filling(bytes: &[u8]) -> bool {
    bytes.len() == size_of::<Filling>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_read_long_or_short_and_nothing_else_is_taken_for_one() {
        let hit = HitRecord {
            time_ns: 1,
            process: 2,
            valid: 3,
            captures: [4, 5, 0, 0, 0, 0],
            ..HitRecord::default()
        };
        let whole = bytemuck::bytes_of(&hit);
        assert!(hit.is_short());
        assert_eq!(read_hit(whole), Some(hit));
        assert_eq!(read_hit(&whole[..HitRecord::SHORT_BYTES]), Some(hit));
        for other in (0..size_of::<HitRecord>()).filter(|length| *length != HitRecord::SHORT_BYTES) {
            assert_eq!(read_hit(&whole[..other]), None, "{other} bytes");
        }
    }
}
