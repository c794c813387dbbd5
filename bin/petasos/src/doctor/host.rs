//! The host's facilities for every backend: privileges, memory, processors, a clock.

use std::fs;

use super::{Facility, State};

/// All findings about the host.
pub fn findings() -> Vec<Facility> {
    let status = read("/proc/self/status");
    vec![
        privileges(&status),
        huge_pages(&read("/proc/meminfo")),
        locked_memory(petasos_netio_xdp::probe().locked_memory_bytes_max, &status),
        processors(std::thread::available_parallelism().map_or(1, usize::from)),
        clock(read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim()),
    ]
}

/// An unreadable file counts as empty.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The capabilities that backends need, by bit number.
const CAPABILITIES: [(u32, &str); 4] =
    [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (14, "CAP_IPC_LOCK"), (39, "CAP_BPF")];

fn has_capability(status: &str, bit: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> bit & 1 == 1)
}

fn privileges(status: &str) -> Facility {
    let missing = CAPABILITIES.into_iter().filter(|(bit, _)| !has_capability(status, *bit));
    let missing: Vec<_> = missing.map(|(_, name)| name).collect();
    match missing.is_empty() {
        true => Facility::yes("privileges", "all that any backend asks for"),
        false => Facility::new(
            "privileges",
            State::Limited,
            format!("without {}", missing.join(", ")),
            "udp and shm need none; xdp and dpdk do: run as root, or `setcap` them",
        ),
    }
}

fn huge_pages(meminfo: &str) -> Facility {
    let figure = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let (total, free) = (figure("HugePages_Total:"), figure("HugePages_Free:"));
    let found = format!("{free} of {total} free, {} KiB each", figure("Hugepagesize:"));
    match free {
        0 => Facility::new(
            "huge-pages",
            State::Limited,
            found,
            "only dpdk on hardware needs them; to reserve some: `sysctl vm.nr_hugepages=512`",
        ),
        _ => Facility::yes("huge-pages", found),
    }
}

/// The memory that an AF_XDP endpoint locks with its default configuration, in bytes.
const XDP_FRAMES_BYTES: u64 = (4096 + 1024) * 2048;

fn locked_memory(limit_bytes: Option<u64>, status: &str) -> Facility {
    let exempt = has_capability(status, 14);
    match limit_bytes {
        None => Facility::yes("locked-memory", "no limit"),
        Some(bytes) if exempt => {
            let found = format!("{} KiB, which does not bind this process", bytes >> 10);
            Facility::yes("locked-memory", found)
        }
        Some(bytes) => Facility::new(
            "locked-memory",
            if bytes < XDP_FRAMES_BYTES { State::Limited } else { State::Yes },
            format!("{} KiB", bytes >> 10),
            "too little for an AF_XDP endpoint's frames: raise it (`ulimit -l`, LimitMEMLOCK=)",
        ),
    }
}

fn processors(count: usize) -> Facility {
    match count {
        1 => Facility::new(
            "processors",
            State::Limited,
            "1: spinning loops would take it from each other",
            "use --polling adaptive",
        ),
        count => Facility::yes("processors", count),
    }
}

fn clock(source: &str) -> Facility {
    match source {
        "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter" => {
            Facility::yes("clock", source)
        }
        "" => Facility::new("clock", State::Limited, "unknown", "nothing depends on it"),
        slow => Facility::new(
            "clock",
            State::Limited,
            format!("{slow}, which takes a system call to read"),
            "`echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource`, if the \
             processor's counter is steady",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_are_read_from_the_effective_set() {
        let all = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(privileges(all).state, State::Yes);
        let none = privileges("CapEff:\t0000000000000000\n");
        assert_eq!(none.state, State::Limited);
        assert!(none.found.contains("CAP_BPF") && none.found.contains("CAP_NET_ADMIN"));
        let some = privileges("CapEff:\t0000008000003000\n");
        assert_eq!(some.found, "without CAP_IPC_LOCK");
        assert_eq!(privileges("").state, State::Limited, "unknown is none");
    }

    #[test]
    fn huge_pages_are_counted() {
        let meminfo =
            "HugePages_Total:      64\nHugePages_Free:       12\nHugepagesize:    2048 kB\n";
        assert_eq!(huge_pages(meminfo).found, "12 of 64 free, 2048 KiB each");
        assert_eq!(huge_pages("").state, State::Limited);
    }

    #[test]
    fn the_limit_of_locked_memory_binds_the_unprivileged() {
        let bound = "CapEff:\t0000000000000000\n";
        assert_eq!(locked_memory(Some(8 << 20), bound).state, State::Limited);
        assert_eq!(locked_memory(Some(64 << 20), bound).state, State::Yes);
        assert_eq!(locked_memory(None, bound).state, State::Yes);
        assert_eq!(locked_memory(Some(0), "CapEff:\t0000000000004000\n").state, State::Yes);
    }
}
