//! Writing histories down while calls are made.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::line::{CallId, Header, Line, Said};
use crate::op::{Op, Reply, Seen};

/// Records the calls of one process number. Threads may share it; those that shall not wait for
/// each other have one each, with a number and a file of its own. [`crate::Reader`] joins files.
///
/// The time is an argument: nanoseconds of a clock that all processes share. Take that of a call
/// before it is sent, and that of an end after it has arrived.
///
/// Lines go through the writer that it was made with, whole ones at once. If that is buffered, and
/// the recording process may be killed, [`Recorder::flush`] belongs between the record of a call
/// and its sending: a call that had an effect and is not in the history looks like a fault.
#[derive(Debug)]
pub struct Recorder<W> {
    process: u64,
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    writer: W,
    calls: u64,
}

impl<W: Write> Recorder<W> {
    /// Writes the header, if there is one. Each file should have it, or none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(writer: W, process: u64, header: Option<Header>) -> io::Result<Recorder<W>> {
        let mut state = State { writer, calls: 0 };
        if let Some(header) = header {
            state.write(&Line::Header(header))?;
        }
        Ok(Recorder { process, state: Mutex::new(state) })
    }

    /// A call begins.
    ///
    /// # Errors
    /// If it cannot be written. Then it must not be made, or the history is of no use.
    pub fn call(&self, at: u64, op: &Op) -> io::Result<CallId> {
        let mut state = self.state();
        let id = CallId { process: self.process, id: state.calls };
        state.calls += 1;
        state.write(&Line::Call(id, at, Said::Call(op.clone())))?;
        Ok(id)
    }

    /// A watch has seen something.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn seen(&self, call: CallId, at: u64, seen: Seen) -> io::Result<()> {
        self.state().write(&Line::Call(call, at, Said::Seen(seen)))
    }

    /// A call was answered.
    ///
    /// # Errors
    /// If it cannot be written. To the history, its outcome is unknown then.
    pub fn ok(&self, call: CallId, at: u64, reply: Reply) -> io::Result<()> {
        self.state().write(&Line::Call(call, at, Said::Ok(Box::new(reply))))
    }

    /// A call has had no effect and will have none: this is certain.
    ///
    /// # Errors
    /// As for [`Recorder::ok`].
    pub fn not_done(&self, call: CallId, at: u64) -> io::Result<()> {
        self.state().write(&Line::Call(call, at, Said::NotDone))
    }

    /// Nobody waits for a call any more, and nobody knows what became of it.
    ///
    /// # Errors
    /// As for [`Recorder::ok`].
    pub fn unknown(&self, call: CallId, at: u64) -> io::Result<()> {
        self.state().write(&Line::Call(call, at, Said::Unknown))
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// The writer's.
    pub fn flush(&self) -> io::Result<()> {
        self.state().writer.flush()
    }

    /// Flushes the writer, and gives it back.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(self) -> io::Result<W> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.writer.flush()?;
        Ok(state.writer)
    }

    /// A line is written by one call, so one that has panicked has left none that is half done.
    fn state(&self) -> std::sync::MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write> State<W> {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = line.to_json()?;
        text.push('\n');
        self.writer.write_all(text.as_bytes())
    }
}
