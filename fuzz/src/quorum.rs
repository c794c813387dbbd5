//! Commands, queries and snapshots of what groups keep (QR21, QR22): a table, and etcd's model.

use petasos_quorum::etcd::{
    Answer, Compare, End, Etcd, EtcdCommand, EtcdQuery, EventsAnswer, EventsQuery, Keys,
    Operation, Put, RangeAnswer, Relation, Target, Txn, TxnResult,
};
use petasos_quorum::machine::{At, StateMachine};
use petasos_quorum::table::Table;

use crate::Seed;

const BYTES_MAX: usize = 4_000;

/// Pieces, each preceded by what is done with it and its length: they are applied, asked and loaded
/// by each machine, and written into snapshots. What cannot be read changes nothing; a snapshot is
/// the state that it was of.
pub fn run(bytes: &[u8]) {
    let mut rest = bytes;
    let (mut etcd, mut table) = (Etcd::new(BYTES_MAX), Table::new(BYTES_MAX));
    let mut index = 0;
    while let Some(([what, length], more)) = rest.split_first_chunk() {
        let (piece, more) = more.split_at(more.len().min(usize::from(*length)));
        rest = more;
        index += 1;
        let at = At { index, position: 0, time_ms: index * u64::from(*what) };
        step(&mut etcd, at, piece);
        step(&mut table, at, piece);
        read_answers(piece);
        let _ = Etcd::new(BYTES_MAX).load(piece);
        let _ = Table::new(BYTES_MAX).load(piece);
    }
    same_again(&mut etcd, Etcd::new(BYTES_MAX));
    same_again(&mut table, Table::new(BYTES_MAX));
}

fn step(machine: &mut impl StateMachine, at: At, piece: &[u8]) {
    machine.tick(at);
    let digest = machine.digest();
    let is_command = machine.check(piece).is_ok();
    let mut result = Vec::new();
    machine.apply(at, piece, &mut result);
    assert_eq!(result.is_empty(), !is_command, "whoever is understood is answered");
    assert!(is_command || machine.digest() == digest, "what is no command changes nothing");
    let _ = machine.read(piece, &mut Vec::new());
}

fn read_answers(piece: &[u8]) {
    let Some(Answer { body: Ok(body), .. }) = Answer::decode(piece) else { return };
    let _ = TxnResult::read(&mut body.clone());
    let _ = RangeAnswer::read(&mut body.clone());
    let _ = EventsAnswer::read(&mut body.clone());
}

/// A machine that a snapshot is loaded into has the same state.
fn same_again<M: StateMachine>(machine: &mut M, mut other: M) {
    machine.freeze();
    let mut record = Vec::new();
    while machine.frozen(&mut record) {
        other.load(&record).expect("it is a record");
        record.clear();
    }
    assert_eq!(other.digest(), machine.digest());
}

/// Pieces, for [`run`].
fn pieces(pieces: &[Vec<u8>]) -> Vec<u8> {
    let of = |piece: &Vec<u8>| {
        let length = u8::try_from(piece.len()).expect("seeds are short");
        [&[1, length], &piece[..]].concat()
    };
    pieces.iter().flat_map(of).collect()
}

/// What a client of etcd's model does.
pub fn seeds() -> Vec<Seed> {
    let keys = Keys { from: b"a", end: End::Last };
    let put = |key| Put { key, value: Some(b"v"), lease: Some(7), wants_previous: true };
    let txn = Txn {
        compares: vec![Compare { keys, target: Target::Value(b"v"), relation: Relation::Equal }],
        then: vec![Operation::Delete { keys, wants_previous: true }],
        otherwise: vec![Operation::Put(put(b"b"))],
    };
    let commands = [
        EtcdCommand::Grant { id: 7, ttl_s: 2 },
        EtcdCommand::Txn(Txn::of(Operation::Put(put(b"a")))),
        EtcdCommand::Txn(Txn::of(Operation::Txn(txn.clone()))),
        EtcdCommand::KeepAlive(7),
        EtcdCommand::Compact(2),
        EtcdCommand::Txn(txn),
        EtcdCommand::Revoke(7),
    ];
    let commands: Vec<_> = commands.iter().map(EtcdCommand::to_bytes).collect();
    let events = EtcdQuery::Events(EventsQuery { keys, from: 2, wants_previous: true });
    let queries = [events.to_bytes(), EtcdQuery::Size.to_bytes()];
    vec![
        ("commands", pieces(&commands)),
        ("queries", pieces(&[&commands[..3], &queries[..]].concat())),
    ]
}
