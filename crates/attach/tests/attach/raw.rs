//! A connection on which a test writes arbitrary bytes.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use petasos_attach::frame::Deframer;
use petasos_attach::message::{FromApplication, FromService};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};

use crate::application::hello;
use crate::service::Service;

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

pub struct Raw {
    pub socket: OwnedFd,
    deframer: Deframer,
    input: Vec<u8>,
    pub said: Vec<FromService>,
    pub files: Vec<File>,
    pub is_closed: bool,
}

impl Raw {
    pub fn connect(path: &Path) -> Raw {
        Raw::try_connect(path).expect("the service listens")
    }

    /// `None` if too many connections wait.
    pub fn try_connect(path: &Path) -> Option<Raw> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.expect("there are descriptors");
        let address = SocketAddrUnix::new(path).expect("it is short");
        match connect(&socket, &address) {
            Ok(()) => {}
            Err(rustix::io::Errno::AGAIN) => return None,
            Err(error) => panic!("{error}"),
        }
        Some(Raw::new(socket))
    }

    pub fn new(socket: OwnedFd) -> Raw {
        let (deframer, input, said) = (Deframer::default(), Vec::new(), Vec::new());
        Raw { socket, deframer, input, said, files: Vec::new(), is_closed: false }
    }

    /// One that the service has taken, with its lanes.
    pub fn attached(service: &mut Service, path: &Path, name: &str, lanes: u16) -> Raw {
        let mut raw = Raw::connect(path);
        raw.say(&FromApplication::Hello(hello(name, lanes)));
        service.until("it has its lanes", |_| {
            raw.hear();
            raw.said.len() > lanes.into()
        });
        assert!(matches!(raw.said[0], FromService::Welcome(_)), "{:?}", raw.said);
        raw
    }

    pub fn say(&mut self, said: &FromApplication) {
        let mut bytes = Vec::new();
        said.write(&mut bytes);
        assert_eq!(self.send(&bytes), bytes.len(), "there is room");
    }

    /// Returns how many bytes the socket took.
    pub fn send(&self, bytes: &[u8]) -> usize {
        rustix::net::send(&self.socket, bytes, FLAGS).unwrap_or(0)
    }

    /// Sends a byte with descriptors of files. Returns whether the socket took it.
    pub fn send_with(&self, byte: u8, files: &[&File]) -> bool {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        sendmsg(&self.socket, &[IoSlice::new(&[byte])], &mut control, FLAGS).is_ok()
    }

    /// Reads all that has come.
    pub fn hear(&mut self) {
        loop {
            let mut bytes = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let count = match recvmsg(&self.socket, &mut slices, &mut control, flags) {
                Ok(received) if received.bytes > 0 => received.bytes,
                Err(rustix::io::Errno::WOULDBLOCK) => return,
                _ => {
                    self.is_closed = true;
                    return;
                }
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = message {
                    self.files.extend(files.map(File::from));
                }
            }
            self.input.extend_from_slice(&bytes[..count]);
            self.take_frames();
        }
    }

    fn take_frames(&mut self) {
        let mut input = &self.input[..];
        while let Some(frame) = self.deframer.next_frame(&mut input).expect("it is honest") {
            self.said.push(FromService::read(frame.kind, frame.body).expect("it is honest"));
        }
        self.input.clear();
    }

    /// Until the service has closed the connection. Returns the last thing that it said.
    pub fn end(mut self, service: &mut Service) -> Option<FromService> {
        service.until("it is closed", |_| {
            self.hear();
            self.is_closed
        });
        self.said.pop()
    }
}
