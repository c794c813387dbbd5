//! A group that is given by options of the command line.

use std::net::SocketAddr;

use clap::Args;

use super::GroupOptions;
use super::care::{default_eject_failures, default_eject_ms};
use crate::plane_options::PlaneOptions;
use crate::security::SecurityOptions;
use crate::takeover::Subnetted;

/// Its options. In a file, they are keys by the same names.
#[derive(Args, Clone, Debug)]
pub(super) struct GroupArguments {
    /// Where clients attach and workers join, over TCP [default: 127.0.0.1:7000]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Where requests and feedback come, over UDP [default: any port of --listen's address]
    #[arg(long, value_name = "ADDRESS")]
    data: Option<SocketAddr>,

    /// How a worker is picked: random, rr, pl2, jsq, or jbsqN, with at most N at a worker at a time
    #[arg(long, value_name = "POLICY", default_value = "jbsq3")]
    policy: String,

    /// The most requests that wait: what comes then is rejected, the least urgent first
    #[arg(long, value_name = "COUNT", default_value_t = 16_384)]
    waiting_max: usize,

    /// What a greater priority of a request counts as, 0 to 15: with 0, who came first goes first
    #[arg(long, value_name = "PRIORITY", default_value_t = 15)]
    priority_max: u8,

    /// Requests that have waited so long are rejected; 0: none are
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    waiting_age_ms: u64,

    #[command(flatten)]
    care: CareArguments,

    /// Bytes of a request or response in a packet, 1024 to 65000: at most what each member's path
    /// carries, less 64, and less 16 with TLS [default: 1400, or 1392 with TLS]
    #[arg(long, value_name = "BYTES")]
    payload_bytes: Option<u32>,

    /// The most clients; one peer may have half of them
    #[arg(long, value_name = "COUNT", default_value_t = 4096)]
    clients_max: u32,

    /// The most calls that a client may have asked and not answered
    #[arg(long, value_name = "COUNT", default_value_t = 4096)]
    asked_max: u32,

    /// A name in a certificate whose owner may be a worker; may be repeated. Everybody may without
    /// it
    #[arg(long = "worker", value_name = "NAME")]
    workers: Vec<String>,

    /// A name in a certificate whose owner may join as primary; may be repeated. Every worker may
    /// without it
    #[arg(long = "primary", value_name = "NAME")]
    primaries: Vec<String>,

    /// All routers of the group, this one as well, which members are told of: at most 8
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    routers: Vec<SocketAddr>,

    /// Full name of a service, such as `package.Service`, that all workers serve; may be repeated.
    /// Clients bind at the router, and workers have to fit the first one, and to listen
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,

    /// Where packets of binds come, over UDP, with --service [default: any port of --listen's
    /// address]
    #[arg(long, value_name = "ADDRESS")]
    binds: Option<SocketAddr>,

    /// Stand by: clients use another router as long as one says that it is active
    #[arg(long)]
    standby: bool,

    /// An address that the active one of two routers has, with its prefix, such as 10.0.0.100/24:
    /// the other one takes it over. With --interface, --peer, --data at this host's own address,
    /// and --listen 0.0.0.0:PORT; CAP_NET_ADMIN and CAP_NET_RAW are needed
    #[arg(long, value_name = "ADDRESS/BITS")]
    virtual_address: Option<Subnetted>,

    /// The control address of the other router with the virtual address, at the address of its
    /// --data
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<SocketAddr>,

    /// After so much silence, the other router has failed
    #[arg(long, value_name = "MS", default_value_t = 60)]
    takeover_ms: u64,

    /// List the router in etcd, where clients and workers find it by the same target:
    /// router+etcd://HOST:PORT/PREFIX, or router+etcds:// with TLS, and ETCDCTL_CACERT,
    /// ETCDCTL_CERT, ETCDCTL_KEY and ETCDCTL_USER in the environment
    #[arg(long, value_name = "TARGET")]
    etcd: Option<String>,

    /// The control address that is listed, by which others reach this router [default: --listen, or
    /// its port at the address of --data]
    #[arg(long, value_name = "ADDRESS", requires = "etcd")]
    etcd_address: Option<SocketAddr>,

    #[command(flatten)]
    plane: PlaneOptions,

    #[command(flatten)]
    security: SecurityOptions,
}

/// When workers get less than they would take.
#[derive(Args, Clone, Debug)]
struct CareArguments {
    /// With jsq and jbsqN: while all workers have work, up to 32 requests wait so long for one that
    /// has none; 0: none do. With plane xdp, the program gives nothing then
    #[arg(long, value_name = "US", default_value_t = 0)]
    hold_us: u64,

    /// A worker that joins, or is given something again after it was ejected, has its whole part
    /// after so long; 0: at once
    #[arg(long, value_name = "MS", default_value_t = 0)]
    slow_start_ms: u64,

    /// Eject a worker, so that it gets nothing for a while, when so many of 100 of its requests
    /// have failed by its own fault within ten seconds; 0: none is. At most a quarter of all are
    /// out at a time, the last that can be used and the primary never
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    eject_percent: u8,

    /// With --eject-percent: fewer failures than this within ten seconds eject nobody
    #[arg(long, value_name = "COUNT", default_value_t = default_eject_failures())]
    eject_failures: u32,

    /// With --eject-percent: how long it is out the first time. That doubles with each time that
    /// follows, up to five minutes
    #[arg(long, value_name = "MS", default_value_t = default_eject_ms())]
    eject_ms: u64,
}

impl From<GroupArguments> for GroupOptions {
    fn from(given: GroupArguments) -> GroupOptions {
        let local = SocketAddr::from(([127, 0, 0, 1], 7000));
        GroupOptions {
            listen: given.listen.unwrap_or(local),
            data: given.data,
            policy: given.policy,
            waiting_max: given.waiting_max,
            priority_max: given.priority_max,
            waiting_age_ms: given.waiting_age_ms,
            hold_us: given.care.hold_us,
            slow_start_ms: given.care.slow_start_ms,
            eject_percent: given.care.eject_percent,
            eject_failures: given.care.eject_failures,
            eject_ms: given.care.eject_ms,
            payload_bytes: given.payload_bytes,
            clients_max: given.clients_max,
            asked_max: given.asked_max,
            workers: Some(given.workers).filter(|it| !it.is_empty()),
            primaries: Some(given.primaries).filter(|it| !it.is_empty()),
            routers: given.routers,
            services: given.services,
            binds: given.binds,
            standby: given.standby,
            virtual_address: given.virtual_address,
            interface: given.plane.interface,
            peer: given.peer,
            takeover_ms: given.takeover_ms,
            etcd: given.etcd,
            etcd_address: given.etcd_address,
            plane: given.plane.plane,
            queue: given.plane.queue,
            feedback: given.plane.feedback,
            partial_checksums: given.plane.partial_checksums,
            holder: given.plane.holder,
            tls_cert: given.security.tls_cert,
            tls_key: given.security.tls_key,
            tls_ca: given.security.tls_ca,
            allow: given.security.allow,
            cipher: given.security.cipher,
            plaintext: given.security.plaintext,
        }
    }
}
