//! The version of this kernel, and whether it accepts our programs. Its other capabilities are determined by
//! trying.

use std::fs;

use super::{Kernel, KernelError, LoadOptions};

/// From this version on, kernels are known to accept our programs; on older ones a program is loaded as a
/// test first.
const KNOWN_TO_TAKE: (u32, u32) = (6, 6);

/// The kernel's release, such as `6.1.0-29-amd64`.
pub fn release() -> std::io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/osrelease")?
        .trim()
        .to_owned())
}

/// Major and minor number of a release.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+', '_']).map(str::parse);
    numbers.next()?.ok().zip(numbers.next()?.ok())
}

/// Why this kernel accepts no programs of ours; `None` if it does.
pub fn refusal() -> Option<KernelError> {
    let version = release().ok().as_deref().and_then(version)?;
    let is_known = version >= KNOWN_TO_TAKE;
    (!is_known)
        .then(|| Kernel::load(LoadOptions::ONE_PROBE).err())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn releases_of_all_makers_have_a_version() {
        for (release, expected) in [
            ("6.18.44-fc-v445", Some((6, 18))),
            ("5.14.0-503.11.1.el9_5.x86_64", Some((5, 14))),
            ("6.1-rc3", Some((6, 1))),
            ("7.0+", Some((7, 0))),
            ("of our own", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }
}
