//! What is at which path. Nothing here changes the service.
//!
//! The page itself is the same for everybody and needs no token; what it shows it asks for.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use http::{Method, Request, Response, StatusCode};
use serde_json::json;

use crate::guard::{Guard, ROUTER_PAGE, Refusal};
use crate::history::History;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// A file of the page: its path, its type, and what is in it.
type File = (&'static str, &'static str, &'static str);

const FILES: [File; 12] = [
    ("/", HTML, include_str!("page/index.html")),
    (ROUTER_PAGE, HTML, include_str!("page/router.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/app.js", JAVASCRIPT, include_str!("page/app.js")),
    ("/charts.js", JAVASCRIPT, include_str!("page/charts.js")),
    ("/format.js", JAVASCRIPT, include_str!("page/format.js")),
    ("/router.js", JAVASCRIPT, include_str!("page/router.js")),
    ("/shell.js", JAVASCRIPT, include_str!("page/shell.js")),
    ("/state.js", JAVASCRIPT, include_str!("page/state.js")),
    ("/tables.js", JAVASCRIPT, include_str!("page/tables.js")),
    ("/topology.js", JAVASCRIPT, include_str!("page/topology.js")),
];

/// The link to the router's page, as it is in the file, and as it is shown.
const HIDDEN_LINK: &str = r#"<a href="/router" hidden>"#;
/// See [`HIDDEN_LINK`].
const LINK: &str = r#"<a href="/router">"#;

/// Said by a dashboard that shows no router.
const NO_ROUTER: &str = "no router is shown here; --router PATH shows one\n";

/// What every answer has. Scripts and styles come from here only, none is inline, and no text
/// becomes markup (Trusted Types, where browsers have them).
const ALWAYS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

/// The page, and what it shows.
pub struct Site {
    guard: Guard,
    service: Arc<History>,
    router: Option<Arc<History>>,
}

impl Site {
    pub fn new(guard: Guard, service: Arc<History>, router: Option<Arc<History>>) -> Site {
        Site { guard, service, router }
    }

    /// Answers a request.
    pub fn answer(&self, request: &Request<()>) -> Response<Bytes> {
        let mut answer = match self.guard.hear(request) {
            Ok(()) => self.route(request),
            Err(Refusal::Host) => text(
                StatusCode::MISDIRECTED_REQUEST,
                "this dashboard does not have that name; --host NAME gives it one\n",
            ),
            Err(Refusal::Site) => text(StatusCode::FORBIDDEN, "another site has asked for this\n"),
        };
        let headers = answer.headers_mut();
        for (name, value) in ALWAYS {
            set(headers, &HeaderName::from_static(name), value);
        }
        set(headers, &CACHE_CONTROL, "no-store");
        answer
    }

    fn route(&self, request: &Request<()>) -> Response<Bytes> {
        let (method, path) = (request.method(), request.uri().path());
        if let Some((_, kind, contents)) = FILES.iter().find(|(at, ..)| *at == path) {
            return match *method {
                Method::GET | Method::HEAD => {
                    with(StatusCode::OK, kind, self.shown(contents).as_bytes())
                }
                _ => text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n"),
            };
        }
        match (method, path) {
            (&Method::POST, "/session") => self.begin(request.headers()),
            (&Method::DELETE, "/session") => {
                self.guard.end(request.headers());
                text(StatusCode::OK, "")
            }
            (&Method::GET, "/api/state") => self.state(request, Some(&self.service)),
            (&Method::GET, "/api/router") => self.state(request, self.router.as_deref()),
            (_, "/session" | "/api/state" | "/api/router") => {
                text(StatusCode::METHOD_NOT_ALLOWED, "not so\n")
            }
            _ => text(StatusCode::NOT_FOUND, "there is nothing here\n"),
        }
    }

    /// A file of the page, with the link to the router's page if there is a router.
    fn shown(&self, contents: &'static str) -> Cow<'static, str> {
        match self.router {
            Some(_) => contents.replace(HIDDEN_LINK, LINK).into(),
            None => contents.into(),
        }
    }

    /// A session for who shows the token.
    fn begin(&self, headers: &HeaderMap) -> Response<Bytes> {
        let Some(session) = self.guard.begin(headers) else { return unknown() };
        let body = json!({ "key": session.key.text() }).to_string();
        let mut answer = with(StatusCode::OK, JSON, body.as_bytes());
        set(answer.headers_mut(), &SET_COOKIE, &self.guard.cookie(&session));
        answer
    }

    /// `GET /api/state?since=SEQUENCE`, or `/api/router`: see [`History::since`].
    fn state(&self, request: &Request<()>, of: Option<&History>) -> Response<Bytes> {
        if !self.guard.knows(request.headers()) {
            return unknown();
        }
        let Some(history) = of else { return text(StatusCode::NOT_FOUND, NO_ROUTER) };
        let query = request.uri().query().unwrap_or_default();
        let since = query.split('&').find_map(|pair| pair.strip_prefix("since="));
        let Ok(since) = since.unwrap_or("0").parse() else {
            return text(StatusCode::BAD_REQUEST, "since=SEQUENCE, of the last answer\n");
        };
        with(StatusCode::OK, JSON, history.since(since).as_bytes())
    }
}

fn unknown() -> Response<Bytes> {
    let mut answer = text(StatusCode::UNAUTHORIZED, "show the token\n");
    set(answer.headers_mut(), &HeaderName::from_static("www-authenticate"), "Bearer");
    answer
}

fn text(status: StatusCode, text: &str) -> Response<Bytes> {
    with(status, TEXT, text.as_bytes())
}

fn with(status: StatusCode, kind: &str, body: &[u8]) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::copy_from_slice(body));
    *answer.status_mut() = status;
    set(answer.headers_mut(), &CONTENT_TYPE, kind);
    answer
}

fn set(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    let value = HeaderValue::from_str(value).expect("values are made here, of visible characters");
    headers.insert(name, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn every_answer_has_the_policies_of_the_page() {
        let guard = Guard::new(Secret::new(), Vec::new(), false);
        let site = Site::new(guard, Arc::new(History::new()), None);
        for (method, target, host, status) in [
            ("GET", "/", "localhost", 200),
            ("HEAD", "/app.js", "localhost", 200),
            ("POST", "/app.js", "localhost", 405),
            ("GET", "/app.js/", "localhost", 404),
            ("GET", "/api/state", "localhost", 401),
            ("GET", "/api/router", "localhost", 401),
            ("PUT", "/api/router", "localhost", 405),
            ("POST", "/session", "localhost", 401),
            ("GET", "/", "evil.example", 421),
        ] {
            let request = Request::builder().method(method).uri(target).header("host", host);
            let answer = site.answer(&request.body(()).expect("it is a request"));
            assert_eq!(answer.status(), status, "{method} {target}");
            for (name, value) in ALWAYS {
                assert_eq!(answer.headers()[name], value);
            }
            assert_eq!(answer.headers()[CACHE_CONTROL], "no-store");
        }
    }

    #[test]
    fn the_page_has_nothing_inline_and_nothing_from_elsewhere() {
        for (path, _, contents) in FILES {
            for forbidden in
                ["innerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="]
            {
                assert!(!contents.contains(forbidden), "{path} has {forbidden}");
            }
            // The name of SVG's elements is no address.
            let rest = contents.replace("http://www.w3.org/2000/svg", "");
            assert!(!rest.contains("http://") && !rest.contains("https://"), "{path}");
        }
    }
}
