//! How a session gets its probes: by its own rights, by those of the node's service, or not at all.

use probe::kernel::{KernelError, LinkChoice, ProbeLoader, Service, ServiceError, ServiceRefusal};
use profile::error::ErrorText;
use rustix::process::geteuid;

use crate::{cli::VERSION, exit::Failure, hint::as_root_again, rights, service};

pub(super) struct ProbeAccess {
    pub(super) loader: ProbeLoader,
    /// The capabilities without which there are no probes.
    pub(super) missing: Vec<&'static str>,
}

impl ProbeAccess {
    /// Looks for a service if this process has no rights to probe, unless tracefs is required. Says in the
    /// session's first line what came of it.
    ///
    /// # Errors
    /// If the policy forbids changes, and the session may make some.
    pub(super) fn find(is_tracefs: bool, applies: bool) -> Result<ProbeAccess, Failure> {
        let links = if is_tracefs {
            LinkChoice::Tracefs
        } else {
            LinkChoice::Best
        };
        let missing = rights::missing_to_probe();
        let own = |missing| ProbeAccess {
            loader: ProbeLoader::Own(links),
            missing,
        };
        if missing.is_empty() || is_tracefs {
            return Ok(own(missing));
        }
        match Service::connect(&service::socket(), applies) {
            Ok(None) => Ok(own(missing)),
            Ok(Some(service)) => {
                report::console::error_line(format_args!("probes by the node's service"));
                Ok(ProbeAccess {
                    loader: ProbeLoader::Service(service),
                    missing: Vec::new(),
                })
            }
            Err(ServiceError::Refused {
                why,
                kind: ServiceRefusal::Forbidden,
            }) => Err(Failure::not_permitted(why)),
            Err(error) => {
                let why = ErrorText::new(error);
                warn!("the node's service gives no probes to tuneagent {VERSION}: {why}");
                Ok(own(missing))
            }
        }
    }
}

/// Why there are no probes on this kernel, and how to get details.
pub(super) fn without_probes(refusal: &KernelError) -> String {
    format!("there are no probes: {refusal}\nwhat works on this machine: tuneagent doctor")
}

/// Why nothing can be probed, in lines; none if it can.
pub(super) fn why_no_probes(missing: &[&str], refusal: Option<&KernelError>) -> Vec<String> {
    let all = match refusal {
        None => (!missing.is_empty()).then(|| missing_rights(missing)),
        Some(refusal) => Some(without_probes(refusal)),
    };
    all.iter()
        .flat_map(|all| all.lines())
        .map(str::to_owned)
        .collect()
}

/// The missing rights, and the commands to get them. If root lacks them, no command of ours can help.
pub(super) fn missing_rights(missing: &[&str]) -> String {
    let missing = missing.join(", ");
    if geteuid().is_root() {
        return format!(
            "probes need {missing}, which root lacks here: a container has what it was started with (docker run --cap-add)"
        );
    }
    format!(
        "probes need {missing}, which this process does not have\nwith them: {}\nor once, for your own programs: {}",
        as_root_again(),
        rights::give_command(),
    )
}
