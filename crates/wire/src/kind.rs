//! Packet kinds, encodings and reject codes.

/// What a packet is (W3). Bit 3 tells the direction: clear from the client, set from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A packet of a request.
    Request = 1,
    /// The client asks for packets of a response.
    Pull = 2,
    /// The client no longer wants the response.
    Cancel = 3,
    /// The client has the whole response; the server may release it (W21).
    Done = 4,
    /// The first packet of a request to a group of workers ([`crate::RoutedPacket`]).
    Routed = 5,
    /// Stream data from the client. Reserved.
    ClientStream = 6,
    /// Stream window from the client. Reserved.
    ClientWindow = 7,
    /// A packet of a response.
    Response = 8,
    /// Which request packets have arrived: returns their credits.
    Ack = 9,
    /// The server will not answer the request; the value is a [`RejectCode`].
    Reject = 10,
    /// The server does not know the session (any more).
    Reset = 11,
    /// A worker has a request's first packet ([`crate::Ready`]).
    Ready = 12,
    /// A worker tells the router what it has settled ([`crate::Feedback`]).
    Feedback = 13,
    /// Stream data from the server. Reserved.
    ServerStream = 14,
    /// Stream window from the server. Reserved.
    ServerWindow = 15,
}

impl Kind {
    /// The kind for the four bits of a header.
    pub const fn from_bits(bits: u8) -> Option<Kind> {
        Some(match bits {
            1 => Kind::Request,
            2 => Kind::Pull,
            3 => Kind::Cancel,
            4 => Kind::Done,
            5 => Kind::Routed,
            6 => Kind::ClientStream,
            7 => Kind::ClientWindow,
            8 => Kind::Response,
            9 => Kind::Ack,
            10 => Kind::Reject,
            11 => Kind::Reset,
            12 => Kind::Ready,
            13 => Kind::Feedback,
            14 => Kind::ServerStream,
            15 => Kind::ServerWindow,
            _ => return None,
        })
    }

    /// Whether the server sends this kind.
    #[inline]
    pub const fn from_server(self) -> bool {
        self as u8 & 8 != 0
    }
}

/// How a message's bytes are encoded (W11). The transport carries this and does not interpret it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// Bytes whose meaning the two programs agree on.
    #[default]
    Opaque = 0,
    /// Petasos's native form.
    Native = 1,
    /// Protobuf.
    Protobuf = 2,
    /// Not assigned.
    Reserved = 3,
}

/// Why a server does not answer a request (W22). Codes from [`RejectCode::Again`] on are for
/// requests to groups, and come from workers and routers. RT14 says when such a request has not
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum RejectCode {
    /// No handler is registered for the method. The client's fault; a retry fails again.
    UnknownMethod = 1,
    /// The request is longer than the server takes. The client's fault; a retry fails again.
    TooLarge = 2,
    /// The server has no memory or no worker for the request now. It did not run, so a retry is
    /// safe.
    Overloaded = 3,
    /// The server is shutting down. The request did not run, so a retry on another server is safe.
    Draining = 4,
    /// The handler panicked, and may have run in part. The server's fault; a retry is not safe.
    HandlerFailed = 5,
    /// The handler declined to answer.
    Declined = 6,
    /// From a worker or a router: the claim has lapsed, or the request cannot be taken now. Send it
    /// again.
    Again = 7,
    /// From a router: its queue, or the client's share of it, is full.
    QueueFull = 8,
    /// From a worker or a router: the call's deadline has passed.
    Expired = 9,
    /// From a router: no worker may take the request.
    NoWorker = 10,
    /// From a router: it does not know the policy, or no client may ask for it.
    UnknownPolicy = 11,
}

impl RejectCode {
    /// The code with this value, if it is assigned.
    pub const fn from_value(value: u32) -> Option<RejectCode> {
        Some(match value {
            1 => RejectCode::UnknownMethod,
            2 => RejectCode::TooLarge,
            3 => RejectCode::Overloaded,
            4 => RejectCode::Draining,
            5 => RejectCode::HandlerFailed,
            6 => RejectCode::Declined,
            7 => RejectCode::Again,
            8 => RejectCode::QueueFull,
            9 => RejectCode::Expired,
            10 => RejectCode::NoWorker,
            11 => RejectCode::UnknownPolicy,
            _ => return None,
        })
    }
}
