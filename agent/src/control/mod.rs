//! The control of a running session: a Unix socket with one JSON object per line and an answer for each
//! request. Access is limited by the folder (0700), the socket (0600) and the credentials of the peer, which
//! the kernel provides.
//!
//! The messages are in [`session::request`]. This file parses requests, `place` is the folder of the sockets,
//! `server` the session's side, `client` that of `tuneagent session`. The session decides what a request does
//! (`session/requests.rs`).

mod client;
mod place;
mod server;

use session::request::{Answer, RefusalKind, Request};

pub(crate) use client::{Answered, ControlError, SessionClient, sessions};
pub(crate) use place::{FolderError, folder};
pub(crate) use server::{Control, PendingRequest, serve};

/// Maximum length of a request, which may contain the text of a rule. A longer one ends the connection.
pub(crate) const REQUEST_BYTES_MAX: usize = 256 << 10;
/// Maximum length of an answer that a client reads: a report of thousands of processes fits.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Parses a request. An invalid request is answered, and never ends the session.
pub(crate) fn parse(line: &[u8]) -> Result<Request, Answer> {
    if line.len() > REQUEST_BYTES_MAX {
        let text = format!("a request is longer than {REQUEST_BYTES_MAX} bytes");
        return Err(Answer::refused(RefusalKind::Protocol, text));
    }
    serde_json::from_slice(line).map_err(|error| {
        Answer::refused(
            RefusalKind::Protocol,
            format!("not understood: {error}; there are list, snapshot, switch (rule, mode), add (given, mode), remove (rule, keep), stop"),
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use session::request::Mode;

    #[test]
    fn requests_are_one_object_each() {
        let cases: [(&str, Option<Request>); 9] = [
            (r#"{"request":"list"}"#, Some(Request::List)),
            (r#"{"request":"stop"}"#, Some(Request::Stop)),
            (r#"{"request":"snapshot"}"#, Some(Request::Snapshot)),
            (
                r#"{"request":"switch","rule":"r","mode":"off"}"#,
                Some(Request::Switch {
                    rule: "r".into(),
                    mode: Mode::Off,
                }),
            ),
            (r#"{"request":"switch","rule":"r","mode":"on"}"#, None),
            (
                r#"{"request":"switch","rule":"r","mode":"off","apply":true}"#,
                None,
            ),
            (r#"{"request":"set"}"#, None),
            (r#"[]"#, None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()).ok(), expected, "{text}");
        }
        let long = format!(
            r#"{{"request":"switch","rule":"{}","mode":"off"}}"#,
            "r".repeat(REQUEST_BYTES_MAX)
        );
        assert!(parse(long.as_bytes()).is_err());
    }

    fn any_request() -> impl Strategy<Value = Request> {
        let mode = prop_oneof![Just(Mode::Off), Just(Mode::Advising), Just(Mode::Applying)];
        prop_oneof![
            Just(Request::List),
            Just(Request::Snapshot),
            Just(Request::Stop),
            ("\\PC{0,100}", any::<bool>()).prop_map(|(rule, keep)| Request::Remove { rule, keep }),
            ("\\PC{0,100}", mode).prop_map(|(rule, mode)| Request::Switch { rule, mode }),
        ]
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn damage_anywhere_is_refused_or_another_request_and_never_a_panic(
            request in any_request(), at: prop::sample::Index, byte: u8
        ) {
            let mut line = serde_json::to_vec(&request).unwrap();
            let place = at.index(line.len());
            line[place] = byte;
            let _ = parse(&line);
            line.truncate(place);
            prop_assert!(parse(&line).is_err(), "half a request is none");
        }

        #[test]
        fn every_request_is_read_back(request in any_request()) {
            prop_assert_eq!(parse(&serde_json::to_vec(&request).unwrap()), Ok(request));
        }
    }
}
