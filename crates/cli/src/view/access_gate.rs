//! Decides which requests are answered.
//!
//! Everything but the page itself needs the token, unless the user has chosen `--no-token`.
//! Programs send it in a header. A browser opens `/?token=TOKEN` once: the answer sets a cookie
//! with a session secret and redirects to the address without the token, so that the token stays
//! neither in the history nor in the address bar. The cookie holds another secret than the token,
//! because browsers send cookies to all ports of a host.
//!
//! On a loopback address, requests must also name this machine, so that a foreign page cannot point
//! its own host name at the viewer. Pages of other origins can read nothing unless their origin is
//! allowed.

use std::io;
use std::net::SocketAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::http::{AccessToken, HttpRefusal, is_for_this_machine};

/// Headers of an answer that pages of other origins may read.
const EXPOSED: &str = "X-Pario-Milliseconds, X-Pario-Extents, X-Pario-Cache-Hits, \
                       X-Pario-Bytes-Read, X-Pario-Turn";

/// The access rules of a viewer.
#[derive(Clone, Debug)]
pub struct AccessGate {
    /// Whether the viewer listens on a loopback address.
    is_private: bool,
    secrets: Option<Secrets>,
    origins: Vec<String>,
}

#[derive(Clone, Debug)]
struct Secrets {
    token: AccessToken,
    /// The secret in the cookie of a browser that has shown the token.
    session: AccessToken,
    /// Name of the cookie. It includes the port, because all viewers of a host share their cookies.
    cookie: String,
}

/// The decision about a request that is not refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request is answered.
    Answer,
    /// The request has the token or the session secret, and is answered.
    Authorized,
    /// The browser is redirected to the address without the token; it gets the cookie if the token
    /// was right.
    Redirect {
        /// The address.
        location: String,
        /// The cookie.
        cookie: Option<String>,
    },
}

impl AccessGate {
    /// Creates the rules for a viewer at an address.
    pub fn new(
        address: SocketAddr,
        token: Option<AccessToken>,
        origins: Vec<String>,
    ) -> io::Result<Self> {
        let secrets = match token {
            Some(token) => {
                let cookie = format!("pario-view-{}", address.port());
                Some(Secrets { token, session: AccessToken::random()?, cookie })
            }
            None => None,
        };
        Ok(Self { is_private: address.ip().is_loopback(), secrets, origins })
    }

    /// Decides about a request.
    pub fn check(&self, request: &Parts) -> Result<Admission, HttpRefusal> {
        if self.is_private && !is_for_this_machine(request) {
            return Err(HttpRefusal::new(
                StatusCode::FORBIDDEN,
                "this viewer is for this machine: use localhost or 127.0.0.1 in the address",
            ));
        }
        let Some(secrets) = &self.secrets else { return Ok(Admission::Answer) };
        let path = request.uri.path();
        if path == "/" {
            return Ok(secrets.redirect(request).unwrap_or(Admission::Answer));
        }
        if !path.starts_with("/api/") {
            return Ok(Admission::Answer);
        }
        if secrets.has_credentials(request) {
            return Ok(Admission::Authorized);
        }
        Err(HttpRefusal::new(
            StatusCode::UNAUTHORIZED,
            "a token is required: open the URL that `pario view` printed, or send the header \
             `Authorization: Bearer TOKEN`",
        ))
    }

    /// Returns the origin of a foreign page, if it may read the answer.
    pub fn allowed_origin(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = request.get(header::ORIGIN)?;
        self.origins
            .iter()
            .any(|allowed| allowed.as_bytes() == origin.as_bytes())
            .then(|| origin.clone())
    }
}

impl Secrets {
    /// Returns whether a request has the token in its header, or the session secret in its cookie.
    fn has_credentials(&self, request: &Parts) -> bool {
        let texts = |name| {
            let values = request.headers.get_all(name).into_iter();
            values.filter_map(|value: &HeaderValue| value.to_str().ok())
        };
        let mut bearers =
            texts(header::AUTHORIZATION).filter_map(|value| value.strip_prefix("Bearer "));
        let mut cookies = texts(header::COOKIE)
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter(|(name, _)| *name == self.cookie);
        bearers.any(|given| self.token.is(given))
            || cookies.any(|(_, given)| self.session.is(given))
    }

    /// Returns the redirect for a browser that has a token in the address of the page.
    fn redirect(&self, request: &Parts) -> Option<Admission> {
        let (mut given, mut rest) = (None, Vec::new());
        for part in request.uri.query()?.split('&') {
            match part.strip_prefix("token=") {
                Some(token) => given = Some(token),
                None => rest.push(part),
            }
        }
        let cookie = self.token.is(given?).then(|| {
            let (name, session) = (&self.cookie, self.session.as_str());
            format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict")
        });
        let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
        Some(Admission::Redirect { location: format!("./{query}"), cookie })
    }
}

/// Sets the headers of every answer.
pub fn set_headers(headers: &mut HeaderMap, allowed: Option<HeaderValue>) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let mut say = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    say(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    say(header::REFERRER_POLICY, "no-referrer");
    say(header::VARY, "Origin");
    match allowed {
        None => say(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        Some(origin) => {
            say(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
            say(header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization");
            say(header::ACCESS_CONTROL_ALLOW_METHODS, "GET");
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(uri: &str, headers: &[(HeaderName, &str)]) -> Parts {
        let request = headers
            .iter()
            .fold(Request::get(uri), |request, (name, value)| request.header(name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_names_of_this_machine_are_let_in_on_it() {
        let gate = AccessGate::new("127.0.0.1:80".parse().unwrap(), None, Vec::new()).unwrap();
        let is_let_in = |name| gate.check(&parts("/api/volumes", &[(header::HOST, name)])).is_ok();
        for name in
            ["localhost", "LOCALHOST:81", "127.0.0.1", "127.0.0.1:8080", "[::1]:80", "[::1]"]
        {
            assert!(is_let_in(name), "{name}");
        }
        let others =
            ["evil.example", "localhost.evil.example:80", "10.0.0.1", "", "[::2]:80", ":80"];
        for name in others {
            assert!(!is_let_in(name), "{name}");
        }
        assert!(gate.check(&parts("/", &[])).is_err());
    }

    fn gate_with_token() -> AccessGate {
        let token: AccessToken = "a-secret-of-12".parse().unwrap();
        AccessGate::new("10.1.2.3:80".parse().unwrap(), Some(token), Vec::new()).unwrap()
    }

    #[test]
    fn the_token_lets_programs_in_by_a_header_only() {
        let gate = gate_with_token();
        let authorized =
            |value| gate.check(&parts("/api/volumes", &[(header::AUTHORIZATION, value)])).is_ok();
        assert!(authorized("Bearer a-secret-of-12"));
        assert!(!authorized("Bearer a-secret-of-13") && !authorized("a-secret-of-12"));
        for (uri, is_let_in) in [
            ("/", true),
            ("/viewer.js", true),
            ("/api/volumes", false),
            ("/api/volumes?token=a-secret-of-12", false),
        ] {
            assert_eq!(gate.check(&parts(uri, &[])).is_ok(), is_let_in, "{uri}");
        }
    }

    #[test]
    fn the_token_in_the_address_becomes_a_cookie() {
        let gate = gate_with_token();
        let redirect = |uri: &str| match gate.check(&parts(uri, &[])) {
            Ok(Admission::Redirect { location, cookie }) => (location, cookie),
            other => panic!("{uri}: {other:?}"),
        };
        let (location, cookie) = redirect("/?token=a-secret-of-12");
        let cookie = cookie.unwrap();
        assert_eq!(location, "./");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        assert!(cookie.starts_with("pario-view-80=") && !cookie.contains("a-secret"), "{cookie}");
        assert_eq!(redirect("/?a=1&token=a-secret-of-12&b=2").0, "./?a=1&b=2");
        assert_eq!(redirect("/?token=guess"), ("./".to_owned(), None));

        let value = cookie.split(';').next().unwrap();
        let with = |value: &str| gate.check(&parts("/api/volumes", &[(header::COOKIE, value)]));
        assert_eq!(with(value).unwrap(), Admission::Authorized);
        assert_eq!(with(&format!("x=1; {value}; y=2")).unwrap(), Admission::Authorized);
        let token = "pario-view-80=a-secret-of-12";
        for wrong in [token, "pario-view-80=", "pario-view-80", &value.replace("80", "81")] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
        // Another viewer has another secret.
        assert!(
            gate_with_token().check(&parts("/api/volumes", &[(header::COOKIE, value)])).is_err()
        );
    }

    #[test]
    fn origins_are_compared_whole() {
        let allowed = vec!["https://lab.example".to_owned()];
        let gate = AccessGate::new("127.0.0.1:80".parse().unwrap(), None, allowed).unwrap();
        let is_allowed = |origin| {
            let request = parts("/", &[(header::ORIGIN, origin)]);
            gate.allowed_origin(&request.headers).is_some()
        };
        assert!(is_allowed("https://lab.example"));
        assert!(!is_allowed("https://lab.example.evil") && !is_allowed("null"));
        assert!(gate.allowed_origin(&HeaderMap::new()).is_none());
    }
}
