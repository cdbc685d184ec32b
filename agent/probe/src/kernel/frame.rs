//! The messages between a session and the node's service, in postcard's encoding. Each is one packet of a Unix
//! socket; descriptors travel beside it. Pure: no socket is known here.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    links::{CallMoment, ProbeSite},
    loading::{LoadOptions, OBJECT},
};

/// Upper bound of a message. The kernel's own for a packet is about 200 KiB, unless it was raised.
pub const MESSAGE_BYTES_MAX: usize = 144 << 10;
/// The longest form of a site: three numbers of 64 bits, and one of 32.
const SITE_BYTES_MAX: usize = 35;
/// Upper bound of the sites of one link.
pub(super) const SITES_MAX: usize = MESSAGE_BYTES_MAX / SITE_BYTES_MAX - 1;
/// Upper bound of the text of a reply, in bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// The form of these messages. Increases with each change.
const FORM: u64 = 2;

/// The number of the protocol: sessions and services with the same number understand each other. It depends
/// on the kernel side, too, whose maps the session reads.
pub fn protocol() -> u64 {
    // FNV-1a.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    OBJECT.iter().fold(0xcbf2_9ce4_8422_2325 ^ FORM, step)
}

/// A request of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceRequest {
    /// Begin a session. Must come first, and once.
    Hello {
        protocol: u64,
        /// The session may change programs.
        applies: bool,
    },
    /// Load the kernel side. Must come once.
    Load(LoadOptions),
    /// Attach to these places of a file in one process. A descriptor of the file and a pidfd come with it.
    Attach { at: CallMoment, sites: Vec<ProbeSite> },
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a message has {0} bytes, and may have {MESSAGE_BYTES_MAX}")]
    TooLong(usize),
    #[error("a message is broken: {0}")]
    Broken(postcard::Error),
    #[error("a message has another form than the one in which it is written")]
    OtherForm,
}

impl ServiceRequest {
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// # Errors
    /// If the bytes are not exactly one request.
    pub fn decode(bytes: &[u8]) -> Result<ServiceRequest, FrameError> {
        decode(bytes)
    }
}

/// The answer of the service to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceReply {
    /// The descriptors of what was requested come with it.
    Done {
        /// The run-queue time of threads inside calls is reported.
        reports_waits: bool,
        /// The number of the pid namespace in which processes are counted; 0 for the initial one.
        namespace: u64,
    },
    /// The policy, a limit or the state of the process forbids it.
    Refused { why: String, kind: ServiceRefusal },
    /// The kernel refused it, with this error number.
    Failed { errno: i32 },
}

/// What a session does when it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceRefusal {
    /// The session can go on without probes.
    NoProbes,
    /// The session requested what the policy forbids, so it ends.
    Forbidden,
}

impl ServiceReply {
    /// A long reason is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut reply = self.clone();
        if let ServiceReply::Refused { why, .. } = &mut reply {
            let ends = (0..=why.len().min(TEXT_BYTES_MAX)).rev();
            let end = ends.into_iter().find(|end| why.is_char_boundary(*end));
            why.truncate(end.unwrap_or_default());
        }
        encode(&reply)
    }

    /// # Errors
    /// If the bytes are no reply.
    pub fn decode(bytes: &[u8]) -> Result<ServiceReply, FrameError> {
        decode(bytes)
    }
}

/// Writing into memory does not fail.
fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(message, Vec::new()).unwrap_or_default()
}

/// A message has one form: nothing stands behind it, and its numbers are not longer than they must be.
fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, FrameError> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(FrameError::TooLong(bytes.len()));
    }
    let message = postcard::from_bytes(bytes).map_err(FrameError::Broken)?;
    match encode(&message) == bytes {
        true => Ok(message),
        false => Err(FrameError::OtherForm),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::links::LinkChoice;

    fn requests() -> impl Strategy<Value = ServiceRequest> {
        let number = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
        let sizes = [number.clone(), number.clone(), number.clone(), number.clone()];
        let hello = (any::<u64>(), any::<bool>())
            .prop_map(|(protocol, applies)| ServiceRequest::Hello { protocol, applies });
        let load = sizes.prop_map(|[probes, processes, rows, partial_sums]| {
            let links = LinkChoice::Best;
            ServiceRequest::Load(LoadOptions {
                probes,
                processes,
                rows,
                partial_sums,
                links,
            })
        });
        let site = (any::<u64>(), number, any::<u64>(), any::<u64>());
        let site = site.prop_map(|(offset, probe, semaphore, exit)| ProbeSite {
            offset,
            probe,
            semaphore,
            exit,
        });
        let at = prop_oneof![
            Just(CallMoment::Entry),
            any::<bool>().prop_map(|is_shared| CallMoment::Exit { is_shared })
        ];
        let attach = (at, prop::collection::vec(site, 0..40))
            .prop_map(|(at, sites)| ServiceRequest::Attach { at, sites });
        prop_oneof![hello, load, attach]
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_and_nothing_else_is(request in requests(), place in any::<prop::sample::Index>(), bit in 0..8) {
            let bytes = request.encode();
            prop_assert_eq!(ServiceRequest::decode(&bytes), Ok(request.clone()));
            prop_assert!(ServiceRequest::decode(&bytes[..bytes.len() - 1]).is_err());
            let mut other = bytes.clone();
            other[place.index(bytes.len())] ^= 1_u8 << bit;
            // Another request, or none; never the same one.
            prop_assert_ne!(ServiceRequest::decode(&other), Ok(request));
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0..4_u8) {
            let bytes = [&[kind], &bytes[..]].concat();
            if let Ok(request) = ServiceRequest::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes.clone());
            }
            let _ = ServiceReply::decode(&bytes);
        }
    }

    #[test]
    fn replies_are_decoded_as_they_were_and_long_reasons_are_cut() {
        for kind in [ServiceRefusal::NoProbes, ServiceRefusal::Forbidden] {
            let why = "ü".repeat(TEXT_BYTES_MAX);
            let reply = ServiceReply::Refused {
                why: why.clone(),
                kind,
            };
            let found = ServiceReply::decode(&reply.encode());
            let cut = why[..TEXT_BYTES_MAX].to_owned();
            assert_eq!(found, Ok(ServiceReply::Refused { why: cut, kind }));
        }
        for reply in [
            ServiceReply::Done {
                reports_waits: true,
                namespace: 7,
            },
            ServiceReply::Failed { errno: 22 },
        ] {
            assert_eq!(ServiceReply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn the_longest_request_fits() {
        let site = ProbeSite {
            offset: u64::MAX,
            probe: u32::MAX,
            semaphore: u64::MAX,
            exit: u64::MAX,
        };
        let sites = vec![site; SITES_MAX];
        let bytes = ServiceRequest::Attach {
            at: CallMoment::Entry,
            sites,
        }
        .encode();
        assert!(bytes.len() <= MESSAGE_BYTES_MAX && ServiceRequest::decode(&bytes).is_ok());
    }
}
