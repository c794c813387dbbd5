//! The peer TCP: one connection with blocking sockets. A frame is a length and a payload, and all
//! frames that are ready go into one system call. It is not an RPC system, but an upper bound for
//! one over TCP.

use std::collections::VecDeque;
use std::io::{BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;

use petasos_peer::{Command, Error, Load, Options, Payloads, commands, say};

/// Several long frames: otherwise each goes with a system call of its own for its length.
const BUFFER_BYTES: usize = 256 << 10;

/// One end of the connection.
struct Frames {
    reader: BufReader<TcpStream>,
    writer: BufWriter<TcpStream>,
    received: Vec<u8>,
}

impl Frames {
    fn new(stream: TcpStream) -> Result<Frames, Error> {
        stream.set_nodelay(true)?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, stream.try_clone()?);
        let writer = BufWriter::with_capacity(BUFFER_BYTES, stream);
        Ok(Frames { reader, writer, received: Vec::new() })
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        let length = u32::try_from(payload.len())?;
        self.writer.write_all(&length.to_le_bytes())?;
        Ok(self.writer.write_all(payload)?)
    }

    /// The next payload. Its length is known; the length in the frame is only compared with it.
    fn receive(&mut self, bytes: usize) -> Result<&[u8], Error> {
        if self.reader.buffer().is_empty() {
            self.writer.flush()?;
        }
        let mut length = [0; 4];
        self.reader.read_exact(&mut length)?;
        if u32::from_le_bytes(length) as usize != bytes {
            return Err(format!("a frame of another length than {bytes}").into());
        }
        self.received.resize(bytes, 0);
        self.reader.read_exact(&mut self.received)?;
        Ok(&self.received)
    }
}

fn serve(options: &Options) -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    say(&format!("ready {}", listener.local_addr()?))?;
    let (payloads, size) = (Payloads::new(options), options.size);
    std::thread::spawn(move || {
        // The client reports why a connection ended.
        while let Ok((stream, _)) = listener.accept() {
            let _ = answer_all(stream, &payloads, size);
        }
    });
    for command in commands() {
        match command? {
            Command::Serve(_) => say("started")?,
            Command::Stop => say("done {}")?,
            Command::Turn(..) => return Err("a server makes no calls".into()),
        }
    }
    Ok(())
}

fn answer_all(stream: TcpStream, payloads: &Payloads, size: usize) -> Result<(), Error> {
    let mut frames = Frames::new(stream)?;
    let mut response = payloads.response_template().to_vec();
    loop {
        payloads.write_answer(frames.receive(size)?, &mut response)?;
        frames.send(&response)?;
    }
}

fn call(options: &Options) -> Result<(), Error> {
    let mut frames = Frames::new(TcpStream::connect(&options.server)?)?;
    let payloads = Payloads::new(options);
    say("ready")?;
    for command in commands() {
        let Command::Turn(phase, duration) = command? else {
            return Err("a client serves nothing".into());
        };
        let load = Load::new(options, phase, duration);
        say(&turn(&mut frames, &payloads, options.response, load)?.done())?;
    }
    Ok(())
}

fn turn(
    frames: &mut Frames,
    payloads: &Payloads,
    response_bytes: usize,
    mut load: Load,
) -> Result<Load, Error> {
    let mut outstanding = VecDeque::with_capacity(load.window());
    let mut request = payloads.request_template().to_vec();
    loop {
        while outstanding.len() < load.window() {
            let Some(call) = load.begin() else { break };
            payloads.write_request(call.number, &mut request);
            frames.send(&request)?;
            outstanding.push_back(call);
        }
        let Some(call) = outstanding.pop_front() else { return Ok(load) };
        load.end(payloads, call, frames.receive(response_bytes)?)?;
    }
}

fn main() -> ExitCode {
    petasos_peer::run(serve, call)
}
