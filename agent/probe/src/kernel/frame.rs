//! The messages between a session and the node's service, as bytes. Each is one packet of a Unix socket, in
//! words of eight bytes; descriptors travel beside it. Pure: no socket is known here.

use super::{
    links::{CallMoment, LinkChoice, ProbeSite},
    loading::{LoadOptions, OBJECT},
};

/// Upper bound of a message. The kernel's own for a packet is about 200 KiB, unless it was raised.
pub const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Words before the sites of a request to attach.
const HEAD_WORDS: usize = 3;
const SITE_WORDS: usize = 4;
/// Upper bound of the sites of one link.
pub(super) const SITES_MAX: usize = (MESSAGE_BYTES_MAX / 8 - HEAD_WORDS) / SITE_WORDS;
/// Upper bound of the text of a reply, in bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// The form of these messages. Increases with each change.
const FORM: u64 = 1;

/// The number of the protocol: sessions and services with the same number understand each other. It depends
/// on the kernel side, too, whose maps the session reads.
pub fn protocol() -> u64 {
    // FNV-1a.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    OBJECT.iter().fold(0xcbf2_9ce4_8422_2325 ^ FORM, step)
}

/// A request of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a message has {0} bytes, which is no multiple of 8 from 24 to {MESSAGE_BYTES_MAX}")]
    Length(usize),
    #[error("there is no request {0}")]
    Kind(u64),
    #[error("a number of a message is out of range: {0}")]
    Number(u64),
    #[error("a message states {stated} places and has {found}")]
    Sites { stated: u64, found: usize },
}

const HELLO: u64 = 1;
const LOAD: u64 = 2;
const ATTACH: u64 = 3;

impl ServiceRequest {
    pub fn encode(&self) -> Vec<u8> {
        let words = match self {
            ServiceRequest::Hello { protocol, applies } => vec![HELLO, *protocol, u64::from(*applies)],
            ServiceRequest::Load(options) => {
                let sizes = [
                    options.probes,
                    options.processes,
                    options.rows,
                    options.partial_sums,
                ];
                [LOAD].into_iter().chain(sizes.map(u64::from)).collect()
            }
            ServiceRequest::Attach { at, sites } => {
                let moment = match at {
                    CallMoment::Entry => 0,
                    CallMoment::Exit { is_shared } => 1 + u64::from(*is_shared),
                };
                let mut words = vec![ATTACH, moment, sites.len() as u64];
                let of = |site: &ProbeSite| [site.offset, u64::from(site.probe), site.semaphore, site.exit];
                words.extend(sites.iter().flat_map(of));
                words
            }
        };
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// # Errors
    /// If the bytes are not exactly one request.
    pub fn decode(bytes: &[u8]) -> Result<ServiceRequest, FrameError> {
        let words = words(bytes)?;
        match words[..] {
            [HELLO, protocol, applies @ 0..2] => Ok(ServiceRequest::Hello {
                protocol,
                applies: applies == 1,
            }),
            [LOAD, probes, processes, rows, partial_sums] => Ok(ServiceRequest::Load(LoadOptions {
                probes: small(probes)?,
                processes: small(processes)?,
                rows: small(rows)?,
                partial_sums: small(partial_sums)?,
                links: LinkChoice::Best,
            })),
            [HELLO | LOAD, ..] => Err(FrameError::Length(bytes.len())),
            [ATTACH, moment, stated, ref sites @ ..] => {
                let at = match moment {
                    0 => CallMoment::Entry,
                    1 | 2 => CallMoment::Exit {
                        is_shared: moment == 2,
                    },
                    _ => return Err(FrameError::Number(moment)),
                };
                let (chunks, rest) = sites.as_chunks::<SITE_WORDS>();
                if chunks.len() as u64 != stated || !rest.is_empty() {
                    let found = chunks.len();
                    return Err(FrameError::Sites { stated, found });
                }
                let site = |[offset, probe, semaphore, exit]: &[u64; SITE_WORDS]| {
                    Ok(ProbeSite {
                        offset: *offset,
                        probe: small(*probe)?,
                        semaphore: *semaphore,
                        exit: *exit,
                    })
                };
                let sites = chunks.iter().map(site).collect::<Result<_, _>>()?;
                Ok(ServiceRequest::Attach { at, sites })
            }
            [kind, ..] => Err(FrameError::Kind(kind)),
            [] => Err(FrameError::Length(0)),
        }
    }
}

/// The answer of the service to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceRefusal {
    /// The session can go on without probes.
    NoProbes,
    /// The session requested what the policy forbids, so it ends.
    Forbidden,
}

impl ServiceReply {
    pub fn encode(&self) -> Vec<u8> {
        let (words, text) = match self {
            ServiceReply::Done {
                reports_waits,
                namespace,
            } => ([0, u64::from(*reports_waits), *namespace], &b""[..]),
            ServiceReply::Refused { why, kind } => {
                // A letter that is cut is shown as such.
                let end = why.len().min(TEXT_BYTES_MAX);
                let kind = u64::from(*kind == ServiceRefusal::Forbidden);
                ([1, kind, 0], &why.as_bytes()[..end])
            }
            ServiceReply::Failed { errno } => ([2, u64::from(errno.unsigned_abs()), 0], &b""[..]),
        };
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(text);
        bytes
    }

    /// # Errors
    /// If the bytes are no reply.
    pub fn decode(bytes: &[u8]) -> Result<ServiceReply, FrameError> {
        let (head, text) = bytes
            .split_at_checked(24)
            .ok_or(FrameError::Length(bytes.len()))?;
        match words(head)?[..] {
            [0, waits @ 0..2, namespace] => Ok(ServiceReply::Done {
                reports_waits: waits == 1,
                namespace,
            }),
            [1, kind @ 0..2, _] => Ok(ServiceReply::Refused {
                why: String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)]).into_owned(),
                kind: if kind == 1 {
                    ServiceRefusal::Forbidden
                } else {
                    ServiceRefusal::NoProbes
                },
            }),
            [2, errno, _] => Ok(ServiceReply::Failed {
                errno: i32::try_from(errno).map_err(|_| FrameError::Number(errno))?,
            }),
            ref other => Err(FrameError::Kind(other.first().copied().unwrap_or_default())),
        }
    }
}

fn words(bytes: &[u8]) -> Result<Vec<u64>, FrameError> {
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() || words.len() < HEAD_WORDS || bytes.len() > MESSAGE_BYTES_MAX {
        return Err(FrameError::Length(bytes.len()));
    }
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn small(number: u64) -> Result<u32, FrameError> {
    u32::try_from(number).map_err(|_| FrameError::Number(number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0..4_u64) {
            let bytes = [&kind.to_le_bytes()[..], &bytes].concat();
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
        let sites = vec![ProbeSite::new(1, 1); SITES_MAX];
        let bytes = ServiceRequest::Attach {
            at: CallMoment::Entry,
            sites,
        }
        .encode();
        assert!(bytes.len() <= MESSAGE_BYTES_MAX && ServiceRequest::decode(&bytes).is_ok());
    }
}
