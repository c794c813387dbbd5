//! `petasos quorum serve`: a member of a group, until it is told to stop.
//!
//! Threads: one for the member's loop, one for its journal and one for its snapshots. The main
//! thread waits for a signal, or for the member to fail. A member that leads hands over before it
//! ends.

use core::time::Duration;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use clap::Args;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{Clock, Time, random_seed};
use petasos_cli::ends::{spawn, watch_signals, watch_stdin};
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_cli::security::SecurityArgs;
use petasos_cli::size::parse_bytes;
use petasos_cli::transport::TransportArgs;
use petasos_endpoint::{Endpoint, EndpointConfig, Node, NodeConfig, Polling};
use petasos_journal::{Config, Files, MemoryFiles};
use petasos_quorum::contact::Contact;
use petasos_quorum::etcd::Etcd;
use petasos_quorum::log::{DiskLog, Log, MemoryLog, OpenError};
use petasos_quorum::machine::StateMachine;
use petasos_quorum::member::{Member, MemberConfig, Parts, read_state};
use petasos_quorum::service::{Charter, MachineKind, Server, Waker, run as run_member};
use petasos_quorum::state::Replicated;
use petasos_quorum::table::Table;
use petasos_raft::{Entry, Kind, MemberId, Membership, Position, Restored, Role, Settings};

use crate::client::CallArgs;
use crate::data::{CharterArgs, MemberFile, callable, journal, secret};
use crate::etcd::{EtcdPort, check_etcd};
use crate::join::{become_voter, join};

/// How long an adaptive loop spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// How long a leader that ends waits for another one.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The arguments of `petasos quorum serve`.
#[derive(Args)]
pub struct ServeArgs {
    /// The member's directory, which `init` or an earlier `--join` has made.
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "in_memory",
        conflicts_with = "in_memory"
    )]
    dir: Option<PathBuf>,
    /// Keep nothing on a disk: what a majority of running members has is all there is. A member
    /// that ends has to join anew.
    #[arg(long)]
    in_memory: bool,
    /// Begin a new group in memory.
    #[arg(long, requires = "in_memory", conflicts_with = "join")]
    init: bool,
    /// Join the group that has these members, as HOST:PORT, with commas between them. If --dir is a
    /// member's already, that goes on.
    #[arg(long, value_name = "MEMBERS", value_delimiter = ',')]
    join: Vec<String>,
    /// Stay a learner: get everything, and do not vote.
    #[arg(long, requires = "join")]
    learner: bool,
    /// Where a new member listens, as ADDRESS:PORT: what others call it by. It does not change.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7431")]
    listen: SocketAddr,
    #[command(flatten)]
    charter: CharterArgs,
    /// Serve etcd's clients there (gRPC), as ADDRESS:PORT. The group has to keep a store with
    /// etcd's model (`init --keeps etcd`).
    #[arg(long, value_name = "ADDR")]
    etcd: Option<SocketAddr>,
    /// Write a snapshot after so many bytes of entries. The log keeps up to twice as much.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = parse_bytes)]
    snapshot_after: usize,
    /// Never sleep: the lowest latency, for a whole core.
    #[arg(long)]
    spin: bool,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    security: SecurityArgs,
    /// Stop when standard input ends as well: for a member that must not outlive its parent.
    #[arg(long)]
    until_stdin_closes: bool,
}

/// What the loop's thread needs.
struct Setup {
    file: MemberFile,
    /// The first entry, of a new group in memory.
    first: Option<Membership>,
    dir: Option<PathBuf>,
    snapshot_bytes: usize,
    polling: Polling,
    transport: TransportArgs,
    security: SecurityArgs,
    is_stopping: Arc<AtomicBool>,
    waker: Waker,
}

/// Runs a member until a signal, the end of standard input, or a failure.
///
/// # Errors
/// If it cannot be set up, or has to end.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let (ends, end) = channel();
    watch_signals(ends.clone())?;
    let (file, first, is_new) = args.member()?;
    let number = file.member;
    let polling = if args.spin { Polling::Spin } else { Polling::Adaptive { spin: SPIN } };
    let setup = Setup {
        first,
        dir: args.dir.clone(),
        snapshot_bytes: args.snapshot_after,
        polling,
        transport: args.transport.clone(),
        security: args.security.clone(),
        is_stopping: Arc::default(),
        waker: Waker::default(),
        file,
    };
    let (is_stopping, waker) = (setup.is_stopping.clone(), setup.waker.clone());
    check_etcd(args.etcd, setup.file.charter)?;
    let (ready, started) = channel();
    let failed = ends.clone();
    let thread = spawn("petasos-quorum", move || {
        if let Err(failure) = setup.live(&ready) {
            // If nobody waits any more, the process is already ending.
            let _ = failed.send(Err(failure));
        }
    })?;
    let ended = || Failure::with_advice("the member has failed as it started", "see above");
    let Ok(address) = started.recv() else {
        return end.recv().unwrap_or_else(|_| Err(ended())).map(drop);
    };
    output::answer(format!("member {number} listening on {address}").as_bytes())?;
    let _etcd = match args.etcd {
        Some(listen) => {
            let etcd = EtcdPort::open(listen, address, &args.call())?;
            output::answer(format!("etcd's clients may call {}", etcd.address()).as_bytes())?;
            Some(etcd)
        }
        None => None,
    };
    if is_new && !args.learner && !args.join.is_empty() {
        let (members, call) = (args.join.clone(), args.call());
        // It ends with the process, at the latest.
        drop(spawn("promote", move || become_voter(&members, &call, number))?);
    }
    if args.until_stdin_closes {
        watch_stdin(ends);
    }
    let reason = end.recv().expect("the thread of signals keeps a sender")?;
    output::note(&format!("petasos: {reason}: ending"));
    // Pairs with the load in `live`: a loop that is woken sees it.
    is_stopping.store(true, Ordering::Release);
    waker.wake();
    // One that panicked has said so.
    let _ = thread.join();
    Ok(())
}

impl ServeArgs {
    fn call(&self) -> CallArgs {
        let (transport, security) = (self.transport.clone(), self.security.clone());
        CallArgs { transport, security, timeout: 5000 }
    }

    /// Which member it is, with the first entry of a new group in memory, and whether it has just
    /// joined.
    fn member(&self) -> Result<(MemberFile, Option<Membership>, bool), Failure> {
        if let Some(dir) =
            self.dir.as_ref().filter(|dir| self.join.is_empty() || dir.join("member.json").exists())
        {
            return Ok((MemberFile::read(dir)?, None, false));
        }
        let address = callable(self.listen)?;
        if self.init {
            let contact = Contact { incarnation: secret(), address };
            let file = MemberFile::new(secret(), 1, contact, self.charter.charter());
            return Ok((file, Some(Membership::of_voters(vec![contact.encode()])), false));
        }
        if self.join.is_empty() {
            return Err(Failure::with_advice(
                "a member in memory begins a group or joins one",
                "give --init or --join",
            ));
        }
        let file = join(&self.join, &self.call(), address)?;
        if let Some(dir) = &self.dir {
            file.create(dir, None)?;
        }
        Ok((file, None, true))
    }
}

impl Setup {
    /// The member's thread.
    fn live(self, ready: &Sender<SocketAddr>) -> Result<(), Failure> {
        let Charter { bytes_max, machine, .. } = self.file.charter;
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        match machine {
            MachineKind::Table => self.live_with(move || Table::new(bytes_max), ready),
            MachineKind::Etcd => self.live_with(move || Etcd::new(bytes_max), ready),
            _ => unreachable!("the file was read by this version"),
        }
    }

    fn live_with<M: StateMachine + Send + 'static>(
        self,
        machine: impl Fn() -> M + Send + 'static,
        ready: &Sender<SocketAddr>,
    ) -> Result<(), Failure> {
        let Some(dir) = self.dir.clone() else {
            let parts = Parts {
                log: MemoryLog::default(),
                restored: self.new_log(),
                state: Replicated::new(machine()),
                files: MemoryFiles::default(),
                machine,
            };
            return self.run(parts, ready);
        };
        let files = journal(&dir)?;
        let wake = self.waker.clone();
        let identity = self.file.identity();
        let opened = DiskLog::open(files.clone(), identity, Config::default(), move || wake.wake());
        let opened = opened.map_err(|error| unopened(&error))?;
        let state = match opened.snapshot {
            Some(mut reader) => {
                let state = read_state(&mut reader, machine());
                state.map_err(|error| unopened(&OpenError::Journal(error)))?
            }
            None => Replicated::new(machine()),
        };
        let (log, restored) = (opened.log, opened.restored);
        self.run(Parts { log, restored, state, files, machine }, ready)
    }

    fn new_log(&self) -> Restored {
        let mut restored = Restored::new((0, None), Position::ZERO, Membership::default());
        if let Some(membership) = &self.first {
            let mut data = Vec::new();
            membership.encode(&mut data);
            let position = Position { term: 0, index: 1 };
            let first = Entry { position, kind: Kind::Configuration, data: &data };
            restored.entry(first).expect("it is the first entry");
        }
        restored
    }

    fn run<M: StateMachine + Send + 'static, L: Log + 'static, F: Files>(
        &self,
        parts: Parts<M, L, F, impl Fn() -> M + Send + 'static>,
        ready: &Sender<SocketAddr>,
    ) -> Result<(), Failure> {
        let (mut endpoint, node) = self.open(parts)?;
        // If nobody waits, the process is already ending.
        let _ = ready.send(node.local_address().expect("it was told to listen"));
        let mut leave_until = None;
        let ended = run_member(&mut endpoint, |server, now| {
            // Pairs with the store in `run`.
            self.is_stopping.load(Ordering::Acquire) && has_left(server, now, &mut leave_until)
        });
        ended.map_err(|error| {
            Failure::with_advice(error, "look at the disk; if it is good, start the member again")
        })
    }

    fn open<M: StateMachine + Send + 'static, L: Log + 'static, F: Files>(
        &self,
        parts: Parts<M, L, F, impl Fn() -> M + Send + 'static>,
    ) -> Result<(Endpoint<Server<M, L>>, Node), Failure> {
        let Contact { address, incarnation } = self.file.contact();
        let config = NodeConfig {
            listen: Some(address),
            name: format!("petasos quorum, process {}", std::process::id()),
            ..NodeConfig::default()
        };
        let node = Node::start(self.security.apply(config)?)?;
        let io = self.transport.open(address.ip(), 0)?;
        let (identity, charter) = (self.file.identity(), self.file.charter);
        let settings = Settings {
            lease_drift: charter.lease_drift,
            ..Settings::new(identity.group, MemberId(identity.member))
        };
        let config = MemberConfig { settings, snapshot_bytes: self.snapshot_bytes };
        let (clock, wake) = (Clock::system(), self.waker.clone());
        let now_us = clock.now().as_nanos() / 1000;
        let member = Member::new(config, parts, now_us, random_seed(), move || wake.wake());
        let failed = |error: std::io::Error| {
            Failure::with_advice(format_args!("cannot start: {error}"), "raise `ulimit -n` and -u")
        };
        let member = member.map_err(failed)?;
        let config = EndpointConfig { polling: self.polling, ..EndpointConfig::default() };
        let group = (identity.group, charter);
        let opened = Server::open(member, group, incarnation, config, io, clock, &self.waker);
        let mut endpoint = opened.map_err(failed)?;
        endpoint.attach(&node)?;
        Ok((endpoint, node))
    }
}

/// Whether a member that is to end has handed over, if it led, or cannot.
fn has_left<M: StateMachine + Send + 'static, L: Log + 'static>(
    server: &mut Server<M, L>,
    now: Time,
    until: &mut Option<Time>,
) -> bool {
    let until = *until.get_or_insert_with(|| {
        server.leave();
        now + LEAVE_TIMEOUT
    });
    let replica = server.member().replica();
    let is_handing_over = replica.role() == Role::Leader && replica.handing_over_to().is_some();
    !is_handing_over || now >= until
}

/// What is said if a member's directory cannot be used.
fn unopened(error: &OpenError) -> Failure {
    Failure::with_advice(
        error,
        "if it runs already, that one has the directory; if the disk has lost what it had, remove \
         the member from its group, and join anew with an empty --dir",
    )
}
