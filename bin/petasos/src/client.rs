//! A client for one call at a time, and what every client needs to get that far.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use core::time::Duration;

use petasos_base::{Clock, Time};
use petasos_buf::MsgBuf;
use petasos_endpoint::{
    CallError, CallSettings, Completion, Context, Endpoint, EndpointConfig, Node, NodeConfig,
    Payload, SessionId,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

use crate::failure::Failure;

/// How long an adaptive loop spins before it sleeps.
pub const SPIN: Duration = Duration::from_micros(50);

/// An endpoint over UDP whose packets arrive at `address`.
///
/// # Errors
/// If the socket cannot be had.
pub fn open_endpoint<S>(
    address: SocketAddr,
    config: EndpointConfig,
    state: S,
) -> Result<Endpoint<S>, Failure> {
    let io = UdpIo::bind(address, UdpConfig::default())?;
    Ok(Endpoint::new(config, io, Clock::system(), state))
}

/// An endpoint that can open sessions to `server`, with the node that it is attached to.
///
/// # Errors
/// If sockets or threads cannot be had.
pub fn open_client<S>(
    server: SocketAddr,
    connect_timeout: Duration,
    state: S,
) -> Result<(Node, Endpoint<S>), Failure> {
    let name = format!("petasos, process {}", std::process::id());
    let node = Node::start(NodeConfig { connect_timeout, name, ..NodeConfig::default() })?;
    let address = SocketAddr::new(local_ip_towards(server.ip()), 0);
    let mut endpoint = open_endpoint(address, EndpointConfig::default(), state)?;
    endpoint.attach(&node)?;
    Ok((node, endpoint))
}

/// Where to bind to reach `server`: what goes to this host does not listen to others.
fn local_ip_towards(server: IpAddr) -> IpAddr {
    match server {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The addresses that `text` (`HOST:PORT`) stands for.
///
/// # Errors
/// If it has no port or names no host.
pub fn resolve(text: &str) -> Result<Vec<SocketAddr>, Failure> {
    let advice = "give HOST:PORT, such as 127.0.0.1:7411";
    let found = text.to_socket_addrs();
    let found = found.map_err(|error| {
        Failure::with_advice(format_args!("`{text}` is no address of a server: {error}"), advice)
    })?;
    let mut found: Vec<_> = found.filter(|address| address.port() != 0).collect();
    // A name may stand for both families; servers listen on IPv4 unless told otherwise.
    found.sort_by_key(SocketAddr::is_ipv6);
    if found.is_empty() {
        let what = format_args!("`{text}` is no address of a server: port 0 cannot be called");
        return Err(Failure::with_advice(what, advice));
    }
    Ok(found)
}

/// A client that makes one call at a time.
pub struct Client {
    endpoint: Endpoint<Option<Answer>>,
    session: SessionId,
    server: SocketAddr,
    // Sessions live as long as their node.
    _node: Node,
}

/// How a call ended, and when.
struct Answer {
    result: Result<Vec<u8>, CallError>,
    at: Time,
}

impl Client {
    /// Connects to the first of `servers` that answers.
    ///
    /// # Errors
    /// Why the last of them did not.
    pub fn connect(servers: &[SocketAddr], timeout: Duration) -> Result<Client, Failure> {
        let mut last = Failure::new("there is no address to connect to");
        for server in servers {
            match Client::connect_to(*server, timeout) {
                Ok(client) => return Ok(client),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    fn connect_to(server: SocketAddr, timeout: Duration) -> Result<Client, Failure> {
        let (node, mut endpoint) = open_client(server, timeout, None)?;
        let session = endpoint.connect_and_wait(server, timeout);
        let session = session.map_err(|error| Failure::of_connect(server, &error))?;
        Ok(Client { endpoint, session, server, _node: node })
    }

    /// The server's address.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Calls `method` and waits for the answer. Returns it with the round trip's time.
    ///
    /// # Errors
    /// Why there is none.
    pub fn call(
        &mut self,
        method: u16,
        request: &[u8],
        timeout: Duration,
    ) -> Result<(Vec<u8>, Duration), Failure> {
        let (server, session) = (self.server, self.session);
        let settings = CallSettings { timeout: Some(timeout), ..CallSettings::default() };
        let mut cx = self.endpoint.context();
        let begun_at = cx.now();
        let request = MsgBuf::from_slice(request);
        cx.enqueue_with(session, method, request, keep_answer, 0, &settings)
            .map_err(|refused| Failure::of_enqueue(server, refused.error))?;
        self.endpoint.run(|answer, _| answer.is_some());
        let answer = self.endpoint.state_mut().take().expect("the loop ran until it was there");
        match answer.result {
            Ok(bytes) => Ok((bytes, answer.at - begun_at)),
            Err(error) => {
                let why = self.endpoint.context().session_error(session);
                Err(Failure::of_call(server, error, why.as_ref()))
            }
        }
    }
}

fn keep_answer(
    state: &mut Option<Answer>,
    cx: &mut Context<'_, Option<Answer>>,
    completion: Completion<'_>,
) {
    let result = completion.result.map(|payload| {
        let bytes = payload.to_vec();
        if let Payload::Buffer(buf) = payload {
            cx.free(buf);
        }
        bytes
    });
    cx.free(completion.request);
    *state = Some(Answer { result, at: cx.now() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_a_host_and_a_port() {
        assert_eq!(resolve("127.0.0.1:80").unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        for text in ["", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", ":80:"] {
            let failure = resolve(text).unwrap_err().to_string();
            assert!(failure.contains("HOST:PORT"), "{text}: {failure}");
        }
    }

    #[test]
    fn a_client_of_this_host_is_deaf_to_others() {
        assert!(local_ip_towards("127.0.0.9".parse().unwrap()).is_loopback());
        assert!(local_ip_towards("::1".parse().unwrap()).is_loopback());
        assert!(local_ip_towards("192.0.2.1".parse().unwrap()).is_unspecified());
    }
}
