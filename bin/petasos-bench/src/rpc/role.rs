//! The processes of a measurement: whose side each is, and which.

use std::str::FromStr;

use clap::ValueEnum;

use super::phase::Phase;
use super::program::Program;

/// With whom Petasos is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// gRPC in Rust: tonic's client and server, on one thread each
    Tonic,
    /// Petasos's own endpoint without the typed layer
    PetasosDirect,
    /// tonic's client and server, where Petasos's own gRPC port is asked by tonic's client, too
    PetasosGrpc,
    /// Frames over one TCP connection, without an RPC system
    Tcp,
    /// tarpc over TCP, with bincode
    Tarpc,
    /// A QUIC stream for each call; always encrypted
    Quinn,
    /// gRPC in Go
    GrpcGo,
    /// gRPC in C++
    GrpcCpp,
    /// libzmq's DEALER and ROUTER
    Zeromq,
    /// Cap'n Proto RPC in Rust
    Capnp,
    /// Requests and responses in shared memory; Petasos uses shared memory, too
    Iceoryx2,
    /// All of these that can be built here, in one table
    All,
}

/// A system, or a variant of one, that takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Typed calls, loops that spin.
    Petasos,
    /// Typed calls, loops that sleep at once.
    PetasosSleeping,
    /// Typed calls through shared memory, loops that spin.
    PetasosShared,
    /// Typed calls through shared memory, loops that sleep at once.
    PetasosSharedSleeping,
    /// tonic at both ends.
    Tonic,
    /// Petasos's gRPC port, called by tonic.
    Grpc,
    /// The raw endpoint, spinning.
    Direct,
    /// The raw endpoint, sleeping at once.
    DirectSleeping,
    /// Bare UDP.
    Floor,
    /// A separate program.
    Program(Program),
}

/// The side of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// The role of a process; on the command line, for example `client:petasos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    pub side: Side,
    pub contender: Contender,
}

impl Peer {
    /// The separate program of the peer, if it is one.
    pub fn program(self) -> Option<Program> {
        Some(match self {
            Peer::Tcp => Program::Tcp,
            Peer::Tarpc => Program::Tarpc,
            Peer::Quinn => Program::Quinn,
            Peer::GrpcGo => Program::GrpcGo,
            Peer::GrpcCpp => Program::GrpcCpp,
            Peer::Zeromq => Program::Zeromq,
            Peer::Capnp => Program::Capnp,
            Peer::Iceoryx2 => Program::Iceoryx2,
            Peer::Tonic | Peer::PetasosDirect | Peer::PetasosGrpc | Peer::All => return None,
        })
    }
}

impl Contender {
    /// Those that are processes of this program.
    const OWN: [Contender; 9] = [
        Contender::Petasos,
        Contender::PetasosSleeping,
        Contender::PetasosShared,
        Contender::PetasosSharedSleeping,
        Contender::Tonic,
        Contender::Grpc,
        Contender::Direct,
        Contender::DirectSleeping,
        Contender::Floor,
    ];

    /// Whose turns are Petasos's in a phase.
    pub fn petasos(peer: Peer, phase: Phase) -> Contender {
        match (peer, phase) {
            (Peer::PetasosGrpc, _) => Contender::Grpc,
            (Peer::Iceoryx2, Phase::Sleeping) => Contender::PetasosSharedSleeping,
            (Peer::Iceoryx2, _) => Contender::PetasosShared,
            (_, Phase::Sleeping) => Contender::PetasosSleeping,
            (_, Phase::Spinning | Phase::Window) => Contender::Petasos,
        }
    }

    /// Whose turns are the peer's in a phase.
    pub fn peer(peer: Peer, phase: Phase) -> Contender {
        match (peer, phase) {
            (Peer::PetasosDirect, Phase::Sleeping) => Contender::DirectSleeping,
            (Peer::PetasosDirect, _) => Contender::Direct,
            _ => peer.program().map_or(Contender::Tonic, Contender::Program),
        }
    }

    /// The name on the command line of a process.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Petasos => "petasos",
            Contender::PetasosSleeping => "petasos-sleeping",
            Contender::PetasosShared => "petasos-shared",
            Contender::PetasosSharedSleeping => "petasos-shared-sleeping",
            Contender::Tonic => "tonic",
            Contender::Grpc => "grpc",
            Contender::Direct => "direct",
            Contender::DirectSleeping => "direct-sleeping",
            Contender::Floor => "floor",
            Contender::Program(program) => program.name(),
        }
    }
}

impl Side {
    /// The name on the command line of a process.
    pub fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }

    /// Where processes of this side run.
    pub fn core(self) -> usize {
        match self {
            Side::Client => 0,
            Side::Server => 1,
        }
    }
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Role, &'static str> {
        let (side, contender) = text.split_once(':').ok_or("a role is a side and a contender")?;
        let side = [Side::Client, Side::Server].into_iter().find(|known| known.name() == side);
        let contender = Contender::OWN.into_iter().find(|known| known.name() == contender);
        match (side, contender) {
            (Some(side), Some(contender)) => Ok(Role { side, contender }),
            _ => Err("no such role"),
        }
    }
}
