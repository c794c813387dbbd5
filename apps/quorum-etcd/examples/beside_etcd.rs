//! PUTs to a group of three members and to three etcds, in turns, in one run: one outstanding, and
//! 64. A group is asked by its raw interface, and by etcd's at one member.
//!
//! ```console
//! cargo build --release -p petasos-quorum-program
//! cargo run --release -p petasos-quorum-etcd --example beside_etcd -- \
//!     target/release/petasos-quorum /var/tmp/beside
//! ```
//!
//! The folder has to be new, and on the disk that is measured: both keep what they acknowledge
//! there. All processes share the host's cores, so the ratio is what counts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, sync_channel};
use std::thread::sleep;
use std::time::Duration;
use std::{env, fs};

use petasos::{Channel, Msg, block_on};
use petasos_base::{Clock, SystemClock};
use petasos_endpoint::{Endpoint, EndpointConfig, Node, NodeConfig};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_quorum::client::{Ask, Asker, Pipeline, PipelineLoop, Repeat, To};
use petasos_quorum::etcd::{EtcdCommand, Operation, Put, Txn};
use petasos_quorum::service::COMMAND;
use petasos_quorum::state::Command as GroupCommand;
use petasos_quorum_etcd::api::{KVClient, PutRequest};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Turns of each contender.
const TURNS: usize = 7;
/// PUTs of a turn, one after the other, and many at once.
const ALONE: usize = 200;
const AT_ONCE: usize = 2_000;
const WINDOW: usize = 64;
const CONNECTIONS: usize = 8;
const KEY_BYTES: usize = 16;
const VALUE: [u8; 64] = [b'v'; 64];
const TIMEOUT: Duration = Duration::from_secs(20);

/// Processes that end with this one.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Of one that has ended, there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("{:0width$}", number % 1_000, width = KEY_BYTES).into_bytes()
}

fn at(host: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 77, 1, host), port).into()
}

/// Three members; the first two have no port for etcd's clients.
fn group(program: &str, folder: &Path) -> Result<(Processes, Vec<SocketAddr>), Failure> {
    let members: Vec<SocketAddr> = (1..=3).map(|host| at(host, 7431)).collect();
    let dir = |member: usize| folder.join(format!("member-{member}"));
    let mut init = Command::new(program);
    init.args(["init", "--keeps", "etcd", "--listen", &members[0].to_string(), "--dir"]);
    if !init.arg(dir(0)).stdout(Stdio::null()).status()?.success() {
        return Err("there is no first member".into());
    }
    let mut all = Processes(Vec::new());
    for (number, member) in members.iter().enumerate() {
        let mut serve = Command::new(program);
        serve.args(["serve", "--until-stdin-closes", "--dir"]).arg(dir(number));
        serve.args(["--etcd", &at(number as u8 + 1, 2379).to_string()]);
        if number > 0 {
            serve.args(["--listen", &member.to_string(), "--join", &members[0].to_string()]);
        }
        all.0.push(serve.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?);
        sleep(Duration::from_secs(1));
    }
    Ok((all, members))
}

fn etcds(folder: &Path) -> Result<Processes, Failure> {
    let url = |host: u8, port| format!("http://{}", at(host, port));
    let cluster: Vec<_> = (11..=13).map(|host| format!("e{host}={}", url(host, 2380))).collect();
    let mut all = Processes(Vec::new());
    for host in 11..=13 {
        let (clients, peers) = (url(host, 2379), url(host, 2380));
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", &format!("e{host}"), "--initial-cluster", &cluster.join(",")]);
        etcd.arg("--data-dir").arg(folder.join(format!("etcd-{host}")));
        etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        all.0.push(etcd.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    }
    Ok(all)
}

/// Whoever takes PUTs.
enum Server {
    Raw(Pipeline),
    Etcd(Runtime, Vec<KVClient>),
}

impl Server {
    /// The raw interface of a group. The node has to stay.
    fn raw(members: Vec<SocketAddr>) -> Result<Server, Failure> {
        let (tell, told) = sync_channel(1);
        std::thread::spawn(move || -> Result<(), Failure> {
            let node = Node::start(NodeConfig::default())?;
            let io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), UdpConfig::default())?;
            let mut config = EndpointConfig::default();
            config.session.slots = 64;
            let mut endpoint = Endpoint::new(config, io, Clock::system(), Asker::new(&members));
            endpoint.attach(&node)?;
            let (mut asks, pipeline) = PipelineLoop::new(endpoint)?;
            tell.send(pipeline)?;
            asks.run(|| false);
            Ok(())
        });
        Ok(Server::Raw(told.recv()?))
    }

    fn etcd(address: SocketAddr) -> Result<Server, Failure> {
        let client = |_| -> Result<KVClient, Failure> {
            let channel = Channel::builder(&format!("grpc://{address}"));
            Ok(KVClient::new(channel.connect_lazily()?))
        };
        let clients = (0..CONNECTIONS).map(client).collect::<Result<_, _>>()?;
        Ok(Server::Etcd(Runtime::new()?, clients))
    }

    /// So many PUTs, `window` of them outstanding. All have to be done.
    fn put(&self, count: usize, window: usize) -> Result<(), Failure> {
        match self {
            Server::Raw(pipeline) => put_raw(pipeline, count, window),
            Server::Etcd(runtime, clients) => {
                if window == 1 {
                    return (0..count).try_for_each(|number| {
                        block_on(clients[0].put(request(number))).map(drop).map_err(Into::into)
                    });
                }
                runtime.block_on(put_many(clients, count, window))
            }
        }
    }
}

fn request(number: usize) -> Msg<PutRequest> {
    let mut put = PutRequest::new();
    put.edit().set_key(&*key(number)).set_value(&VALUE[..]);
    put
}

async fn put_many(clients: &[KVClient], count: usize, window: usize) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    for first in 0..window {
        let client = clients[first % clients.len()].clone();
        tasks.spawn(async move {
            for number in (first..count).step_by(window) {
                client.put(request(number)).await?;
            }
            Ok::<(), petasos::Status>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn put_raw(pipeline: &Pipeline, count: usize, window: usize) -> Result<(), Failure> {
    let (tell, told) = channel();
    let ask = |number: usize| {
        let (key, tell) = (key(number), tell.clone());
        let (value, lease) = (Some(&VALUE[..]), Some(0));
        let put = Put { key: &key, value, lease, wants_previous: false };
        let command = EtcdCommand::Txn(Txn::of(Operation::Put(put))).to_bytes();
        let mut request = Vec::new();
        GroupCommand::alone(&command).encode(&mut request);
        let told = Box::new(move |result: Result<_, _>| drop(tell.send(result.map(drop))));
        let (to, method, timeout, repeat) = (To::Leader, COMMAND, TIMEOUT, Repeat::Once);
        pipeline.ask(Ask { to, method, request, timeout, repeat, told });
    };
    (0..window.min(count)).for_each(ask);
    for number in window..count + window {
        told.recv()??;
        if number < count {
            ask(number);
        }
    }
    Ok(())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let program = arguments.next().ok_or("where is petasos-quorum?")?;
    let folder = arguments.next().ok_or("which folder? It has to be on a disk")?;
    let folder = Path::new(&folder);
    fs::create_dir(folder)?;
    let (_members, addresses) = group(&program, folder)?;
    let _etcds = etcds(folder)?;
    let servers = [
        ("group, raw", Server::raw(addresses)?),
        ("group, etcd's protocol", Server::etcd(at(1, 2379))?),
        ("etcd", Server::etcd(at(11, 2379))?),
    ];
    // Whoever is asked first has to choose a leader, or to join.
    sleep(Duration::from_secs(3));
    let clock = SystemClock::default();
    let mut taken = [const { (Vec::new(), Vec::new()) }; 3];
    for turn in 0..=TURNS {
        for ((_, server), (alone, at_once)) in servers.iter().zip(&mut taken) {
            let begin = clock.now();
            server.put(ALONE, 1)?;
            let between = clock.now();
            server.put(AT_ONCE, WINDOW)?;
            let end = clock.now();
            // The first turn is for warming up.
            if turn > 0 {
                alone.push((between - begin).as_secs_f64() * 1e6 / ALONE as f64);
                at_once.push(AT_ONCE as f64 / (end - between).as_secs_f64());
            }
        }
    }
    let taken = taken.map(|(alone, at_once)| (median(alone), median(at_once)));
    let (theirs_us, theirs) = taken[2];
    for ((name, _), (alone_us, at_once)) in servers.iter().zip(taken) {
        println!(
            "{name:24} {alone_us:8.0} us each ({:.1} times faster than etcd), {at_once:8.0}/s with \
             {WINDOW} outstanding ({:.1} times etcd's)",
            theirs_us / alone_us,
            at_once / theirs,
        );
    }
    Ok(())
}
