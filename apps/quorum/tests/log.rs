//! A member's log on a disk that is full for a while (QR20).
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use petasos_journal::{Config, Identity};
use petasos_quorum::log::{DiskLog, Ended, Log};
use petasos_raft::{MemberId, Membership, Output, Replica, Settings, Write};
use petasos_sim::disk::{SimDisk, SimFiles};

const OURS: Identity = Identity { group: 7, member: 1 };
const CONFIG: Config = Config { segment_bytes: 8 << 10, snapshots_kept: 2 };
/// Longer than anything takes, if it does not hang.
const WATCHDOG: Duration = Duration::from_secs(60);

/// The only voter of a group, and its log.
struct Rig {
    replica: Replica,
    log: DiskLog<SimFiles>,
    woken: Receiver<()>,
    /// What has ended, but for what the replica was told of.
    said: Vec<Ended>,
}

impl Rig {
    fn start(disk: &SimDisk) -> Rig {
        let membership = Membership::of_voters(vec![Vec::new()]);
        DiskLog::create(disk.files(), OURS, CONFIG, Some(&membership)).unwrap();
        Rig::open(disk)
    }

    fn open(disk: &SimDisk) -> Rig {
        let (wake, woken) = channel();
        let opened = DiskLog::open(disk.files(), OURS, CONFIG, move || {
            // At the end of a test, nobody listens.
            let _ = wake.send(());
        });
        let opened = opened.unwrap();
        let settings = Settings::new(OURS.group, MemberId(OURS.member));
        let replica = Replica::new(settings, opened.restored, 0, 1);
        let mut rig = Rig { replica, log: opened.log, woken, said: Vec::new() };
        rig.replica.tick(1_000_000).unwrap();
        rig.until(|rig| rig.replica.committed() == rig.replica.last().index);
        rig
    }

    /// Goes on until then.
    fn until(&mut self, is_done: impl Fn(&Rig) -> bool) {
        loop {
            let mut bytes = Vec::new();
            while let Some(output) = self.replica.poll(&mut bytes) {
                if let Output::Write(write) = output {
                    self.log.write(write, &self.replica);
                }
            }
            while let Some(ended) = self.log.next(&self.replica) {
                match ended {
                    Ended::Done(token) if token < 1 << 32 => {
                        self.replica.done(1_000_000, token).unwrap();
                    }
                    Ended::Appended(upto) => self.replica.appended(1_000_000, upto).unwrap(),
                    other => self.said.push(other),
                }
            }
            if is_done(self) {
                return;
            }
            self.woken.recv_timeout(WATCHDOG).expect("something happens");
        }
    }

    fn is_full(&self) -> Option<bool> {
        let full = |ended: &Ended| match ended {
            Ended::Full(is_full) => Some(*is_full),
            _ => None,
        };
        self.said.iter().rev().find_map(full)
    }

    /// Proposes entries until the disk has no space for more.
    fn fill(&mut self) {
        for _ in 0..40 {
            self.replica.propose(1_000_000, &[7; 1000]).unwrap();
            self.until(|_| true);
        }
        self.until(|rig| rig.is_full() == Some(true));
        assert!(self.replica.committed() < self.replica.last().index);
    }
}

/// Entries that were refused are written when there is space, in order, and are there afterwards.
#[test]
fn qr20_what_was_refused_is_written_when_there_is_space() {
    let disk = SimDisk::new(1);
    let mut rig = Rig::start(&disk);
    disk.set_capacity(disk.used_bytes() + (8 << 10));
    rig.fill();
    disk.set_capacity(u64::MAX);
    // A write that was tried again just before may succeed before the space is found.
    rig.until(|rig| {
        rig.replica.committed() == rig.replica.last().index && rig.is_full() == Some(false)
    });
    let last = rig.replica.last().index;
    drop(rig);
    // A start adds the first entry of a term.
    assert_eq!(Rig::open(&disk).replica.last().index, last + 1);
}

/// A leader's log takes the place of entries that were never written: that is no failure.
#[test]
fn qr20_what_was_refused_can_be_cut_off() {
    let disk = SimDisk::new(2);
    let mut rig = Rig::start(&disk);
    disk.set_capacity(disk.used_bytes() + (8 << 10));
    rig.fill();
    let (token, index) = (1 << 40, rig.replica.last().index);
    rig.log.write(Write::Truncate { token, index }, &rig.replica);
    let is_done = |rig: &Rig| {
        assert!(!rig.said.iter().any(|ended| matches!(ended, Ended::Failed(_))), "{:?}", rig.said);
        rig.said.iter().any(|ended| matches!(ended, Ended::Done(done) if *done == token))
    };
    rig.until(is_done);
    // What is missing in front of the cut is still written.
    disk.set_capacity(u64::MAX);
    rig.until(|rig| rig.replica.committed() == rig.replica.last().index);
}
