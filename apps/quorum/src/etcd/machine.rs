//! The store as a state machine (QR22, QR23).

use super::command::{EtcdCommand, push_i64};
use super::operation::{Operation, Txn};
use super::query::EtcdQuery;
use super::result::{Refusal, push_head};
use super::store::{Etcd, LEASE_BYTES, version_bytes};
use crate::machine::{At, Malformed, StateMachine};
use crate::state::hash;

/// What a transaction adds at most, whichever way its comparisons go. What deletes adds nothing, so
/// that it is done when the store is full: it adds less than was added for the keys.
fn growth(txn: &Txn<'_>) -> usize {
    let of_list = |list: &[Operation<'_>]| -> usize {
        let each = list.iter().map(|operation| match operation {
            Operation::Range(_) | Operation::Delete { .. } => 0,
            Operation::Put(put) => version_bytes(put.key.len(), put.value.map_or(0, <[u8]>::len)),
            Operation::Txn(txn) => growth(txn),
        });
        each.sum()
    };
    of_list(&txn.then).max(of_list(&txn.otherwise))
}

impl Etcd {
    fn command(
        &mut self,
        at: At,
        command: &EtcdCommand<'_>,
        body: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        match command {
            EtcdCommand::Txn(txn) => self.transact(txn, body),
            EtcdCommand::Compact(revision) => self.compact(*revision),
            EtcdCommand::Grant { id, ttl_s } => {
                let hint = (at.number() & i64::MAX as u64).cast_signed();
                let (id, ttl_s) = self.grant(*id, *ttl_s, hint)?;
                push_i64(body, id);
                push_i64(body, ttl_s);
                Ok(())
            }
            EtcdCommand::Revoke(id) => self.revoke(*id),
            EtcdCommand::KeepAlive(id) => {
                push_i64(body, *id);
                let ttl_s = self.keep_alive(*id);
                push_i64(body, ttl_s);
                Ok(())
            }
        }
    }
}

impl StateMachine for Etcd {
    fn check(&self, command: &[u8]) -> Result<usize, Malformed> {
        Ok(match EtcdCommand::decode(command).ok_or(Malformed)? {
            EtcdCommand::Txn(txn) => growth(&txn),
            EtcdCommand::Grant { .. } => LEASE_BYTES,
            EtcdCommand::Compact(_) | EtcdCommand::Revoke(_) | EtcdCommand::KeepAlive(_) => 0,
        })
    }

    fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes)
    }

    fn apply(&mut self, at: At, command: &[u8], result: &mut Vec<u8>) {
        let Some(command) = EtcdCommand::decode(command) else { return };
        push_head(result, None, 0);
        let body = result.len();
        let done = self.command(at, &command, result);
        if done.is_err() {
            result.truncate(body);
        }
        let mut head = Vec::with_capacity(body);
        push_head(&mut head, done.err(), self.revision);
        result[..body].copy_from_slice(&head);
    }

    fn tick(&mut self, at: At) {
        self.now_ms = at.time_ms;
        self.end_leases();
        self.clean();
    }

    fn needs_clock(&self) -> bool {
        self.leases.len() > 0 || self.is_cleaning()
    }

    fn read(&self, query: &[u8], answer: &mut Vec<u8>) -> Result<(), Malformed> {
        let query = EtcdQuery::decode(query).ok_or(Malformed)?;
        push_head(answer, None, self.revision);
        let head = answer.len();
        if let Err(refusal) = self.answer(&query, answer) {
            answer.truncate(head);
            answer[0] = refusal as u8;
        }
        Ok(())
    }

    fn digest(&self) -> u128 {
        let numbers = [self.revision, self.compacted, self.cleaned];
        let mut bytes = Vec::with_capacity(32);
        numbers.iter().for_each(|number| push_i64(&mut bytes, *number));
        bytes.extend_from_slice(&(self.bytes as u64).to_le_bytes());
        self.digest.wrapping_add(hash(&bytes))
    }

    fn freeze(&mut self) {
        self.begin_snapshot();
    }

    fn frozen(&mut self, record: &mut Vec<u8>) -> bool {
        self.next_record(record)
    }

    fn load(&mut self, record: &[u8]) -> Result<(), Malformed> {
        self.load_record(record).ok_or(Malformed)
    }
}
