//! Limits and timeouts of connections.

use std::net::IpAddr;
use std::time::Duration;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;
/// No limit for a whole connection: a stream that is not read must not stop the others, and each
/// stream has its own window.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// How a peer that is gone is noticed on a connection without traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The time between the answer to a ping and the next ping.
    pub interval: Duration,
    /// How long an answer may take before the connection is closed.
    pub timeout: Duration,
    /// At a client: whether it pings while it has no calls, which servers may forbid.
    pub without_calls: bool,
}

impl Default for Keepalive {
    fn default() -> Keepalive {
        let (interval, timeout) = (Duration::from_secs(60), Duration::from_secs(20));
        Keepalive { interval, timeout, without_calls: false }
    }
}

/// How often clients may ping (gRPC's proposal A8). If a client pings more often, three times
/// without having been sent anything, it is told `too_many_pings` and its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingLimit {
    /// The shortest time between two pings.
    pub interval_min: Duration,
    /// Whether clients without calls may ping just as often; otherwise only once in two hours.
    pub without_calls: bool,
}

impl Default for PingLimit {
    fn default() -> PingLimit {
        PingLimit { interval_min: Duration::from_secs(5 * 60), without_calls: false }
    }
}

/// Configuration of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GrpcConfig {
    /// Longest message that is accepted, in bytes, before and after decompression.
    pub receive_bytes_max: usize,
    /// The most concurrent calls on one connection.
    pub streams_max: u32,
    /// The most connections at a time; more wait to be accepted.
    pub connections_max: usize,
    /// The most connections of one address at a time; more are closed at once. A client has one, a
    /// proxy may have several.
    pub connections_per_address_max: usize,
    /// The same of one name, wherever it connects from: over TLS, a client that has proved a name
    /// counts for the first name in its certificate, and no longer for its address.
    pub connections_per_name_max: usize,
    /// How many connections one address, and one name, may begin per second; more are closed at
    /// once. A second's worth may begin at the same time.
    pub handshakes_per_second: u32,
    /// The most concurrent calls of one name, or without one of one address, on all of its
    /// connections together; more end with `RESOURCE_EXHAUSTED` and do not run. A call counts until
    /// its handler is over and its responses have left.
    pub calls_per_peer_max: usize,
    /// The most memory that one name, or without one an address, may use, in bytes: one half for
    /// long messages of its calls, received or not read yet, beyond which further ones end with
    /// `RESOURCE_EXHAUSTED`; the other for what HTTP/2 lets it send before it is read, besides one
    /// stream's window for each connection. `None` is as much as the process's account
    /// (`petasos::memory`) has for all, so that one peer's messages may take half of that.
    pub bytes_per_peer_max: Option<usize>,
    /// Longest header list that is accepted, in bytes as RFC 9113 counts them.
    pub header_bytes_max: u32,
    /// How many bytes a client may send on one stream before the handler has read them.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection together. If this is less than the sum of their
    /// windows, streams that are not read can stop the others. A peer with many connections gets
    /// less, also for each stream: see [`GrpcConfig::bytes_per_peer_max`].
    pub connection_window_bytes: u32,
    /// How many bytes a stream buffers, besides one message, for a client that does not read them.
    pub send_buffer_bytes: usize,
    /// Whether responses to compressed requests are compressed.
    pub compress: bool,
    /// Messages shorter than this are not compressed, in bytes.
    pub compress_bytes_min: usize,
    /// How long the handshakes of TLS and HTTP/2 may take.
    pub handshake_timeout: Duration,
    /// Keepalive pings; `None` for no pings.
    pub keepalive: Option<Keepalive>,
    /// How often clients may ping; `None` for no limit.
    pub ping_limit: Option<PingLimit>,
    /// How long a connection may have no calls before its client is told to leave it; `None` for
    /// ever.
    pub idle_timeout: Option<Duration>,
    /// How long a connection lives, a tenth more or less, before its client is told to leave it for
    /// another; `None` for ever. A limit spreads clients over new servers.
    pub age_max: Option<Duration>,
    /// How long the calls of such a connection may continue; `None` for ever.
    pub age_grace: Option<Duration>,
    /// Whether the port may accept plaintext connections from other hosts. Anyone on the network
    /// can then listen to calls and make them.
    pub plaintext: bool,
    /// TLS; `None` for plaintext.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::ServerTls>,
}

impl Default for GrpcConfig {
    fn default() -> GrpcConfig {
        GrpcConfig {
            receive_bytes_max: 4 * MIB as usize,
            streams_max: 256,
            connections_max: 16_384,
            connections_per_address_max: 4096,
            connections_per_name_max: 8192,
            handshakes_per_second: 1024,
            calls_per_peer_max: 65_536,
            bytes_per_peer_max: None,
            header_bytes_max: 32 * KIB,
            stream_window_bytes: 256 * KIB,
            connection_window_bytes: WINDOW_BYTES_MAX,
            send_buffer_bytes: 256 * KIB as usize,
            compress: true,
            compress_bytes_min: petasos_call::Codec::BODY_BYTES_MIN,
            handshake_timeout: Duration::from_secs(10),
            keepalive: Some(Keepalive::default()),
            ping_limit: Some(PingLimit::default()),
            idle_timeout: None,
            age_max: None,
            age_grace: None,
            plaintext: false,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// Configuration of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Longest message that is accepted, in bytes, before and after decompression.
    pub receive_bytes_max: usize,
    /// Longest header list that is accepted, in bytes as RFC 9113 counts them.
    pub header_bytes_max: u32,
    /// How many bytes the server may send on one stream before the caller has read them.
    pub stream_window_bytes: u32,
    /// The same for all streams of the connection; see [`GrpcConfig::connection_window_bytes`].
    pub connection_window_bytes: u32,
    /// How many bytes a stream buffers, besides one message, for a server that does not read them.
    pub send_buffer_bytes: usize,
    /// How requests are compressed, for callers that use generated clients.
    pub compression: crate::Compression,
    /// Messages shorter than this are not compressed, in bytes.
    pub compress_bytes_min: usize,
    /// How long connecting may take, including the handshakes of TLS and HTTP/2.
    pub connect_timeout: Duration,
    /// Keepalive pings; `None` for no pings, since some servers close connections that ping often.
    pub keepalive: Option<Keepalive>,
    /// Whether servers on other hosts may be called in plaintext.
    pub plaintext: bool,
    /// TLS; `None` for plaintext.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::ClientTls>,
}

impl GrpcConfig {
    /// Whether a port at `ip` would accept plaintext from other hosts without
    /// [`GrpcConfig::plaintext`].
    pub fn forbids(&self, ip: IpAddr) -> bool {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return false;
        }
        !self.plaintext && is_beyond_this_host(ip)
    }
}

impl ClientConfig {
    /// Whether calls to `ip` would leave this host in plaintext without
    /// [`ClientConfig::plaintext`].
    pub fn forbids(&self, ip: IpAddr) -> bool {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return false;
        }
        !self.plaintext && is_beyond_this_host(ip)
    }
}

/// True also for the unspecified addresses `0.0.0.0` and `::`.
fn is_beyond_this_host(ip: IpAddr) -> bool {
    !ip.to_canonical().is_loopback()
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        let server = GrpcConfig::default();
        ClientConfig {
            receive_bytes_max: server.receive_bytes_max,
            header_bytes_max: server.header_bytes_max,
            stream_window_bytes: MIB,
            connection_window_bytes: server.connection_window_bytes,
            send_buffer_bytes: server.send_buffer_bytes,
            compression: crate::Compression::Identity,
            compress_bytes_min: server.compress_bytes_min,
            connect_timeout: Duration::from_secs(20),
            keepalive: None,
            plaintext: false,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_this_host_cleartext_takes_consent() {
        for (text, forbidden) in [
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("0.0.0.0", true),
            ("::", true),
            ("10.0.0.1", true),
            ("fe80::1", true),
            ("::ffff:10.0.0.1", true),
        ] {
            let ip = text.parse().expect("an address");
            assert_eq!(GrpcConfig::default().forbids(ip), forbidden, "{text}");
            assert_eq!(ClientConfig::default().forbids(ip), forbidden, "{text}");
            assert!(!GrpcConfig { plaintext: true, ..GrpcConfig::default() }.forbids(ip), "{text}");
            let client = ClientConfig { plaintext: true, ..ClientConfig::default() };
            assert!(!client.forbids(ip), "{text}");
        }
    }
}
