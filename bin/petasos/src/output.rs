//! Writing to the standard streams without a panic when they are closed.

use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// Writes `bytes` and a newline to standard output. If the reader has closed it (`| head`), that is
/// not a failure: the reader has what it wanted.
///
/// # Errors
/// If writing to standard output fails for another reason.
pub fn answer(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let end: &[u8] = if bytes.ends_with(b"\n") { b"" } else { b"\n" };
    let written = out.write_all(bytes).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    finished(written)
}

/// The result of a write to standard output; see [`answer`].
pub fn finished(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. If that is closed, the line is dropped.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
