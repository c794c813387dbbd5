//! `--check`: whether the service could start with its options, without starting it.
//!
//! Files are read, policies are made, plug-ins are tried, certificates are loaded, and the
//! addresses have to be of this host. Nothing listens at the ports and paths of the options,
//! nothing is written, and a service that runs with the same options goes on.

use std::net::SocketAddr;

use petasos::Security;
use petasos_service::{Hub, SchemaLimits};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::configuration::Configuration;
use crate::member::Heaps;
use crate::options::Options;
use crate::runtime::set::no_processor;
use crate::transport::{ApplicationTransport, TransportConfig, TransportSet};
use crate::{schemas, takeover, token};

/// Checks the options. Gives a line about them.
///
/// # Errors
/// What is wrong.
pub fn run(configuration: Configuration) -> Result<String, String> {
    let options = &configuration.options.clone();
    runtimes(options)?;
    options.token_file.as_deref().map(token::read).transpose()?;
    let own = configuration.transports();
    let rules = configuration.begin()?.rules.unwrap_or_default();
    schemas::check(&options.prefetch, options.schema_cache.as_deref())?;
    let takeover = takeover::path_beside(&options.socket);
    for path in [&options.socket, &options.admin_socket(), &takeover] {
        petasos_operator::check_socket(path)?;
    }
    if let Some(audit) = &options.audit {
        petasos_operator::check_log(audit)?;
    }
    if let Some(address) = options.metrics {
        petasos_operator::check(address, options.metrics_plaintext)?;
        // Its port may be the one of a service that runs.
        drop(petasos_operator::listen(any_port(address), options.metrics_plaintext)?);
    }
    let security = options.security.security()?;
    options.otlp(security.clone()).map_or(Ok(()), |otlp| otlp.check())?;
    transport(options, security, &own)?;
    let policies = if rules.len() == 1 { "policy" } else { "policies" };
    Ok(format!("the configuration is valid: {} {policies}", rules.len()))
}

/// Checks that the runtimes can run where they are to.
///
/// # Errors
/// What is wrong.
pub fn runtimes(options: &Options) -> Result<(), String> {
    let (cpus, runtimes) =
        (options.cpus.len(), options.runtimes as usize + options.dedicated_runtime.len());
    if cpus > runtimes {
        return Err(format!("--cpus has {cpus} processors for {runtimes} runtimes"));
    }
    let may = sched_getaffinity(None);
    let may = may.map_err(|error| format!("cannot see the processors: {error}"))?;
    let is_there = |cpu: &u32| (*cpu as usize) < CpuSet::MAX_CPU && may.is_set(*cpu as usize);
    match options.cpus.iter().find(|cpu| !is_there(cpu)) {
        Some(cpu) => Err(format!("--cpus: {}", no_processor(*cpu))),
        None => Ok(()),
    }
}

/// Checks how other hosts are reached, at other ports.
///
/// # Errors
/// What is wrong.
pub fn transport(
    options: &Options,
    security: Security,
    own: &[ApplicationTransport],
) -> Result<(), String> {
    options.transport(security.clone(), Vec::new())?;
    check_listen(options.listen, &security)?;
    for its in own {
        let checked = check_listen(its.listen, its.security().unwrap_or(&security));
        checked.map_err(|why| format!("application `{}`: {why}", its.application))?;
    }
    if options.is_open() || !own.is_empty() {
        let mut hub: Hub<Heaps> = Hub::new(SchemaLimits::default());
        let at_any_port = |own: &ApplicationTransport| ApplicationTransport {
            listen: own.listen.map(any_port),
            listen_grpc: own.listen_grpc.map(any_port),
            ..own.clone()
        };
        let config = options.transport(security, own.iter().map(at_any_port).collect())?;
        let (listen, listen_grpc) = (config.listen.map(any_port), config.listen_grpc.map(any_port));
        let config = TransportConfig { listen, listen_grpc, ..config };
        drop(TransportSet::new(config, None, &mut hub)?);
    }
    Ok(())
}

fn check_listen(listen: Option<SocketAddr>, security: &Security) -> Result<(), String> {
    match (listen, security) {
        (Some(listen), Security::Loopback) if !listen.ip().is_loopback() => Err(format!(
            "{listen} can be reached by other hosts: give --tls-cert, --tls-key and --tls-ca, or \
             --plaintext to allow that unencrypted"
        )),
        _ => Ok(()),
    }
}

fn any_port(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), 0)
}
