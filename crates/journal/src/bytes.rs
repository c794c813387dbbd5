//! Integers in byte strings, little-endian, and whole reads of files.

use crate::{File, FileError};

/// The `N` bytes at `at`.
///
/// # Panics
/// If they are not there: the caller has checked the length.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a range of N bytes has N")
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

pub(crate) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(array(bytes, at))
}

/// Writes the sum of everything before the last four bytes into these.
pub(crate) fn seal(block: &mut [u8], seed: u32) -> u32 {
    let (covered, sum) = block.split_last_chunk_mut::<4>().expect("a block has room for a sum");
    let value = crc32c::crc32c_append(seed, covered);
    *sum = value.to_le_bytes();
    value
}

/// The sum in the last four bytes, if it is that of everything before them.
pub(crate) fn sealed(block: &[u8], seed: u32) -> Option<u32> {
    let (covered, sum) = block.split_last_chunk::<4>()?;
    let value = crc32c::crc32c_append(seed, covered);
    (value == u32::from_le_bytes(*sum)).then_some(value)
}

/// The first `N` bytes of a file, zeros where it is shorter, and its length.
pub(crate) fn head<const N: usize>(file: &impl File) -> Result<([u8; N], u64), FileError> {
    let mut bytes = [0; N];
    file.read_at(&mut bytes, 0)?;
    Ok((bytes, file.bytes()?))
}
