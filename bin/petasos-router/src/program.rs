//! The XDP program in front of a group's plane.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use petasos_netio_xdp::{AttachMode, BpfLink, XdpError, XdpMode, interface_of};
use petasos_router::Rule;
use petasos_router_control::{GroupSettings, PlaneConfig};
use petasos_router_xdp::{ProgramConfig, ProgramTier, RouterProgram};

use crate::plane_options::PlaneOptions;
use crate::said::say;

/// Requests that wait in the kernel at most; more wait in the plane.
const PARKED_MAX: u32 = 256;

/// The program of a group. Dropping it detaches the program; the plane then has all packets.
pub struct Program {
    _link: BpfLink,
    program: Arc<RouterProgram>,
    interface: String,
    mode: XdpMode,
}

impl Program {
    /// Loads the program for a group whose packets come to `data`, and attaches it.
    ///
    /// # Errors
    /// A text that says why not.
    pub fn attach(
        data: SocketAddr,
        options: &PlaneOptions,
        settings: &GroupSettings,
        is_sealed: bool,
    ) -> Result<Program, String> {
        let Loaded { program, interface, is_veth } = load(data, options, settings, is_sealed)?;
        // What a program of veth's driver sends is lost unless the peer has one, too.
        let mode = if is_veth { AttachMode::Generic } else { AttachMode::Auto };
        let link = program.attach(&interface, mode).map_err(|error| refused(data, &error))?;
        let mode = link.mode();
        if mode == XdpMode::Generic && !is_veth {
            say(&format!(
                "the driver of {interface} takes no XDP program, so the kernel runs it (generic \
                 mode): less is gained by it"
            ));
        }
        let policy = settings.plane.core.policy;
        if policy.rule != Rule::ShortestQueue {
            say(&format!("policy {policy}: the program gives nothing until it is jsq or jbsqN"));
        }
        Ok(Program { _link: link, program: Arc::new(program), interface, mode })
    }

    /// Says whether the host can do it, as far as can be known without taking the interface from
    /// who has it.
    ///
    /// # Errors
    /// A text that says why not.
    pub fn try_out(
        data: SocketAddr,
        options: &PlaneOptions,
        settings: &GroupSettings,
    ) -> Result<(), String> {
        load(data, options, settings, false).map(drop)
    }

    /// What the plane has before it.
    pub fn tier(&self) -> Box<ProgramTier> {
        Box::new(ProgramTier::new(self.program.clone()))
    }

    /// A few words about it.
    pub fn line(&self) -> String {
        let mode = match self.mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        format!("xdp on {} ({mode})", self.interface)
    }
}

/// A program that is nowhere yet, and where it goes.
struct Loaded {
    program: RouterProgram,
    interface: String,
    is_veth: bool,
}

/// Loads the program, and finds the interface.
fn load(
    data: SocketAddr,
    options: &PlaneOptions,
    settings: &GroupSettings,
    is_sealed: bool,
) -> Result<Loaded, String> {
    let SocketAddr::V4(address) = data else {
        return Err(format!("plane xdp needs an IPv4 address in data, not {}", data.ip()));
    };
    let PlaneConfig { core, payload_bytes, clients_max, .. } = &settings.plane;
    let config = ProgramConfig {
        address,
        payload_bytes: *payload_bytes,
        is_sealed,
        // Numbers of some that are gone are held back (RT39).
        clients_max: clients_max.saturating_mul(2),
        parked_max: PARKED_MAX,
        age_max: core.waiting_age_max.unwrap_or(Duration::MAX),
        partial_checksums: options.partial_checksums,
    };
    let found = interface_of(data.ip(), options.interface.as_deref());
    let (interface, kind) = found.map_err(|error| refused(data, &error))?;
    let program = RouterProgram::load(&config).map_err(|error| refused(data, &error))?;
    Ok(Loaded { program, interface, is_veth: kind.as_deref() == Some("veth") })
}

fn refused(data: SocketAddr, error: &XdpError) -> String {
    format!("packets cannot come to {data} by xdp: {error}")
}
