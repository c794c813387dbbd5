//! What clients see while leaders end and come back is one order of operations (QR1, QR3, QR4).

use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{Rng, SystemClock};
use petasos_history::{
    Budget, Bytes, CallId, Header, ModelKind, Op, Reader, Recorder, Reply, Verdict, check,
};
use petasos_quorum::client::{Client, ClientError};
use petasos_quorum::member::Freshness;
use petasos_quorum::table::{
    Operation, Query, TableCommand, TableResult, TableStatus, decode_items,
};

use crate::group::{Connected, Group, Keeping, client_of};

const CLIENTS: u64 = 4;
const KEYS: [&str; 3] = ["a", "b", "c"];

/// A client that records what it does.
struct Recording {
    client: Client,
    recorder: Recorder<Vec<u8>>,
    clock: SystemClock,
    rng: Rng,
    /// The stamp that it has seen last.
    stamp: u64,
    ended: u64,
}

impl Recording {
    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn begin(&self, op: &Op) -> CallId {
        self.recorder.call(self.now(), op).expect("memory takes it")
    }

    fn step(&mut self, number: u64) {
        let name = KEYS[usize::try_from(self.rng.below(3)).unwrap()];
        let (key, text) = (Bytes::from(name), format!("{number},"));
        let value = Bytes::from(text.as_str());
        let plain = |operation, text| TableCommand::new(operation, name.as_bytes(), text);
        let stamp = self.stamp;
        let (op, command) = match self.rng.below(8) {
            0..=1 => (Op::Set { key, value }, plain(Operation::Put, text.as_bytes())),
            2 => (Op::Delete { key }, plain(Operation::Delete, b"")),
            3 => {
                let swap = plain(Operation::PutIf, text.as_bytes());
                (Op::CompareStamp { key, stamp, value }, TableCommand { stamp, ..swap })
            }
            4 => {
                let op = Op::Append { key, value, create: true };
                (op, plain(Operation::Append, text.as_bytes()))
            }
            _ => return self.read(name),
        };
        // A stamp of 0 stands for no item here, and for a stamp in the model.
        if command.operation == Operation::PutIf && stamp == 0 {
            return;
        }
        let call = self.begin(&op);
        let answer = self.client.command(&command.to_bytes());
        let now = self.now();
        let recorded = match answer {
            Ok(done) => {
                let result = TableResult::decode(&done.bytes).expect("it is a table's result");
                let is_done = result.status == TableStatus::Done;
                self.ended += 1;
                let stamp = Some(result.number).filter(|_| is_done);
                self.stamp = stamp.unwrap_or(self.stamp);
                let reply = match op {
                    Op::Set { .. } => Reply { stamp, ..Reply::default() },
                    Op::Delete { .. } => Reply { existed: Some(is_done), ..Reply::default() },
                    _ => Reply { done: Some(is_done), stamp, ..Reply::default() },
                };
                self.recorder.ok(call, now, reply)
            }
            Err(ClientError::Unknown) => self.recorder.unknown(call, now),
            Err(_) => self.recorder.not_done(call, now),
        };
        recorded.expect("memory takes it");
    }

    fn read(&mut self, name: &str) {
        let call = self.begin(&Op::Get { key: Bytes::from(name) });
        let query = Query::Get(name.as_bytes()).to_bytes();
        let answer = self.client.read(Freshness::Latest, &query);
        let now = self.now();
        let recorded = match answer {
            Ok(done) => {
                let (items, _) = decode_items(&done.bytes).expect("they are items");
                let item = items.into_iter().next();
                let stamp = item.as_ref().map(|item| item.stamp);
                self.stamp = stamp.unwrap_or(self.stamp);
                let text = |value: &[u8]| Bytes::from(String::from_utf8_lossy(value).as_ref());
                let value = Some(item.map(|item| text(&item.value)));
                self.recorder.ok(call, now, Reply { value, stamp, ..Reply::default() })
            }
            Err(_) => self.recorder.not_done(call, now),
        };
        recorded.expect("memory takes it");
    }
}

/// Clients write and read while `disturb` does what it does; what they have seen is judged. How
/// many commands have ended.
fn judged(group: &mut Group, timeout: Duration, disturb: impl FnOnce(&mut Group)) -> u64 {
    let (clock, is_over) = (SystemClock::default(), AtomicBool::new(false));
    let members = group.addresses();
    let files: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
        let work = |process: u64| {
            let (clock, is_over, members) = (clock.clone(), &is_over, &members);
            move || {
                let Connected { client, _node } = client_of(members, timeout);
                let header = Header { model: Some(ModelKind::Register), revision: None };
                let recorder = Recorder::new(Vec::new(), process, Some(header));
                let recorder = recorder.expect("memory takes it");
                let rng = Rng::new(process);
                let mut recording = Recording { client, recorder, clock, rng, stamp: 0, ended: 0 };
                let mut number = process << 32;
                while !is_over.load(Ordering::Acquire) {
                    recording.step(number);
                    number += 1;
                }
                (recording.ended, recording.recorder.finish().expect("memory takes it"))
            }
        };
        let threads: Vec<_> = (0..CLIENTS).map(|process| scope.spawn(work(process))).collect();
        disturb(group);
        is_over.store(true, Ordering::Release);
        threads.into_iter().map(|thread| thread.join().expect("it works on")).collect()
    });
    let mut reader = Reader::new();
    for (number, (_, file)) in files.iter().enumerate() {
        let read = reader.read(file.as_slice());
        assert!(read.is_ok(), "file {number}: {read:?}");
    }
    let report = check(&reader.finish(), ModelKind::Register, Budget::default());
    let report = report.expect("the calls are those of registers");
    assert_eq!(report.verdict, Verdict::Good, "{report:?}");
    files.iter().map(|(ended, _)| ended).sum()
}

/// Leaders end, one after the other, and come back.
fn ends_leaders(group: &mut Group) {
    for _ in 0..6 {
        let leader = group.leader();
        std::thread::sleep(Duration::from_millis(60));
        group.stop(leader);
        std::thread::sleep(Duration::from_millis(250));
        group.run(leader);
    }
}

#[test]
fn clients_see_one_order_while_leaders_end_on_disks() {
    let mut group = Group::on_disk(3, "history");
    let ended = judged(&mut group, Duration::from_secs(20), ends_leaders);
    assert!(ended > 100, "{ended}");
}

#[test]
fn clients_see_one_order_without_faults_in_memory() {
    let mut group = Group::start(3, Keeping::Memory);
    group.leader();
    let ended = judged(&mut group, Duration::from_secs(20), |_| {
        std::thread::sleep(Duration::from_millis(500));
    });
    assert!(ended > 100, "{ended}");
}

/// With short deadlines, some outcomes are unknown, and the history is still one.
#[test]
fn unknown_outcomes_are_told_as_such() {
    let mut group = Group::on_disk(3, "unknown");
    group.leader();
    judged(&mut group, Duration::from_millis(150), ends_leaders);
}
