//! A proxy that cuts control connections, and peers of which only the control protocol is there.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use petasos_control::{
    Capabilities, Config, ConnectFailure, ConnectParams, Connection, DataAddress, Event, Hello,
    Recovery, Role, SUPPORTED, Target, Text, Ticket,
};
use petasos_endpoint::{Clock, Pem};
use petasos_tls::PeerTls;

/// What a proxy does with connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It carries them.
    Open,
    /// It ends new ones without a word.
    Closed,
    /// It carries what clients say, and keeps what servers say to itself.
    Mute,
    /// It ends them with the first word of the server.
    Brief,
}

/// Between clients and the server at one address.
pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<Mutex<(Mode, Vec<TcpStream>)>>,
}

impl Proxy {
    pub fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new((Mode::Open, Vec::new())));
        let shared = state.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(server) else { continue };
                let mut state = shared.lock().expect("nothing panics under it");
                if state.0 == Mode::Closed {
                    continue;
                }
                let copies = [(&near, &far), (&far, &near)];
                for (at, (from, to)) in copies.into_iter().enumerate() {
                    let from = from.try_clone().expect("descriptors");
                    let to = to.try_clone().expect("descriptors");
                    let shared = shared.clone();
                    std::thread::spawn(move || carry(from, to, at == 1, &shared));
                }
                state.1.extend([near, far]);
            }
        });
        Proxy { address, state }
    }

    pub fn set(&self, mode: Mode) {
        self.state.lock().expect("nothing panics under it").0 = mode;
    }

    /// Ends all connections that stand.
    pub fn cut(&self) {
        for stream in self.state.lock().expect("nothing panics under it").1.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    is_servers: bool,
    state: &Mutex<(Mode, Vec<TcpStream>)>,
) {
    let mut buffer = [0; 4096];
    while let Ok(count) = from.read(&mut buffer) {
        let mode = state.lock().expect("nothing panics under it").0;
        let mute = mode == Mode::Mute && is_servers;
        if count == 0 || (!mute && to.write_all(&buffer[..count]).is_err()) {
            break;
        }
        if mode == Mode::Brief && is_servers {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// One end of a control connection, driven by hand.
pub struct Raw {
    stream: Box<dyn Stream>,
    connection: Connection,
    clock: Clock,
    /// Which the server has given.
    pub ticket: Option<Ticket>,
}

impl Raw {
    /// A connection from an address of this host, over TLS if there are certificates.
    pub fn dial(
        from: [u8; 4],
        server: SocketAddr,
        incarnation: u64,
        pem: Option<&Pem>,
    ) -> Option<Raw> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("descriptors");
        bind(&socket, &SocketAddr::from((from, 0))).expect("all of 127.0.0.0/8 is this host");
        connect(&socket, &server).expect("the node listens");
        let socket = TcpStream::from(socket);
        let timeout = Some(Duration::from_millis(5));
        socket.set_read_timeout(timeout).expect("it is more than nothing");
        let stream: Box<dyn Stream> = match pem {
            None => Box::new(socket),
            Some(pem) => {
                let tls = PeerTls::from_pem(pem, b"petasos-control/1", None).expect("it is good");
                Box::new(rustls::StreamOwned::new(tls.dial(server.ip()), socket))
            }
        };
        let mut raw = Raw::over(stream, Role::Dialler, incarnation);
        raw.ticket = Some(raw.hear(|event| match event {
            Event::Ticket(ticket) => Some(ticket),
            _ => None,
        })?);
        Some(raw)
    }

    /// The server's end of the next connection, once the client has said hello.
    pub fn accept(listener: &TcpListener, incarnation: u64) -> Raw {
        let (socket, _) = listener.accept().expect("it listens");
        Raw::answer(socket, incarnation)
    }

    /// The server's end of a connection, once the client has said hello.
    pub fn answer(socket: TcpStream, incarnation: u64) -> Raw {
        let timeout = Some(Duration::from_millis(5));
        socket.set_read_timeout(timeout).expect("it is more than nothing");
        let mut raw = Raw::over(Box::new(socket), Role::Acceptor, incarnation);
        let hello = raw.hear(|event| matches!(event, Event::PeerHello { .. }).then_some(()));
        hello.expect("a client says hello");
        raw
    }

    fn over(stream: Box<dyn Stream>, role: Role, incarnation: u64) -> Raw {
        let clock = Clock::system();
        let hello = Hello {
            versions: SUPPORTED,
            incarnation,
            endpoints: 1,
            capabilities: Capabilities::CLIENT.with(Capabilities::SERVER),
            name: Text::new("raw"),
            place: None,
        };
        let connection = Connection::new(Config::default(), role, hello, clock.now());
        Raw { stream, connection, clock, ticket: None }
    }

    /// Waits for an event; `None` if the connection ends first.
    fn hear<T>(&mut self, mut wanted: impl FnMut(Event) -> Option<T>) -> Option<T> {
        loop {
            self.turn()?;
            while let Some(event) = self.connection.poll_event() {
                if let Some(found) = wanted(event) {
                    return Some(found);
                }
            }
        }
    }

    /// Sends and receives; `None` if the connection has ended.
    fn turn(&mut self) -> Option<()> {
        let mut buffer = [0; 4096];
        while let Some(output) = self.connection.poll_output() {
            match self.stream.write(output) {
                Ok(count) => self.connection.advance_output(count),
                // TLS still waits for the server.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The end of the connection shows when it is read.
                Err(_) => {
                    let all = output.len();
                    self.connection.advance_output(all);
                }
            }
        }
        let now = self.clock.now();
        match self.stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => self.connection.handle_bytes(&buffer[..count], now),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        self.connection.handle_timeout(now);
        Some(())
    }

    /// A server's: gives this connection's ticket.
    pub fn give_ticket(&mut self, ticket: Ticket) {
        assert!(self.connection.give_ticket(ticket), "it is the first");
        self.turn().expect("the client is there");
    }

    /// A server's: says that another process is at its address, and stays until the client leaves.
    pub fn announce_successor(mut self) {
        self.connection.announce_successor();
        assert!(self.hear(|_| None::<()>).is_none());
    }

    /// A server's: says that another process is at its address, and leaves with a word.
    pub fn succeeded_and_gone(mut self) {
        self.connection.announce_successor();
        self.leave();
    }

    /// A server's: the ticket that the client shows within this time.
    pub fn shown_within(&mut self, time: Duration) -> Option<Ticket> {
        let until = self.clock.now() + time;
        while self.clock.now() < until {
            self.turn()?;
            while let Some(event) = self.connection.poll_event() {
                if let Event::ResumeRequested(ticket) = event {
                    return Some(ticket);
                }
            }
        }
        None
    }

    /// Asks for a session: whether it is granted.
    pub fn ask(&mut self, id: u64) -> Result<(), ConnectFailure> {
        let params = ConnectParams {
            target: Target::Any,
            address: DataAddress::udp(4321, None),
            endpoint: 0,
            session: id as u32,
            tag: id as u32,
            slots: 8,
            credits: 32,
            payload_bytes_max: 1448,
            request_bytes_max: 1 << 20,
            response_bytes_max: 1 << 20,
            recovery: Recovery::Selective,
            checksum: false,
            local: None,
        };
        self.connection.connect(id, params, self.clock.now()).expect("it is open");
        let answer = self.hear(|event| match event {
            Event::ConnectAnswered { result, .. } => Some(result.map(drop)),
            _ => None,
        });
        answer.expect("the server answers")
    }

    /// Shows a ticket: whether it is accepted.
    pub fn resume(&mut self, ticket: Ticket) -> bool {
        self.show(ticket);
        let answer = self.hear(|event| match event {
            Event::ResumeAnswered { accepted } => Some(accepted),
            _ => None,
        });
        answer.expect("the server answers")
    }

    /// Shows a ticket and waits for nothing.
    pub fn show(&mut self, ticket: Ticket) {
        assert!(self.connection.resume(ticket));
        let output = self.connection.poll_output().expect("the resume").to_vec();
        self.stream.write_all(&output).expect("the server reads");
        self.stream.flush().expect("the server reads");
        self.connection.advance_output(output.len());
    }

    /// Waits for the other end to leave, and says whether it did so without a word.
    pub fn is_left(&mut self) -> bool {
        self.hear(|event| matches!(event, Event::Closed { .. }).then_some(())).is_none()
    }

    /// Leaves with a word.
    pub fn leave(mut self) {
        self.connection.close(petasos_control::ByeReason::Shutdown);
        assert!(self.hear(|_| None::<()>).is_none());
    }
}
