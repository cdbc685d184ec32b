//! The secret that grants access to the page: all users of a machine can connect to loopback, but only the
//! session's user may see the page.

use std::io;

use hyper::{
    HeaderMap,
    header::{COOKIE, HeaderValue},
};
use rustix::rand::{GetRandomFlags, getrandom};

use super::answer::fields;

/// 128 random bits, as hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

/// Hides the token: the session prints it once, and no log may contain it.
impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token")
    }
}

impl Token {
    pub(crate) fn new() -> io::Result<Token> {
        let mut bits = [0; 16];
        let mut filled = 0;
        while filled < bits.len() {
            filled += getrandom(&mut bits[filled..], GetRandomFlags::empty())?;
        }
        Ok(Token(format!("{:032x}", u128::from_ne_bytes(bits))))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether a request has the token, in its query or as this cookie.
    pub(super) fn is_in(&self, query: Option<&str>, headers: &HeaderMap, cookie: &str) -> bool {
        self.is_in_query(query) || self.is_in_cookie(headers, cookie)
    }

    pub(super) fn is_in_query(&self, query: Option<&str>) -> bool {
        fields(query, "t").any(|text| self.is(text))
    }

    fn is_in_cookie(&self, headers: &HeaderMap, cookie: &str) -> bool {
        let headers = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|header| header.to_str().ok());
        let mut cookies = headers.flat_map(|header| header.split(';'));
        cookies.any(|pair| {
            let pair = pair.trim().split_once('=');
            pair.is_some_and(|(name, text)| name == cookie && self.is(text))
        })
    }

    /// Compares in a time that does not depend on the position of the first difference, which an attacker
    /// could measure.
    fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        let pairs = ours.iter().zip(theirs);
        let differences = pairs.fold(0, |found, (one, other)| {
            std::hint::black_box(found | (one ^ other))
        });
        ours.len() == theirs.len() && differences == 0
    }

    /// The cookie that keeps the token in a browser. Its name contains the port, because browsers share
    /// cookies between the ports of a host.
    pub(super) fn cookie(&self, name: &str) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("{name}={}; HttpOnly; SameSite=Strict; Path=/", self.0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_accepted_in_the_address_and_in_its_cookie_only() {
        let token = Token("0123456789abcdef0123456789abcdef".to_owned());
        let known = token.text().to_owned();
        for (query, cookie, is_known) in [
            (format!("t={known}"), String::new(), true),
            (format!("a=b&t={known}"), String::new(), true),
            (String::new(), format!("other=1; tuneagent-9478={known}"), true),
            (String::new(), format!("tuneagent-9479={known}"), false),
            (format!("t={known}0"), String::new(), false),
            (format!("t={}", &known[1..]), String::new(), false),
            ("t=".to_owned(), "tuneagent-9478=".to_owned(), false),
            (format!("x={known}"), known.clone(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_str(&cookie).unwrap());
            let is_there = token.is_in(Some(&query), &headers, "tuneagent-9478");
            assert_eq!(is_there, is_known, "{query:?} {cookie:?}");
        }
    }

    #[test]
    fn each_session_has_another_token_and_no_log_has_it() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_eq!(one.text().len(), 32);
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "Token");
    }
}
