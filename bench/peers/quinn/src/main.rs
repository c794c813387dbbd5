//! The peer quinn: a QUIC connection with a bidirectional stream for each call. QUIC is always
//! encrypted.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;

use petasos_peer::{Caller, Error, Options, Payloads};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

const NAME: &str = "localhost";

/// Room for a window of calls at once; quinn's default is 100 streams and about 1 MB.
fn transport(options: &Options) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let window_bytes = (options.size.max(options.response) * options.window).max(16 << 20);
    let window_bytes = VarInt::from_u64(window_bytes as u64).unwrap_or(VarInt::MAX);
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(options.window.max(100) as u32))
        .receive_window(window_bytes)
        .stream_receive_window(window_bytes)
        .send_window(window_bytes.into_inner())
        // On a busy machine, either side may be delayed for longer than quinn's 30 s.
        .max_idle_timeout(None)
        // The path is loopback, whose packets may be as long as UDP allows.
        .initial_mtu(LOOPBACK_MTU)
        .min_mtu(LOOPBACK_MTU)
        .mtu_discovery_config(None);
    Arc::new(config)
}

const LOOPBACK_MTU: u16 = 8972;

/// A socket with room for a window of packets: the kernel's default would drop parts of long
/// messages. The kernel grants less to unprivileged processes.
fn socket() -> Result<UdpSocket, Error> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(SOCKET_BYTES)?;
    options.set_send_buffer_size(SOCKET_BYTES)?;
    Ok(socket)
}

const SOCKET_BYTES: usize = 8 << 20;

/// The server's address carries its certificate, made for the measurement, as `ADDRESS/HEX`.
async fn start(options: &Options) -> Result<String, Error> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = made.cert.der().clone();
    let hex: String = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut config = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    config.transport_config(transport(options));
    let runtime = Arc::new(TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket()?, runtime)?;
    let address = endpoint.local_addr()?;
    let (payloads, size) = (Arc::new(Payloads::new(options)), options.size);
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let payloads = Arc::clone(&payloads);
            // If a connection fails, the client reports it.
            tokio::spawn(async move {
                let connection = incoming.await?;
                loop {
                    let (send, receive) = connection.accept_bi().await?;
                    tokio::spawn(answer(send, receive, Arc::clone(&payloads), size));
                }
                #[allow(unreachable_code, reason = "it gives the task its type")]
                Ok::<(), quinn::ConnectionError>(())
            });
        }
    });
    Ok(format!("{address}/{hex}"))
}

async fn answer(
    mut send: quinn::SendStream,
    mut receive: quinn::RecvStream,
    payloads: Arc<Payloads>,
    size: usize,
) -> Option<()> {
    let request = receive.read_to_end(size).await.ok()?;
    send.write_all(&payloads.answer(&request).ok()?).await.ok()?;
    send.finish().ok()
}

#[derive(Clone)]
struct Client {
    connection: Connection,
    response_bytes: usize,
    // The endpoint's tasks end when it is dropped.
    _endpoint: Endpoint,
}

impl Caller for Client {
    type Response = Vec<u8>;

    async fn call(&self, request: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (mut send, mut receive) = self.connection.open_bi().await?;
        send.write_all(&request).await?;
        send.finish()?;
        Ok(receive.read_to_end(self.response_bytes).await?)
    }
}

async fn connect(options: &Options) -> Result<Client, Error> {
    let (address, certificate) = options.server.split_once('/').ok_or("no certificate")?;
    let address: SocketAddr = address.parse()?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(bytes(certificate)?))?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport(options));
    let runtime = Arc::new(TokioRuntime);
    let mut endpoint = Endpoint::new(EndpointConfig::default(), None, socket()?, runtime)?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(address, NAME)?.await?;
    Ok(Client { connection, response_bytes: options.response, _endpoint: endpoint })
}

fn bytes(hex: &str) -> Result<Vec<u8>, Error> {
    let digits = hex.as_bytes().chunks_exact(2).map(str::from_utf8);
    digits.map(|pair| Ok(u8::from_str_radix(pair?, 16)?)).collect()
}

fn main() -> ExitCode {
    petasos_peer::run(
        |options| petasos_peer::serve(async || start(options).await),
        |options| petasos_peer::call(options, async || connect(options).await),
    )
}
