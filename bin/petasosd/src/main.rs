//! `petasosd`: the managed service of a host.
//!
//! Applications attach to its socket, hand calls to it, and get those that are for them. It lets
//! the policies of its configuration see each call, and passes it on: to another application of
//! this host, or, over Petasos datagrams or gRPC, to another host. Operators see and change that
//! while it runs, at a socket of theirs (`petasos ctl`).

mod admin;
mod budget;
mod check;
mod common;
mod configuration;
mod control;
mod daemon;
mod made;
mod member;
mod metrics;
mod names;
mod options;
mod otlp;
mod plugins;
mod policies;
mod ports;
mod processor;
mod quotas;
mod reports;
mod runtime;
mod schemas;
mod security;
mod source;
mod stats;
mod takeover;
mod token;
mod transport;

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

use petasos_attach::{Bound, Listener, ListenerConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use admin::{AdminOptions, Desk};
use configuration::{Configuration, NotConfigured, Reader};
use control::Control;
use daemon::{Daemon, Takeover};
use options::Options;
use otlp::OtlpConfig;
use plugins::TRY_PLUGIN;
use takeover::{Giver, Reach, Reached, Taken, Which};
use transport::{ApplicationTransport, Listeners};

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == TRY_PLUGIN) {
        return petasos_plugin::run_trial();
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let done = match Configuration::read(&arguments, None) {
        Ok(configuration) if configuration.options.check => {
            check::run(configuration).map(|valid| println!("petasosd: {valid}"))
        }
        Ok(configuration) => run(configuration, arguments),
        Err(NotConfigured::CommandLine(error)) => error.exit(),
        Err(NotConfigured::File(message)) => Err(message),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("petasosd: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Each application takes some descriptors. If the limit cannot be raised, fewer can attach.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// What a process serves with.
struct Parts {
    listener: Listener,
    control: Control,
    desk: Desk,
    takeover: Takeover,
    /// Where others than this host's connect, by transport, if this process takes over.
    listeners: Option<Vec<Listeners>>,
}

fn run(configuration: Configuration, arguments: Vec<OsString>) -> Result<(), String> {
    raise_descriptors();
    let reader = Reader::new(arguments, &configuration);
    let options = &configuration.options.clone();
    let own = configuration.transports();
    // What is wrong with these is found before anything begins, or is taken over.
    check::runtimes(options)?;
    let security = options.security.security()?;
    let transport = options.transport(security.clone(), own.clone())?;
    let (schemas, keeper) = schemas::open(&options.prefetch, options.schema_cache.as_deref())?;
    let Parts { listener, mut control, desk, takeover, listeners } = match options.takeover {
        true => {
            // Once it has said that it serves, nothing may fail.
            check::transport(options, security, &own)?;
            take_over(configuration, reader, &own)?
        }
        false => begin(configuration, reader)?,
    };
    eprintln!("petasosd: listening at {}", options.socket.display());
    let times = [Duration::from_micros(options.spin_us), options.drain()];
    control.keeper = keeper;
    let is_open = options.is_open() || !own.is_empty();
    control.packets = Some(transport.carried()).filter(|_| is_open);
    let mut daemon = Daemon::new(listener, (control, desk), takeover, times)?;
    daemon.know(schemas);
    daemon.go_on();
    add_runtimes(&mut daemon, options)?;
    if is_open {
        daemon.open(transport, listeners)?;
    }
    // Threads that were started before run wherever they may.
    daemon.pin(&options.cpus)?;
    petasos_operator::notify::ready();
    daemon.run()
}

/// The runtimes besides the first.
fn add_runtimes(daemon: &mut Daemon, options: &Options) -> Result<(), String> {
    for _ in 1..options.runtimes {
        daemon.add_runtime(None)?;
    }
    for name in &options.dedicated_runtime {
        daemon.add_runtime(Some(name))?;
    }
    Ok(())
}

/// The first process at its sockets.
fn begin(configuration: Configuration, reader: Reader) -> Result<Parts, String> {
    let options = &configuration.options.clone();
    let live = configuration.begin()?;
    let control = Control::new(live, reader.file());
    let metrics = options.metrics.map(|at| petasos_operator::listen(at, options.metrics_plaintext));
    let metrics = metrics.transpose()?;
    if let Some(address) = metrics.as_ref().and_then(|listener| listener.local_addr().ok()) {
        eprintln!("petasosd: metrics at http://{address}/metrics");
    }
    let metrics = metrics.map(petasos_operator::Place::Open);
    // Whoever can attach can be seen by operators.
    let desk = Desk::open(admin_options(options, metrics)?, reader)?;
    let giver = Giver::listen(&takeover::path_beside(&options.socket))?;
    let listener = Listener::bind(&options.socket, listener_config(options)?);
    let listener = listener
        .map_err(|error| format!("cannot listen at {}: {error}", options.socket.display()))?;
    let takeover = Takeover { giver, predecessor: None, leaving: None };
    Ok(Parts { listener, control, desk, takeover, listeners: None })
}

/// Who may attach.
fn listener_config(options: &Options) -> Result<ListenerConfig, String> {
    let token = options.token_file.as_deref().map(token::read).transpose()?;
    Ok(ListenerConfig { token, ..ListenerConfig::default() })
}

/// One that takes over from another. All that can fail is tried before it says that it serves.
fn take_over(
    configuration: Configuration,
    reader: Reader,
    own: &[ApplicationTransport],
) -> Result<Parts, String> {
    let options = &configuration.options.clone();
    // Others are in force than those that it says.
    let live = configuration.without_policies().begin()?;
    let path = takeover::path_beside(&options.socket);
    let mut taken = takeover::take(&path)?;
    let mut control = Control::new(live, reader.file());
    control
        .take_over(&taken.configuration, &options.plugin)
        .map_err(|error| format!("cannot go on with what is in force: {error}"))?;
    let metrics = options.metrics.map(|address| {
        petasos_operator::check(address, options.metrics_plaintext)?;
        Ok::<_, String>(petasos_operator::Place::WhenFree(address))
    });
    let admin = admin_options(options, metrics.transpose()?)?;
    let not_it = |error: petasos_attach::ListenError| {
        format!("{error}: give the same --socket and --admin as the process that runs")
    };
    let files = taken.socket(Which::Applications)?;
    let listener = Listener::adopt(&options.socket, files, listener_config(options)?);
    let mut listener = listener.map_err(not_it)?;
    let operators = Bound::adopt(&admin.socket, taken.socket(Which::Operators)?);
    let mut operators = operators.map_err(not_it)?;
    let mut giver = Bound::adopt(&path, taken.socket(Which::Takeover)?).map_err(not_it)?;
    admin.check()?;
    let listeners = Some(all_taken_over(options, own, &mut taken)?);
    let predecessor = Some(taken.serve()?);
    listener.own();
    operators.own();
    giver.own();
    // Of what is in etcd, nothing is in force before it is read again.
    let desk = Desk::on(operators, admin, reader.after_takeover())?;
    let takeover = Takeover { giver: Giver::on(giver), predecessor, leaving: None };
    Ok(Parts { listener, control, desk, takeover, listeners })
}

/// Where others than this host's connect, by transport.
fn all_taken_over(
    options: &Options,
    own: &[ApplicationTransport],
    taken: &mut Taken,
) -> Result<Vec<Listeners>, String> {
    let mut one = |application: Option<&str>, [hosts, grpc]: [Option<SocketAddr>; 2]| {
        let key = |option| match application {
            Some(name) => format!("application.{name}.transport.{option}"),
            None => format!("--{option}"),
        };
        let [of_hosts, of_grpc] =
            [Reach::Hosts, Reach::Grpc].map(|reach| taken.reached(reach, application));
        Ok::<_, String>(Listeners {
            hosts: taken_over(&key("listen"), hosts, of_hosts)?,
            grpc: taken_over(&key("listen-grpc"), grpc, of_grpc)?,
        })
    };
    let mut all = vec![one(None, [options.listen, options.listen_grpc])?];
    for its in own {
        all.push(one(Some(&its.application), [its.listen, its.listen_grpc])?);
    }
    match taken.reached_else() {
        Some(Reached { application, .. }) => Err(format!(
            "the process that runs has a transport of the application `{}`: this one needs it, too",
            application.as_deref().unwrap_or_default()
        )),
        None => Ok(all),
    }
}

/// Where others than this host's connect: what the process before this one has, or a new socket if
/// they did not connect there.
fn taken_over(
    option: &str,
    listen: Option<SocketAddr>,
    taken: Option<TcpListener>,
) -> Result<Option<TcpListener>, String> {
    let Some(taken) = taken else {
        let failed = |at, error| format!("cannot listen at {at}: {error}");
        let bind = |at| TcpListener::bind(at).map_err(|error| failed(at, error));
        return listen.map(bind).transpose();
    };
    let at = taken.local_addr().map_err(|error| format!("what is given is no socket: {error}"))?;
    let is_it =
        |wanted: SocketAddr| wanted.ip() == at.ip() && [0, at.port()].contains(&wanted.port());
    match listen.is_some_and(is_it) {
        true => Ok(Some(taken)),
        false => Err(format!("the process that runs is reached at {at}: give {option} {at}")),
    }
}

/// How operators reach the service.
fn admin_options(
    options: &Options,
    metrics: Option<petasos_operator::Place>,
) -> Result<AdminOptions, String> {
    let otlp = options.otlp(options.security.security()?);
    otlp.as_ref().map(OtlpConfig::check).transpose()?;
    Ok(AdminOptions {
        socket: options.admin_socket(),
        viewers: options.viewer.clone(),
        otlp,
        audit: options.audit.clone(),
        metrics,
    })
}
