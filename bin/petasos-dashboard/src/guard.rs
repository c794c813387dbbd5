//! Who may see what: judged by the heads of requests.
//!
//! # Invariants
//! - Nothing of the service is shown without the token, or a session that began with it.
//! - A page of another origin gets no answer, whatever the browser sends along: names that are not
//!   this host's (DNS rebinding) and requests from other sites are refused first.

use http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, ORIGIN};
use http::request::Request;
use petasos_base::{SystemClock, Time};

use crate::secret::Secret;
use crate::sessions::{Session, Sessions};

/// Where the page of a router is.
pub const ROUTER_PAGE: &str = "/router";
/// The half of a session that the page keeps.
const KEY: &str = "x-petasos-key";
/// Whose page has made the browser ask: browsers say so, and pages cannot.
const SITE: &str = "sec-fetch-site";
/// What the browser wants it for.
const MODE: &str = "sec-fetch-mode";

/// Knows the token and who has shown it.
pub struct Guard {
    token: Secret,
    sessions: Sessions,
    /// Names of this host, beside `localhost` and its addresses.
    hosts: Vec<String>,
    cookie_name: String,
    is_tls: bool,
    clock: SystemClock,
}

/// Why a request is not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is for a name that is not this host's.
    Host,
    /// Another site's page has caused it.
    Site,
}

impl Guard {
    pub fn new(token: Secret, hosts: Vec<String>, is_tls: bool) -> Guard {
        // Cookies go to all ports of a host: each dashboard's has another name. Over TLS, the
        // prefix keeps other hosts of the domain from setting it.
        let prefix = if is_tls { "__Host-" } else { "" };
        let cookie_name = format!("{prefix}petasos-{}", &Secret::new().text()[..8]);
        let (sessions, clock) = (Sessions::default(), SystemClock::default());
        Guard { token, sessions, hosts, cookie_name, is_tls, clock }
    }

    /// Whether a request may be looked at.
    ///
    /// # Errors
    /// Why not.
    pub fn hear(&self, request: &Request<()>) -> Result<(), Refusal> {
        let host = one(request.headers(), HOST.as_str()).ok_or(Refusal::Host)?;
        // A request may name the host in its first line, too.
        let named = request.uri().authority().map(|authority| authority.as_str());
        if !self.is_ours(host) || named.is_some_and(|named| !self.is_ours(named)) {
            return Err(Refusal::Host);
        }
        if let Some(origin) = request.headers().get(ORIGIN) {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            if origin.is_none_or(|(_, from)| from != host) {
                return Err(Refusal::Site);
            }
        }
        let word =
            |name: &str| request.headers().get(name).map_or(b"".as_slice(), |it| it.as_bytes());
        // A link may lead to a page, which shows nothing by itself.
        let is_page = matches!(request.uri().path(), "/" | ROUTER_PAGE);
        let is_link = word(MODE) == b"navigate" && is_page;
        match word(SITE) {
            b"" | b"same-origin" | b"none" => Ok(()),
            _ if is_link => Ok(()),
            _ => Err(Refusal::Site),
        }
    }

    /// Whether the asker may see the service.
    pub fn knows(&self, headers: &HeaderMap) -> bool {
        let halves = self.halves(headers);
        self.has_token(headers)
            || halves.is_some_and(|(cookie, key)| self.sessions.has(cookie, key, self.now()))
    }

    /// Begins a session, if the token is right.
    pub fn begin(&self, headers: &HeaderMap) -> Option<Session> {
        self.has_token(headers).then(|| self.sessions.begin(self.now()))
    }

    /// Ends the asker's session.
    pub fn end(&self, headers: &HeaderMap) {
        if let Some((cookie, key)) = self.halves(headers) {
            self.sessions.end(cookie, key, self.now());
        }
    }

    /// What sets a session's cookie.
    pub fn cookie(&self, session: &Session) -> String {
        let secure = if self.is_tls { "; Secure" } else { "" };
        let (name, value) = (&self.cookie_name, session.cookie.text());
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}")
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let said = one(headers, AUTHORIZATION.as_str()).and_then(|said| said.split_once(' '));
        let said = said.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        said.is_some_and(|(_, said)| self.token.is(said.trim()))
    }

    fn halves<'a>(&self, headers: &'a HeaderMap) -> Option<(&'a str, &'a str)> {
        let key = one(headers, KEY)?;
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|it| it.split_once('='));
        let (_, cookie) = pairs.find(|(name, _)| name.trim() == self.cookie_name)?;
        Some((cookie.trim(), key))
    }

    /// Whether a name, with or without a port, is this host's. An address is: no name that leads
    /// here is in it, so no other page has it as its own. Ports are not looked at, since they may
    /// be forwarded.
    fn is_ours(&self, authority: &str) -> bool {
        let host = host_of(authority);
        let is_address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inside) => inside.parse::<std::net::Ipv6Addr>().is_ok(),
            None => host.parse::<std::net::Ipv4Addr>().is_ok(),
        };
        let mut names = self.hosts.iter().map(String::as_str).chain(["localhost"]);
        is_address || names.any(|name| host.eq_ignore_ascii_case(name))
    }
}

/// A host without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// A header that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, headers: &[(&str, &str)]) -> Request<()> {
        let builder = Request::builder().uri(target);
        let builder = headers.iter().fold(builder, |it, (name, value)| it.header(*name, *value));
        builder.body(()).expect("it is a request")
    }

    fn guard() -> Guard {
        Guard::new(Secret::new(), vec!["Node7.example".to_owned()], false)
    }

    #[test]
    fn only_names_of_this_host_are_heard() {
        let guard = guard();
        let hear = |host: &str| guard.hear(&request("/", &[("host", host)]));
        for ours in [
            "localhost",
            "LOCALHOST:9470",
            "127.0.0.1:9470",
            "10.1.2.3",
            "[::1]:9470",
            "[2001:db8::1]",
            "node7.example:443",
        ] {
            assert_eq!(hear(ours), Ok(()), "{ours}");
        }
        for others in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9470",
            "node7.example.",
            "",
            ":9470",
            "[::1",
            "::1",
            "127.0.0.1:9470:80",
            "localhost@evil.example",
            "localhost:80x",
        ] {
            assert_eq!(hear(others), Err(Refusal::Host), "{others}");
        }
        let twice = request("/", &[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(guard.hear(&twice), Err(Refusal::Host));
        assert_eq!(guard.hear(&request("/", &[])), Err(Refusal::Host));
        let absolute = request("http://evil.example/", &[("host", "localhost")]);
        assert_eq!(guard.hear(&absolute), Err(Refusal::Host));
    }

    #[test]
    fn pages_of_other_sites_are_refused_and_links_lead_to_the_page_only() {
        let guard = guard();
        let hear = |target: &str, more: &[(&str, &str)]| {
            guard.hear(&request(target, &[&[("host", "localhost:9470")], more].concat()))
        };
        assert_eq!(hear("/api/state", &[("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(hear("/", &[("sec-fetch-site", "none")]), Ok(()));
        assert_eq!(hear("/session", &[("origin", "http://localhost:9470")]), Ok(()));
        for site in ["cross-site", "same-site", "nonsense"] {
            let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate")];
            assert_eq!((hear("/", &link), hear(ROUTER_PAGE, &link)), (Ok(()), Ok(())));
            assert_eq!(hear("/api/state", &link), Err(Refusal::Site));
            let fetched = [("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
            assert_eq!(hear("/", &fetched), Err(Refusal::Site));
        }
        // Another port of this host is another origin, though the same site.
        for origin in ["http://localhost:9471", "http://evil.example", "null", ""] {
            assert_eq!(hear("/session", &[("origin", origin)]), Err(Refusal::Site), "{origin}");
        }
    }

    #[test]
    fn the_token_or_both_halves_of_a_session_are_needed() {
        let guard = guard();
        let knows = |headers: &[(&str, &str)]| guard.knows(request("/", headers).headers());
        let bearer = format!("Bearer {}", guard.token.text());
        assert!(knows(&[("authorization", &bearer)]));
        for wrong in ["", "Bearer", "Bearer ", &bearer[..20], &bearer[7..], "Bearer x"] {
            assert!(!knows(&[("authorization", wrong)]), "{wrong}");
            assert!(guard.begin(request("/", &[("authorization", wrong)]).headers()).is_none());
        }
        assert!(!knows(&[("authorization", &bearer), ("authorization", &bearer)]));
        let session = guard.begin(request("/", &[("authorization", &bearer)]).headers());
        let session = session.expect("the token is right");
        let set = guard.cookie(&session);
        assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{set}");
        let pair = set.split(';').next().expect("it is a pair");
        let (cookie, key) = (format!("a=b; {pair}; c=d"), session.key.text());
        assert!(knows(&[("cookie", &cookie), ("x-petasos-key", key)]));
        assert!(!knows(&[("cookie", &cookie)]), "as another port of this host could");
        assert!(!knows(&[("x-petasos-key", key)]), "as a script could that has stolen it");
        assert!(!knows(&[("cookie", &cookie), ("x-petasos-key", Secret::new().text())]));
        guard.end(request("/", &[("cookie", &cookie), ("x-petasos-key", key)]).headers());
        assert!(!knows(&[("cookie", &cookie), ("x-petasos-key", key)]));
        let secure = Guard::new(Secret::new(), Vec::new(), true);
        let set = secure.cookie(&session);
        assert!(set.starts_with("__Host-petasos-") && set.ends_with("; Secure"), "{set}");
    }
}
