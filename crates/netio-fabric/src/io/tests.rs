//! Requirements that hardware has and software providers do not, imposed on software providers: the
//! suite must still pass.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use petasos_netio_conformance::{BackendFactory, run_all};

use super::*;

struct Loopback {
    config: FabricConfig,
    forced: Forced,
}

impl BackendFactory for Loopback {
    type Io = FabricIo;

    fn ports(&self, count: usize) -> Vec<FabricIo> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let bind = |_| FabricIo::bind_forced(any, &self.config, self.forced);
        (0..count).map(bind).collect::<Result<_, _>>().expect("loopback has free ports")
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::LOCALHOST, 9))
    }
}

fn config(provider: &str) -> FabricConfig {
    FabricConfig { provider: Some(provider.to_owned()), ..FabricConfig::default() }
}

#[test]
fn with_a_prefix_the_suite_is_passed() {
    let forced = Forced { prefix_bytes: 40, ..Forced::default() };
    run_all(&Loopback { config: config("udp"), forced });
}

#[test]
fn with_a_prefix_and_nothing_injected_the_suite_is_passed() {
    let forced = Forced { prefix_bytes: 40, ..Forced::default() };
    for fused in [true, false] {
        let fusing = Switch::new(fused);
        let config = FabricConfig { inject_bytes_max: 0, tx_slots: 8, fusing, ..config("udp") };
        run_all(&Loopback { config, forced });
    }
}

#[test]
fn without_order_of_completions_the_suite_is_passed() {
    let forced = Forced { unordered: true, ..Forced::default() };
    let config = FabricConfig { inject_bytes_max: 100, tx_slots: 8, ..config("udp") };
    run_all(&Loopback { config, forced });
}

#[test]
fn in_registered_memory_the_suite_is_passed() {
    let forced = Forced { registered: true, ..Forced::default() };
    let config = FabricConfig { inject_bytes_max: 0, ..config("udp") };
    run_all(&Loopback { config, forced });
}
