//! A client for commands.

use core::time::Duration;
use std::net::{SocketAddr, ToSocketAddrs};

use clap::Args;
use petasos_base::Clock;
use petasos_cli::failure::Failure;
use petasos_cli::security::SecurityArgs;
use petasos_cli::transport::TransportArgs;
use petasos_endpoint::{Endpoint, EndpointConfig, Node, NodeConfig};
use petasos_quorum::client::{Asker, Client, ClientError};
use petasos_quorum::reply::Status;
use petasos_quorum::service::MemberStatus;

/// Requests that a member is asked at once: the port for etcd's clients has many.
const SLOTS: u32 = 64;

/// How to call a group.
#[derive(Args, Clone)]
pub struct CallArgs {
    #[command(flatten)]
    pub transport: TransportArgs,
    #[command(flatten)]
    pub security: SecurityArgs,
    /// How long to wait for an answer, whichever member gives it.
    #[arg(long, value_name = "MS", default_value_t = 5000,
          value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub timeout: u64,
}

/// Which group, and how to call it.
#[derive(Args, Clone)]
pub struct GroupArgs {
    /// Members of the group, as HOST:PORT, with commas between them. One is enough, if it runs.
    #[arg(value_name = "MEMBERS")]
    members: String,
    #[command(flatten)]
    call: CallArgs,
}

/// A client, with the node that its sessions belong to.
pub struct Connected {
    pub client: Client,
    pub members: Vec<SocketAddr>,
    _node: Node,
}

impl Connected {
    /// What the first member that answers says of the group.
    ///
    /// # Errors
    /// If none does.
    pub fn status(&mut self) -> Result<MemberStatus, Failure> {
        self.client.status().map_err(|error| failure(&error))
    }
}

impl GroupArgs {
    /// A client of the group.
    ///
    /// # Errors
    /// If there cannot be one here.
    pub fn connect(&self) -> Result<Connected, Failure> {
        let members: Vec<String> = self.members.split(',').map(str::to_owned).collect();
        connect(&members, &self.call)
    }
}

/// A client of the group that has these members.
///
/// # Errors
/// If there cannot be one here, or an address is none.
pub fn connect(members: &[String], call: &CallArgs) -> Result<Connected, Failure> {
    let members = members.iter().map(|text| address(text)).collect::<Result<Vec<_>, _>>()?;
    let (endpoint, node) = asking(&members, call)?;
    let client = Client::new(endpoint, Duration::from_millis(call.timeout));
    Ok(Connected { client, members, _node: node })
}

/// An endpoint that asks the group which has these members, and its node, which has to stay.
///
/// # Errors
/// If there cannot be one here.
pub fn asking(members: &[SocketAddr], call: &CallArgs) -> Result<(Endpoint<Asker>, Node), Failure> {
    let timeout = Duration::from_millis(call.timeout);
    let name = format!("petasos quorum, process {}", std::process::id());
    // A member that is silent is left soon, for another one.
    let connect_timeout = timeout.min(Duration::from_secs(1));
    let config = NodeConfig { connect_timeout, name, ..NodeConfig::default() };
    let node = Node::start(call.security.apply(config)?)?;
    let io = call.transport.open(call.transport.ip_towards(members[0]), 0)?;
    let (clock, asker) = (Clock::system(), Asker::new(members));
    let mut config = EndpointConfig::default();
    config.session.slots = SLOTS;
    let mut endpoint = Endpoint::new(config, io, clock, asker);
    endpoint.attach(&node)?;
    Ok((endpoint, node))
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let advice = "give HOST:PORT, such as 127.0.0.1:7431";
    let found = text.to_socket_addrs().map_err(|error| {
        Failure::with_advice(format_args!("`{text}` is no address: {error}"), advice)
    })?;
    let mut found: Vec<_> = found.filter(|address| address.port() != 0).collect();
    // A name may have addresses of both families. Members listen on IPv4 by default.
    found.sort_by_key(SocketAddr::is_ipv6);
    let first = found.into_iter().next();
    first.ok_or_else(|| Failure::with_advice(format_args!("`{text}` cannot be called"), advice))
}

/// What a command prints when a group did not do what it was asked.
pub fn failure(error: &ClientError) -> Failure {
    let advice = match error {
        ClientError::Unavailable => {
            "check the addresses, that a majority of members runs, and that both sides use TLS or \
             neither"
        }
        ClientError::Unknown => "read what is there before you try again",
        ClientError::Refused(Status::Full) => {
            "delete something, or give the members' disks more space"
        }
        ClientError::Malformed => "check the address; `petasos quorum serve` prints it",
        _ => "`petasos quorum status` shows the group",
    };
    Failure::with_advice(error, advice)
}
