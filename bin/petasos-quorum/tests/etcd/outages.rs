//! Members are killed while clients write, read and watch: what all have seen is judged as one
//! history of etcd's model (QR1 to QR4), with watches that have no gaps.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use petasos::{Code, Msg, Request, Status, block_on};
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{Rng, SystemClock};
use petasos_history::{
    Budget, Bytes, CallId, Compare as Comparison, Event as Told, Header, Item, Keys, ModelKind, Op,
    Operand, Reader, Recorder, Refusal, Relation, Reply, Seen, Verdict, check,
};
use petasos_quorum_etcd::api::compare::CompareTarget;
use petasos_quorum_etcd::api::event::EventType;
use petasos_quorum_etcd::api::{
    Compare, DeleteRangeRequest, Event, KVClient, KeyValue, LeaseClient, LeaseGrantRequest,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, PutRequest, RangeRequest,
    RequestOp, TxnRequest, WatchClient, WatchRequest, WatchResponse,
};

use crate::servers::{Member, channel, folder, until};

const KEYS: [&str; 3] = ["a", "b", "c"];
/// How long a request has.
const TIMEOUT: Duration = Duration::from_secs(10);

fn bytes(of: &[u8]) -> Bytes {
    Bytes::from(String::from_utf8_lossy(of).as_ref())
}

fn number(of: i64) -> u64 {
    of.unsigned_abs()
}

fn item(kv: &KeyValue) -> Item {
    Item {
        key: bytes(kv.key()),
        value: bytes(kv.value()),
        create: number(kv.create_revision()),
        modified: number(kv.mod_revision()),
        version: number(kv.version()),
        lease: number(kv.lease()),
    }
}

fn header(first: u64) -> Header {
    Header { model: Some(ModelKind::Etcd), revision: Some(first) }
}

/// A client of one member that records what it does.
struct Recording {
    keys: KVClient,
    leases: LeaseClient,
    process: u64,
    /// The lease that was granted last, or 0.
    lease: u64,
    granted: u64,
    recorder: Recorder<Vec<u8>>,
    clock: SystemClock,
    rng: Rng,
    /// The revision of a key that it has seen last.
    revision: i64,
    done: u64,
}

impl Recording {
    /// `first` is the store's revision when the history begins.
    fn new(port: &str, process: u64, clock: &SystemClock, first: u64) -> Recording {
        Recording {
            keys: KVClient::new(channel(port)),
            leases: LeaseClient::new(channel(port)),
            process,
            lease: 0,
            granted: 0,
            recorder: Recorder::new(Vec::new(), process, Some(header(first))).unwrap(),
            clock: clock.clone(),
            rng: Rng::new(process),
            revision: 0,
            done: 0,
        }
    }

    fn begin(&self, op: &Op) -> CallId {
        self.recorder.call(self.clock.now().as_nanos(), op).unwrap()
    }

    fn end(&mut self, call: CallId, changes: bool, result: Result<Reply, Status>) {
        let now = self.clock.now().as_nanos();
        self.done += u64::from(result.is_ok());
        match result {
            Ok(reply) => self.recorder.ok(call, now, reply).unwrap(),
            // Whoever could not connect has sent nothing; that is not told apart here.
            Err(status) if changes => {
                assert!(is_outage(&status), "{status}");
                self.recorder.unknown(call, now).unwrap();
                sleep(Duration::from_millis(20));
            }
            Err(status) => {
                assert!(is_outage(&status), "{status}");
                self.recorder.not_done(call, now).unwrap();
                sleep(Duration::from_millis(20));
            }
        }
    }

    fn step(&mut self, at: u64) {
        let key = KEYS[self.rng.below(3) as usize];
        let value = format!("{at}");
        let name = Bytes::from(key);
        match self.rng.below(200) {
            0 => self.grant(),
            1 => self.renew(),
            2 => self.revoke(),
            // A key that nobody else writes goes with its lease.
            3..=14 => self.put(&format!("b{}", self.process), &value, self.lease),
            15..=74 => self.put(key, &value, 0),
            75..=99 => {
                let keys = Keys { key: name, end: None };
                let call = self.begin(&Op::DeleteRange { keys });
                let mut delete = DeleteRangeRequest::new();
                delete.edit().set_key(key);
                let result = block_on(self.keys.delete_range(timed(delete)));
                let result = result.map(|gone| Reply {
                    revision: gone.header().map(|head| number(head.revision())),
                    deleted: Some(number(gone.deleted())),
                    ..Reply::default()
                });
                self.end(call, true, result);
            }
            100..=124 => self.swap(key, &value),
            _ => self.read(key),
        }
    }

    fn put(&mut self, key: &str, value: &str, lease: u64) {
        let (name, text) = (Bytes::from(key), Bytes::from(value));
        let call = self.begin(&Op::Put { key: name, value: text, lease });
        let mut request = put(key, value);
        request.edit().set_lease(lease.cast_signed());
        let result = block_on(self.keys.put(timed(request)));
        let result = result.map(|put| {
            self.revision = put.header().map_or(0, |head| head.revision());
            Reply { revision: Some(number(self.revision)), ..Reply::default() }
        });
        self.end(call, true, refused(result));
    }

    /// A lease of a number that nobody has had, which lives for long or ends by itself.
    fn grant(&mut self) {
        self.granted += 1;
        let lease = self.process << 32 | self.granted;
        let ttl_s = if self.rng.chance(0.5) { 2 } else { 600 };
        let call = self.begin(&Op::Grant { lease, ttl_ms: ttl_s * 1000 });
        let mut grant = LeaseGrantRequest::new();
        grant.edit().set_id(lease.cast_signed()).set_ttl(ttl_s.cast_signed());
        let result = block_on(self.leases.lease_grant(timed(grant)));
        if result.is_ok() {
            self.lease = lease;
        }
        self.end(call, true, result.map(|_| Reply::default()));
    }

    fn renew(&mut self) {
        let lease = self.lease;
        if lease == 0 {
            return;
        }
        let call = self.begin(&Op::KeepAlive { lease });
        let result = block_on(async {
            let (mut asks, mut answers) = self.leases.lease_keep_alive().await?;
            let mut ask = LeaseKeepAliveRequest::new();
            ask.edit().set_id(lease.cast_signed());
            asks.send(ask).await?;
            let ended = || Status::unavailable("the stream has ended");
            answers.message().await?.ok_or_else(ended)
        });
        let alive = |answer: Msg<LeaseKeepAliveResponse>| Some(answer.ttl() > 0);
        let result = result.map(|answer| Reply { alive: alive(answer), ..Reply::default() });
        self.end(call, true, result);
    }

    fn revoke(&mut self) {
        let lease = std::mem::take(&mut self.lease);
        if lease == 0 {
            return;
        }
        let call = self.begin(&Op::Revoke { lease });
        let mut revoke = LeaseRevokeRequest::new();
        revoke.edit().set_id(lease.cast_signed());
        let result = block_on(self.leases.lease_revoke(timed(revoke)));
        self.end(call, true, refused(result.map(|_| Reply::default())));
    }

    /// Stores a value if the key's revision is the one that was seen last.
    fn swap(&mut self, key: &str, value: &str) {
        let revision = self.revision;
        let (name, text) = (Bytes::from(key), Bytes::from(value));
        let than = Operand::Mod(number(revision));
        let compare = vec![Comparison { key: name.clone(), is: Relation::Equal, than }];
        let then = vec![Op::Put { key: name, value: text, lease: 0 }];
        let call = self.begin(&Op::Txn { compare, then, otherwise: Vec::new() });
        let mut compare = Compare::new();
        compare.edit().set_key(key).set_target(CompareTarget::MOD).set_mod_revision(revision);
        let mut part = RequestOp::new();
        part.edit().set_request_put(&put(key, value));
        let mut txn = TxnRequest::new();
        txn.edit().compare_mut().push(&compare);
        txn.edit().success_mut().push(&part);
        let result = block_on(self.keys.txn(timed(txn)));
        let result = result.map(|done| {
            let revision = done.header().map(|head| number(head.revision()));
            let part = Reply { revision, ..Reply::default() };
            let parts = if done.succeeded() { vec![part] } else { Vec::new() };
            Reply {
                revision,
                succeeded: Some(done.succeeded()),
                parts: Some(parts),
                ..Reply::default()
            }
        });
        self.end(call, true, result);
    }

    fn read(&mut self, key: &str) {
        let keys = Keys { key: Bytes::from(key), end: None };
        let call = self.begin(&Op::Range { keys, revision: 0, limit: 0, stale: false });
        let mut range = RangeRequest::new();
        range.edit().set_key(key);
        let result = block_on(self.keys.range(timed(range)));
        let result = result.map(|found| {
            self.revision = found.kvs().first().map_or(self.revision, KeyValue::mod_revision);
            Reply {
                revision: found.header().map(|head| number(head.revision())),
                items: Some(found.kvs().iter().map(item).collect()),
                count: Some(number(found.count())),
                ..Reply::default()
            }
        });
        self.end(call, false, result);
    }
}

fn timed<T: petasos::message::Message>(request: Msg<T>) -> Request<T> {
    Request::new(request).with_timeout(TIMEOUT)
}

fn put(key: &str, value: &str) -> Msg<PutRequest> {
    let mut put = PutRequest::new();
    put.edit().set_key(key).set_value(value);
    put
}

/// That a lease has ended is an answer, too.
fn refused(result: Result<Reply, Status>) -> Result<Reply, Status> {
    result.or_else(|status| match status.code() {
        Code::NotFound => Ok(Reply { error: Some(Refusal::NoLease), ..Reply::default() }),
        _ => Err(status),
    })
}

/// Whether a request has failed as those do whose member, or whose group's leader, is gone.
fn is_outage(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled)
}

/// Watches all keys from revision `next` on, at one member after the other, each from where the
/// last one ended, until it has seen the last change. Gives what it has recorded.
fn watch(ports: &[String], mut next: u64, process: u64, clock: &SystemClock) -> Vec<u8> {
    let recorder = Recorder::new(Vec::new(), process, Some(header(next - 1))).unwrap();
    let now = || clock.now().as_nanos();
    let all = Keys { key: Bytes::from("a"), end: Some(Bytes::from("d")) };
    for port in ports.iter().cycle() {
        let op = Op::Watch { keys: all.clone(), revision: next };
        let call = recorder.call(now(), &op).unwrap();
        let watched = block_on(async {
            let client = WatchClient::new(channel(port));
            let (mut asks, mut answers) = client.watch().await?;
            let mut ask = WatchRequest::new();
            ask.edit().create_request_mut().set_key("a").set_range_end("d");
            ask.edit().create_request_mut().set_start_revision(next.cast_signed());
            asks.send(ask).await?;
            while let Some(answer) = answers.message().await? {
                if let Some(seen) = seen(&answer) {
                    next = answer.events().last().map_or(next, |event| {
                        event.kv().map_or(next, |kv| number(kv.mod_revision()) + 1)
                    });
                    recorder.seen(call, now(), seen).unwrap();
                }
                if answer.events().iter().any(is_last) {
                    return Ok(());
                }
            }
            Err(Status::unavailable("the stream has ended"))
        });
        let reply = Reply::default();
        match watched {
            Ok(()) => {
                recorder.ok(call, now(), reply).unwrap();
                return recorder.finish().unwrap();
            }
            Err(status) => {
                assert!(is_outage(&status), "{status}");
                recorder.ok(call, now(), reply).unwrap();
                sleep(Duration::from_millis(50));
            }
        }
    }
    unreachable!("the members go round")
}

fn seen(answer: &WatchResponse) -> Option<Seen> {
    assert!(!answer.canceled(), "{answer:?}");
    if answer.created() {
        return Some(Seen::Created(number(answer.header()?.revision())));
    }
    let told = answer.events().iter().map(|event| {
        let kv = event.kv().unwrap();
        match event.type_() {
            EventType::DELETE => {
                Told::Delete { key: bytes(kv.key()), revision: number(kv.mod_revision()) }
            }
            _ => Told::Put(item(kv)),
        }
    });
    Some(Seen::Events(told.collect()))
}

/// Three members with a port each, on disks.
fn group(test: u8, folder: &Path) -> Vec<Member> {
    let dirs: Vec<String> =
        (1..=3).map(|member| folder.join(member.to_string()).display().to_string()).collect();
    let [.., high, low] = std::process::id().to_be_bytes();
    let first = format!("127.{high}.{low}.{}:7432", 10 * test + 1);
    let mut init = std::process::Command::new(env!("CARGO_BIN_EXE_petasos-quorum"));
    init.args(["init", "--keeps", "etcd", "--dir", &dirs[0], "--listen", &first]);
    assert!(init.output().unwrap().status.success());
    let mut members = vec![Member::start(test, 1, &["--dir", &dirs[0]])];
    for (number, dir) in (2..).zip(&dirs[1..]) {
        members.push(Member::start(test, number, &["--dir", dir, "--join", &first]));
    }
    until(|| {
        let mut status = std::process::Command::new(env!("CARGO_BIN_EXE_petasos-quorum"));
        let output = status.args(["status", &first, "--json"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).matches("\"voter\"").count() >= 3
    });
    members
}

#[test]
fn clients_of_etcd_see_one_order_while_members_are_killed() {
    let mut members = group(7, &folder("outages"));
    let ports: Vec<String> = members.iter().map(|member| member.port.clone()).collect();
    let first = revision(&members[0]);
    let (clock, is_over) = (SystemClock::default(), AtomicBool::new(false));
    let (files, done) = std::thread::scope(|scope| {
        let work = |process: u64| {
            let port = &ports[process as usize % ports.len()];
            let (clock, is_over) = (&clock, &is_over);
            move || {
                let mut recording = Recording::new(port, process, clock, first);
                let mut at = process << 32;
                while !is_over.load(Ordering::Acquire) {
                    recording.step(at);
                    at += 1;
                }
                (recording.done, recording.recorder.finish().unwrap())
            }
        };
        let clients: Vec<_> = (0..4).map(|process| scope.spawn(work(process))).collect();
        let (clock, ports) = (&clock, &ports);
        let watches: Vec<_> = (10..12)
            .map(|process| scope.spawn(move || watch(ports, first + 1, process, clock)))
            .collect();
        for round in 0..6 {
            sleep(Duration::from_millis(300));
            let member = &mut members[round % 3];
            member.kill();
            sleep(Duration::from_millis(400));
            member.run();
        }
        is_over.store(true, Ordering::Release);
        let ended: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        let file = end(Recording::new(&ports[0], 20, clock, first));
        let mut files: Vec<Vec<u8>> =
            watches.into_iter().map(|watch| watch.join().unwrap()).collect();
        let done: u64 = ended.iter().map(|(done, _)| done).sum();
        files.extend(ended.into_iter().map(|(_, file)| file));
        files.push(file);
        (files, done)
    });
    assert!(done > 300, "{done}");
    let mut reader = Reader::new();
    for (number, file) in files.iter().enumerate() {
        let read = reader.read(file.as_slice());
        assert!(read.is_ok(), "file {number}: {read:?}");
    }
    let report = check(&reader.finish(), ModelKind::Etcd, Budget::default()).unwrap();
    assert_eq!(report.verdict, Verdict::Good, "{report:?}");
}

/// Makes a last change, which ends watches, and gives what was recorded of it.
fn end(mut recording: Recording) -> Vec<u8> {
    until(|| {
        recording.put("c", "end", 0);
        recording.done > 0
    });
    recording.recorder.finish().unwrap()
}

/// Whether a change is the one that is made when all others have been.
fn is_last(event: &Event) -> bool {
    event.kv().is_some_and(|kv| kv.value() == b"end")
}

/// The store's revision, once the group answers.
fn revision(member: &Member) -> u64 {
    let keys = KVClient::new(member.channel());
    let mut range = RangeRequest::new();
    range.edit().set_key("a");
    let mut revision = None;
    until(|| {
        let found = block_on(keys.range(timed(range.clone())));
        revision = found.ok().and_then(|found| Some(number(found.header()?.revision())));
        revision.is_some()
    });
    revision.unwrap()
}
