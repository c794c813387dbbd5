//! `http://` and `redis://`.

use std::net::SocketAddr;

use petasos_cli::failed::Failed;
use petasos_load::{Http, Protocol, Resp, Target, TcpTarget};

use super::args::LoadArgs;
use crate::client::resolve;

/// Connections without --connections.
const HTTP_CONNECTIONS: u32 = 128;
const REDIS_CONNECTIONS: u32 = 8;

/// A URL after its scheme.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    /// As it was given.
    host: &'a str,
    /// With a port.
    address: String,
    path: &'a str,
}

impl<'a> Url<'a> {
    fn parse(url: &'a str, scheme: &str, port: u16) -> Result<Url<'a>, Failed> {
        let rest = url.strip_prefix(scheme).unwrap_or(url);
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if host.contains('@') || path.contains('#') {
            return Err(Failed::new(format!("`{url}` has more than a host, a port and a path"))
                .with_advice("leave users, passwords and fragments away"));
        }
        // Colons within brackets are of an IPv6 address.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let address = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        Ok(Url { host, address, path })
    }
}

/// A GET request.
pub struct Web {
    servers: Vec<SocketAddr>,
    request: Http,
}

impl Web {
    /// For the URL that `args` name.
    pub fn new(args: &LoadArgs) -> Result<Web, Failed> {
        if !args.request.is_empty() {
            return Err(Failed::new("http:// takes no request: it is a GET of the path")
                .with_advice("put the path after the port"));
        }
        let url = Url::parse(&args.server.address, "http://", 80)?;
        let path =
            if url.path.starts_with('/') { url.path.to_owned() } else { format!("/{}", url.path) };
        let request = Http::get(url.host, &path, &args.server.headers).map_err(|error| {
            Failed::new(error.to_string()).with_advice("give http://HOST:PORT/PATH")
        })?;
        Ok(Web { servers: resolve(&url.address)?, request })
    }

    /// Opens the connections.
    pub fn connect(&self, args: &LoadArgs) -> Result<Box<dyn Target + '_>, Failed> {
        connect(self.request.clone(), &self.servers, args, HTTP_CONNECTIONS)
    }
}

/// A command.
pub struct Redis {
    servers: Vec<SocketAddr>,
    command: Resp,
}

impl Redis {
    /// Of the words that `args` give.
    pub fn new(args: &LoadArgs) -> Result<Redis, Failed> {
        let url = Url::parse(&args.server.address, "redis://", 6379)?;
        if !url.path.trim_matches('/').is_empty() || !args.server.headers.is_empty() {
            return Err(Failed::new("redis:// has no path and no headers")
                .with_advice("give redis://HOST:PORT and a command"));
        }
        let ping = ["PING".to_owned()];
        let words = if args.request.is_empty() { &ping[..] } else { &args.request };
        let command = Resp::command(words).map_err(|error| {
            Failed::new(error.to_string()).with_advice("give a command, such as GET key")
        })?;
        Ok(Redis { servers: resolve(&url.address)?, command })
    }

    /// Opens the connections.
    pub fn connect(&self, args: &LoadArgs) -> Result<Box<dyn Target + '_>, Failed> {
        connect(self.command.clone(), &self.servers, args, REDIS_CONNECTIONS)
    }
}

fn connect<P: Protocol + 'static>(
    protocol: P,
    servers: &[SocketAddr],
    args: &LoadArgs,
    connections: u32,
) -> Result<Box<dyn Target + 'static>, Failed> {
    let connections = args.connections.unwrap_or(connections) as usize;
    let timeout = args.server.connect_timeout;
    let target = TcpTarget::connect(protocol, servers, connections, timeout);
    let target = target.map_err(|error| {
        Failed::new(format!("cannot connect to {}: {error}", args.server.address))
            .with_advice("check the address, and that a server runs there")
    })?;
    Ok(Box::new(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_hosts_ports_and_paths() {
        for (url, host, address, path) in [
            ("http://a", "a", "a:80", ""),
            ("http://a:1/b/c?d", "a:1", "a:1", "/b/c?d"),
            ("http://a?d", "a", "a:80", "?d"),
            ("http://[::1]/", "[::1]", "[::1]:80", "/"),
            ("http://[::1]:9/", "[::1]:9", "[::1]:9", "/"),
        ] {
            let address = address.to_owned();
            assert_eq!(Url::parse(url, "http://", 80).expect(url), Url { host, address, path });
        }
        for url in ["http://user@a", "http://a/b#c"] {
            assert!(Url::parse(url, "http://", 80).is_err(), "{url}");
        }
    }
}
