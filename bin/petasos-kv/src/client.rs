//! A client for commands.

use core::time::Duration;
use std::net::{SocketAddr, ToSocketAddrs};

use clap::Args;
use petasos_base::Clock;
use petasos_cli::connect;
use petasos_cli::failure::Failure;
use petasos_cli::security::SecurityArgs;
use petasos_cli::transport::TransportArgs;
use petasos_endpoint::{Endpoint, EndpointConfig, Node, NodeConfig};
use petasos_kv::{Answers, Client, ClientError, Status};

/// Which server, and how to ask it.
#[derive(Args)]
pub struct ServerArgs {
    /// The server, as HOST:PORT: any of its loops.
    #[arg(value_name = "ADDR")]
    pub server: String,
    /// Ask this address alone, and no other of the server's loops, which may be out of reach.
    #[arg(long)]
    pub one_address: bool,
    #[command(flatten)]
    pub transport: TransportArgs,
    #[command(flatten)]
    pub security: SecurityArgs,
    /// How long to wait, for each session and for each answer.
    #[arg(long, value_name = "MS", default_value_t = 5000,
          value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub timeout: u64,
}

/// A client, with the node that its sessions belong to.
pub struct Connected {
    pub client: Client,
    pub server: SocketAddr,
    _node: Node,
}

impl ServerArgs {
    /// Connects to the first of the server's addresses that answers.
    ///
    /// # Errors
    /// The reason why the last one did not.
    pub fn connect(&self) -> Result<Connected, Failure> {
        connect::first_that_answers(&self.addresses()?, |server| self.connect_to(server))
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        let advice = "give HOST:PORT, such as 127.0.0.1:7421";
        let text = &self.server;
        let found = text.to_socket_addrs().map_err(|error| {
            Failure::with_advice(format_args!("`{text}` is no address: {error}"), advice)
        })?;
        let mut found: Vec<_> = found.filter(|address| address.port() != 0).collect();
        // A name may have addresses of both families. Servers listen on IPv4 by default.
        found.sort_by_key(SocketAddr::is_ipv6);
        match found.is_empty() {
            false => Ok(found),
            true => Err(Failure::with_advice(format_args!("`{text}` cannot be called"), advice)),
        }
    }

    fn connect_to(&self, server: SocketAddr) -> Result<Connected, Failure> {
        let timeout = Duration::from_millis(self.timeout);
        let name = format!("petasos kv, process {}", std::process::id());
        let config = NodeConfig { connect_timeout: timeout, name, ..NodeConfig::default() };
        let node = Node::start(self.security.apply(config)?)?;
        let io = self.transport.open(self.transport.ip_towards(server), 0)?;
        let (clock, answers) = (Clock::system(), Answers::default());
        let mut endpoint = Endpoint::new(EndpointConfig::default(), io, clock, answers);
        endpoint.attach(&node)?;
        let connected = match self.one_address {
            true => Client::connect_to_one(endpoint, server, timeout),
            false => Client::connect(endpoint, server, timeout),
        };
        let client = connected.map_err(|error| self.failure(server, &error))?;
        Ok(Connected { client, server, _node: node })
    }

    /// What a command prints when a server did not do what it was asked.
    pub fn failure(&self, server: SocketAddr, error: &ClientError) -> Failure {
        match error {
            ClientError::Connect(error) => connect::failure(server, error, &self.transport),
            ClientError::Call(error) => Failure::of_call(server, *error, None),
            ClientError::NotMade(error) => Failure::of_enqueue(server, *error),
            ClientError::Refused(status) => of_status(*status),
            _ => Failure::with_advice(
                format_args!("{server} answers with something else than a key-value server does"),
                "check the address; `petasos kv serve` prints it",
            ),
        }
    }
}

/// What a command prints when an operation was refused.
pub fn of_status(status: Status) -> Failure {
    let advice = match status {
        Status::Full => "delete something, or restart the server with more --memory",
        Status::TooLong => "shorten it, or restart the server with a higher --value-max",
        Status::Present => "read it, and try again",
        Status::Absent => "`set` stores one",
        Status::NoNumber => "`get` shows what it is",
        _ => "try again",
    };
    Failure::with_advice(status, advice)
}
