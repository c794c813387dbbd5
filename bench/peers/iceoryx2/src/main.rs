//! The peer iceoryx2: requests and responses in shared memory, written in place. In spinning phases
//! both sides poll; in sleeping ones, an event wakes the other side for each message.

use std::cell::Cell;
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use iceoryx2::active_request::ActiveRequest;
use iceoryx2::pending_response::PendingResponse;
use iceoryx2::port::client::Client;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::server::Server;
use iceoryx2::prelude::*;
use petasos_peer::{Command, Error, Load, Options, Payloads, Phase, commands, say};

type Service = ipc::Service;

/// How long a side sleeps at most before it checks whether the turn is over.
const SLEEP: Duration = Duration::from_millis(20);
/// After this many sleeps without a message, a client gives up.
const SLEEPS_MAX: u32 = 250;

/// Two events: one wakes the server, the other the client.
struct Events {
    wake: Notifier<Service>,
    woken: Listener<Service>,
}

/// The objects that both ends open.
struct Bench {
    service:
        iceoryx2::service::port_factory::request_response::PortFactory<Service, [u8], (), [u8], ()>,
    events: Events,
    // The objects live as long as their node.
    _node: Node<Service>,
}

impl Bench {
    fn open(name: &str, options: &Options) -> Result<Bench, Error> {
        set_log_level(LogLevel::Error);
        let node = NodeBuilder::new().create::<Service>()?;
        let service = node.service_builder(&name.try_into()?).request_response::<[u8], [u8]>();
        let service = service.max_active_requests_per_client(options.window);
        let service = service.max_response_buffer_size(1).max_clients(1).max_servers(1);
        let service = service.open_or_create()?;
        let is_server = options.server.is_empty();
        let event = |of_server: bool| -> Result<_, Error> {
            let side = if of_server { "server" } else { "client" };
            let name = format!("{name}/{side}");
            Ok(node.service_builder(&name.as_str().try_into()?).event().open_or_create()?)
        };
        let wake = event(!is_server)?.notifier_builder().create()?;
        let woken = event(is_server)?.listener_builder().create()?;
        Ok(Bench { service, events: Events { wake, woken }, _node: node })
    }
}

impl Events {
    fn wake(&self, phase: Phase) -> Result<(), Error> {
        if phase == Phase::Sleeping {
            self.wake.notify()?;
        }
        Ok(())
    }

    /// Waits between two checks for messages.
    fn rest(&self, phase: Phase) -> Result<(), Error> {
        match phase {
            Phase::Sleeping => drop(self.woken.timed_wait(|_| (), SLEEP)?),
            Phase::Spinning | Phase::Window => std::hint::spin_loop(),
        }
        Ok(())
    }
}

fn serve(options: &Options) -> Result<(), Error> {
    let name = format!("petasos-bench-{}", std::process::id());
    let (bench, payloads) = (Bench::open(&name, options)?, Payloads::new(options));
    let server = bench.service.server_builder().initial_max_slice_len(options.response.max(1));
    let server = server.create()?;
    say(&format!("ready {name}"))?;
    let is_over = Arc::new(AtomicBool::new(false));
    for phase in phases(&is_over) {
        say("started")?;
        while !is_over.load(Ordering::Relaxed) {
            if !answer_all(&server, &bench.events, &payloads, phase)? {
                bench.events.rest(phase)?;
            }
        }
        is_over.store(false, Ordering::Relaxed);
        say("done {}")?;
    }
    Ok(())
}

/// Answers all requests that have arrived. Returns whether there were any.
fn answer_all(
    server: &Server<Service, [u8], (), [u8], ()>,
    events: &Events,
    payloads: &Payloads,
    phase: Phase,
) -> Result<bool, Error> {
    let any = Cell::new(false);
    while let Some(request) = server.receive()? {
        any.set(true);
        answer(&request, payloads)?;
        events.wake(phase)?;
    }
    Ok(any.get())
}

fn answer(
    request: &ActiveRequest<Service, [u8], (), [u8], ()>,
    payloads: &Payloads,
) -> Result<(), Error> {
    let template = payloads.response_template();
    let mut response = request.loan_slice_uninit(template.len())?.write_from_slice(template);
    payloads.write_answer(request.payload(), response.payload_mut())?;
    Ok(response.send()?)
}

/// The phases to serve. A thread reads the parent's lines, and ends the current phase.
fn phases(is_over: &Arc<AtomicBool>) -> Receiver<Phase> {
    let (send, receive) = channel();
    let is_over = Arc::clone(is_over);
    std::thread::spawn(move || {
        for command in commands() {
            match command {
                Ok(Command::Serve(phase)) if send.send(phase).is_ok() => {}
                Ok(Command::Stop) => is_over.store(true, Ordering::Relaxed),
                _ => break,
            }
        }
        // The parent has gone, perhaps in the middle of a turn.
        is_over.store(true, Ordering::Relaxed);
    });
    receive
}

type Pending = PendingResponse<Service, [u8], (), [u8], ()>;

fn call(options: &Options) -> Result<(), Error> {
    let (bench, payloads) = (Bench::open(&options.server, options)?, Payloads::new(options));
    let client = bench.service.client_builder().initial_max_slice_len(options.size.max(1));
    let client = client.create()?;
    say("ready")?;
    for command in commands() {
        let Command::Turn(phase, duration) = command? else {
            return Err("a client serves nothing".into());
        };
        let load = Load::new(options, phase, duration);
        say(&turn(&client, &bench.events, &payloads, phase, load)?.done())?;
    }
    Ok(())
}

fn turn(
    client: &Client<Service, [u8], (), [u8], ()>,
    events: &Events,
    payloads: &Payloads,
    phase: Phase,
    mut load: Load,
) -> Result<Load, Error> {
    let mut outstanding: VecDeque<(petasos_peer::Call, Pending)> = VecDeque::new();
    loop {
        while outstanding.len() < load.window() {
            let Some(call) = load.begin() else { break };
            let template = payloads.request_template();
            let request = client.loan_slice_uninit(template.len())?;
            let mut request = request.write_from_slice(template);
            payloads.write_request(call.number, request.payload_mut());
            outstanding.push_back((call, request.send()?));
            events.wake(phase)?;
        }
        // The server answers in order.
        let Some((call, pending)) = outstanding.pop_front() else { return Ok(load) };
        let mut sleeps = 0;
        let response = loop {
            if let Some(response) = pending.receive()? {
                break response;
            }
            events.rest(phase)?;
            sleeps += u32::from(phase == Phase::Sleeping);
            if sleeps > SLEEPS_MAX {
                return Err("the server does not answer".into());
            }
        };
        load.end(payloads, call, response.payload())?;
    }
}

fn main() -> ExitCode {
    petasos_peer::run(serve, call)
}
