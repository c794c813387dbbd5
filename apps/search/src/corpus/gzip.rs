//! Texts of dictionaries. dictzip's format is gzip's: what it adds, for reading from the middle, is
//! in a field that others skip (RFC 1952, section 2.3.1.1).

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::error::{Fault, read_all};

/// Reads a compressed file.
///
/// # Errors
/// If it cannot be read, is cut, damaged, or longer than `bytes_max` when it is unpacked.
pub fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    unpack(BufReader::new(File::open(path)?), bytes_max)
}

/// Unpacks to the end.
///
/// # Errors
/// As for [`read`].
pub fn unpack(packed: impl Read, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    read_all(MultiGzDecoder::new(packed), bytes_max)
}
