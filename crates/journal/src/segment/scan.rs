//! Reads a whole segment, and judges it (QR19).

use super::header::HEADER_BLOCK_BYTES;
use super::{Entry, Mark, MarkFile, RECORDS_AT, SegmentHeader, WINDOW_BYTES};
use crate::bytes::head;
use crate::error::{Damage, Doing};
use crate::record::{DATA_BYTES_MAX, HEADER_BYTES, Header, record_bytes};
use crate::{Error, File, Identity};

/// What a segment has.
pub(crate) struct Scan {
    pub(crate) name: String,
    pub(crate) header: SegmentHeader,
    pub(crate) header_sum: u32,
    pub(crate) entries: Vec<Entry>,
    /// Behind the last good record.
    pub(crate) end: u32,
    pub(crate) marks: MarkFile,
    /// Whether something that is no good record follows.
    pub(crate) is_torn: bool,
}

impl Scan {
    /// The place behind its last record.
    pub(crate) fn next_place(&self) -> u64 {
        self.header.first_place + self.entries.len() as u64
    }

    /// What the newest mark says.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.marks.newest()
    }

    /// Damage at the end of the good records.
    pub(crate) fn damage(&self, what: String) -> Damage {
        Damage::new(&self.name, u64::from(self.end), what)
    }
}

/// Reads the segment. It ends at the first record that is not good: a torn one, if the mark does
/// not lie behind it, and else damage.
pub(crate) fn scan(file: &impl File, name: &str, identity: Identity) -> Result<Scan, Error> {
    let (block, bytes) = head::<HEADER_BLOCK_BYTES>(file).doing("reading", name)?;
    let (header, header_sum) = SegmentHeader::parse(&block, name, bytes, identity)?;
    let marks = MarkFile::read(file, name, header_sum).doing("reading", name)??;
    let name = name.to_owned();
    let (entries, end) = (Vec::new(), RECORDS_AT);
    let mut scan = Scan { name, header, header_sum, entries, end, marks, is_torn: false };
    scan_records(file, &mut scan)?;
    if let Some(mark) = scan.mark() {
        check_mark(&scan, mark)?;
    }
    Ok(scan)
}

fn scan_records(file: &impl File, scan: &mut Scan) -> Result<(), Error> {
    let mut window =
        Window { file, bytes: Vec::new(), at: u64::from(RECORDS_AT), end: scan.header.bytes };
    let mut sum = scan.header_sum;
    loop {
        let head = window.get(scan.end, HEADER_BYTES).doing("reading", &scan.name)?;
        let Some(head) = head.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
        scan.is_torn = head != &[0; HEADER_BYTES];
        let Some(header) = Header::parse(head) else { return Ok(()) };
        // A length that cannot be costs no memory.
        let fits = header.bytes() <= (scan.header.bytes - scan.end) as usize;
        if header.place != scan.next_place() || !fits {
            return Ok(());
        }
        let record = window.get(scan.end, header.bytes()).doing("reading", &scan.name)?;
        if record.len() < header.bytes() {
            return Ok(());
        }
        let Some(own) = header.check(record, sum) else { return Ok(()) };
        sum = own;
        scan.entries.push(Entry { at: scan.end, sum });
        scan.end += header.bytes() as u32;
        scan.is_torn = false;
    }
}

/// What was durable is there, and a record ends where the mark is.
fn check_mark(scan: &Scan, mark: Mark) -> Result<(), Damage> {
    if scan.end < mark.at {
        let what = format!(
            "the record of place {} is not as it was written, and it was durable \
            (up to place {}, byte {})",
            scan.next_place(),
            mark.place,
            mark.at
        );
        return Err(scan.damage(what));
    }
    let records = (mark.place + 1).checked_sub(scan.header.first_place);
    let ends = records.and_then(|records| match scan.entries.get(records as usize) {
        Some(entry) => Some(entry.at),
        None => (records == scan.entries.len() as u64).then_some(scan.end),
    });
    if ends != Some(mark.at) {
        return Err(scan.damage(format!("the durable mark, byte {}, lies in a record", mark.at)));
    }
    Ok(())
}

/// Part of a file that is held in memory.
struct Window<'a, F> {
    file: &'a F,
    bytes: Vec<u8>,
    /// Where it begins.
    at: u64,
    /// The file's end.
    end: u32,
}

impl<F: File> Window<'_, F> {
    /// The `bytes` bytes at `at`; fewer if the file ends there. At most a record is asked for.
    fn get(&mut self, at: u32, bytes: usize) -> Result<&[u8], crate::FileError> {
        assert!(bytes <= record_bytes(DATA_BYTES_MAX), "a record is not longer");
        let begins = (u64::from(at) - self.at) as usize;
        if begins + bytes > self.bytes.len() {
            let left = (self.end - at) as usize;
            self.bytes.resize(bytes.max(WINDOW_BYTES).min(left), 0);
            let read = self.file.read_at(&mut self.bytes, u64::from(at))?;
            self.bytes.truncate(read);
            self.at = u64::from(at);
        }
        let begins = (u64::from(at) - self.at) as usize;
        Ok(&self.bytes[begins..self.bytes.len().min(begins + bytes)])
    }
}
