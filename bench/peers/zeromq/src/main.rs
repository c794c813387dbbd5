//! The peer ZeroMQ (libzmq): a DEALER that keeps its window of requests outstanding, and a ROUTER
//! that answers in order, over TCP. ZeroMQ's own I/O threads share the core with the program's.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use petasos_peer::{Command, Error, Load, Options, Payloads, commands, say};
use zmq::{Context, Socket, SocketType};

/// How often the server checks whether its parent has gone.
const LOOK_MS: i32 = 200;

fn socket(context: &Context, kind: SocketType) -> Result<Socket, Error> {
    let socket = context.socket(kind)?;
    // A window never waits for room.
    socket.set_sndhwm(0)?;
    socket.set_rcvhwm(0)?;
    socket.set_linger(0)?;
    Ok(socket)
}

fn serve(options: &Options) -> Result<(), Error> {
    let (context, payloads) = (Context::new(), Payloads::new(options));
    let router = socket(&context, zmq::ROUTER)?;
    router.set_rcvtimeo(LOOK_MS)?;
    router.bind("tcp://127.0.0.1:*")?;
    let address = router.get_last_endpoint()?.map_err(|_| "an address that is no text")?;
    say(&format!("ready {address}"))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    std::thread::spawn(move || {
        obey();
        over.store(true, Ordering::Relaxed);
    });
    while !is_over.load(Ordering::Relaxed) {
        let client = match router.recv_msg(0) {
            Ok(client) => client,
            Err(zmq::Error::EAGAIN) => continue,
            Err(error) => return Err(error.into()),
        };
        let answer = payloads.answer(&router.recv_msg(0)?)?;
        router.send(client, zmq::SNDMORE)?;
        router.send(answer, 0)?;
    }
    Ok(())
}

/// Handles commands. The server always answers requests, so it only acknowledges them.
fn obey() {
    for command in commands() {
        let said = match command {
            Ok(Command::Serve(_)) => say("started"),
            Ok(Command::Stop) => say("done {}"),
            _ => return,
        };
        if said.is_err() {
            return;
        }
    }
}

fn call(options: &Options) -> Result<(), Error> {
    let (context, payloads) = (Context::new(), Payloads::new(options));
    let dealer = socket(&context, zmq::DEALER)?;
    dealer.connect(&options.server)?;
    say("ready")?;
    for command in commands() {
        let Command::Turn(phase, duration) = command? else {
            return Err("a client serves nothing".into());
        };
        let load = turn(&dealer, &payloads, Load::new(options, phase, duration))?;
        say(&load.done())?;
    }
    Ok(())
}

fn turn(dealer: &Socket, payloads: &Payloads, mut load: Load) -> Result<Load, Error> {
    let mut outstanding = VecDeque::with_capacity(load.window());
    loop {
        while outstanding.len() < load.window() {
            let Some(call) = load.begin() else { break };
            dealer.send(payloads.request(call.number), 0)?;
            outstanding.push_back(call);
        }
        // One connection and one server: responses come in order.
        let Some(call) = outstanding.pop_front() else { return Ok(load) };
        load.end(payloads, call, &dealer.recv_msg(0)?)?;
    }
}

fn main() -> ExitCode {
    petasos_peer::run(serve, call)
}
