//! A client process: keeps large requests outstanding, and checks every answer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use petasos_base::{Clock, Rng, Time};
use petasos_endpoint::{
    Completion, Context, Endpoint, MsgBuf, Node, NodeConfig, Payload, SessionId,
};
use petasos_netio_udp::UdpIo;
use petasos_report::Histogram;
use serde_json::json;

use super::server::crc;
use super::{BottleneckArgs, CHECK, host};
use crate::error::BenchError;

/// How long the last calls may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The client's state.
struct Load {
    session: Option<SessionId>,
    running: bool,
    /// For each request of the window, the CRC-32 of its current content, and when it was sent.
    sent: Vec<(u32, Time)>,
    serial: u64,
    outstanding: usize,
    completed: u64,
    last_at: Time,
    latency: Histogram,
    /// The session's smoothed round-trip times, recorded at each change.
    rtt: Histogram,
    rtt_before: Duration,
    failure: Option<String>,
}

impl Load {
    fn new(window: usize) -> Load {
        Load {
            session: None,
            running: true,
            sent: vec![(0, Time::ZERO); window],
            serial: 0,
            outstanding: 0,
            completed: 0,
            last_at: Time::ZERO,
            latency: Histogram::new(),
            rtt: Histogram::new(),
            rtt_before: Duration::ZERO,
            failure: None,
        }
    }

    /// Sends the request at this place in the window, with new content.
    fn send(&mut self, cx: &mut Context<Load>, place: usize, mut request: MsgBuf) {
        let Some(session) = self.session else { return };
        self.serial += 1;
        if let Some(head) = request.first_chunk_mut() {
            *head = self.serial.to_le_bytes();
        }
        self.sent[place] = (crc(&request), cx.now());
        match cx.enqueue_request(session, CHECK, request, done, place as u64) {
            Ok(_) => self.outstanding += 1,
            Err(refused) => self.failure = Some(refused.error.to_string()),
        }
    }

    fn note_rtt(&mut self, cx: &Context<Load>) {
        let rtt = self.session.and_then(|session| cx.session_rtt(session));
        if let Some(rtt) = rtt.filter(|rtt| *rtt != self.rtt_before) {
            self.rtt_before = rtt;
            self.rtt.record_ns(rtt.as_nanos() as u64);
        }
    }
}

fn done(load: &mut Load, cx: &mut Context<Load>, completion: Completion<'_>) {
    load.outstanding -= 1;
    let place = completion.tag as usize;
    let (expected, since) = load.sent[place];
    match completion.result {
        Ok(payload) => {
            if *payload != expected.to_le_bytes() {
                load.failure = Some("WRONG DATA: a request arrived with other bytes".to_owned());
            }
            // Calls that complete at the end count as well, with their times: a starving call must
            // be visible.
            load.completed += 1;
            load.last_at = cx.now();
            load.latency.record_ns(cx.now().nanos_since(since));
            if let Payload::Buffer(buf) = payload {
                cx.free(buf);
            }
        }
        Err(error) => load.failure = Some(format!("a call failed: {error}")),
    }
    if load.running && load.failure.is_none() {
        load.send(cx, place, completion.request);
    } else {
        cx.free(completion.request);
    }
}

/// Connects, waits for the start command, runs, and reports.
pub fn run(args: &BottleneckArgs) -> Result<(), BenchError> {
    let words = host::join()?;
    let [own, server] = &words[..] else { return Err("no two addresses".into()) };
    let (own, server): (IpAddr, SocketAddr) = (own.parse()?, server.parse()?);
    let node = Node::start(NodeConfig { plaintext: true, ..NodeConfig::default() })?;
    let io = UdpIo::bind(SocketAddr::new(own, 0), args.udp())?;
    let load = Load::new(args.window.into());
    let mut client = Endpoint::new(args.endpoint(), io, Clock::system(), load);
    client.attach(&node)?;
    let session = client.connect_and_wait(server, Duration::from_secs(10))?;
    client.state_mut().session = Some(session);
    host::say("ready")?;
    if host::hear()? != "go" {
        return Err("the measurement was called off".into());
    }
    host::end_with_input();
    let elapsed = send_for(&mut client, args)?;
    report(&client, args, elapsed)
}

/// Keeps the window full for the requested time, then waits for outstanding calls. Returns the
/// total duration in seconds.
fn send_for(client: &mut Endpoint<Load>, args: &BottleneckArgs) -> Result<f64, BenchError> {
    let start = client.clock().now();
    let mut rng = Rng::new(u64::from(std::process::id()));
    let (load, cx) = client.split();
    for place in 0..load.sent.len() {
        let mut request = cx
            .alloc(args.size as usize)
            .map_err(|error| format!("no memory for the requests: {error:?}"))?;
        request.fill_with(|| rng.next_u64() as u8);
        load.send(cx, place, request);
    }
    client.run_for(args.duration(), |load, cx| {
        load.note_rtt(cx);
        load.failure.is_some()
    });
    client.state_mut().running = false;
    let ended = client.run_for(PATIENCE, |load, _| load.outstanding == 0 || load.failure.is_some());
    match client.state_mut().failure.take() {
        Some(failure) => Err(failure.into()),
        None if !ended => Err(format!("calls were not answered within {PATIENCE:?}").into()),
        None => Ok(client.state().last_at.nanos_since(start) as f64 / 1e9),
    }
}

fn report(
    client: &Endpoint<Load>,
    args: &BottleneckArgs,
    elapsed_s: f64,
) -> Result<(), BenchError> {
    let (load, stats) = (client.state(), client.stats().client);
    let report = json!({
        "completed": load.completed,
        "bytes": load.completed * u64::from(args.size),
        "elapsed_s": elapsed_s,
        "packets": stats.request_packets,
        "retransmissions": stats.retransmissions,
        "spurious": stats.retransmissions_spurious,
        "timeouts": stats.timeouts,
        "echoes": stats.ecn_echoes,
        "latency": load.latency,
        "rtt": load.rtt,
    });
    host::say(&format!("done {report}"))
}
