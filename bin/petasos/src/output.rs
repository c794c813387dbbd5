//! Writing to the standard streams without panicking when nobody reads them.

use std::io::{self, ErrorKind, Write};

use petasos_cli::failure::Failure;

/// Writes `bytes` and a line's end to standard output. A reader that has gone away (`| head`) has
/// seen what it wanted, so that is not a failure.
///
/// # Errors
/// If standard output cannot be written for another reason.
pub fn answer(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let end: &[u8] = if bytes.ends_with(b"\n") { b"" } else { b"\n" };
    let written = out.write_all(bytes).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    finished(written)
}

/// What a write to standard output came to; see [`answer`].
pub fn finished(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. If that is closed there is nobody left to tell.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
