//! The processes of a measurement: whose side each is, and which.

use std::str::FromStr;

use clap::ValueEnum;

use super::phase::Phase;

/// With whom Petasos is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// gRPC in Rust: tonic's client and server, on one thread each
    Tonic,
    /// Petasos's own endpoint without the typed layer
    PetasosDirect,
    /// tonic's client and server, where Petasos's own gRPC port is asked by tonic's client, too
    PetasosGrpc,
}

/// Whoever takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Typed calls, loops that spin.
    Petasos,
    /// Typed calls, loops that sleep at once.
    PetasosSleeping,
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
}

/// Which end of its calls a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// What a process is: on the command line, `client:petasos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    pub side: Side,
    pub contender: Contender,
}

impl Contender {
    const ALL: [Contender; 7] = [
        Contender::Petasos,
        Contender::PetasosSleeping,
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
            (_, Phase::Sleeping) => Contender::PetasosSleeping,
            (_, Phase::Spinning | Phase::Window) => Contender::Petasos,
        }
    }

    /// Whose turns are the peer's in a phase.
    pub fn peer(peer: Peer, phase: Phase) -> Contender {
        match (peer, phase) {
            (Peer::Tonic | Peer::PetasosGrpc, _) => Contender::Tonic,
            (Peer::PetasosDirect, Phase::Sleeping) => Contender::DirectSleeping,
            (Peer::PetasosDirect, _) => Contender::Direct,
        }
    }

    /// The name on the command line of a process.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Petasos => "petasos",
            Contender::PetasosSleeping => "petasos-sleeping",
            Contender::Tonic => "tonic",
            Contender::Grpc => "grpc",
            Contender::Direct => "direct",
            Contender::DirectSleeping => "direct-sleeping",
            Contender::Floor => "floor",
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
        let contender = Contender::ALL.into_iter().find(|known| known.name() == contender);
        match (side, contender) {
            (Some(side), Some(contender)) => Ok(Role { side, contender }),
            _ => Err("no such role"),
        }
    }
}
