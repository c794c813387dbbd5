//! `serve --etcd`: a port for etcd's clients beside a member.
//!
//! Threads: one for the loop that asks the group, and those of a Tokio runtime for the port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use petasos::grpc::{GrpcConfig, PingLimit};
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_cli::ends::spawn;
use petasos_cli::failure::Failure;
use petasos_quorum::client::{Pipeline, PipelineLoop};
use petasos_quorum::service::{Charter, MachineKind};
use petasos_quorum_etcd::{Gateway, GatewayConfig};
use tokio::runtime::{Builder, Runtime};

use crate::client::{CallArgs, asking};

/// Threads of the port.
const THREADS: usize = 2;
/// How often clients may ping: as often as etcd lets them.
const PINGS: Duration = Duration::from_secs(5);

/// etcd's port, until it is dropped.
pub struct EtcdPort {
    listen: SocketAddr,
    gateway: Option<Gateway>,
    runtime: Option<Runtime>,
    pipeline: Pipeline,
    is_over: Arc<AtomicBool>,
    asking: Option<JoinHandle<()>>,
}

/// Whether a group can have such a port.
///
/// # Errors
/// If it keeps something else.
pub fn check_etcd(listen: Option<SocketAddr>, charter: Charter) -> Result<(), Failure> {
    match listen.is_none() || charter.machine == MachineKind::Etcd {
        true => Ok(()),
        false => Err(Failure::with_advice(
            "--etcd needs a group that keeps a store with etcd's model, and this one keeps a table",
            "make another group with `petasos quorum init --keeps etcd`",
        )),
    }
}

impl EtcdPort {
    /// Opens the port at `listen`, beside the member at `own`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(listen: SocketAddr, own: SocketAddr, call: &CallArgs) -> Result<EtcdPort, Failure> {
        let (is_over, call_there) = (Arc::new(AtomicBool::new(false)), call.clone());
        let (ready, started) = channel();
        let is_over_there = is_over.clone();
        let thread = spawn("petasos-etcd", move || {
            let opened = asking(&[own], &call_there).and_then(|(endpoint, node)| {
                let (asks, pipeline) =
                    PipelineLoop::new(endpoint).map_err(|error| no_port(&error))?;
                Ok((asks, pipeline, node))
            });
            match opened {
                Ok((mut asks, pipeline, _node)) => {
                    // If nobody waits, the process is already ending.
                    let _ = ready.send(Ok(pipeline));
                    // Pairs with the store in `drop`.
                    asks.run(|| is_over_there.load(Ordering::Acquire));
                }
                Err(failure) => drop(ready.send(Err(failure))),
            }
        })?;
        let pipeline = started.recv().unwrap_or_else(|_| Err(no_port(&"its thread has ended")))?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(|error| no_port(&error))?;
        let asking = Some(thread);
        let (gateway, runtime) = (None, Some(runtime));
        let mut port = EtcdPort { listen, gateway, runtime, pipeline, is_over, asking };
        port.start(own, call)?;
        Ok(port)
    }

    fn start(&mut self, own: SocketAddr, call: &CallArgs) -> Result<(), Failure> {
        let mut grpc = GrpcConfig::default();
        grpc.tls = call.security.of_grpc_server()?;
        grpc.plaintext = call.security.is_plaintext();
        // etcd's clients ping more often than others, also without calls.
        grpc.ping_limit = Some(PingLimit { interval_min: PINGS, without_calls: true });
        let scheme = if grpc.tls.is_some() { "https" } else { "http" };
        let client_url = format!("{scheme}://{}", self.listen);
        let config = GatewayConfig { own, listen: self.listen, grpc, client_url };
        let runtime = self.runtime.as_ref().expect("it is there until the end");
        let gateway = runtime.block_on(Gateway::start(self.pipeline.clone(), config));
        let gateway = gateway.map_err(|error| no_port(&error))?;
        self.listen = gateway.address().unwrap_or(self.listen);
        self.gateway = Some(gateway);
        Ok(())
    }

    /// Where clients call it.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }
}

impl Drop for EtcdPort {
    fn drop(&mut self) {
        self.gateway = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        // Pairs with the load in `open`: a loop that is woken sees it.
        self.is_over.store(true, Ordering::Release);
        self.pipeline.wake();
        if let Some(thread) = self.asking.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn no_port(error: &dyn std::fmt::Display) -> Failure {
    Failure::with_advice(
        format_args!("cannot serve etcd's clients: {error}"),
        "choose another --etcd address, or give --tls-cert, --tls-key and --tls-ca for one that \
         others reach",
    )
}
