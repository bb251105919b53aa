//! Who may ask: API keys, and the names under which the server may be reached.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, header, uri::Authority};

use super::error::ApiError;

/// The keys that are accepted; without any, every request is.
#[derive(Clone, Default)]
pub struct Keys(Vec<String>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.0.len()) // how many, never which
    }
}

impl Keys {
    /// One key a line; empty lines and lines that start with `#` are none.
    #[must_use]
    pub fn from_lines(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(str::to_owned).collect())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks `Authorization: Bearer KEY`.
    ///
    /// # Errors
    /// `invalid_api_key` where there are keys and none was sent.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        if self.is_empty() {
            return Ok(());
        }
        let sent = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let sent = match sent.split_at_checked("Bearer ".len()) {
            Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"Bearer ") => key.trim_ascii(),
            _ => &[],
        };
        // All keys are compared, whichever fits.
        let fits = self.0.iter().fold(false, |fits, key| fits | same(key.as_bytes(), sent));
        if fits { Ok(()) } else { Err(ApiError::invalid_key()) }
    }
}

/// Compares in a time that depends on the length of `sent` alone.
fn same(key: &[u8], sent: &[u8]) -> bool {
    let mut difference = u8::from(key.len() != sent.len());
    for (i, byte) in sent.iter().enumerate() {
        let of_key = if key.is_empty() { !byte } else { key[i % key.len()] };
        difference = std::hint::black_box(difference | (byte ^ of_key));
    }
    difference == 0
}

/// The names that `Host` and `Origin` may have. A page of another site can make a browser send requests here (DNS
/// rebinding); its name gives it away.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names beside localhost, loopback addresses and the bound address.
    pub hosts: Vec<String>,
    /// Origins of pages that may use the server.
    pub origins: Vec<String>,
}

impl Names {
    /// Checks both headers; the answer is the origin, if one was sent.
    ///
    /// # Errors
    /// `host_not_allowed`, `origin_not_allowed`.
    pub fn check<'h>(&self, headers: &'h HeaderMap, bound: SocketAddr) -> Result<Option<&'h str>, ApiError> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("not ASCII"));
        let host = text(header::HOST).unwrap_or_default();
        if !self.is_own(host, bound.ip()) {
            return Err(ApiError::host_not_allowed(host));
        }
        match text(header::ORIGIN) {
            Some(origin) if !self.origins.iter().any(|allowed| allowed == origin) => {
                Err(ApiError::origin_not_allowed(origin))
            }
            origin => Ok(origin),
        }
    }

    fn is_own(&self, host: &str, bound: IpAddr) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        if name.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return true;
        }
        let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // Bound to all addresses, it has more than one; a rebound name is a name, never an address.
        literal.is_ok_and(|ip| ip.is_loopback() || ip == bound || bound.is_unspecified())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header value"));
        headers
    }

    #[test]
    fn only_a_listed_key_fits() {
        let keys = Keys::from_lines("# comment\nalpha\n\n beta \n");
        for (sent, fits) in [
            ("Bearer alpha", true),
            ("bearer beta", true),
            ("Bearer alph", false),
            ("Bearer alphaalpha", false),
            ("Bearer ", false),
            ("Basic alpha", false),
            ("alpha", false),
        ] {
            assert_eq!(keys.check(&with(header::AUTHORIZATION, sent)).is_ok(), fits, "{sent}");
        }
        assert!(keys.check(&HeaderMap::new()).is_err());
        assert!(Keys::default().check(&HeaderMap::new()).is_ok());
        assert_eq!(format!("{keys:?}"), "Keys(2)");
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let names = Names { hosts: vec!["gpu.lan".into()], origins: vec!["http://app.lan".into()] };
        let bound: SocketAddr = "192.0.2.7:80".parse().expect("an address");
        for (host, fits) in [
            ("localhost:8080", true),
            ("127.0.0.1", true),
            ("127.9.9.9:1", true),
            ("[::1]:8080", true),
            ("192.0.2.7:80", true),
            ("GPU.lan", true),
            ("192.0.2.8", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            assert_eq!(names.check(&with(header::HOST, host), bound).is_ok(), fits, "{host}");
        }
        let mut headers = with(header::HOST, "localhost");
        headers.insert(header::ORIGIN, "http://app.lan".parse().expect("a value"));
        assert_eq!(names.check(&headers, bound).expect("allowed"), Some("http://app.lan"));
        headers.insert(header::ORIGIN, "null".parse().expect("a value"));
        assert_eq!(names.check(&headers, bound).expect_err("foreign").code(), "origin_not_allowed");
    }
}
