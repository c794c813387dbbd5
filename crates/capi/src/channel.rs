//! Channels, and clients of services.

use std::ffi::c_char;
use std::mem::offset_of;
use std::time::Duration;

use petasos::grpc::ClientConfig;
use petasos::untyped::Client;
use petasos::{Channel, ChannelBuilder, ConnectError, Security, Status, block_on};

use crate::failure::{PETASOS_OK, guarded, petasos_code};
use crate::listed;
use crate::pointer;
use crate::service::petasos_service;
use crate::sigpipe;
use crate::tls::{Tls, petasos_tls_options};

/// A channel to one or several servers. Any number of threads may use it.
#[derive(Debug)]
pub struct petasos_channel(Channel);

/// A service that can be called over a channel. Any number of threads may use it.
#[derive(Debug)]
pub struct petasos_client(Client);

impl petasos_client {
    pub(crate) fn get(&self) -> &Client {
        &self.0
    }
}

/// The options of a channel. Zeros in all fields but `struct_bytes` are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_channel_options {
    /// `sizeof(petasos_channel_options)`: later versions may have more fields.
    pub struct_bytes: usize,
    /// Timeout of each call; a shorter timeout of the call itself takes precedence; 0 sets no
    /// limit.
    pub timeout_us: u64,
    /// Timeout for connecting; 0 means 20 s.
    pub connect_timeout_us: u64,
    /// While no server is reachable, calls wait instead of failing with PETASOS_UNAVAILABLE.
    pub wait_for_ready: bool,
    /// gRPC's service config as JSON, or null.
    pub service_config: *const c_char,
    /// For `grpcs://`, and for `petasos://` and `router://` beyond loopback or with servers and
    /// routers that require it; or null. Since version 2.
    pub tls: *const petasos_tls_options,
    /// Allows unencrypted `petasos://`, `router://` and `grpc://` beyond this host, where everybody
    /// in the network can listen and call. Since version 2.
    pub plaintext: bool,
}

impl pointer::Options for petasos_channel_options {
    const EARLIER_BYTES: &'static [usize] = &[offset_of!(petasos_channel_options, tls)];
}

/// Makes a channel to `petasos://HOST:PORT[,HOST:PORT…]`, `grpc://HOST:PORT[,…]` or `grpcs://…`, or
/// to a group of workers by its routers, `router://HOST:PORT[,HOST:PORT…]`. It connects when the
/// first call needs it. Free it with petasos_channel_free. `options` may be null.
///
/// Servers may be listed in etcd, `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, and routers of a group,
/// `router+etcd://…`; `etcds://…` and `router+etcds://…` reach etcd over TLS. The variables
/// `ETCDCTL_CACERT`, `ETCDCTL_CERT`, `ETCDCTL_KEY`, `ETCDCTL_USER` and `ETCDCTL_PASSWORD` of the
/// environment say how, as for etcdctl.
///
/// # Safety
/// Texts end with zeros; `options` is null or valid; `channel` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_channel_open(
    target: *const c_char,
    options: *const petasos_channel_options,
    channel: *mut *mut petasos_channel,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, builder) = unsafe { (pointer::out(channel)?, builder(target, options)?) };
        let opened = sigpipe::without(|| {
            start_background()?;
            builder.connect_lazily().map_err(wrong)
        })?;
        *to = pointer::give(petasos_channel(opened));
        Ok(PETASOS_OK)
    })
}

/// Like petasos_channel_open, but waits until a server is connected. PETASOS_UNAVAILABLE if the
/// timeout passes before.
///
/// # Safety
/// As for petasos_channel_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_channel_connect(
    target: *const c_char,
    options: *const petasos_channel_options,
    channel: *mut *mut petasos_channel,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, builder) = unsafe { (pointer::out(channel)?, builder(target, options)?) };
        let opened = sigpipe::without(|| {
            start_background()?;
            block_on(builder.connect()).map_err(wrong)
        })?;
        *to = pointer::give(petasos_channel(opened));
        Ok(PETASOS_OK)
    })
}

/// Frees a channel's handle; does nothing if it is null. Its clients remain usable.
///
/// # Safety
/// It is null, or belongs to the program and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_channel_free(channel: *mut petasos_channel) {
    // SAFETY: the caller's promise.
    unsafe { pointer::free(channel) }
}

/// Makes a client of a service over a channel; free it with petasos_client_free. The handles of the
/// channel and the service may be freed before.
///
/// # Safety
/// The handles are valid, and `client` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_client_new(
    channel: *const petasos_channel,
    service: *const petasos_service,
    client: *mut *mut petasos_client,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, channel, service) = unsafe {
            (
                pointer::out(client)?,
                pointer::shared(channel, "the channel")?,
                pointer::shared(service, "the service")?,
            )
        };
        *to = pointer::give(petasos_client(Client::new(&channel.0, service.get())));
        Ok(PETASOS_OK)
    })
}

/// Frees a client; does nothing if it is null. Its calls continue.
///
/// # Safety
/// It is null, or belongs to the program and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_client_free(client: *mut petasos_client) {
    // SAFETY: the caller's promise.
    unsafe { pointer::free(client) }
}

/// Starts the process-wide thread for gRPC connections now; otherwise the first call would start
/// it.
fn start_background() -> Result<(), Status> {
    let started = petasos::background_runtime().map(drop);
    started.map_err(|error| Status::unavailable(format!("cannot start a thread: {error}")))
}

/// # Safety
/// As of [`petasos_channel_open`].
unsafe fn builder(
    target: *const c_char,
    options: *const petasos_channel_options,
) -> Result<ChannelBuilder, Status> {
    // SAFETY: the caller's promises.
    let target = unsafe { pointer::text(target, "the target")? };
    // SAFETY: the caller's promise.
    let options = unsafe { pointer::options(options)? };
    let mut builder = match listed::is_target(target) {
        true => listed::channel(target, options.is_some_and(|it| it.plaintext))?,
        false => Channel::builder(target),
    };
    let Some(options) = options else { return Ok(builder) };
    if options.timeout_us > 0 {
        builder = builder.timeout(Duration::from_micros(options.timeout_us));
    }
    if options.connect_timeout_us > 0 {
        builder = builder.connect_timeout(Duration::from_micros(options.connect_timeout_us));
    }
    // SAFETY: the caller's promise.
    if let Some(json) = unsafe { pointer::some_text(options.service_config, "the config")? } {
        builder = builder.service_config(json);
    }
    // SAFETY: the caller's promise.
    let tls = unsafe { Tls::read(options.tls)? };
    let is_grpc = target.starts_with("grpc");
    builder = match tls {
        Some(_) if options.plaintext => {
            return Err(Status::invalid_argument("TLS and plaintext contradict each other"));
        }
        Some(_) if target.starts_with("grpc://") => {
            return Err(Status::invalid_argument("TLS over gRPC is grpcs://"));
        }
        Some(tls) if is_grpc => {
            let mut config = ClientConfig::default();
            config.tls = Some(tls.of_grpc_channel()?);
            builder.grpc(config)
        }
        Some(tls) => builder.security(tls.security()?),
        None if options.plaintext => builder.security(Security::Plaintext),
        None => builder,
    };
    Ok(builder.wait_for_ready(options.wait_for_ready))
}

fn wrong(error: ConnectError) -> Status {
    match error {
        ConnectError::Unreachable(status) => status,
        ConnectError::Loop(error) if !error.is_of_settings() => {
            Status::resource_exhausted(error.to_string())
        }
        error => Status::invalid_argument(error.to_string()),
    }
}
