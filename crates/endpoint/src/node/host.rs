//! Identifies this host, and the thread's network namespace on it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use petasos_control::Place;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Where the calling thread runs. `None` if the system does not say; then everything goes over the
/// network.
pub(super) fn place() -> Option<Place> {
    let boot = parse_boot_id(&fs::read_to_string(BOOT_ID).ok()?)?;
    let namespace = fs::metadata(NAMESPACE).ok()?.ino();
    Some(Place { boot, namespace })
}

/// The sixteen bytes of `01234567-89ab-cdef-0123-456789abcdef`.
fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim_end().split('-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_sixteen_bytes() {
        let bytes = parse_boot_id("01234567-89ab-cdef-0123-456789abcdef\n").expect("it is one");
        assert_eq!(&bytes[..5], [0x01, 0x23, 0x45, 0x67, 0x89]);
        assert_eq!(bytes[15], 0xef);
        for text in [
            "",
            "0123",
            "01234567-89ab-cdef-0123-456789abcdeg",
            "é1234567-89ab-cdef-0123-456789abcde",
        ] {
            assert_eq!(parse_boot_id(text), None, "{text}");
        }
    }

    #[test]
    fn a_thread_stays_where_it_is() {
        assert_eq!(place(), place());
        assert!(place().is_some(), "Linux says where");
    }
}
