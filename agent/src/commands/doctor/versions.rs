//! The effect of the kernel's version and lockdown on tuneagent. Tests nothing; that is done in `machine`.

use probe::kernel::{LinkKind, version};

use super::Check;

/// The oldest version with everything that our programs need, which is `bpf_loop`. (Cookies of probes exist
/// since 5.15, the ring buffer since 5.8.)
const OLDEST: (u32, u32) = (5, 17);

const BEST: LinkKind = LinkKind::UprobeMulti { by_process: true };

/// How a kernel version attaches probes; `None` if it cannot.
fn kind_of(version: (u32, u32)) -> Option<LinkKind> {
    match version {
        version if version < OLDEST => None,
        version if version < (6, 6) => Some(LinkKind::Tracefs),
        version => Some(LinkKind::UprobeMulti {
            by_process: version >= (6, 10),
        }),
    }
}

/// The capabilities of a kernel. Tested capabilities (`found`) override its version, because distributions
/// backport features to old kernels.
pub(super) fn version_says(release: &str, found: Option<LinkKind>) -> Check {
    let name = "kernel";
    let kind = found.or_else(|| version(release).map_or(Some(BEST), kind_of));
    match kind {
        Some(BEST) => Check::works(name, format!("Linux {release}")),
        Some(LinkKind::UprobeMulti { .. }) => Check::lacks(
            name,
            format!(
                "Linux {release}: probes cannot be limited to processes, as from 6.10 on:\n\
                 other programs that use the same library pay about 1 us a call"
            ),
        ),
        Some(LinkKind::Tracefs) => Check::lacks(
            name,
            format!(
                "Linux {release}: probes are attached at the start of a session only (from 6.6 on at any time): there is no `run`, no\n\
                 parallel region in the profile, and a session takes no rule with probes while it runs; other programs that use the\n\
                 same library pay about 1 us a call"
            ),
        ),
        None => Check::fails(
            name,
            format!(
                "Linux {release}: probes need 5.17 or newer (bpf_loop). These work without: ps, get, set, undo, replay,\n\
                 and `attach` of users without root, with the data of /proc"
            ),
        ),
    }
}

/// The restrictions of a lockdown (security/lockdown: BPF_WRITE_USER belongs to integrity; BPF_READ_KERNEL,
/// PERF and TRACEFS to confidentiality).
pub(super) fn lockdown_says(state: Option<&str>) -> Check {
    let name = "lockdown";
    let Some(state) = state else {
        let text = "no restriction known: not built into this kernel, or securityfs is not mounted";
        return Check::works(name, text);
    };
    match state.split(['[', ']']).nth(1).unwrap_or("not known") {
        "confidentiality" => Check::fails(
            name,
            "confidentiality: the kernel lets no BPF program read memory, so there are no probes. To change that, boot without lockdown=\n\
             (and without Secure Boot, where it requires lockdown); the data of /proc need no probes",
        ),
        "integrity" => Check::works(
            name,
            "integrity: everything works, but a probe may not write by itself:\na change at a place in the program holds its thread a little longer",
        ),
        other => Check::works(name, other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn every_age_of_a_kernel_is_shown_with_what_it_means() {
        let said = |release: &str, found| {
            let check = version_says(release, found);
            (check.status, check.text.replace('\n', " "))
        };
        let old = Some(LinkKind::Tracefs);
        let of_all = Some(LinkKind::UprobeMulti { by_process: false });
        for (release, found, status, part) in [
            ("6.18.44-fc-v445", Some(BEST), Status::Works, "Linux 6.18.44"),
            ("6.10.0", None, Status::Works, "Linux 6.10.0"),
            (
                "6.8.0-45-generic",
                of_all,
                Status::Lacks,
                "other programs that use",
            ),
            ("6.8.0-45-generic", None, Status::Lacks, "other programs that use"),
            ("6.1.0-29-amd64", old, Status::Lacks, "there is no `run`"),
            (
                "6.1.0-29-amd64",
                None,
                Status::Lacks,
                "at the start of a session only",
            ),
            // A backported feature works regardless of the version.
            (
                "5.14.0-503.el9.x86_64",
                of_all,
                Status::Lacks,
                "other programs that use",
            ),
            ("5.14.0-503.el9.x86_64", None, Status::Fails, "need 5.17"),
            ("4.18.0", None, Status::Fails, "the data of /proc"),
            ("of our own", None, Status::Works, "Linux of our own"),
        ] {
            let (status_found, text) = said(release, found);
            assert_eq!(status_found, status, "{release}: {text}");
            assert!(text.contains(part), "{release}: {text}");
        }
    }

    #[test]
    fn every_lockdown_is_shown_with_what_it_takes_away() {
        for (state, status, part) in [
            (None, Status::Works, "no restriction"),
            (Some("[none] integrity confidentiality"), Status::Works, "none"),
            (
                Some("none [integrity] confidentiality"),
                Status::Works,
                "may not write by itself",
            ),
            (
                Some("none integrity [confidentiality]"),
                Status::Fails,
                "there are no probes",
            ),
        ] {
            let check = lockdown_says(state);
            assert_eq!(check.status, status, "{state:?}: {}", check.text);
            assert!(check.text.contains(part), "{state:?}: {}", check.text);
        }
    }
}
