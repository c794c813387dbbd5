//! The default limit for the process's account of long buffers.

use std::fs;
use std::sync::Once;

use petasos_buf::memory::{set_limit, usage};

/// If the process may have less memory than this, the default is computed from this.
const MEMORY_BYTES_MIN: usize = 256 << 20;

/// Sets the limit to half of the memory that the process may have. Does so once, and only if there
/// is no limit yet.
pub(crate) fn limit_by_default() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if usage().limit_bytes == usize::MAX
            && let Some(bytes) = memory_bytes()
        {
            set_limit(bytes.max(MEMORY_BYTES_MIN) / 2);
        }
    });
}

/// The machine's memory, or the limit of the process's control group.
fn memory_bytes() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min()
}

/// `MemTotal` of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_the_kernels_text() {
        assert_eq!(total("MemTotal:        8123 kB\nMemFree: 1 kB\n"), Some(8123 << 10));
        assert_eq!(total("MemTotal: much\n"), None);
        assert_eq!(total(""), None);
        assert!(memory_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
