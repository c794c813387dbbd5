//! Packets with the right tags that no honest peer has sent.

use petasos_wire::{
    CREDITS_MAX, Header, Kind, MESSAGE_BYTES_MAX, PACKETS_MAX, REQUEST_NUMBERS,
    TRANSMISSION_NUMBERS,
};

use super::link::bytes_of;
use super::pair::{CLIENT_SESSION, CLIENT_TAG, Pair, SERVER_SESSION, SERVER_TAG};

/// A packet from the client.
#[derive(Clone, Debug)]
pub(super) struct FromClient {
    pub(super) kind: Kind,
    pub(super) request: u64,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) method: u16,
    pub(super) payload: Vec<u8>,
}

/// A packet from the server.
#[derive(Clone, Debug)]
pub(super) struct FromServer {
    pub(super) kind: Kind,
    pub(super) request: u64,
    pub(super) echo: u32,
    pub(super) value: u32,
    pub(super) credits: u32,
    pub(super) later: bool,
    pub(super) payload: Vec<u8>,
}

impl FromClient {
    pub(super) fn bare(kind: Kind, request: u64, start: u32, end: u32) -> FromClient {
        FromClient { kind, request, start, end, method: 0, payload: Vec::new() }
    }

    pub(super) fn with_payload(self, bytes: usize) -> FromClient {
        FromClient { payload: vec![0; bytes], ..self }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let header = Header::for_session(SERVER_SESSION, SERVER_TAG)
            .with_request(self.kind, self.request % REQUEST_NUMBERS, 0)
            .with_client(self.start % PACKETS_MAX, self.end & MESSAGE_BYTES_MAX, self.method);
        bytes_of(header, &self.payload)
    }
}

impl FromServer {
    pub(super) fn new(kind: Kind, request: u64, value: u32) -> FromServer {
        let payload = Vec::new();
        FromServer { kind, request, echo: 1, value, credits: 32, later: false, payload }
    }

    pub(super) fn with_payload(self, bytes: usize) -> FromServer {
        FromServer { payload: vec![0; bytes], ..self }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let header = Header::for_session(CLIENT_SESSION, CLIENT_TAG)
            .with_request(self.kind, self.request % REQUEST_NUMBERS, 0)
            .with_server(
                self.echo % TRANSMISSION_NUMBERS,
                self.value & MESSAGE_BYTES_MAX,
                self.credits & CREDITS_MAX,
            );
        bytes_of(if self.later { header.with_later() } else { header }, &self.payload)
    }
}

impl Pair {
    /// Lets the server receive a forged packet at once.
    pub(super) fn forge_to_server(&mut self, packet: &FromClient) {
        self.server_packet(&packet.to_bytes());
    }

    /// Lets the client receive a forged packet at once.
    pub(super) fn forge_to_client(&mut self, packet: &FromServer) {
        self.client_packet(&packet.to_bytes());
    }
}
