//! Appending and syncing.

use super::Journal;
use crate::record::Record;
use crate::segment::{Segment, SegmentHeader};
use crate::{Error, Files};

impl<F: Files> Journal<F> {
    /// Writes `records` behind the log. They are durable after the next [`Journal::sync`].
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::OutOfOrder`] and [`Error::TooLarge`], with nothing written;
    /// [`Error::Failed`] is final.
    pub fn append(&mut self, records: &[Record<'_>]) -> Result<(), Error> {
        self.working(|journal| {
            journal.check(records)?;
            let segments = journal.segments_needed(records);
            journal.make_spares(segments)?;
            journal.write(records)
        })
    }

    /// Makes durable all that was appended. Gives the last such place.
    ///
    /// # Errors
    /// [`Error::Failed`]: final.
    pub fn sync(&mut self) -> Result<u64, Error> {
        self.working(|journal| {
            let last = journal.next_place() - 1;
            if journal.durable < last {
                journal.last_mut().sync()?;
                journal.durable = last;
            }
            Ok(last)
        })
    }

    /// Makes durable all that was appended, and that it is: for times when nothing else is to be
    /// done. After a crash, damage of the last records is then told from a write that was torn.
    ///
    /// # Errors
    /// [`Error::Failed`]: final.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.sync()?;
        self.working(|journal| journal.last_mut().settle())
    }

    fn check(&self, records: &[Record<'_>]) -> Result<(), Error> {
        for (record, next) in records.iter().zip(self.next_place()..) {
            if record.place != next {
                return Err(Error::OutOfOrder { place: record.place, next });
            }
            let (bytes, max) = (record.data.len(), self.config.data_bytes_max());
            if bytes > max {
                return Err(Error::TooLarge { bytes, max });
            }
        }
        Ok(())
    }

    /// How many segments the records need besides the present one.
    fn segments_needed(&self, records: &[Record<'_>]) -> usize {
        let mut room = self.last().room();
        let mut segments = 0;
        for record in records {
            if record.bytes() > room {
                // Each has the same length, and the checked record fits one.
                room = self.config.segment_bytes as usize - crate::segment::segment_end(0) as usize;
                segments += 1;
            }
            room -= record.bytes();
        }
        segments
    }

    pub(super) fn make_spares(&mut self, count: usize) -> Result<(), Error> {
        while self.spares.len() < count {
            let spare = self.preparation().run()?;
            self.spares.push_back(spare);
        }
        Ok(())
    }

    fn write(&mut self, mut records: &[Record<'_>]) -> Result<(), Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        while !records.is_empty() {
            let mut room = self.last().room();
            let fits = |record: &&Record<'_>| {
                let left = room.checked_sub(record.bytes());
                room = left.unwrap_or(0);
                left.is_some()
            };
            let (now, later) = records.split_at(records.iter().take_while(fits).count());
            if !now.is_empty() {
                self.last_mut().write(now, &mut buffer)?;
            }
            if !later.is_empty() {
                self.rotate()?;
            }
            records = later;
        }
        self.buffer = buffer;
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Goes on in the next segment. What was written before is made durable first: a segment tells,
    /// by being there, that everything before it is.
    fn rotate(&mut self) -> Result<(), Error> {
        let first_place = self.next_place();
        self.last_mut().sync()?;
        self.durable = first_place - 1;
        self.begin_segment(first_place, false)
    }

    /// Makes the spare the last segment.
    pub(super) fn begin_segment(&mut self, first_place: u64, begins: bool) -> Result<(), Error> {
        let spare = self.spares.pop_front().expect("the caller has made one");
        let number = self.segments.back().map_or(1, |last| last.header.number + 1);
        let (identity, bytes) = (self.identity, spare.bytes());
        let header = SegmentHeader { identity, number, first_place, bytes, begins };
        let segment = Segment::activate(&self.files, spare.into_parts(), header)?;
        self.segments.push_back(segment);
        self.state.set_last_segment(number)
    }
}

/// A buffer that has grown larger for one append is not kept.
const BUFFER_BYTES_KEPT: usize = 4 << 20;
