//! A router's plane passes its suite over AF_XDP, around a switch.

use petasos_netio_xdp::AttachMode;
use petasos_router_conformance::plane_tests;

mod rig;
mod veth;
use veth::{config, veth};

mod v4_native {
    use super::*;
    plane_tests!(veth(rig::v4, config(AttachMode::Native), 1500));
}

mod v4_generic {
    use super::*;
    plane_tests!(veth(rig::v4, config(AttachMode::Generic), 1500));
}

mod v6_native {
    use super::*;
    plane_tests!(veth(rig::v6, config(AttachMode::Native), 1500));
}
