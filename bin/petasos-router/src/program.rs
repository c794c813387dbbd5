//! The XDP program in front of a group's plane.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use petasos_netio_xdp::{AttachMode, BpfLink, InterfacePlace, XdpError, XdpMode, interface_of};
use petasos_router::Rule;
use petasos_router_control::{GroupSettings, PlaneConfig};
use petasos_router_xdp::{ProgramConfig, ProgramTier, RouterProgram};

use crate::holder::{Deposit, Holder, Left};
use crate::plane_options::PlaneOptions;
use crate::said::say;

/// Requests that wait in the kernel at most; more wait in the plane.
const PARKED_MAX: u32 = 256;

/// The program of a group. Dropping it detaches the program; the plane then has all packets.
pub struct Program {
    /// None while another group is to have the interface.
    attached: Option<Attached>,
    program: Arc<RouterProgram>,
    options: PlaneOptions,
    data: SocketAddr,
    interface: String,
    mode: XdpMode,
    wanted: AttachMode,
}

/// A program at its interface.
struct Attached {
    // Ends first: nobody is to keep what is detached.
    _deposit: Option<Deposit>,
    link: BpfLink,
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
        let (program, wanted) = (Arc::new(program), mode);
        let attached = put(&program, &interface, wanted, options, data)?;
        let mode = attached.link.mode();
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
        let (attached, options) = (Some(attached), options.clone());
        Ok(Program { attached, program, options, data, interface, mode, wanted })
    }

    /// Leaves the interface to others. The plane has all packets from then on.
    pub fn leave_interface(&mut self) {
        self.attached = None;
    }

    /// Goes back to the interface, if it was left.
    ///
    /// # Errors
    /// A text that says why not. The plane goes on with all packets.
    pub fn return_to_interface(&mut self) -> Result<(), String> {
        if self.attached.is_none() {
            let Program { program, interface, wanted, options, data, .. } = self;
            self.attached = Some(put(program, interface, *wanted, options, *data)?);
        }
        Ok(())
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
        options.holder.as_deref().map(Holder::connect).transpose()?;
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

/// Puts a program at its interface: in the place of the one that a killed router has left, if there
/// is a holder that has it. What the program does not know, it then leaves to that one.
fn put(
    program: &Arc<RouterProgram>,
    interface: &str,
    wanted: AttachMode,
    options: &PlaneOptions,
    data: SocketAddr,
) -> Result<Attached, String> {
    let attach = || program.attach(interface, wanted).map_err(|error| refused(data, &error));
    let Some(path) = &options.holder else {
        return Ok(Attached { _deposit: None, link: attach()? });
    };
    put_held(program, interface, path, attach).map_err(|why| format!("group's program: {why}"))
}

fn put_held(
    program: &Arc<RouterProgram>,
    interface: &str,
    path: &Path,
    attach: impl Fn() -> Result<BpfLink, String>,
) -> Result<Attached, String> {
    let place = InterfacePlace::of(interface).map_err(|error| error.to_string())?;
    let holder = Holder::connect(path)?;
    let files_of = |link: &dyn AsFd| {
        let files = program.files(link.as_fd());
        files.map_err(|error| format!("there are no descriptors: {error}"))
    };
    let mut followed = None;
    if let Some(Left { link, program: earlier, mode }) = holder.ask(place)? {
        // In this order there is always somebody who has what packets come to.
        let follows = program.follow(Some(earlier.as_fd()));
        follows.map_err(|error| format!("the earlier program cannot be followed: {error}"))?;
        holder.keep(place, mode, &files_of(&link)?)?;
        // One that cannot be replaced was detached.
        followed = program.replace(link, mode).ok();
        if followed.is_none() {
            let _ = program.follow(None);
        }
    }
    let follows = followed.is_some();
    let link = match followed {
        Some(link) => link,
        None => {
            let link = attach()?;
            holder.keep(place, link.mode(), &files_of(&link)?)?;
            link
        }
    };
    if follows {
        say(&format!("takes over the program at {interface} from the router before"));
    }
    let held = (place, link.mode(), files_of(&link)?);
    let deposit = Deposit::watch(holder, held, program.clone(), follows)?;
    Ok(Attached { _deposit: Some(deposit), link })
}

fn refused(data: SocketAddr, error: &XdpError) -> String {
    format!("packets cannot come to {data} by xdp: {error}")
}
