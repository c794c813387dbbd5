//! What exists once per process: DPDK's environment, and the list of its ports.
//!
//! DPDK's control functions must not run concurrently, so all of them run under one lock.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{error_of, ffi};
use crate::DpdkError;

/// The state of the process, behind [`lock`].
pub(super) struct Environment {
    /// The arguments of the only start, whether or not it succeeded.
    started: Option<String>,
    failed: bool,
    /// Ports that have an endpoint.
    taken: BTreeSet<u16>,
    /// The number of pools made so far, which makes their names unique.
    pub(super) pools: u32,
}

/// A port that belongs to us until it is given back.
pub(super) struct Claim {
    pub(super) port: u16,
    /// The device's name, if it was made for this endpoint and must be removed with it.
    made: Option<CString>,
}

static ENVIRONMENT: Mutex<Environment> =
    Mutex::new(Environment { started: None, failed: false, taken: BTreeSet::new(), pools: 0 });

/// The right to call DPDK's control functions.
pub(super) fn lock() -> MutexGuard<'static, Environment> {
    // A panic under the lock leaves at worst a port that stays claimed.
    ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Environment {
    /// Starts DPDK, unless it already runs with these arguments.
    pub(super) fn start(&mut self, arguments: &[String]) -> Result<(), DpdkError> {
        let text = arguments.join(" ");
        match &self.started {
            Some(running) if *running != text => {
                return Err(DpdkError::OtherArguments { running: running.clone() });
            }
            Some(_) if self.failed => {
                let error = io::Error::other("it has failed before in this process");
                return Err(DpdkError::Environment { arguments: text, error });
            }
            Some(_) => return Ok(()),
            None => {}
        }
        let mut words = vec![c_text("petasos")?];
        for argument in arguments {
            words.push(c_text(argument)?);
        }
        self.started = Some(text.clone());
        // On a separate thread, because DPDK pins the thread that starts it to a core.
        let code = std::thread::spawn(move || {
            // DPDK keeps these pointers until the process ends.
            let pointers: Vec<_> = words.into_iter().map(CString::into_raw).collect();
            let count = pointers.len() as i32;
            // SAFETY: as many texts as are counted, which are never freed.
            unsafe { ffi::pd_eal_init(count, pointers.leak().as_mut_ptr()) }
        });
        let code = code.join().unwrap_or(-1);
        self.failed = code < 0;
        let error = error_of(code);
        if self.failed { Err(DpdkError::Environment { arguments: text, error }) } else { Ok(()) }
    }

    /// Takes the port of this name, or makes the virtual device that these arguments describe.
    pub(super) fn claim(&mut self, device: &str) -> Result<Claim, DpdkError> {
        let name = c_text(device.split(',').next().unwrap_or_default())?;
        let missing =
            |code| DpdkError::DeviceMissing { device: device.to_owned(), error: error_of(code) };
        // SAFETY: the name is a text, for the time of the call.
        let mut port = unsafe { ffi::pd_port_by_name(name.as_ptr()) };
        let mut made = None;
        if port < 0 {
            let arguments = c_text(device)?;
            // SAFETY: the arguments are a text, for the time of the call.
            let code = unsafe { ffi::pd_probe(arguments.as_ptr()) };
            if code < 0 {
                return Err(missing(code));
            }
            // SAFETY: as above.
            port = unsafe { ffi::pd_port_by_name(name.as_ptr()) };
            made = Some(name);
        }
        let port = u16::try_from(port).map_err(|_| missing(port))?;
        if !self.taken.insert(port) {
            return Err(DpdkError::DeviceBusy(device.to_owned()));
        }
        Ok(Claim { port, made })
    }

    /// Gives a port back after its queues were stopped.
    pub(super) fn give_back(&mut self, claim: &Claim) {
        self.taken.remove(&claim.port);
        if let Some(name) = &claim.made {
            // SAFETY: the name is a text. A device that cannot be removed stays, unused.
            unsafe { ffi::pd_remove(name.as_ptr()) };
        }
    }
}

fn c_text(text: &str) -> Result<CString, DpdkError> {
    CString::new(text).map_err(|_| DpdkError::Config("a text with a zero byte"))
}
