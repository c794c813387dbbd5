//! Servers: services whose calls the program takes and answers.

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
use crate::notifier::{For, petasos_waker};
use crate::service::petasos_service;
use crate::tls::{Tls, petasos_tls_options};
use crate::{pointer, sigpipe, wait};

/// Calls that may wait to be taken, unless told otherwise.
const CALLS_MAX: usize = 4096;

/// A server that runs. Any number of threads may use it and take calls of it.
pub struct petasos_server {
    server: Server,
    accepting: Arc<Accepting>,
}

/// How servers are made. All zeros but `struct_bytes` are the defaults; at least one address is
/// needed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_server_options {
    /// `sizeof(petasos_server_options)`: later versions may have more fields.
    pub struct_bytes: usize,
    /// Where Petasos listens, as `HOST:PORT` with port 0 for any, or null.
    pub listen: *const c_char,
    /// Where gRPC is answered, likewise.
    pub grpc_listen: *const c_char,
    /// Loops, each on a thread of its own; 0 for one.
    pub loops: usize,
    /// Calls that may wait to be taken, more being PETASOS_RESOURCE_EXHAUSTED; 0 for 4096.
    pub calls_max: usize,
    /// For both addresses, or null. Since version 2.
    pub tls: *const petasos_tls_options,
    /// Lets both ports listen in the clear beyond loopback, where whoever reaches the network can
    /// listen and call. Since version 2.
    pub plaintext: bool,
}

impl pointer::Options for petasos_server_options {
    const FIRST_BYTES: usize = offset_of!(petasos_server_options, tls);
}

/// Starts a server of some services: when this returns, it takes calls, which wait for
/// petasos_server_accept. To be freed with petasos_server_free; the services may be freed at once.
///
/// # Safety
/// `count` valid services are at `services`, the options are valid, and `server` may be written to.
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
        let server = sigpipe::without(|| builder.start()).map_err(|error| wrong(&error))?;
        *to = pointer::give(petasos_server { server, accepting });
        Ok(PETASOS_OK)
    })
}

/// The port at which Petasos listens, or 0.
///
/// # Safety
/// The server is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_server_port(server: *const petasos_server) -> u16 {
    // SAFETY: the caller's promise.
    let server = unsafe { server.as_ref() };
    server.and_then(|known| known.server.local_address()).map_or(0, |address| address.port())
}

/// The port at which gRPC is answered, or 0.
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

/// Takes the next call, for at most `timeout_us` microseconds (0 only looks, less waits for ever).
/// It is to be answered with petasos_call_finish and freed with petasos_call_free.
/// PETASOS_TIMED_OUT if there is none, PETASOS_END once the server has ended.
///
/// # Safety
/// The server is valid, and `call` may be written to.
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

/// petasos_server_accept without blocking: PETASOS_PENDING if there is no call, and the waker is
/// called once one may be there.
///
/// # Safety
/// The server is valid, `call` may be written to, and the waker is as it says.
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

/// Ends the server and waits for that: it takes no more calls from callers, gives those that run
/// `grace_us` microseconds, and ends what is left with PETASOS_UNAVAILABLE. Other threads go on
/// taking and answering calls meanwhile.
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

/// Frees a server, and ends it at once unless it was drained; nothing if it is null. Calls that
/// were taken are still to be freed. None of its wakers is called afterwards.
///
/// # Safety
/// It is null, or belongs to the program and is used by nobody.
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

fn wrong(error: &StartError) -> Status {
    match error {
        StartError::Address(..) | StartError::Service(_) | StartError::NoSuchMethod(_) => {
            Status::invalid_argument(error.to_string())
        }
        error => Status::unavailable(error.to_string()),
    }
}
