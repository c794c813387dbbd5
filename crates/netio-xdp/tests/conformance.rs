//! The backend passes the suite across veth pairs, and across a switch where it takes three ports.

use petasos_netio_conformance::{conformance_tests, run_all};
use petasos_netio_xdp::{AttachMode, XdpConfig};

mod rig;
mod veth;
use veth::{config, veth};

mod v4_native {
    use super::*;
    conformance_tests!(veth(rig::v4, config(AttachMode::Native), 1500));
}

mod v4_generic {
    use super::*;
    conformance_tests!(veth(rig::v4, config(AttachMode::Generic), 1500));
}

mod v6_native {
    use super::*;
    conformance_tests!(veth(rig::v6, config(AttachMode::Native), 1500));
}

#[test]
fn large_frames_pass_the_suite() {
    let config = XdpConfig { rx_frames: 256, ..config(AttachMode::Auto) };
    if let Some(veth) = veth(rig::v4, config, 3400) {
        run_all(&veth);
    }
}

#[test]
fn few_frames_and_busy_polling_pass_the_suite() {
    let few = XdpConfig { rx_frames: 256, tx_frames: 64, ..config(AttachMode::Generic) };
    if let Some(veth) = veth(rig::v4, XdpConfig { busy_poll_us: 20, ..few }, 1500) {
        run_all(&veth);
    }
}
