//! How much an application can receive at a time.
//!
//! A message that finds no place waits, and what is behind it waits too, until the heap grows or
//! the application releases others. One that would find none even if the application released all
//! ends its call.

use petasos_call::Status;

use crate::application::{Application, Memory};

impl<M: Memory> Application<M> {
    /// Its heaps.
    pub fn heaps(&self) -> &M {
        &self.memory
    }

    /// Its receive heap has got another extent.
    pub fn add_memory(&mut self, offset: u64, bytes: u64) {
        self.blocks.add(offset, bytes);
        self.room.total_bytes += bytes;
    }

    /// How much memory to receive in would let a message through that waits, if one does. Asked for
    /// once for each time that one has to wait.
    pub fn wants_memory(&mut self) -> Option<u64> {
        let bytes = std::mem::take(&mut self.room.wanted_bytes);
        (bytes > 0).then_some(bytes)
    }

    /// Its receive heap never gets an extent of so many bytes. Says whether that is news: the next
    /// turn may end calls.
    pub fn refuse_memory(&mut self, bytes: u64) -> bool {
        let is_news = bytes < self.room.refused_bytes;
        self.room.refused_bytes = self.room.refused_bytes.min(bytes);
        is_news
    }

    /// Why a message for which there is no place now will never have one, if that is so.
    pub(crate) fn never_fits(&self, bytes: usize) -> Option<Status> {
        let bytes = bytes as u64;
        let is_refused = bytes >= self.room.refused_bytes;
        let is_longer = bytes > self.room.total_bytes || self.blocks.used_bytes() == 0;
        (is_refused && is_longer).then(|| {
            let why = "the message is longer than what is left of the receiver's heap";
            Status::resource_exhausted(why)
        })
    }
}
