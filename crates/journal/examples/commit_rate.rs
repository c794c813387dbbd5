//! How many batches a second the journal appends and syncs, beside plain writes of the same bytes
//! to a file that was made beforehand, and `fdatasync`: in turns, in one run.
//!
//! ```console
//! cargo run --release -p petasos-journal --example commit_rate -- /var/tmp [RECORDS] [BYTES]
//! ```
//!
//! The folder is on the disk that is measured, never in memory. A batch has as many records
//! (default 16) of as many bytes (default 64). The ratio is what counts: disks differ, and the same
//! one from minute to minute.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::{env, fs};

use petasos_base::SystemClock;
use petasos_journal::{
    Committer, Config, Event, File, Files, HEADER_BYTES, Identity, Journal, QueueLimits, Record,
    SystemFile, SystemFiles,
};

type Failure = Box<dyn std::error::Error>;

/// Turns of each contender, and batches in a turn.
const TURNS: usize = 15;
const BATCHES: u64 = 100;

/// What a batch is.
#[derive(Clone, Copy)]
struct Batch {
    records: u64,
    bytes: usize,
}

impl Batch {
    /// What it has in a file.
    fn file_bytes(self) -> usize {
        self.records as usize * (HEADER_BYTES + self.bytes.next_multiple_of(8))
    }

    fn records(self, first: u64, data: &[u8]) -> Vec<Record<'_>> {
        let places = first..first + self.records;
        places.map(|place| Record { place, term: 1, kind: 1, data }).collect()
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let parent = arguments.next().ok_or("which folder? It has to be on a disk")?;
    let records = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let bytes = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let batch = Batch { records, bytes };
    let folder = Folder(Path::new(&parent).join(format!("commit-rate-{}", std::process::id())));
    let files = SystemFiles::create(&folder.0)?;
    let plain = files.create("plain")?;
    plain.preallocate(u64::from(Config::default().segment_bytes))?;
    plain.sync()?;
    let identity = Identity { group: 1, member: 1 };
    let mut journal = Journal::create(files.clone(), identity, Config::default())?;

    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        floor.push(rate(|| plain_writes(&plain, turn, batch))?);
        ours.push(rate(|| appends(&mut journal, batch))?);
    }
    let mut threaded = Vec::new();
    let committer = Threaded::start(journal)?;
    for turn in 0..TURNS {
        floor.push(rate(|| plain_writes(&plain, TURNS + turn, batch))?);
        threaded.push(rate(|| committer.appends(batch))?);
    }
    println!(
        "batches of {records} records of {bytes} bytes, each synced, medians of {TURNS} turns"
    );
    let floor = median(floor);
    println!("pwrite + fdatasync    {floor:>8.0} batches/s");
    for (name, rates) in [("journal", ours), ("journal, with a thread", threaded)] {
        let rate = median(rates);
        println!("{name:22}{rate:>8.0} batches/s, {:.2} of it", rate / floor);
    }
    Ok(())
}

/// Batches per second.
fn rate(mut work: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let clock = SystemClock::default();
    let start = clock.now();
    work()?;
    let nanos = clock.now().nanos_since(start);
    Ok(BATCHES as f64 * 1e9 / nanos as f64)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Within the file, from its beginning again when it is full.
fn plain_writes(file: &SystemFile, turn: usize, batch: Batch) -> Result<(), Failure> {
    let bytes = vec![turn as u8; batch.file_bytes()];
    let fit = u64::from(Config::default().segment_bytes) / bytes.len() as u64;
    for number in 0..BATCHES {
        let at = (turn as u64 * BATCHES + number) % fit.max(1) * bytes.len() as u64;
        file.write_at(&bytes, at)?;
        file.sync()?;
    }
    Ok(())
}

fn appends(journal: &mut Journal<SystemFiles>, batch: Batch) -> Result<(), Failure> {
    let data = vec![7; batch.bytes];
    for _ in 0..BATCHES {
        journal.append(&batch.records(journal.next_place(), &data))?;
        journal.sync()?;
    }
    Ok(())
}

/// The journal with its thread, and a caller that waits for each batch.
struct Threaded {
    committer: Committer<SystemFiles>,
    durable: std::sync::mpsc::Receiver<u64>,
    next: std::cell::Cell<u64>,
}

impl Threaded {
    fn start(journal: Journal<SystemFiles>) -> Result<Threaded, Failure> {
        let next = journal.next_place().into();
        let (tell, durable) = channel();
        let committer = Committer::start(journal, QueueLimits::default(), move |event| {
            if let Event::Durable { upto } = event {
                // Nobody listens at the end.
                let _ = tell.send(upto);
            }
        })?;
        Ok(Threaded { committer, durable, next })
    }

    fn appends(&self, batch: Batch) -> Result<(), Failure> {
        let data = vec![7; batch.bytes];
        for _ in 0..BATCHES {
            let first = self.next.get();
            self.committer.append(&batch.records(first, &data))?;
            self.next.set(first + batch.records);
            while self.durable.recv()? + 1 < self.next.get() {}
        }
        Ok(())
    }
}

/// Removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
