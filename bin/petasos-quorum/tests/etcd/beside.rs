//! The same requests to a group and to etcd: the same answers, the same changes.

use std::fmt::Debug;

use petasos::{Channel, Msg, Status, block_on};
use petasos_base::Rng;
use petasos_quorum_etcd::api::compare::{CompareResult, CompareTarget};
use petasos_quorum_etcd::api::range_request::{SortOrder, SortTarget};
use petasos_quorum_etcd::api::watch_create_request::FilterType;
use petasos_quorum_etcd::api::{
    CompactionRequest, Compare, DeleteRangeRequest, Event, KVClient, LeaseClient,
    LeaseGrantRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest, WatchClient, WatchCreateRequest, WatchRequest,
};

use crate::servers::{Member, channel, etcd};

/// What a request comes to: the answer, or why there is none.
type Told = Result<String, String>;

/// A server that is asked.
struct Server {
    keys: KVClient,
    leases: LeaseClient,
    watches: WatchClient,
}

impl Server {
    fn new(channel: &Channel) -> Server {
        Server {
            keys: KVClient::new(channel.clone()),
            leases: LeaseClient::new(channel.clone()),
            watches: WatchClient::new(channel.clone()),
        }
    }
}

fn told<T: Debug>(result: Result<T, Status>) -> Told {
    result
        .map(|message| format!("{message:?}"))
        .map_err(|status| format!("{:?}: {}", status.code(), status.message()))
}

/// Asks, and leaves out of the answer who has answered.
macro_rules! ask {
    ($client:expr, $method:ident, $request:expr) => {
        told(block_on($client.$method($request.clone())).map(|response| {
            let mut message = response.into_message();
            let mut edit = message.edit();
            edit.header_mut().set_cluster_id(0).set_member_id(0).set_raft_term(0);
            message
        }))
    };
}

/// A request.
#[derive(Clone, Debug)]
enum Asked {
    Range(Msg<RangeRequest>),
    Put(Msg<PutRequest>),
    Delete(Msg<DeleteRangeRequest>),
    Txn(Msg<TxnRequest>),
    Compact(Msg<CompactionRequest>),
    Grant(Msg<LeaseGrantRequest>),
    Revoke(Msg<LeaseRevokeRequest>),
    Left(Msg<LeaseTimeToLiveRequest>),
    Leases(Msg<LeaseLeasesRequest>),
}

impl Asked {
    fn of(&self, server: &Server) -> Told {
        match self {
            Asked::Range(request) => ask!(server.keys, range, request),
            Asked::Put(request) => ask!(server.keys, put, request),
            Asked::Delete(request) => ask!(server.keys, delete_range, request),
            Asked::Txn(request) => ask!(server.keys, txn, request),
            Asked::Compact(request) => ask!(server.keys, compact, request),
            Asked::Grant(request) => ask!(server.leases, lease_grant, request),
            Asked::Revoke(request) => ask!(server.leases, lease_revoke, request),
            Asked::Left(request) => ask!(server.leases, lease_time_to_live, request),
            Asked::Leases(request) => ask!(server.leases, lease_leases, request),
        }
    }
}

/// Makes requests.
struct Requests {
    rng: Rng,
    /// About how many revisions there are.
    revision: i64,
}

impl Requests {
    fn number(&mut self, below: u64) -> i64 {
        self.rng.below(below).cast_signed()
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(40) {
            0 => Vec::new(),
            number => format!("k{}", number % 8).into_bytes(),
        }
    }

    fn end(&mut self) -> Vec<u8> {
        match self.rng.below(6) {
            0 => vec![0],
            1..=2 => self.key(),
            _ => Vec::new(),
        }
    }

    fn some_revision(&mut self) -> i64 {
        self.number(self.revision.unsigned_abs() + 3)
    }

    fn range(&mut self) -> Msg<RangeRequest> {
        let mut range = RangeRequest::new();
        let (key, end) = (self.key(), self.end());
        let mut edit = range.edit();
        edit.set_key(&*key).set_range_end(&*end).set_limit(self.number(4));
        if self.rng.chance(0.3) {
            edit.set_revision(self.some_revision());
        }
        // Without an order of two that are alike, which etcd leaves open.
        let targets = [SortTarget::KEY, SortTarget::MOD];
        let orders = [SortOrder::NONE, SortOrder::ASCEND, SortOrder::DESCEND];
        if self.rng.chance(0.3) {
            edit.set_sort_target(targets[self.rng.below(2) as usize]);
            edit.set_sort_order(orders[self.rng.below(3) as usize]);
        }
        if self.rng.chance(0.2) {
            edit.set_min_mod_revision(self.some_revision());
            edit.set_max_create_revision(self.some_revision());
        }
        edit.set_keys_only(self.rng.chance(0.1)).set_count_only(self.rng.chance(0.1));
        edit.set_serializable(self.rng.chance(0.1));
        range
    }

    fn put(&mut self) -> Msg<PutRequest> {
        let mut put = PutRequest::new();
        let (key, value) = (self.key(), format!("v{}", self.rng.below(5)));
        let mut edit = put.edit();
        edit.set_key(&*key).set_value(value.as_bytes()).set_prev_kv(self.rng.chance(0.3));
        if self.rng.chance(0.2) {
            edit.set_lease(self.number(4));
        }
        if self.rng.chance(0.1) {
            edit.set_ignore_value(true);
            if self.rng.chance(0.8) {
                edit.set_value("");
            }
        }
        edit.set_ignore_lease(self.rng.chance(0.05));
        put
    }

    fn delete(&mut self) -> Msg<DeleteRangeRequest> {
        let mut delete = DeleteRangeRequest::new();
        let (key, end) = (self.key(), if self.rng.chance(0.3) { self.end() } else { Vec::new() });
        delete.edit().set_key(&*key).set_range_end(&*end).set_prev_kv(self.rng.chance(0.5));
        delete
    }

    fn compare(&mut self) -> Msg<Compare> {
        let mut compare = Compare::new();
        let (key, end) = (self.key(), if self.rng.chance(0.2) { self.end() } else { Vec::new() });
        let number = self.number(4);
        let revision = self.some_revision();
        let mut edit = compare.edit();
        edit.set_key(&*key).set_range_end(&*end);
        let results = [
            CompareResult::EQUAL,
            CompareResult::GREATER,
            CompareResult::LESS,
            CompareResult::NOT_EQUAL,
        ];
        edit.set_result(results[self.rng.below(4) as usize]);
        match self.rng.below(5) {
            0 => edit.set_target(CompareTarget::VERSION).set_version(number),
            1 => edit.set_target(CompareTarget::CREATE).set_create_revision(revision),
            2 => edit.set_target(CompareTarget::MOD).set_mod_revision(revision),
            3 => edit.set_target(CompareTarget::LEASE).set_lease(number),
            _ => edit.set_target(CompareTarget::VALUE).set_value(format!("v{number}").as_bytes()),
        };
        compare
    }

    fn part(&mut self, depth: u32) -> Msg<RequestOp> {
        let mut part = RequestOp::new();
        match self.rng.below(if depth < 2 { 8 } else { 7 }) {
            0..=2 => part.edit().set_request_range(&self.range()),
            3..=4 => part.edit().set_request_put(&self.put()),
            5..=6 => part.edit().set_request_delete_range(&self.delete()),
            _ => part.edit().set_request_txn(&self.txn(depth + 1)),
        };
        part
    }

    fn txn(&mut self, depth: u32) -> Msg<TxnRequest> {
        let mut txn = TxnRequest::new();
        for _ in 0..self.rng.below(3) {
            txn.edit().compare_mut().push(&self.compare());
        }
        for _ in 0..self.rng.below(4) {
            txn.edit().success_mut().push(&self.part(depth));
        }
        for _ in 0..self.rng.below(3) {
            txn.edit().failure_mut().push(&self.part(depth));
        }
        txn
    }

    fn lease(&mut self) -> Asked {
        let id = self.number(4);
        match self.rng.below(4) {
            0 => {
                let mut grant = LeaseGrantRequest::new();
                grant.edit().set_id(id.max(1)).set_ttl(10_000 + id);
                Asked::Grant(grant)
            }
            1 => {
                let mut revoke = LeaseRevokeRequest::new();
                revoke.edit().set_id(id);
                Asked::Revoke(revoke)
            }
            2 => Asked::Leases(LeaseLeasesRequest::new()),
            _ => {
                let mut left = LeaseTimeToLiveRequest::new();
                left.edit().set_id(id).set_keys(true);
                Asked::Left(left)
            }
        }
    }

    fn any(&mut self) -> Asked {
        match self.rng.below(40) {
            0..=9 => Asked::Range(self.range()),
            10..=19 => Asked::Put(self.put()),
            20..=22 => Asked::Delete(self.delete()),
            23..=33 => Asked::Txn(self.txn(0)),
            34 => {
                let mut compact = CompactionRequest::new();
                let revision = self.some_revision();
                compact.edit().set_revision(revision).set_physical(true);
                Asked::Compact(compact)
            }
            _ => self.lease(),
        }
    }
}

/// What is left of leases is a matter of time, and their order is none of etcd's. What lacks both
/// its key and its lease is refused for the lease: etcd says so of puts, and the other of those in
/// transactions.
fn settled(told: Told, asked: &Asked) -> Told {
    match (asked, told) {
        (Asked::Left(_) | Asked::Leases(_), Ok(text)) => {
            let parts = text.split(['{', '}', '[', ']', ',']).map(str::trim);
            let mut parts: Vec<&str> = parts.filter(|part| !part.starts_with("TTL")).collect();
            parts.sort_unstable();
            Ok(parts.join(" "))
        }
        (Asked::Txn(_), Err(why)) if why.ends_with("lease not found") => {
            Err("InvalidArgument: etcdserver: key not found".to_owned())
        }
        (_, told) => told,
    }
}

/// etcd overlooks some keys that are written twice: its own rule is kept here.
fn is_stricter(told: &Told) -> bool {
    told.as_ref().is_err_and(|why| why.ends_with("duplicate key given in txn request"))
}

/// The changes of a range from a revision on, up to a revision.
fn changes(server: &Server, create: &Msg<WatchCreateRequest>, until: i64) -> Vec<String> {
    block_on(async {
        let (mut asks, mut answers) = server.watches.watch().await.unwrap();
        let mut ask = WatchRequest::new();
        ask.edit().set_create_request(create);
        asks.send(ask).await.unwrap();
        let mut told = Vec::new();
        loop {
            let answer = answers.message().await.unwrap().unwrap();
            assert!(!answer.canceled(), "{answer:?}");
            let events = answer.events();
            let is_last = |event: &Event| event.kv().is_some_and(|kv| kv.mod_revision() >= until);
            told.extend(events.iter().filter(|event| !is_last(event)).map(|of| format!("{of:?}")));
            if events.iter().any(is_last) {
                return told;
            }
        }
    })
}

/// Stores a key that ends what watches are told.
fn end(server: &Server) -> i64 {
    let mut put = PutRequest::new();
    put.edit().set_key("k9").set_value("end");
    let put = block_on(server.keys.put(put)).unwrap();
    put.header().unwrap().revision()
}

#[test]
fn a_group_answers_as_etcd_does() {
    let Some((_etcd, address)) = etcd("beside") else { return };
    let member = Member::start(1, 1, &["--in-memory", "--init", "--keeps", "etcd"]);
    let (ours, theirs) = (Server::new(&member.channel()), Server::new(&channel(&address)));
    let mut requests = Requests { rng: Rng::new(7), revision: 1 };
    let (mut counts, mut stricter) = ([0_u32; 2], 0);
    for number in 0..6_000 {
        let asked = requests.any();
        let answered = settled(asked.of(&ours), &asked);
        if is_stricter(&answered) {
            stricter += 1;
            continue;
        }
        let expected = settled(asked.of(&theirs), &asked);
        assert_eq!(answered, expected, "request {number}: {asked:?}");
        counts[usize::from(answered.is_ok())] += 1;
        if number % 20 == 0 {
            requests.revision = end(&theirs);
            assert_eq!(end(&ours), requests.revision);
        }
    }
    assert!(counts[0] > 300 && counts[1] > 3_000, "{counts:?}");
    assert!((1..600).contains(&stricter), "{stricter}");
}

#[test]
fn a_group_tells_the_changes_that_etcd_tells() {
    let Some((_etcd, address)) = etcd("beside-changes") else { return };
    let member = Member::start(2, 1, &["--in-memory", "--init", "--keeps", "etcd"]);
    let (ours, theirs) = (Server::new(&member.channel()), Server::new(&channel(&address)));
    let mut requests = Requests { rng: Rng::new(8), revision: 1 };
    for _ in 0..1_500 {
        let asked = match requests.any() {
            Asked::Compact(_) => continue,
            asked => asked,
        };
        let answered = settled(asked.of(&ours), &asked);
        if !is_stricter(&answered) {
            assert_eq!(answered, settled(asked.of(&theirs), &asked), "{asked:?}");
        }
    }
    let last = end(&theirs);
    assert_eq!(end(&ours), last);
    for number in 0..60 {
        let mut create = WatchCreateRequest::new();
        let mut edit = create.edit();
        let begin = format!("k{}", number % 8);
        edit.set_key(begin.as_bytes()).set_range_end([&[0][..], b"l"][number % 2]);
        edit.set_start_revision(requests.number(last.unsigned_abs()) + 1);
        edit.set_prev_kv(number % 3 == 0);
        if number % 4 == 0 {
            edit.filters_mut().push([FilterType::NODELETE, FilterType::NOPUT][number / 4 % 2]);
        }
        // The last change is a put: a watch that wants none would not be told of it.
        if number % 8 == 4 {
            continue;
        }
        let expected = changes(&theirs, &create, last);
        assert_eq!(changes(&ours, &create, last), expected, "{create:?}");
    }
}

/// Ranges that are read in many parts, and an end of one that is a key.
#[test]
fn long_ranges_are_those_of_etcd() {
    let Some((_etcd, address)) = etcd("beside-long") else { return };
    let member = Member::start(9, 1, &["--in-memory", "--init", "--keeps", "etcd"]);
    let servers = [Server::new(&member.channel()), Server::new(&channel(&address))];
    for part in 0..120 {
        let mut txn = TxnRequest::new();
        for number in 0..100 {
            let mut put = RequestOp::new();
            let key = format!("long/{part:03}/{number:02}");
            let mut edit = put.edit();
            edit.request_put_mut().set_key(key.as_bytes()).set_value(&[b'v'; 100][..]);
            txn.edit().success_mut().push(&put);
        }
        for server in &servers {
            let done = block_on(server.keys.txn(txn.clone())).unwrap();
            assert!(done.succeeded());
        }
    }
    for (limit, order, end, length_min) in [
        (0, SortOrder::NONE, "long/\u{7f}", 1_200_000),
        (11_000, SortOrder::NONE, "long/\u{7f}", 1_100_000),
        (10, SortOrder::DESCEND, "long/\u{7f}", 1_000),
        (0, SortOrder::NONE, "long/060/50", 600_000),
        (0, SortOrder::NONE, "long/", 0),
    ] {
        let mut range = RangeRequest::new();
        let mut edit = range.edit();
        edit.set_key("long/").set_range_end(end).set_limit(limit).set_sort_order(order);
        let asked = Asked::Range(range);
        let expected = asked.of(&servers[1]);
        assert!(asked.of(&servers[0]) == expected, "{asked:?}");
        let length = expected.map(|text| text.len());
        assert!(length.as_ref().is_ok_and(|length| *length > length_min), "{length:?}");
    }
}
