//! A description of the machine that a measurement ran on. Figures mean little without it.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

/// A machine's properties that matter for figures. `None` if the system does not report one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model name.
    pub cpu_model: Option<String>,
    /// Processors online.
    pub cores: Option<usize>,
    /// Installed memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// MTU of the loopback interface in bytes.
    pub loopback_mtu_bytes: Option<u32>,
    /// Whether a hypervisor is present.
    pub virtualised: Option<bool>,
    /// The compiler that built this program.
    pub rustc: String,
    /// `release` or `debug`: a debug build's figures say nothing about performance.
    pub build: String,
}

impl Machine {
    /// Reads the description of this machine.
    pub fn read() -> Machine {
        let cpuinfo = read_text("/proc/cpuinfo").unwrap_or_default();
        Machine {
            cpu_model: cpu_field(&cpuinfo, "model name").map(str::to_owned),
            cores: Some(core_count(&cpuinfo)).filter(|count| *count > 0),
            memory_bytes: read_text("/proc/meminfo").as_deref().and_then(memory_bytes),
            kernel: read_text("/proc/sys/kernel/osrelease"),
            loopback_mtu_bytes: read_text("/sys/class/net/lo/mtu").and_then(|t| t.parse().ok()),
            virtualised: virtualised(&cpuinfo),
            rustc: env!("PETASOS_RUSTC_VERSION").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    /// One line, for captions.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.cpu_model.as_deref().unwrap_or("unknown processor"))?;
        if let Some(cores) = self.cores {
            write!(out, ", {cores} core{}", if cores == 1 { "" } else { "s" })?;
        }
        if let Some(bytes) = self.memory_bytes {
            write!(out, ", {:.0} GiB", bytes as f64 / f64::from(1 << 30))?;
        }
        if self.virtualised == Some(true) {
            write!(out, ", virtual machine")?;
        }
        if let Some(kernel) = &self.kernel {
            write!(out, ", Linux {kernel}")?;
        }
        if let Some(mtu) = self.loopback_mtu_bytes {
            write!(out, ", lo MTU {mtu} B")?;
        }
        write!(out, ", {} ({} build)", self.rustc, self.build)
    }
}

fn read_text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The first value of a `name : value` line.
fn cpu_field<'t>(cpuinfo: &'t str, name: &str) -> Option<&'t str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn core_count(cpuinfo: &str) -> usize {
    let is_processor =
        |line: &&str| line.split_once(':').is_some_and(|(key, _)| key.trim() == "processor");
    cpuinfo.lines().filter(is_processor).count()
}

/// A hypervisor shows in the processor's flags. Without flags the answer is unknown.
fn virtualised(cpuinfo: &str) -> Option<bool> {
    cpu_field(cpuinfo, "flags").map(|flags| flags.split_whitespace().any(|f| f == "hypervisor"))
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: Example CPU @ 2.00GHz\n\
        flags\t\t: fpu hypervisor\n\nprocessor\t: 1\nmodel name\t: Example CPU @ 2.00GHz\n";

    #[test]
    fn the_processor_is_described() {
        assert_eq!(cpu_field(CPUINFO, "model name"), Some("Example CPU @ 2.00GHz"));
        assert_eq!(core_count(CPUINFO), 2);
        assert_eq!(virtualised(CPUINFO), Some(true));
        assert_eq!(virtualised("flags : fpu vme\n"), Some(false));
    }

    #[test]
    fn what_the_system_does_not_tell_stays_unknown() {
        assert_eq!(cpu_field("", "model name"), None);
        assert_eq!(virtualised("processor : 0\n"), None);
        assert_eq!(memory_bytes("MemTotal: many kB"), None);
        assert_eq!(memory_bytes("MemFree: 1 kB"), None);
        assert_eq!(memory_bytes("MemTotal: 18446744073709551615 kB"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(memory_bytes("MemTotal:       1024 kB\nMemFree: 1 kB"), Some(1 << 20));
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_compiler() {
        let machine = Machine::read();
        assert!(machine.kernel.is_some());
        assert!(machine.rustc.starts_with("rustc "), "{}", machine.rustc);
    }

    fn debug_machine() -> Machine {
        Machine { build: "debug".into(), ..Machine::default() }
    }

    #[test]
    fn the_caption_skips_what_is_unknown() {
        let machine = Machine { cores: Some(1), rustc: "rustc 1".into(), ..debug_machine() };
        assert_eq!(machine.to_string(), "unknown processor, 1 core, rustc 1 (debug build)");
    }
}
