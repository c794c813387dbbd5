//! Servers, whose calls the program accepts and answers.

use std::ffi::c_char;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use petasos::grpc::GrpcConfig;
use petasos::{Security, Server, ServerBuilder, StartError, Status, block_on};

use crate::accept::{Accepting, Foreign};
use crate::call::petasos_call;
use crate::failure::{PETASOS_OK, guarded, petasos_code};
use crate::join::{self, petasos_join_options};
use crate::notifier::{For, petasos_waker};
use crate::service::petasos_service;
use crate::tls::{Tls, petasos_tls_options};
use crate::{pointer, sigpipe, wait};

/// The default for the most calls that wait to be accepted.
const CALLS_MAX: usize = 4096;

/// A running server. Any number of threads may use it and accept its calls.
pub struct petasos_server {
    server: Server,
    accepting: Arc<Accepting>,
}

/// The options of a server. Zeros in all fields but `struct_bytes` are the defaults; at least one
/// address is required.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_server_options {
    /// `sizeof(petasos_server_options)`: later versions may have more fields.
    pub struct_bytes: usize,
    /// The address for Petasos as `HOST:PORT`, where port 0 means any port, or null.
    pub listen: *const c_char,
    /// The address for gRPC in the same form, or null.
    pub grpc_listen: *const c_char,
    /// The number of loops, each on its own thread; 0 means one.
    pub loops: usize,
    /// The most calls that may wait to be accepted; further ones fail with
    /// PETASOS_RESOURCE_EXHAUSTED. 0 means 4096.
    pub calls_max: usize,
    /// For both addresses, or null. Since version 2.
    pub tls: *const petasos_tls_options,
    /// Allows both ports to be unencrypted beyond loopback, where everybody in the network can
    /// listen and call. Since version 2.
    pub plaintext: bool,
    /// The groups of workers that the server joins; it must have an address for Petasos, at which
    /// the groups' routers dial it. Since version 3.
    pub joins: *const *const petasos_join_options,
    /// The number of groups. Since version 3.
    pub join_count: usize,
}

impl pointer::Options for petasos_server_options {
    const EARLIER_BYTES: &'static [usize] =
        &[offset_of!(petasos_server_options, tls), offset_of!(petasos_server_options, joins)];
}

/// Starts a server with some services. When this returns, it receives calls, which wait for
/// petasos_server_accept. Free it with petasos_server_free; the services may be freed at once.
///
/// # Safety
/// `count` valid services are at `services`, the options are valid, and `server` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_start(
    services: *const *const petasos_service,
    count: usize,
    options: *const petasos_server_options,
    server: *mut *mut petasos_server,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, options) = unsafe { (pointer::out(server)?, pointer::options(options)?) };
        let options = options.ok_or_else(|| pointer::null("the options"))?;
        if count > 0 && services.is_null() {
            return Err(Status::invalid_argument("the services must not be null"));
        }
        let calls_max = if options.calls_max == 0 { CALLS_MAX } else { options.calls_max };
        let accepting = Arc::new(Accepting::new(calls_max));
        let mut builder = Server::builder().loops(options.loops);
        for at in 0..count {
            // SAFETY: the caller's promises.
            let service = unsafe { pointer::shared(*services.add(at), "a service")? };
            let accepting = accepting.clone();
            builder = builder.add(Foreign { service: service.get(), accepting });
        }
        // SAFETY: the caller's promises.
        let (listen, grpc) = unsafe {
            (
                pointer::some_text(options.listen, "the address")?,
                pointer::some_text(options.grpc_listen, "the address")?,
            )
        };
        if listen.is_none() && grpc.is_none() {
            return Err(Status::invalid_argument("the server has no address"));
        }
        // SAFETY: the caller's promise.
        let tls = unsafe { Tls::read(options.tls)? };
        builder = listening(builder, listen, grpc, tls.as_ref(), options.plaintext)?;
        // SAFETY: the caller's promise.
        let joins = unsafe { join::all(options.joins, options.join_count, options.plaintext)? };
        builder = joins.into_iter().fold(builder, ServerBuilder::join);
        let server = sigpipe::without(|| builder.start()).map_err(|error| wrong(&error))?;
        *to = pointer::give(petasos_server { server, accepting });
        Ok(PETASOS_OK)
    })
}

/// The port for Petasos, or 0.
///
/// # Safety
/// The server is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_port(server: *const petasos_server) -> u16 {
    // SAFETY: the caller's promise.
    let server = unsafe { server.as_ref() };
    server.and_then(|known| known.server.local_address()).map_or(0, |address| address.port())
}

/// The port for gRPC, or 0.
///
/// # Safety
/// The server is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_grpc_port(server: *const petasos_server) -> u16 {
    // SAFETY: the caller's promise.
    let server = unsafe { server.as_ref() };
    let address: Option<SocketAddr> = server.and_then(|known| known.server.grpc_address());
    address.map_or(0, |address| address.port())
}

/// Whether a server is a member at one of the routers of its groups, counted from 0 in the order of
/// their addresses. PETASOS_OK if all its loops are, PETASOS_PENDING if a router has not answered
/// yet, PETASOS_END if there is no such router. PETASOS_UNAVAILABLE if a router cannot be reached
/// or has refused; petasos_last_error has the reason. The server keeps asking. Since version 3.
///
/// # Safety
/// The server is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_joined(
    server: *const petasos_server,
    router_index: usize,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let server = unsafe { pointer::shared(server, "the server")? };
        join::state(server.server.routers(), router_index)
    })
}

/// Accepts the next call. Waits for at most `timeout_us` microseconds (0 returns at once, a
/// negative value waits without limit). Answer the call with petasos_call_finish, and free it with
/// petasos_call_free. PETASOS_TIMED_OUT if there is no call, PETASOS_END once the server has ended.
///
/// # Safety
/// The server is valid, and `call` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_accept(
    server: *const petasos_server,
    timeout_us: i64,
    call: *mut *mut petasos_call,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (server, to) = unsafe { (pointer::shared(server, "the server")?, pointer::out(call)?) };
        let accepting = &server.accepting;
        wait::block(&accepting.notifier, For::Receiving, timeout_us, |_| accepting.look(to))
    })
}

/// Like petasos_server_accept, without blocking: returns PETASOS_PENDING if there is no call. The
/// waker is called once there may be one.
///
/// # Safety
/// The server is valid, `call` is writable, and the waker meets its requirements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_poll_accept(
    server: *const petasos_server,
    waker: petasos_waker,
    call: *mut *mut petasos_call,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (server, to) = unsafe { (pointer::shared(server, "the server")?, pointer::out(call)?) };
        let accepting = &server.accepting;
        wait::poll(&accepting.notifier, For::Receiving, waker, |_| accepting.look(to))
    })
}

/// Shuts the server down and waits for that: it receives no more calls, lets running calls continue
/// for `grace_us` microseconds, and ends the rest with PETASOS_UNAVAILABLE. Meanwhile other threads
/// can accept and answer calls.
///
/// # Safety
/// The server is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_drain(
    server: *const petasos_server,
    grace_us: u64,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let server = unsafe { pointer::shared(server, "the server")? };
        block_on(server.server.drain(Duration::from_micros(grace_us)));
        server.accepting.close();
        Ok(PETASOS_OK)
    })
}

/// Frees a server, and ends it at once unless it was drained. Does nothing if it is null. Accepted
/// calls must still be freed. None of its wakers is called afterwards.
///
/// # Safety
/// It is null, or belongs to the program and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_free(server: *mut petasos_server) {
    // SAFETY: the caller's promise.
    unsafe { pointer::free(server) }
}

impl Drop for petasos_server {
    fn drop(&mut self) {
        self.accepting.close();
        self.accepting.notifier.clear();
    }
}

fn listening(
    mut builder: ServerBuilder,
    listen: Option<&str>,
    grpc: Option<&str>,
    tls: Option<&Tls>,
    plaintext: bool,
) -> Result<ServerBuilder, Status> {
    if tls.is_some() && plaintext {
        return Err(Status::invalid_argument("TLS and plaintext contradict each other"));
    }
    if let Some(address) = listen {
        builder = builder.listen(address).security(match tls {
            Some(tls) => tls.security()?,
            None if plaintext => Security::Plaintext,
            None => Security::Loopback,
        });
    }
    if let Some(address) = grpc {
        let mut config = GrpcConfig::default();
        config.tls = tls.map(Tls::of_grpc_server).transpose()?;
        config.plaintext = plaintext;
        builder = builder.grpc(address, config);
    }
    Ok(builder)
}

pub(crate) fn wrong(error: &StartError) -> Status {
    let may_be_tried_again = match error {
        StartError::Thread(_) => true,
        StartError::Node(error) => !error.is_of_settings(),
        StartError::Loop(error) => !error.is_of_settings(),
        _ => false,
    };
    match may_be_tried_again {
        true => Status::unavailable(error.to_string()),
        false => Status::invalid_argument(error.to_string()),
    }
}
