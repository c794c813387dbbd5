//! Writing numbers and lengths, as [`petasos_base::ByteReader`] reads them.

/// Appends `bytes`, preceded by their length in 4 bytes.
///
/// # Panics
/// If they have 4 GiB: callers have bounds.
pub(crate) fn push_long(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("lengths are bounded");
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
}

/// Appends `bytes`, preceded by their length in 2 bytes.
///
/// # Panics
/// If they have 64 KiB: callers have bounds.
pub(crate) fn push_short(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("lengths are bounded");
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
}

/// Appends a number.
pub(crate) fn push_u64(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(&number.to_le_bytes());
}

/// Appends numbers.
pub(crate) fn push_numbers(to: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| push_u64(to, *number));
}
