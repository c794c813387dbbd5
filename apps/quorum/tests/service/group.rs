//! A group whose members are threads of the test.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_base::random_seed;
use petasos_base::sync::{AtomicBool, AtomicU32, Ordering};
use petasos_endpoint::{Clock, Endpoint, EndpointConfig, Node, NodeConfig, Notifier};
use petasos_journal::{Config, Files, Identity, MemoryFiles, SystemFiles};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_quorum::client::{Asker, Client};
use petasos_quorum::contact::Contact;
use petasos_quorum::log::{DiskLog, Log, MemoryLog};
use petasos_quorum::member::{Member, MemberConfig, Parts, read_state};
use petasos_quorum::service::{Charter, Ended, MachineKind, MemberStatus, Server, Waker, run};
use petasos_quorum::state::Replicated;
use petasos_quorum::table::Table;
use petasos_raft::{Entry, Kind, MemberId, Membership, Position, Restored, Settings};

/// Longer than anything in these tests takes.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What a table may hold.
const TABLE_BYTES: usize = 4 << 20;
const PORT: u16 = 7431;

static GROUPS: AtomicU32 = AtomicU32::new(0);

/// An address of the whole loopback network that no other group has, nor another process' tests:
/// a member that starts again finds it free.
fn address(group: u32, member: u64) -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let [.., group] = group.to_be_bytes();
    let host = u8::try_from(10 * u64::from(group % 25) + member).unwrap();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, high, low, host)), PORT)
}

fn udp(ip: IpAddr) -> UdpIo {
    UdpIo::bind(SocketAddr::new(ip, 0), UdpConfig::default()).unwrap()
}

/// Where members keep what they promise.
#[derive(Clone)]
pub enum Keeping {
    Memory,
    Disk(PathBuf),
}

struct Running {
    is_over: Arc<AtomicBool>,
    notifier: Notifier,
    thread: JoinHandle<Result<(), Ended>>,
}

pub struct Group {
    number: u32,
    id: u128,
    keeping: Keeping,
    pub lease: bool,
    members: Vec<(MemberId, Contact, Option<Running>)>,
}

impl Group {
    /// A group of so many voters, which run.
    pub fn start(voters: u64, keeping: Keeping) -> Group {
        let mut group = Group::prepare(voters, keeping);
        (1..=voters).for_each(|member| group.run(member));
        group
    }

    pub fn prepare(voters: u64, keeping: Keeping) -> Group {
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let id = u128::from(random_seed());
        let contact = |member| {
            let incarnation = u128::from(random_seed());
            (MemberId(member), Contact { incarnation, address: address(number, member) }, None)
        };
        let members: Vec<_> = (1..=voters).map(contact).collect();
        let group = Group { number, id, keeping, lease: false, members };
        for (id, ..) in &group.members {
            group.create(*id, Some(&group.membership()));
        }
        group
    }

    /// A group in directories of a folder that is empty.
    pub fn on_disk(voters: u64, name: &str) -> Group {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        Group::start(voters, Keeping::Disk(folder))
    }

    fn membership(&self) -> Membership {
        Membership::of_voters(self.members.iter().map(|(_, contact, _)| contact.encode()).collect())
    }

    fn folder(&self, member: MemberId) -> Option<PathBuf> {
        match &self.keeping {
            Keeping::Memory => None,
            Keeping::Disk(folder) => Some(folder.join(member.to_string())),
        }
    }

    fn identity(&self, member: MemberId) -> Identity {
        Identity { group: self.id, member: member.0 }
    }

    /// Makes a member's directory.
    fn create(&self, member: MemberId, first: Option<&Membership>) {
        let Some(folder) = self.folder(member) else { return };
        std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
        let files = SystemFiles::create(&folder).unwrap();
        DiskLog::create(files, self.identity(member), config(), first).unwrap();
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|(_, contact, _)| contact.address).collect()
    }

    pub fn address(&self, member: u64) -> SocketAddr {
        self.addresses()[usize::try_from(member).unwrap() - 1]
    }

    /// Adds a member that the group does not know yet, which is told its number by `add`.
    pub fn join(&mut self, add: impl FnOnce(Contact) -> u64) -> u64 {
        let host = self.members.len() as u64 + 1;
        let incarnation = u128::from(random_seed());
        let contact = Contact { incarnation, address: address(self.number, host) };
        let member = add(contact);
        self.members.push((MemberId(member), contact, None));
        self.create(MemberId(member), None);
        self.run_at(self.members.len() - 1);
        member
    }

    /// Starts a member, from what its disk has.
    pub fn run(&mut self, member: u64) {
        self.run_at(usize::try_from(member).unwrap() - 1);
    }

    fn run_at(&mut self, at: usize) {
        let (id, contact, _) = self.members[at];
        let settings = Settings {
            lease_drift: self.lease.then_some(100),
            kept_bytes: 64 << 10,
            ..Settings::new(self.id, id)
        };
        let first = (at < 3).then(|| self.membership_of_first());
        let (folder, group) = (self.folder(id), (self.id, contact.incarnation));
        let (is_over, (ready, started)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
        let over = is_over.clone();
        let identity = self.identity(id);
        let thread = std::thread::spawn(move || match folder {
            Some(folder) => on_disk(&folder, identity, settings, group, contact, &ready, &over),
            None => in_memory(first, settings, group, contact, &ready, &over),
        });
        let notifier = started.recv().expect("the member starts");
        self.members[at].2 = Some(Running { is_over, notifier, thread });
    }

    fn membership_of_first(&self) -> Membership {
        let first = self.members.iter().take(3).map(|(_, contact, _)| contact.encode());
        Membership::of_voters(first.collect())
    }

    /// Ends a member's loop, without a word to the others.
    pub fn stop(&mut self, member: u64) {
        let ended = self.end(usize::try_from(member).unwrap() - 1);
        assert_eq!(ended, Some(Ok(())));
    }

    fn end(&mut self, at: usize) -> Option<Result<(), Ended>> {
        let Running { is_over, notifier, thread } = self.members[at].2.take()?;
        is_over.store(true, Ordering::Release);
        notifier.notify();
        Some(thread.join().expect("no member panics"))
    }

    pub fn client(&self) -> Connected {
        self.client_with(PATIENCE)
    }

    pub fn client_with(&self, timeout: Duration) -> Connected {
        client_of(&self.addresses(), timeout)
    }

    /// Waits until a member's status is as wanted.
    pub fn await_status(
        &self,
        member: u64,
        is_good: impl Fn(&MemberStatus) -> bool,
    ) -> MemberStatus {
        let mut client = self.client();
        let clock = Clock::system();
        let begin = clock.now();
        loop {
            if let Ok(status) = client.client.status_of(self.address(member)) {
                if is_good(&status) {
                    return status;
                }
                assert!(clock.now() - begin < PATIENCE, "{status:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Who leads, once that is known to a member.
    pub fn leader(&self) -> u64 {
        let running = self.members.iter().find(|(.., running)| running.is_some());
        let (id, ..) = running.expect("a member runs");
        let status = self.await_status(id.0, |status| {
            status.leader.is_some_and(|leader| {
                self.members.iter().any(|(id, _, running)| id.0 == leader && running.is_some())
            })
        });
        status.leader.unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for at in 0..self.members.len() {
            let ended = self.end(at);
            assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
        }
    }
}

/// A client with its node.
pub struct Connected {
    pub client: Client,
    pub _node: Node,
}

/// A client of the group that has these members.
pub fn client_of(members: &[SocketAddr], timeout: Duration) -> Connected {
    let (endpoint, node) = endpoint(Asker::new(members));
    Connected { client: Client::new(endpoint, timeout), _node: node }
}

pub fn endpoint<S>(state: S) -> (Endpoint<S>, Node) {
    let node = Node::start(NodeConfig::default()).unwrap();
    let io = udp(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), state);
    endpoint.attach(&node).unwrap();
    (endpoint, node)
}

fn config() -> Config {
    Config { segment_bytes: 256 << 10, ..Config::default() }
}

fn member_config(settings: Settings) -> MemberConfig {
    MemberConfig { settings, snapshot_bytes: 1 << 20 }
}

fn now_us() -> u64 {
    Clock::system().now().as_nanos() / 1000
}

fn in_memory(
    first: Option<Membership>,
    settings: Settings,
    group: (u128, u128),
    contact: Contact,
    ready: &mpsc::Sender<Notifier>,
    over: &AtomicBool,
) -> Result<(), Ended> {
    let mut restored = Restored::new((0, None), Position::ZERO, Membership::default());
    if let Some(membership) = first {
        let mut data = Vec::new();
        membership.encode(&mut data);
        let position = Position { term: 0, index: 1 };
        restored.entry(Entry { position, kind: Kind::Configuration, data: &data }).unwrap();
    }
    let parts = Parts {
        log: MemoryLog::default(),
        restored,
        state: Replicated::new(Table::new(TABLE_BYTES)),
        files: MemoryFiles::default(),
        machine: || Table::new(TABLE_BYTES),
    };
    live(parts, settings, Waker::default(), group, contact, ready, over)
}

fn on_disk(
    folder: &std::path::Path,
    identity: Identity,
    settings: Settings,
    group: (u128, u128),
    contact: Contact,
    ready: &mpsc::Sender<Notifier>,
    over: &AtomicBool,
) -> Result<(), Ended> {
    let files = SystemFiles::open(folder).unwrap();
    let waker = Waker::default();
    let wake = waker.clone();
    let opened = DiskLog::open(files.clone(), identity, config(), move || wake.wake()).unwrap();
    let state = match opened.snapshot {
        Some(mut reader) => read_state(&mut reader, Table::new(TABLE_BYTES)).unwrap(),
        None => Replicated::new(Table::new(TABLE_BYTES)),
    };
    let machine = || Table::new(TABLE_BYTES);
    let parts = Parts { log: opened.log, restored: opened.restored, state, files, machine };
    live(parts, settings, waker, group, contact, ready, over)
}

fn live<L: Log + 'static, F: Files, N: Fn() -> Table + Send + 'static>(
    parts: Parts<Table, L, F, N>,
    settings: Settings,
    waker: Waker,
    group: (u128, u128),
    contact: Contact,
    ready: &mpsc::Sender<Notifier>,
    over: &AtomicBool,
) -> Result<(), Ended> {
    let (machine, bytes_max) = (MachineKind::Table, TABLE_BYTES as u64);
    let charter = Charter { machine, bytes_max, lease_drift: settings.lease_drift };
    let listen = Some(contact.address);
    let node = Node::start(NodeConfig { listen, ..NodeConfig::default() }).unwrap();
    let wake = waker.clone();
    let seed = random_seed();
    let member = Member::new(member_config(settings), parts, now_us(), seed, move || wake.wake());
    let io = udp(contact.address.ip());
    let config = EndpointConfig::default();
    let opened = Server::open(
        member.unwrap(),
        (group.0, charter),
        group.1,
        config,
        io,
        Clock::system(),
        &waker,
    );
    let mut endpoint = opened.unwrap();
    endpoint.attach(&node).unwrap();
    ready.send(endpoint.notifier().unwrap()).unwrap();
    run(&mut endpoint, |_, _| over.load(Ordering::Acquire))
}
