//! Transports that need the cargo features `dpdk` and `fabric`.

use super::Facility;
#[cfg(any(feature = "dpdk", feature = "fabric"))]
use super::State;

/// DPDK.
#[cfg(feature = "dpdk")]
pub fn dpdk() -> Facility {
    let probe = petasos_netio_dpdk::probe();
    let version = match &probe.library {
        Ok(version) => version,
        Err(error) => return Facility::no("dpdk", error, "until then use --transport udp"),
    };
    let pages = match probe.huge_pages_free {
        0 => "no huge pages are free".to_owned(),
        count => format!("{count} huge pages are free"),
    };
    let devices = match probe.devices.as_slice() {
        [] => "no device is bound to it".to_owned(),
        devices => format!("devices: {}", devices.join(", ")),
    };
    let iommu = if probe.iommu_groups > 0 { "with an IOMMU" } else { "without an IOMMU" };
    let found = format!("{version}, {pages}, {devices}, {iommu}");
    let advice = "virtual devices work (`net_af_packet`; `net_memif` in tests); hardware needs \
                  huge pages (`sysctl vm.nr_hugepages=512`) and a NIC that `dpdk-devbind.py` gave \
                  to vfio-pci, or one of NVIDIA's";
    let state = if probe.usable_on_hardware() { State::Yes } else { State::Limited };
    Facility::new("dpdk", state, found, advice)
}

/// libfabric, and each of its providers.
#[cfg(feature = "fabric")]
pub fn fabric() -> Vec<Facility> {
    let probe = petasos_netio_fabric::probe();
    let advice = "until then use --transport udp";
    let providers = match &probe.providers {
        Ok(providers) => providers,
        Err(error) => return vec![Facility::no("fabric", error, advice)],
    };
    let version = format!("libfabric {}", probe.library.as_deref().unwrap_or("unknown"));
    let hardware = providers.iter().any(|each| !each.software);
    let whole = match (providers.is_empty(), hardware) {
        (true, _) => {
            let found = format!("{version} has no provider of datagrams here");
            Facility::no("fabric", found, advice)
        }
        (false, true) => Facility::yes("fabric", version),
        (false, false) => Facility::new(
            "fabric",
            State::Limited,
            format!("{version}, with providers over kernel sockets only"),
            "without an RDMA NIC and its provider, --transport udp is faster",
        ),
    };
    let mut findings = vec![whole];
    for provider in providers {
        let name = format!("fabric:{}:{}", provider.provider, provider.domain);
        // A domain may have several addresses.
        if findings.iter().all(|finding| finding.name != name) {
            let over = if provider.software { "over kernel sockets" } else { "in hardware" };
            let bytes = provider.datagram_bytes_max;
            findings.push(Facility::yes(&name, format!("datagrams of {bytes} bytes, {over}")));
        }
    }
    findings
}

/// The finding for a program without DPDK.
#[cfg(not(feature = "dpdk"))]
pub fn dpdk() -> Facility {
    absent("dpdk", "libdpdk-dev")
}

/// The finding for a program without libfabric.
#[cfg(not(feature = "fabric"))]
pub fn fabric() -> Vec<Facility> {
    vec![absent("fabric", "libfabric-dev")]
}

#[cfg(not(all(feature = "dpdk", feature = "fabric")))]
fn absent(feature: &str, package: &str) -> Facility {
    let advice = petasos_cli::failure::how_to_build(feature, package);
    Facility::no(feature, "not compiled into this program", &advice)
}
