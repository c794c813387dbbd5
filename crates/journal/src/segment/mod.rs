//! A segment: a file of fixed length that is made in full before it is used (QR17).
//!
//! ```text
//! 0     header: whose it is, its number, and the place of its first record
//! 512   durable mark, written in turns here
//! 1024  and here
//! 4096  records, each behind the one before; zeros behind the last
//! ```
//!
//! A segment is made as a *spare*, under another name. Its header is written and synced before it
//! gets its own: a file with a segment's name has a header, or is damaged. It gets that name when
//! all records before its first one are durable: whatever is not whole before it is damage, too.

mod header;
mod mark;
mod scan;

pub(crate) use header::{
    SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentHeader, name, number_of, segment_end,
};
pub(crate) use mark::{Mark, MarkFile};
pub(crate) use scan::{Scan, scan};

use crate::error::{Damage, Doing};
use crate::record::{HEADER_BYTES, Header, OwnedRecord, Record};
use crate::{Error, File, Files};

/// The first byte of records.
pub(crate) const RECORDS_AT: u32 = 4096;

/// Where a record begins, and its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: u32,
    pub(crate) sum: u32,
}

/// An open segment. Invariant: `entries` are the records that were written, from the header's
/// first place on, without gaps.
pub(crate) struct Segment<F> {
    pub(crate) file: F,
    pub(crate) name: String,
    pub(crate) header: SegmentHeader,
    /// The sum of the header, from which the first record's goes on.
    header_sum: u32,
    entries: Vec<Entry>,
    /// Behind the last record.
    pub(crate) end: u32,
    marks: MarkFile,
}

impl<F: File> Segment<F> {
    /// Turns a spare into the segment `header.number`. All records before it are durable.
    pub(crate) fn activate<S: Files<File = F>>(
        files: &S,
        (file, spare): (F, String),
        header: SegmentHeader,
    ) -> Result<Segment<F>, Error> {
        let name = name(header.number);
        let block = header.block();
        file.write_at(&block.bytes, 0).or_failed("writing", &spare)?;
        file.sync().or_failed("syncing", &spare)?;
        files.rename(&spare, &name).or_failed("renaming", &spare)?;
        files.sync_directory().or_failed("syncing", ".")?;
        let marks = MarkFile::new(block.sum);
        let (entries, end) = (Vec::new(), RECORDS_AT);
        Ok(Segment { file, name, header, header_sum: block.sum, entries, end, marks })
    }

    /// A segment that was read (`scan`).
    pub(crate) fn scanned(file: F, scan: Scan) -> Segment<F> {
        let Scan { name, header, header_sum, entries, end, marks, .. } = scan;
        Segment { file, name, header, header_sum, entries, end, marks }
    }

    /// The place behind its last record.
    pub(crate) fn next_place(&self) -> u64 {
        self.header.first_place + self.entries.len() as u64
    }

    /// The bytes that are left for records.
    pub(crate) fn room(&self) -> usize {
        (self.header.bytes - self.end) as usize
    }

    /// Writes records that fit. They are not durable before the next sync. `buffer` is only kept
    /// for its memory.
    pub(crate) fn write(
        &mut self,
        records: &[Record<'_>],
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        buffer.clear();
        let start = self.end;
        let mut sum = self.entries.last().map_or(self.header_sum, |entry| entry.sum);
        for record in records {
            sum = record.encode(sum, buffer);
            self.entries.push(Entry { at: self.end, sum });
            self.end = start + buffer.len() as u32;
        }
        assert!(self.end <= self.header.bytes, "the caller has looked at the room");
        self.marks.touched();
        self.file.write_at(buffer, u64::from(start)).or_failed("writing", &self.name)
    }

    /// Makes durable what was written, and then marks it so. The mark itself becomes durable with
    /// the next sync.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.sync_file()?;
        self.marks.write(&self.file, self.mark()).or_failed("writing", &self.name)
    }

    fn sync_file(&mut self) -> Result<(), Error> {
        self.file.sync().or_failed("syncing", &self.name)?;
        self.marks.synced();
        Ok(())
    }

    /// Makes durable that everything is, in both marks, unless they say so.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        let mark = self.mark();
        if !self.marks.are_durable() {
            self.sync_file()?;
        }
        while !self.marks.are_settled(mark) {
            self.marks.write(&self.file, mark).or_failed("writing", &self.name)?;
            self.sync_file()?;
        }
        Ok(())
    }

    /// Takes the records from `place` on away, durably. The marks go back first, since records
    /// before a mark must not be missing.
    pub(crate) fn truncate(&mut self, place: u64) -> Result<(), Error> {
        let keep = (place - self.header.first_place) as usize;
        let Some(cut) = self.entries.get(keep).copied() else { return Ok(()) };
        let old_end = self.end;
        self.entries.truncate(keep);
        self.end = cut.at;
        self.settle()?;
        self.erase(cut.at, old_end)?;
        self.sync_file()
    }

    /// Writes zeros.
    fn erase(&self, from: u32, to: u32) -> Result<(), Error> {
        let zeros = vec![0; WINDOW_BYTES.min((to - from) as usize)];
        let mut at = from;
        while at < to {
            let part = zeros.len().min((to - at) as usize);
            self.file.write_at(&zeros[..part], u64::from(at)).or_failed("writing", &self.name)?;
            at += part as u32;
        }
        Ok(())
    }

    /// After a start: makes the end of the log what it was read to be (QR19). Records behind the
    /// mark are written anew, and zeros up to the segment's end, whatever is there: after a sync
    /// that failed, the system may show records, or zeros, that the disk does not have, and what it
    /// has must not come back.
    pub(crate) fn repair(&mut self) -> Result<(), Error> {
        let header = self.header.block();
        self.file.write_at(&header.bytes, 0).or_failed("writing", &self.name)?;
        let marked = self.marks.newest().map_or(RECORDS_AT, |mark| mark.at);
        self.rewrite(marked)?;
        self.erase(self.end, self.header.bytes)?;
        self.sync_file()?;
        self.marks.doubt();
        self.settle()
    }

    fn rewrite(&self, from: u32) -> Result<(), Error> {
        let mut window = vec![0; WINDOW_BYTES.min((self.end - from) as usize)];
        let mut at = from;
        while at < self.end {
            let part = window.len().min((self.end - at) as usize);
            let part = &mut window[..part];
            self.file.read_at(part, u64::from(at)).doing("reading", &self.name)?;
            self.file.write_at(part, u64::from(at)).or_failed("writing", &self.name)?;
            at += part.len() as u32;
        }
        Ok(())
    }

    fn mark(&self) -> Mark {
        Mark { at: self.end, place: self.next_place() - 1 }
    }

    /// The bytes that the records of these places take, as they are in the file.
    pub(crate) fn record_bytes(&self, place: u64) -> usize {
        let index = (place - self.header.first_place) as usize;
        let end = self.entries.get(index + 1).map_or(self.end, |entry| entry.at);
        (end - self.entries[index].at) as usize
    }

    /// Reads a record that it has.
    pub(crate) fn read(&self, place: u64) -> Result<OwnedRecord, Error> {
        let index = (place - self.header.first_place) as usize;
        let at = self.entries[index].at;
        let before = index.checked_sub(1).map_or(self.header_sum, |index| self.entries[index].sum);
        let mut bytes = vec![0; self.record_bytes(place)];
        self.file.read_at(&mut bytes, u64::from(at)).doing("reading", &self.name)?;
        let damage = || Damage::new(&self.name, u64::from(at), format!("place {place} is another"));
        let head = bytes.first_chunk::<HEADER_BYTES>().expect("a record has a header");
        let header = Header::parse(head)
            .filter(|header| header.place == place && header.bytes() == bytes.len())
            .ok_or_else(damage)?;
        header.check(&bytes, before).ok_or_else(damage)?;
        bytes.drain(..HEADER_BYTES);
        bytes.truncate(header.data_bytes);
        Ok(OwnedRecord { place, term: header.term, kind: header.kind, data: bytes })
    }
}

/// Read or written at a time.
const WINDOW_BYTES: usize = 1 << 18;
