//! What this host supports, and why not. DPDK is not started for this, because it would take over
//! devices.

use std::fs;

use crate::DpdkError;

/// What a host supports.
#[derive(Debug)]
#[non_exhaustive]
pub struct Probe {
    /// The version of DPDK in use, or an error if the program was built without it.
    pub library: Result<String, DpdkError>,
    /// Free huge pages of the default size. Without any, `--no-huge` is needed, which does not work
    /// with hardware.
    pub huge_pages_free: u64,
    /// Groups of devices that an IOMMU isolates; 0 without an IOMMU, which makes VFIO unsafe.
    pub iommu_groups: usize,
    /// PCI addresses of the devices that are bound to drivers for user space (`vfio-pci`,
    /// `uio_pci_generic`, `igb_uio`). Mellanox devices stay with the kernel and need none of these.
    pub devices: Vec<String>,
}

impl Probe {
    /// Whether an endpoint can be opened on virtual devices.
    pub fn usable(&self) -> bool {
        self.library.is_ok()
    }

    /// Whether an endpoint can be opened on hardware, as far as can be known without trying.
    pub fn usable_on_hardware(&self) -> bool {
        self.usable() && self.huge_pages_free > 0 && !self.devices.is_empty()
    }
}

/// Finds out what this host supports.
pub fn probe() -> Probe {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let drivers = ["vfio-pci", "uio_pci_generic", "igb_uio"];
    let bound = drivers.iter().flat_map(|driver| entries(&format!("{PCI_DRIVERS}/{driver}")));
    Probe {
        library: library(),
        huge_pages_free: huge_pages_free(&meminfo),
        iommu_groups: entries("/sys/kernel/iommu_groups").len(),
        devices: bound.filter(|name| is_pci_address(name)).collect(),
    }
}

fn library() -> Result<String, DpdkError> {
    #[cfg(feature = "dpdk")]
    return Ok(crate::sys::version());
    #[cfg(not(feature = "dpdk"))]
    return Err(DpdkError::NotBuilt);
}

fn entries(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_pci_address(name: &str) -> bool {
    name.split(':').count() == 3 && name.contains('.')
}

fn huge_pages_free(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

const PCI_DRIVERS: &str = "/sys/bus/pci/drivers";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        assert_eq!(huge_pages_free("MemFree: 1 kB\nHugePages_Free:       12\nx: 3"), 12);
        assert_eq!(huge_pages_free("MemFree: 1 kB"), 0);
        assert!(is_pci_address("0000:3b:00.1") && !is_pci_address("new_id"));
    }

    #[test]
    fn a_probe_knows_whether_the_backend_was_built() {
        let probe = probe();
        assert_eq!(probe.usable(), cfg!(feature = "dpdk"));
        match probe.library {
            Ok(version) => assert!(version.starts_with("DPDK"), "{version}"),
            Err(error) => assert!(matches!(error, DpdkError::NotBuilt)),
        }
    }
}
