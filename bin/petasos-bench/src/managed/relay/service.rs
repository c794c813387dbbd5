//! A service: passes frames between the applications of its host and the other service.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use petasos_base::{SystemClock, Time};
use petasos_netio::{PacketIo, Route, TX_BATCH_MAX, TxPacket};
use petasos_netio_shm::ShmConfig;
use petasos_netio_shm::rendezvous::Listener;
use petasos_netio_udp::{UdpConfig, UdpIo};
use rustix::event::{PollFd, PollFlags};

use super::frame::{FRAME_BYTES_MAX, HEADER_BYTES, Header, Kind, stamp};
use super::hop::Hop;
use super::link::{Link, Waiting, sleep_for};
use crate::error::BenchError;
use crate::managed::part_args::PartArgs;

/// While there is work, new applications are looked for so often.
const LISTEN_EVERY: Duration = Duration::from_millis(1);
/// The longest sleep, and the longest while frames wait for room.
const SLEEP_MAX: Duration = Duration::from_secs(1);
const FULL_SLEEP_MAX: Duration = Duration::from_millis(1);
/// The most applications of a service.
const APPS_MAX: usize = 64;

/// Runs a service: prints the addresses for the other service and for applications, and works until
/// the standard input ends. A service that knows the other's address greets it.
///
/// # Errors
/// The system's, and those of its neighbours.
pub fn serve(args: &PartArgs) -> Result<(), BenchError> {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let io = UdpIo::bind(loopback, UdpConfig::default())?;
    let listener = Listener::bind(loopback, &ShmConfig::default())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready {} {}", io.local_address(), listener.local_address())?;
    out.flush()?;
    drop(out);
    end_with_input();
    let mut service = Service::new(io, listener);
    if let Some(other) = args.server.first() {
        service.greet(*other)?;
    }
    service.run()
}

/// Ends the process when its standard input ends.
pub fn end_with_input() {
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).ok();
        std::process::exit(0);
    });
}

struct Service {
    io: UdpIo,
    listener: Listener,
    route: Option<Route>,
    hop: Hop,
    apps: Vec<App>,
    /// Frames on their way to the other service, each in its own part.
    staged: Vec<u8>,
    lens: Vec<usize>,
    clock: SystemClock,
    listen_at: Time,
}

/// An application. Its number is its place.
struct App {
    link: Link,
    is_gone: bool,
    /// Frames for which its ring has no room: no more than the hop's window.
    waiting: VecDeque<Vec<u8>>,
}

impl Service {
    fn new(io: UdpIo, listener: Listener) -> Service {
        Service {
            io,
            listener,
            route: None,
            hop: Hop::default(),
            apps: Vec::new(),
            staged: vec![0; TX_BATCH_MAX * FRAME_BYTES_MAX],
            lens: Vec::with_capacity(TX_BATCH_MAX),
            clock: SystemClock::default(),
            listen_at: Time::ZERO,
        }
    }

    /// Tells the other service this one's address.
    fn greet(&mut self, other: SocketAddr) -> Result<(), BenchError> {
        self.route = Some(self.io.route(other)?);
        let own = self.io.local_address().to_string();
        self.send_alone(Kind::Hello, own.as_bytes());
        Ok(())
    }

    fn run(mut self) -> Result<(), BenchError> {
        let mut waiting = Waiting::new();
        loop {
            if self.turn()? {
                waiting.worked();
            } else if waiting.must_sleep() {
                self.sleep()?;
            }
        }
    }

    fn turn(&mut self) -> Result<bool, BenchError> {
        let now = self.clock.now();
        let mut has_moved = false;
        if now >= self.listen_at {
            self.listen_at = now + LISTEN_EVERY;
            has_moved = self.accept()?;
        }
        has_moved |= self.deliver_waiting()?;
        has_moved |= self.receive()?;
        for app in &mut self.apps {
            app.link.publish();
        }
        has_moved |= self.forward()?;
        if self.hop.must_tell() && self.route.is_some() {
            self.send_alone(Kind::Credit, &[]);
        }
        Ok(has_moved)
    }

    fn accept(&mut self) -> Result<bool, BenchError> {
        let Some(Ok(mut pending)) = self.listener.accept()? else { return Ok(false) };
        // The greeting is sent at once after the connection.
        loop {
            match pending.greet() {
                Ok(Ok(connection)) if self.apps.len() < APPS_MAX => {
                    let link = Link::new(connection);
                    self.apps.push(App { link, is_gone: false, waiting: VecDeque::new() });
                    return Ok(true);
                }
                Ok(Err(still)) => pending = still,
                Ok(Ok(_)) | Err(_) => return Ok(true),
            }
        }
    }

    /// Passes frames of applications to the other service, as far as the window allows.
    fn forward(&mut self) -> Result<bool, BenchError> {
        let Some(route) = self.route else { return Ok(false) };
        self.lens.clear();
        for (number, app) in self.apps.iter_mut().enumerate() {
            while self.lens.len() < TX_BATCH_MAX && self.hop.has_room() {
                let at = self.lens.len() * FRAME_BYTES_MAX;
                let frame = &mut self.staged[at..at + FRAME_BYTES_MAX];
                let Some(len) = app.link.pop(frame)? else { break };
                if len < HEADER_BYTES {
                    return Err("a frame without a header".into());
                }
                stamp(frame, number as u8, self.hop.send(len));
                self.lens.push(len);
            }
            app.link.release();
        }
        let nothing = TxPacket { route, head: &[], body: &[] };
        let mut packets = [nothing; TX_BATCH_MAX];
        let frames = self.staged.chunks(FRAME_BYTES_MAX).zip(&self.lens);
        for (packet, (frame, len)) in packets.iter_mut().zip(frames) {
            packet.head = &frame[..*len];
        }
        let mut packets = &packets[..self.lens.len()];
        while !packets.is_empty() {
            // On this path a full queue empties by itself.
            packets = &packets[self.io.transmit(packets)..];
        }
        Ok(!self.lens.is_empty())
    }

    /// Passes frames of the other service to applications.
    fn receive(&mut self) -> Result<bool, BenchError> {
        let (mut has_moved, mut hello) = (false, None);
        for frame in self.io.receive().frames() {
            has_moved = true;
            let header = Header::read(frame.bytes).ok_or("a datagram that is no frame")?;
            self.hop.credit(header.credit);
            match header.kind {
                Kind::Credit => {}
                Kind::Hello => hello = Some(frame.bytes[HEADER_BYTES..].to_vec()),
                Kind::Part | Kind::Last => {
                    let app = self.apps.get_mut(usize::from(header.app));
                    let app = app.ok_or("a frame for an application that has not come")?;
                    if app.waiting.is_empty() && app.link.push(frame.bytes, &[])? {
                        self.hop.take(frame.bytes.len());
                    } else {
                        app.waiting.push_back(frame.bytes.to_vec());
                    }
                }
            }
        }
        if let Some(hello) = hello {
            let address: SocketAddr = String::from_utf8(hello)?.parse()?;
            self.route = Some(self.io.route(address)?);
        }
        Ok(has_moved)
    }

    /// Passes on frames that waited for room in a ring.
    fn deliver_waiting(&mut self) -> Result<bool, BenchError> {
        let mut has_moved = false;
        for app in &mut self.apps {
            while let Some(frame) = app.waiting.front() {
                if !app.link.push(frame, &[])? {
                    break;
                }
                self.hop.take(frame.len());
                app.waiting.pop_front();
                has_moved = true;
            }
        }
        Ok(has_moved)
    }

    /// Sends a frame that belongs to no call.
    fn send_alone(&mut self, kind: Kind, body: &[u8]) {
        let Some(route) = self.route else { return };
        let credit = self.hop.tell();
        let mut head = [0; HEADER_BYTES];
        Header { app: 0, kind, message_bytes: 0, call: 0, credit }.write(&mut head);
        while self.io.transmit(&[TxPacket { route, head: &head, body }]) == 0 {}
    }

    /// Sleeps until there may be something to do.
    fn sleep(&mut self) -> Result<(), BenchError> {
        let is_full = !self.hop.has_room() || self.apps.iter().any(|app| !app.waiting.is_empty());
        let longest = if is_full { FULL_SLEEP_MAX } else { SLEEP_MAX };
        // All have to say that they sleep, and look once more.
        let may = self.apps.iter_mut().all(|app| app.is_gone || app.link.doze());
        if is_full || (may && self.io.prepare_to_sleep()) {
            let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
            let socket = self.io.descriptor().ok_or("the socket has no descriptor")?;
            fds.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
            let here = self.apps.iter().filter(|app| !app.is_gone);
            fds.extend(here.map(|app| PollFd::new(&app.link, PollFlags::IN)));
            sleep_for(&mut fds, longest)?;
            self.listen_at = Time::ZERO;
        }
        for app in self.apps.iter_mut().filter(|app| !app.is_gone) {
            app.is_gone = !app.link.rise();
        }
        Ok(())
    }
}
