//! Replicas that apply the same log, one of which begins with a snapshot (QR3, QR21 to QR23).

use petasos_base::Rng;
use petasos_quorum::state::{Command, Kind, Loading, Outcome, Replicated, begin_entry};
use petasos_quorum::table::{Operation, Table, TableCommand, TableResult};

const BYTES_MAX: usize = 60_000;

/// How a command ended.
type Ended = (u16, u8, Vec<u8>);

fn apply(state: &mut Replicated<Table>, term: u64, entry: &[u8]) -> Vec<Ended> {
    let mut ended = Vec::new();
    state.apply(state.applied() + 1, term, entry, |position, outcome| {
        ended.push(match outcome {
            Outcome::Done(result) => (position, 0, result.to_vec()),
            Outcome::NoSession => (position, 1, Vec::new()),
            Outcome::Contradiction => (position, 2, Vec::new()),
            Outcome::Full => (position, 3, Vec::new()),
        });
    });
    ended
}

/// Entries of clients that open sessions, send commands again, and go without a word.
struct Clients {
    rng: Rng,
    /// Sessions that were opened, with the next number of each.
    sessions: Vec<(u64, u64)>,
    term: u64,
    led_ms: u64,
}

impl Clients {
    fn entry(&mut self) -> Vec<u8> {
        if self.rng.chance(0.02) {
            (self.term, self.led_ms) = (self.term + 1, 0);
        }
        self.led_ms += self.rng.below(50);
        let mut entry = Vec::new();
        begin_entry(&mut entry, self.led_ms);
        for _ in 0..self.rng.below(5) {
            self.command(&mut entry);
        }
        if self.rng.chance(0.01) {
            entry.push(77);
        }
        entry
    }

    fn command(&mut self, entry: &mut Vec<u8>) {
        let plain = Command { kind: Kind::Open, session: 0, number: 0, lowest: 0, bytes: &[] };
        let ttl_ms = (1_000 + self.rng.below(5_000)).to_le_bytes();
        let key = [self.rng.below(60) as u8; 3];
        let value = vec![1; usize::try_from(self.rng.below(3_000)).unwrap()];
        let put = TableCommand::new(Operation::Append, &key, &value).to_bytes();
        let add = TableCommand::new(Operation::Add, b"sum", &1_u64.to_le_bytes()).to_bytes();
        let delete = TableCommand::new(Operation::Delete, &key, &[]).to_bytes();
        let choice = self.rng.below(10);
        let at = usize::try_from(self.rng.below(self.sessions.len().max(1) as u64)).unwrap();
        let command = match (choice, self.sessions.get_mut(at)) {
            (0, _) | (_, None) => Command { bytes: &ttl_ms, ..plain },
            (1, Some((session, _))) => Command { kind: Kind::Touch, session: *session, ..plain },
            (2, _) => Command::alone(&put),
            (3..=4, _) => Command::alone(&delete),
            (_, Some((session, next))) => {
                // Again, or a new one.
                let number = *next - self.rng.below(3).min(*next - 1);
                *next = (*next).max(number + 1);
                let lowest = number - self.rng.below(4).min(number - 1);
                let (kind, session) = (Kind::InSession, *session);
                Command { kind, session, number, lowest, bytes: &add }
            }
        };
        command.encode(entry);
    }

    fn hear(&mut self, ended: &[Ended]) {
        let numbers = ended.iter().filter(|(_, status, result)| *status == 0 && result.len() == 8);
        for (.., result) in numbers {
            self.sessions.push((u64::from_le_bytes(result[..].try_into().unwrap()), 1));
        }
        if self.sessions.len() > 20 {
            self.sessions.remove(0);
        }
    }
}

/// QR22, QR23: the same commands make the same state and the same results, also if a replica begins
/// with a snapshot that was written beside commands.
#[test]
fn replicas_stay_alike_with_snapshots_beside_commands() {
    for seed in 0..12 {
        let rng = Rng::new(seed);
        let mut clients = Clients { rng, sessions: Vec::new(), term: 1, led_ms: 0 };
        let mut first = Replicated::new(Table::new(BYTES_MAX));
        let mut second = Replicated::new(Table::new(BYTES_MAX));
        let mut snapshot: Option<(u64, Vec<u8>)> = None;
        let mut log: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut snapshots = 0;
        for _ in 0..2_500 {
            let entry = clients.entry();
            let ended = apply(&mut first, clients.term, &entry);
            assert_eq!(apply(&mut second, clients.term, &entry), ended);
            clients.hear(&ended);
            log.push((clients.term, entry));
            assert_eq!(first.digest(), second.digest());
            match &mut snapshot {
                None if clients.rng.chance(0.05) => {
                    first.freeze();
                    snapshot = Some((first.applied(), Vec::new()));
                }
                Some((index, bytes)) => {
                    if first.frozen(700, bytes) {
                        continue;
                    }
                    second = load(*index, bytes, &mut clients.rng);
                    let behind = usize::try_from(*index).unwrap();
                    for (term, entry) in &log[behind..] {
                        apply(&mut second, *term, entry);
                    }
                    snapshots += 1;
                    snapshot = None;
                }
                None => {}
            }
            assert_eq!(first.digest(), second.digest());
        }
        assert!(snapshots > 5, "{snapshots}");
        assert_eq!(first.sessions(), second.sessions());
        assert!(first.time_ms() > 10_000);
    }
}

fn load(index: u64, mut bytes: &[u8], rng: &mut Rng) -> Replicated<Table> {
    let mut loading = Loading::new(Table::new(BYTES_MAX));
    while !bytes.is_empty() {
        let length = usize::try_from(1 + rng.below(900)).unwrap().min(bytes.len());
        loading.part(&bytes[..length]).unwrap();
        bytes = &bytes[length..];
    }
    loading.finish(index).unwrap()
}

/// QR3: however often a command is sent, it is done once.
#[test]
fn a_command_that_is_sent_again_is_done_once() {
    let mut state = Replicated::new(Table::new(BYTES_MAX));
    let mut send = |command: &Command<'_>, led_ms| {
        let mut entry = Vec::new();
        begin_entry(&mut entry, led_ms);
        command.encode(&mut entry);
        apply(&mut state, 1, &entry).remove(0)
    };
    let ttl_ms = 2_000_u64.to_le_bytes();
    let plain = Command { kind: Kind::Open, session: 0, number: 0, lowest: 0, bytes: &ttl_ms };
    let (_, _, number) = send(&plain, 0);
    let session = u64::from_le_bytes(number[..].try_into().unwrap());
    let add = TableCommand::new(Operation::Add, b"sum", &5_u64.to_le_bytes()).to_bytes();
    let add = Command { kind: Kind::InSession, session, number: 1, lowest: 1, bytes: &add };
    let sums = [send(&add, 10), send(&add, 1_000), send(&add, 2_500)];
    let sum = sums.map(|(_, _, result)| TableResult::decode(&result).unwrap().number);
    assert_eq!(sum, [5; 3]);
    let next = send(&Command { number: 2, lowest: 2, ..add }, 2_600);
    assert_eq!(TableResult::decode(&next.2).unwrap().number, 10);
    // QR10, and QR11: the session has not been used for its time to live.
    assert_eq!(send(&add, 2_700).1, 2);
    assert_eq!(send(&Command { number: 3, lowest: 2, ..add }, 4_701).1, 1);
}

/// Snapshots that nobody vouches for are refused, without a panic.
#[test]
fn damaged_snapshots_are_refused() {
    let mut clients = Clients { rng: Rng::new(3), sessions: Vec::new(), term: 1, led_ms: 0 };
    let mut state = Replicated::new(Table::new(BYTES_MAX));
    for _ in 0..60 {
        let entry = clients.entry();
        let ended = apply(&mut state, clients.term, &entry);
        clients.hear(&ended);
    }
    state.freeze();
    let mut bytes = Vec::new();
    while state.frozen(1 << 20, &mut bytes) {}
    let index = state.applied();
    assert_eq!(load(index, &bytes, &mut clients.rng).digest(), state.digest());
    for _ in 0..3_000 {
        let mut changed = bytes.clone();
        let at = usize::try_from(clients.rng.below(changed.len() as u64)).unwrap();
        changed[at] ^= 1 << clients.rng.below(8);
        changed.truncate(changed.len() - usize::try_from(clients.rng.below(3)).unwrap());
        let mut loading = Loading::new(Table::new(BYTES_MAX));
        if loading.part(&changed).is_ok() {
            let _ = loading.finish(index);
        }
    }
    let whole = |bytes: &[u8], index| {
        let mut loading = Loading::new(Table::new(BYTES_MAX));
        loading.part(bytes).is_ok() && loading.finish(index).is_ok()
    };
    assert!(whole(&bytes, index));
    assert!(!whole(&bytes, index + 1));
    assert!(!whole(&bytes[..bytes.len() - 1], index));
}
