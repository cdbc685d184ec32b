//! How a session gets its probes: by its own rights, by those of the node's service, or not at all.

use probe::kernel::{LinkChoice, ProbeLoader, Service, ServiceError, ServiceRefusal};

use crate::{cli::VERSION, exit::Failure, rights, service};

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
                warn!("the node's service gives no probes to tuneagent {VERSION}: {error}");
                Ok(own(missing))
            }
        }
    }
}
