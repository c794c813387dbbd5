//! A client for one call at a time, and functions that all clients share.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use core::time::Duration;

use petasos_base::{Clock, Time};
use petasos_buf::MsgBuf;
use petasos_endpoint::{
    CallError, CallSettings, Completion, Context, Endpoint, EndpointConfig, Node, NodeConfig,
    Payload, SessionId,
};

use petasos_cli::connect;
use petasos_cli::failure::Failure;
use petasos_cli::security::SecurityArgs;
use petasos_cli::transport::TransportArgs;

/// How long an adaptive loop spins before it sleeps.
pub const SPIN: Duration = Duration::from_micros(50);

/// Opens endpoint number `index` of the process, which receives packets at `ip`.
///
/// # Errors
/// If the packet I/O is not available.
pub fn open_endpoint<S>(
    transport: &TransportArgs,
    (ip, index): (IpAddr, u32),
    config: EndpointConfig,
    state: S,
) -> Result<Endpoint<S>, Failure> {
    let io = transport.open(ip, index)?;
    Ok(Endpoint::new(config, io, Clock::system(), state))
}

/// Opens an endpoint that can open sessions to `server`, and the node that it belongs to.
///
/// # Errors
/// If sockets or threads cannot be created.
pub fn open_client<S>(
    transport: &TransportArgs,
    security: &SecurityArgs,
    (server, connect_timeout): (SocketAddr, Duration),
    state: S,
) -> Result<(Node, Endpoint<S>), Failure> {
    let name = format!("petasos, process {}", std::process::id());
    let config = NodeConfig { connect_timeout, name, ..NodeConfig::default() };
    let node = Node::start(security.apply(config)?)?;
    let at = (transport.ip_towards(server), 0);
    let mut endpoint = open_endpoint(transport, at, EndpointConfig::default(), state)?;
    endpoint.attach(&node)?;
    Ok((node, endpoint))
}

/// The addresses that `text` (`HOST:PORT`) resolves to.
///
/// # Errors
/// If it has no port, or the host does not exist.
pub fn resolve(text: &str) -> Result<Vec<SocketAddr>, Failure> {
    let advice = "give HOST:PORT, such as 127.0.0.1:7411";
    let found = text.to_socket_addrs();
    let found = found.map_err(|error| {
        Failure::with_advice(format_args!("`{text}` is no address of a server: {error}"), advice)
    })?;
    let mut found: Vec<_> = found.filter(|address| address.port() != 0).collect();
    // A name may have addresses of both families. Servers listen on IPv4 by default.
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
    // Sessions live as long as their node, so it is kept.
    _node: Node,
}

/// The result of a call, and when it arrived.
struct Answer {
    result: Result<Vec<u8>, CallError>,
    at: Time,
}

impl Client {
    /// Connects to the first of `servers` that is reachable.
    ///
    /// # Errors
    /// The reason why the last one was not reachable.
    pub fn connect(
        transport: &TransportArgs,
        security: &SecurityArgs,
        servers: &[SocketAddr],
        timeout: Duration,
    ) -> Result<Client, Failure> {
        let connect = |server| Client::connect_to(transport, security, server, timeout);
        connect::first_that_answers(servers, connect)
    }

    fn connect_to(
        transport: &TransportArgs,
        security: &SecurityArgs,
        server: SocketAddr,
        timeout: Duration,
    ) -> Result<Client, Failure> {
        let (node, mut endpoint) = open_client(transport, security, (server, timeout), None)?;
        let session = endpoint.connect_and_wait(server, timeout);
        let session = session.map_err(|error| connect::failure(server, &error, transport))?;
        Ok(Client { endpoint, session, server, _node: node })
    }

    /// The server's address.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Calls `method`, waits for the answer, and returns it with the round-trip time.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub fn call(
        &mut self,
        method: u16,
        request: &[u8],
        timeout: Duration,
    ) -> Result<(Vec<u8>, Duration), Failure> {
        let (server, session) = (self.server, self.session);
        let settings = CallSettings { timeout: Some(timeout), ..CallSettings::default() };
        let cx = self.endpoint.context();
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
    cx: &mut Context<Option<Answer>>,
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
}
