//! Loops that programs with an event loop of their own drive: no thread of the library runs
//! handlers.
//!
//! A program watches one descriptor and, whenever that is readable, turns the loop. The descriptor
//! is an epoll instance over the loop's own, which reports packets and mail, and a timer, which is
//! set for the loop's next deadline after each turn. So the program needs no timer, and it cannot
//! forget one.
//!
//! Invariants: a loop is used by the thread that made it only; functions check that. It is not used
//! by its own handlers (`is_turning`). The timer is set for no later than the loop's next deadline:
//! when it rings early, a turn finds nothing to do.

use std::cell::Cell;
use std::ffi::c_char;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::ThreadId;
use std::time::Duration;

use petasos::{Loop, LoopConfig, LoopError, Security, ServeError, ServiceChoice, Status};
use petasos_base::{Clock, Time};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};

use crate::answer::{Answering, petasos_handler};
use crate::failure::{PETASOS_OK, contained, guarded, guarded_or, petasos_code};
use crate::join::{self, petasos_join_options};
use crate::server::wrong;
use crate::service::petasos_service;
use crate::tls::{Tls, petasos_tls_options};
use crate::{pointer, sigpipe};

/// A server without threads for its handlers, for programs that have an event loop already. The
/// program watches petasos_loop_descriptor and calls petasos_loop_turn when it is readable; calls
/// are handled within that. Only the thread that made a loop may use it, and a thread can have one.
/// Since version 4.
pub struct petasos_loop {
    event_loop: Loop,
    /// Readable when the loop is to turn.
    descriptor: OwnedFd,
    timer: OwnedFd,
    /// When the timer rings; `Time::NEVER` if it is not set.
    rings_at: Cell<Time>,
    clock: Clock,
    thread: ThreadId,
    is_turning: Cell<bool>,
}

/// The options of a loop. Zeros in all fields but `struct_bytes` are the defaults; an address is
/// required. Since version 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_loop_options {
    /// `sizeof(petasos_loop_options)`: later versions may have more fields.
    pub struct_bytes: usize,
    /// The address for Petasos as `HOST:PORT`, where port 0 means any port.
    pub listen: *const c_char,
    /// For the address, or null.
    pub tls: *const petasos_tls_options,
    /// Allows the port to be unencrypted beyond loopback, where everybody in the network can listen
    /// and call.
    pub plaintext: bool,
    /// The groups of workers that the loop joins.
    pub joins: *const *const petasos_join_options,
    /// The number of groups.
    pub join_count: usize,
}

impl pointer::Options for petasos_loop_options {
    const EARLIER_BYTES: &'static [usize] = &[];
}

/// When the timer is this near, it is taken to have rung.
const RINGS_WITHIN: Duration = Duration::from_micros(50);

impl petasos_loop {
    fn new(event_loop: Loop) -> Result<petasos_loop, Status> {
        let none = |error: Errno| Status::resource_exhausted(format!("no descriptor: {error}"));
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(none)?;
        let inner = event_loop.descriptor();
        let inner = inner.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        let descriptor = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(none)?;
        for fd in [inner.as_fd(), timer.as_fd()] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&descriptor, fd, data, epoll::EventFlags::IN).map_err(none)?;
        }
        let made = petasos_loop {
            event_loop,
            descriptor,
            timer,
            rings_at: Cell::new(Time::NEVER),
            clock: Clock::system(),
            thread: std::thread::current().id(),
            is_turning: Cell::new(false),
        };
        // Its timers run from now on, and the first turn may find packets.
        made.ring_after(Duration::ZERO);
        Ok(made)
    }

    /// Whether this thread may use it now.
    fn check(&self) -> Result<(), Status> {
        if self.thread != std::thread::current().id() {
            return Err(Status::failed_precondition("another thread made the loop"));
        }
        if self.is_turning.get() {
            return Err(Status::failed_precondition("the loop is turning: its handler called it"));
        }
        Ok(())
    }

    fn turn(&self, turns_max: u32) {
        if self.clock.now() + RINGS_WITHIN >= self.rings_at.get() {
            // It may not have rung yet; then it does during the rest, for nothing.
            let _ = rustix::io::read(&self.timer, &mut [0_u8; 8]);
            self.rings_at.set(Time::NEVER);
        }
        let turning = Turning::begin(&self.is_turning);
        let rest = self.event_loop.turn_ready(turns_max);
        drop(turning);
        if let Some(rest) = rest {
            self.ring_after(rest);
        }
    }

    /// Lets the timer ring after `rest`, unless it does so earlier.
    fn ring_after(&self, rest: Duration) {
        let at = self.clock.now() + rest;
        if at >= self.rings_at.get() {
            return;
        }
        let rest = rest.max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: rest.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // A timer of this process takes any time that is not negative.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        self.rings_at.set(at);
    }
}

/// A turn, also if it panics.
struct Turning<'a>(&'a Cell<bool>);

impl Turning<'_> {
    fn begin(is_turning: &Cell<bool>) -> Turning<'_> {
        is_turning.set(true);
        Turning(is_turning)
    }
}

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Makes a loop that serves some services, whose methods are all unary, and joins its groups. A
/// message that arrives makes its descriptor readable. Free it with petasos_loop_free; the services
/// may be freed at once. PETASOS_FAILED_PRECONDITION if the thread has a loop already. Since
/// version 4.
///
/// # Safety
/// `count` valid services are at `services`, the handler and the options are valid, and
/// `event_loop` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_loop_new(
    services: *const *const petasos_service,
    count: usize,
    handler: *const petasos_handler,
    options: *const petasos_loop_options,
    event_loop: *mut *mut petasos_loop,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, options, handler) = unsafe {
            (
                pointer::out(event_loop)?,
                pointer::options(options)?,
                *pointer::shared(handler, "the handler")?,
            )
        };
        let options = options.ok_or_else(|| pointer::null("the options"))?;
        if handler.handle.is_none() {
            return Err(pointer::null("the handler's function"));
        }
        if count > 0 && services.is_null() {
            return Err(pointer::null("the services"));
        }
        let mut served = Vec::new();
        for at in 0..count {
            // SAFETY: the caller's promises.
            let service = unsafe { pointer::shared(*services.add(at), "a service")? };
            served.push(Answering::new(service.get(), handler)?);
        }
        // SAFETY: the caller's promises.
        let (config, joins) = unsafe {
            let joins = join::all(options.joins, options.join_count, options.plaintext)?;
            (config(&options)?, joins)
        };
        let made = sigpipe::without(|| Loop::new(config)).map_err(refused)?;
        for service in served {
            made.serve(service).map_err(unserved)?;
        }
        for join in joins {
            sigpipe::without(|| made.join(join)).map_err(|error| wrong(&error))?;
        }
        *to = pointer::give(petasos_loop::new(made)?);
        Ok(PETASOS_OK)
    })
}

/// A file descriptor that is readable when petasos_loop_turn has something to do, for its timers as
/// well. It belongs to the loop, and may only be used with poll(2) and similar functions. -1 if the
/// loop is null. Since version 4.
///
/// # Safety
/// The loop is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_loop_descriptor(event_loop: *const petasos_loop) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event_loop.as_ref() }.map_or(-1, |known| known.descriptor.as_raw_fd())
}

/// Turns the loop without waiting, until there is nothing to do, but at most `turns_max` times (0
/// means 64): receives calls, has them handled, sends the answers. If there is more to do, the
/// descriptor stays readable. PETASOS_FAILED_PRECONDITION on another thread, and in a handler.
/// Since version 4.
///
/// # Safety
/// The loop is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_loop_turn(
    event_loop: *const petasos_loop,
    turns_max: u32,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let known = unsafe { pointer::shared(event_loop, "the loop")? };
        known.check()?;
        known.turn(if turns_max == 0 { TURNS_MAX } else { turns_max });
        Ok(PETASOS_OK)
    })
}

/// How many turns there are at most if the program does not say.
const TURNS_MAX: u32 = 64;

/// The port for Petasos, or 0. Since version 4.
///
/// # Safety
/// The loop is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_loop_port(event_loop: *const petasos_loop) -> u16 {
    guarded_or(0, || {
        // SAFETY: the caller's promise.
        let known = unsafe { event_loop.as_ref() }.filter(|known| known.check().is_ok());
        let address = known.and_then(|known| known.event_loop.local_address());
        address.map_or(0, |address| address.port())
    })
}

/// Whether a loop is a member at one of the routers of its groups, as petasos_server_joined says.
/// Since version 4.
///
/// # Safety
/// The loop is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_loop_joined(
    event_loop: *const petasos_loop,
    router_index: usize,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let known = unsafe { pointer::shared(event_loop, "the loop")? };
        known.check()?;
        join::state(known.event_loop.routers(), router_index)
    })
}

/// Frees a loop; it leaves its groups. Does nothing if it is null. On another thread than the
/// loop's, and in a handler, it is not freed: the program's fault. Since version 4.
///
/// # Safety
/// It is null, or came from petasos_loop_new and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_loop_free(event_loop: *mut petasos_loop) {
    contained(|| {
        // SAFETY: the caller's promise.
        if unsafe { event_loop.as_ref() }.is_some_and(|known| known.check().is_ok()) {
            // SAFETY: the caller's promise.
            unsafe { pointer::free(event_loop) }
        }
    });
}

/// # Safety
/// The options' texts end with zeros, and what they point to is valid.
unsafe fn config(options: &petasos_loop_options) -> Result<LoopConfig, Status> {
    // SAFETY: the caller's promises.
    let (listen, tls) =
        unsafe { (pointer::text(options.listen, "the address")?, Tls::read(options.tls)?) };
    let security = match tls {
        Some(_) if options.plaintext => {
            return Err(Status::invalid_argument("TLS and plaintext contradict each other"));
        }
        Some(tls) => tls.security()?,
        None if options.plaintext => Security::Plaintext,
        None => Security::Loopback,
    };
    let mut config = LoopConfig::default();
    (config.listen, config.security) = (Some(find(listen)?), security);
    // The managed service has no groups.
    config.service = ServiceChoice::Direct;
    Ok(config)
}

fn find(listen: &str) -> Result<SocketAddr, Status> {
    let failed =
        |why: String| Status::invalid_argument(format!("cannot listen at `{listen}`: {why}"));
    let mut found = listen.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    found.next().ok_or_else(|| failed("it has no address".to_owned()))
}

fn refused(error: LoopError) -> Status {
    match error {
        LoopError::AnotherHere => Status::failed_precondition(error.to_string()),
        error if error.is_of_settings() => Status::invalid_argument(error.to_string()),
        error => Status::unavailable(error.to_string()),
    }
}

fn unserved(error: ServeError) -> Status {
    Status::invalid_argument(error.to_string())
}
