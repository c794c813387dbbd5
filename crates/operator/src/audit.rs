//! The audit log: who wanted what, and whether it was done.
//!
//! The newest entries are in memory, changes apart from the rest, so that nobody's reading, and
//! nobody who is refused, pushes changes out. All go to a file as well, if there is one, a JSON
//! object per line. If that cannot be written, no changes are made until it can.
//!
//! Invariant: what is kept is bounded, however often somebody calls: reads and refusals of a user
//! are recorded at [`OTHERS_PER_S`] in the long run; how many were not is in the next entry.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use petasos::grpc::Process;
use petasos_admin as proto;
use petasos_base::{SystemClock, Time};
use serde::Serialize;

use crate::roles::Role;
use crate::wall_time::unix_time;

/// Entries that are kept in memory: of changes, and as many of others.
const KEPT_MAX: usize = 512;
/// Bytes of the texts of an entry.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Reads and refusals of one user that are recorded per second, and at once.
const OTHERS_PER_S: u64 = 10;
const OTHERS_AT_ONCE: u64 = 100;
/// Users whose calls are counted apart.
const USERS_MAX: usize = 64;

/// A call that was made, or refused.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Counts entries.
    pub sequence: u64,
    /// µs since 1970.
    pub time_us: i64,
    /// The caller's user.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// The caller's process, if it can be seen.
    pub pid: Option<i32>,
    /// What the caller may do.
    pub role: &'static str,
    /// What was called.
    pub method: &'static str,
    /// What a change was to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// How the call ended.
    pub status: &'static str,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// So many calls of this user before this one are not in the log.
    #[serde(skip_serializing_if = "is_zero")]
    pub unrecorded: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What somebody has called.
pub struct Called {
    /// Who.
    pub process: Process,
    /// What it may do.
    pub role: Role,
    /// The method.
    pub method: &'static str,
    /// Of a change: what was to be done.
    pub steps: Vec<String>,
    /// The name of the status's code.
    pub status: &'static str,
    /// The status's message.
    pub message: String,
}

/// The log.
pub struct Audit {
    /// Who says that the file cannot be written.
    program: &'static str,
    file: Option<File>,
    /// The file could not be written.
    is_broken: bool,
    changes: VecDeque<Arc<Entry>>,
    others: VecDeque<Arc<Entry>>,
    users: HashMap<u32, Allowance>,
    clock: SystemClock,
    sequence: u64,
}

/// How much of a user is recorded.
struct Allowance {
    /// When all of [`OTHERS_AT_ONCE`] is there again.
    full_at: Time,
    unrecorded: u64,
}

impl Audit {
    /// A log without entries, which appends to a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn new(program: &'static str, path: Option<&Path>) -> Result<Audit, String> {
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).mode(0o600).open(path);
            file.map_err(|error| format!("cannot open the audit log {}: {error}", path.display()))
        };
        let (changes, others) = (VecDeque::new(), VecDeque::new());
        let (users, clock) = (HashMap::new(), SystemClock::default());
        let file = path.map(open).transpose()?;
        let (is_broken, sequence) = (false, 0);
        Ok(Audit { program, file, is_broken, changes, others, users, clock, sequence })
    }

    /// Whether changes may be made: the last entry could be written.
    pub fn is_sound(&self) -> bool {
        !self.is_broken
    }

    /// Records a call.
    pub fn record(&mut self, called: Called) {
        let is_change = called.role == Role::Operator && !called.steps.is_empty();
        let now = self.clock.now();
        let Some(unrecorded) = self.allowed(called.process.uid, is_change, now) else { return };
        let Process { uid, gid, pid } = called.process;
        let Called { role, method, steps, status, message, .. } = called;
        let (steps, mut message) = (shortened(steps), message);
        message.truncate(message.floor_char_boundary(TEXT_BYTES_MAX));
        message.shrink_to_fit();
        self.sequence += 1;
        let time_us = i64::try_from(unix_time().as_micros()).unwrap_or(i64::MAX);
        let (sequence, role) = (self.sequence, role.name());
        let entry = Entry {
            sequence,
            time_us,
            uid,
            gid,
            pid,
            role,
            method,
            steps,
            status,
            message,
            unrecorded,
        };
        self.write(&entry);
        let kept = if is_change { &mut self.changes } else { &mut self.others };
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(Arc::new(entry));
    }

    /// The newest entries, the oldest of them first.
    pub fn newest(&self, most: usize) -> Vec<Arc<Entry>> {
        let mut all: Vec<_> = self.changes.iter().chain(&self.others).cloned().collect();
        all.sort_unstable_by_key(|entry| entry.sequence);
        all.split_off(all.len().saturating_sub(most))
    }

    /// Whether a call is recorded; if so, how many of its user were not.
    fn allowed(&mut self, uid: u32, is_change: bool, now: Time) -> Option<u64> {
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&uid) {
            self.users.retain(|_, user| user.full_at > now || user.unrecorded > 0);
        }
        // Beyond that many, users share an allowance.
        let is_known = self.users.len() < USERS_MAX || self.users.contains_key(&uid);
        let key = if is_known { uid } else { u32::MAX };
        let user = self.users.entry(key).or_insert(Allowance { full_at: now, unrecorded: 0 });
        let each_ns = 1_000_000_000 / OTHERS_PER_S;
        let full_at = user.full_at.max(now).plus_nanos(each_ns);
        if !is_change {
            if full_at.nanos_since(now) > each_ns * OTHERS_AT_ONCE {
                user.unrecorded += 1;
                return None;
            }
            user.full_at = full_at;
        }
        Some(std::mem::take(&mut user.unrecorded))
    }

    fn write(&mut self, entry: &Entry) {
        let Some(file) = &mut self.file else { return };
        let mut line = serde_json::to_vec(entry).expect("an entry is plain data");
        line.push(b'\n');
        let written = append(file, &line);
        if let Err(error) = &written
            && !self.is_broken
        {
            let what = "the audit log cannot be written, changes are refused";
            eprintln!("{}: {what}: {error}", self.program);
        }
        self.is_broken = written.is_err();
    }
}

fn append(file: &mut File, line: &[u8]) -> io::Result<()> {
    file.write_all(line)?;
    file.flush()
}

/// As many of the steps as an entry has room for, and of the last of these as much.
fn shortened(steps: Vec<String>) -> Vec<String> {
    let (mut left, mut kept, all) = (TEXT_BYTES_MAX, Vec::new(), steps.len());
    for mut step in steps {
        if left == 0 {
            break;
        }
        if step.len() > left {
            step.truncate(step.floor_char_boundary(left));
            step.push('…');
            step.shrink_to_fit();
        }
        left = left.saturating_sub(step.len());
        kept.push(step);
    }
    if kept.len() < all {
        kept.push(format!("and {} more steps", all - kept.len()));
    }
    kept
}

/// Entries as a message.
pub fn fill_audit(entries: &[Arc<Entry>], edit: &mut proto::ListAuditResponseMut<'_>) {
    let mut list = edit.entries_mut();
    for entry in entries {
        let mut one = list.add();
        one.set_sequence(entry.sequence)
            .set_time_us(entry.time_us)
            .set_uid(entry.uid)
            .set_gid(entry.gid)
            .set_role(entry.role)
            .set_method(entry.method)
            .set_status(entry.status)
            .set_message(&*entry.message)
            .set_unrecorded(entry.unrecorded);
        if let Some(pid) = entry.pid {
            one.set_pid(pid);
        }
        one.steps_mut().extend(&entry.steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(uid: u32, role: Role, steps: &[&str]) -> Called {
        let (method, status) = ("Change", "OK");
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        let process = Process { uid, gid: 0, pid: None };
        Called { process, role, method, steps, status, message: String::new() }
    }

    #[test]
    fn a_flood_of_refusals_pushes_no_change_out_and_is_counted() {
        let mut audit = Audit::new("test", None).expect("there is no file");
        audit.record(called(0, Role::Operator, &["detach"]));
        for _ in 0..10 * KEPT_MAX {
            audit.record(called(7, Role::Nobody, &["detach"]));
        }
        let all = audit.newest(usize::MAX);
        assert_eq!((all[0].uid, all[0].steps.len()), (0, 1));
        let recorded = all.iter().filter(|entry| entry.uid == 7).count();
        assert!((OTHERS_AT_ONCE as usize..KEPT_MAX).contains(&recorded), "{recorded}");
        let lost = audit.users[&7].unrecorded + all.iter().map(|e| e.unrecorded).sum::<u64>();
        assert_eq!(recorded as u64 + lost, 10 * KEPT_MAX as u64);
        // Another user's are recorded.
        audit.record(called(8, Role::Nobody, &[]));
        assert_eq!(audit.newest(1)[0].uid, 8);
    }

    #[test]
    fn changes_are_all_recorded_and_the_newest_are_kept() {
        let mut audit = Audit::new("test", None).expect("there is no file");
        for _ in 0..KEPT_MAX + 10 {
            audit.record(called(0, Role::Operator, &["detach"]));
        }
        let all = audit.newest(usize::MAX);
        assert_eq!((all.len(), all[0].sequence), (KEPT_MAX, 11));
        assert_eq!(audit.newest(3).len(), 3);
    }

    #[test]
    fn users_and_texts_are_bounded() {
        let mut audit = Audit::new("test", None).expect("there is no file");
        for uid in 0..10 * USERS_MAX as u32 {
            audit.record(called(uid, Role::Nobody, &[]));
        }
        assert!(audit.users.len() <= USERS_MAX + 1);
        let long = "x".repeat(TEXT_BYTES_MAX / 4);
        audit.record(called(0, Role::Operator, &[&*long; 100]));
        let entry = &audit.newest(1)[0];
        assert_eq!((entry.steps.len(), &*entry.steps[4]), (5, "and 96 more steps"));
        audit.record(called(0, Role::Operator, &[&*"x".repeat(1 << 20)]));
        let entry = &audit.newest(1)[0];
        assert_eq!((entry.steps.len(), entry.steps[0].chars().count()), (1, TEXT_BYTES_MAX + 1));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_noticed() {
        let Ok(mut audit) = Audit::new("test", Some(Path::new("/dev/full"))) else { return };
        assert!(audit.is_sound());
        audit.record(called(0, Role::Operator, &["detach"]));
        assert!(!audit.is_sound());
        assert!(Audit::new("test", Some(Path::new("/nowhere/audit"))).is_err());
    }
}
