//! The client's handles of its server process, its endpoint and its raw socket.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use petasos_endpoint::{Endpoint, Node};

use super::args::{BenchArgs, TURN, Transport};
use super::floor::FloorClient;
use super::load::{self, Load};
use super::network;
use super::remote::open_client;
use super::result::PetasosTurn;
use super::turns::{ServerReport, ServerTurn, Traffic};
use crate::error::BenchError;

/// A client and a server, connected and idle.
pub struct Pair {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub client: Endpoint<Load>,
    pub floor: FloorClient,
    _node: Node,
}

impl Pair {
    /// Starts a server process, and connects to it.
    pub fn start(args: &BenchArgs) -> Result<Pair, BenchError> {
        let apart = args.transport == Transport::Xdp;
        if apart {
            network::leave_host()?;
        }
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .args(args.for_server())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the server process: {error}"))?;
        let mut commands = child.stdin.take();
        let stdout = child.stdout.take().ok_or("the server has no output")?;
        let mut answers = BufReader::new(stdout);
        match Pair::meet(args, apart, &mut child, &mut commands, &mut answers) {
            Ok((node, client, floor)) => {
                Ok(Pair { child, commands, answers, client, floor, _node: node })
            }
            Err(error) => {
                // The child is of no use any more.
                child.kill().ok();
                child.wait().ok();
                Err(error)
            }
        }
    }

    /// Gets the server's addresses, and connects endpoint and floor.
    fn meet(
        args: &BenchArgs,
        apart: bool,
        child: &mut Child,
        commands: &mut Option<ChildStdin>,
        answers: &mut impl BufRead,
    ) -> Result<(Node, Endpoint<Load>, FloorClient), BenchError> {
        if apart {
            let mut line = String::new();
            answers.read_line(&mut line)?;
            if line.trim_end() != "apart" {
                return Err("the server process did not come up".into());
            }
            network::join(child.id())?;
            let commands = commands.as_mut().ok_or("the server has no input")?;
            writeln!(commands, "joined").map_err(|_| "the server process has died")?;
        }
        let (control, raw) = read_ready(answers)?;
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let any = if apart { network::client() } else { loopback };
        let (node, client) = open_client(args, any, control)?;
        let floor = FloorClient::join(args, any, raw)?;
        Ok((node, client, floor))
    }

    /// Runs `client` while the server does `turn`.
    pub fn turn<R>(
        &mut self,
        turn: ServerTurn,
        client: impl FnOnce(&mut Pair) -> Result<R, BenchError>,
    ) -> Result<(R, ServerReport), BenchError> {
        self.say(&turn.word())?;
        if self.hear()? != "started" {
            return Err("the server answered out of turn".into());
        }
        let outcome = client(self);
        self.say("stop")?;
        let line = self.hear()?;
        let report = ServerReport::parse(&line).ok_or("the server's report makes no sense")?;
        Ok((outcome?, report))
    }

    /// One Petasos turn.
    pub fn petasos(&mut self) -> Result<PetasosTurn, BenchError> {
        self.petasos_beside(TURN, || {})
    }

    /// Like [`Pair::petasos`] for `duration`, and calls `beside` after each turn of the client's
    /// loop.
    pub fn petasos_beside(
        &mut self,
        duration: Duration,
        beside: impl FnMut(),
    ) -> Result<PetasosTurn, BenchError> {
        let before = Traffic::of(&self.client);
        let run = |pair: &mut Pair| load::turn_beside(&mut pair.client, duration, beside);
        let (load, server) = self.turn(ServerTurn::Petasos, run)?;
        let traffic = Traffic::of(&self.client).since(before);
        Ok(PetasosTurn { load, server, traffic })
    }

    fn say(&mut self, line: &str) -> Result<(), BenchError> {
        let commands = self.commands.as_mut().ok_or("the server has been told to end")?;
        writeln!(commands, "{line}").map_err(|_| "the server process has died".into())
    }

    fn hear(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("the server process has died".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Pair {
    /// The server ends when its input is closed.
    fn drop(&mut self) {
        drop(self.commands.take());
        self.child.wait().ok();
    }
}

fn read_ready(answers: &mut impl BufRead) -> Result<(SocketAddr, SocketAddr), BenchError> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let mut next = || words.next().ok_or("the server process did not come up");
    if next()? != "ready" {
        return Err("the server process did not come up".into());
    }
    Ok((next()?.parse()?, next()?.parse()?))
}
