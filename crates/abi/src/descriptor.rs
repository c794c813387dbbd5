//! Descriptors as values, and their bytes in a ring (D4 to D9).

/// Bytes of a descriptor: what one slot of a ring takes beside its header (D4).
pub const DESCRIPTOR_BYTES: usize = 56;

/// As many received messages are released by one descriptor at most (D9).
pub const RELEASED_MAX: usize = 6;

/// No deadline, in [`Request::time_left_us`].
pub const TIME_NEVER: u64 = 0;

/// Who has sent a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The application.
    Application,
    /// The service.
    Service,
}

impl Side {
    /// The other one.
    pub const fn other(self) -> Side {
        match self {
            Side::Application => Side::Service,
            Side::Service => Side::Application,
        }
    }
}

/// A call's number in its lane (D5). The side that begins the call chooses it, and uses none twice.
/// Bit 63 says which side that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallNumber(u64);

impl CallNumber {
    const BY_SERVICE: u64 = 1 << 63;

    /// The `count`-th call that `side` begins in a lane.
    ///
    /// # Panics
    /// At the 2^63rd call.
    pub fn new(side: Side, count: u64) -> CallNumber {
        assert!(count < CallNumber::BY_SERVICE, "a lane has fewer than 2^63 calls");
        CallNumber(match side {
            Side::Application => count,
            Side::Service => count | CallNumber::BY_SERVICE,
        })
    }

    /// Who begins the call.
    pub const fn begun_by(self) -> Side {
        if self.0 & CallNumber::BY_SERVICE == 0 { Side::Application } else { Side::Service }
    }

    /// The number as both sides write it.
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> CallNumber {
        CallNumber(bits)
    }
}

/// Where a message or metadata lie in the sender's heap (D6). Without bytes there is nothing, and
/// the offset is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// From the start of the heap's range.
    pub offset: u64,
    /// Bytes. Of a message from an application: the most that its image may take (M20).
    pub bytes: u32,
}

impl Contents {
    /// Nothing.
    pub const NONE: Contents = Contents { offset: 0, bytes: 0 };

    /// Whether there is nothing.
    pub const fn is_none(self) -> bool {
        self.bytes == 0
    }
}

/// What begins a call (D7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The call.
    pub call: CallNumber,
    /// The service, by the number that its binding was given.
    pub binding: u16,
    /// The method's index in the service.
    pub method: u16,
    /// From an application: the target, by its number. From the service: the peer.
    pub partner: u32,
    /// The call has streams: messages follow.
    pub is_stream: bool,
    /// The caller declares that the method may run twice.
    pub is_idempotent: bool,
    /// The call waits until a server is there.
    pub waits_for_ready: bool,
    /// Until the deadline, in µs, or [`TIME_NEVER`].
    pub time_left_us: u64,
    /// The request of a unary call.
    pub message: Contents,
    /// The caller's metadata, as a tail (R9).
    pub metadata: Contents,
}

/// Tokens of received messages whose memory is free again (D9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    tokens: [u64; RELEASED_MAX],
    count: u8,
}

impl Released {
    /// None yet.
    pub const fn new() -> Released {
        Released { tokens: [0; RELEASED_MAX], count: 0 }
    }

    /// Adds one. Gives it back if there are [`RELEASED_MAX`].
    ///
    /// # Errors
    /// The token, if there is no room.
    pub fn push(&mut self, token: u64) -> Result<(), u64> {
        let place = self.tokens.get_mut(usize::from(self.count)).ok_or(token)?;
        *place = token;
        self.count += 1;
        Ok(())
    }

    /// In the order of adding.
    pub fn tokens(&self) -> &[u64] {
        &self.tokens[..usize::from(self.count)]
    }

    /// Whether there is no room for another.
    pub const fn is_full(&self) -> bool {
        self.count as usize == RELEASED_MAX
    }
}

/// What one side tells the other (D7 to D9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// A call begins.
    Request(Request),
    /// A message of a stream.
    Message {
        /// The call.
        call: CallNumber,
        /// The message; one without fields takes an image of some bytes, too.
        message: Contents,
    },
    /// No more messages of the caller follow.
    Close {
        /// The call.
        call: CallNumber,
    },
    /// The caller gives the call up.
    Cancel {
        /// The call.
        call: CallNumber,
    },
    /// Initial metadata of a stream.
    Head {
        /// The call.
        call: CallNumber,
        /// The metadata, as a tail (R9).
        metadata: Contents,
    },
    /// The call ends: a unary one with its response, any with a status.
    End {
        /// The call.
        call: CallNumber,
        /// The canonical code, 0 to 16.
        status: u8,
        /// The request certainly has not run (R12).
        has_not_run: bool,
        /// The response, if the status is 0 and the call is unary.
        message: Contents,
        /// Metadata, status message and details, as a tail (R9).
        metadata: Contents,
    },
    /// The receiver of a stream takes so many more bytes of messages (D8).
    Grant {
        /// The call.
        call: CallNumber,
        /// Bytes.
        bytes: u64,
    },
    /// Memory of messages is free again.
    Release(Released),
}

/// A release of nothing: what is there before one was written.
impl Default for Descriptor {
    #[inline]
    fn default() -> Descriptor {
        Descriptor::Release(Released::new())
    }
}

/// The first byte of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is the descriptor of its name")]
pub enum Kind {
    Request = 1,
    Message = 2,
    Close = 3,
    Cancel = 4,
    Head = 5,
    End = 6,
    Grant = 7,
    Release = 8,
}

/// Where the fields of a descriptor are (D4).
pub(crate) mod at {
    pub const KIND: usize = 0;
    pub const FLAGS: usize = 1;
    pub const METHOD: usize = 2;
    pub const PARTNER: usize = 4;
    pub const CALL: usize = 8;
    pub const MESSAGE: usize = 16;
    pub const MESSAGE_BYTES: usize = 24;
    pub const METADATA_BYTES: usize = 28;
    pub const METADATA: usize = 32;
    pub const VALUE: usize = 40;
    pub const BINDING: usize = 48;
    pub const ZERO: usize = 50;
    /// Of a release, whose count is in the flags.
    pub const TOKENS: usize = 8;
}

const _: () = {
    assert!(at::TOKENS + 8 * RELEASED_MAX == DESCRIPTOR_BYTES);
    assert!(at::ZERO < DESCRIPTOR_BYTES);
    assert!(at::MESSAGE.is_multiple_of(8) && at::METADATA.is_multiple_of(8));
};

/// Flags of a request, and of an end.
pub(crate) mod flag {
    pub const STREAM: u8 = 1;
    pub const IDEMPOTENT: u8 = 1 << 1;
    pub const WAITS_FOR_READY: u8 = 1 << 2;
    pub const HAS_NOT_RUN: u8 = 1;
}

/// Words of a descriptor that is being written. What nobody writes is 0.
struct Words([u64; DESCRIPTOR_BYTES / 8]);

impl Words {
    fn new(kind: Kind, call: CallNumber) -> Words {
        let mut words = Words([0; DESCRIPTOR_BYTES / 8]);
        words.put(at::KIND, kind as u64);
        words.put(at::CALL, call.get());
        words
    }

    /// Puts a value where its first byte is at `at`, and nothing was put before.
    fn put(&mut self, at: usize, value: u64) {
        self.0[at / 8] |= value << (8 * (at % 8));
    }

    fn flags(mut self, flags: u8) -> Words {
        self.put(at::FLAGS, flags.into());
        self
    }

    fn message(mut self, Contents { offset, bytes }: Contents) -> Words {
        self.put(at::MESSAGE, offset);
        self.put(at::MESSAGE_BYTES, bytes.into());
        self
    }

    fn metadata(mut self, Contents { offset, bytes }: Contents) -> Words {
        self.put(at::METADATA, offset);
        self.put(at::METADATA_BYTES, bytes.into());
        self
    }

    fn value(mut self, value: u64) -> Words {
        self.put(at::VALUE, value);
        self
    }

    fn to_bytes(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let (words, _) = bytes.as_chunks_mut::<8>();
        words.iter_mut().zip(self.0).for_each(|(to, word)| *to = word.to_le_bytes());
        bytes
    }
}

impl Descriptor {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Descriptor::Request(_) => Kind::Request,
            Descriptor::Message { .. } => Kind::Message,
            Descriptor::Close { .. } => Kind::Close,
            Descriptor::Cancel { .. } => Kind::Cancel,
            Descriptor::Head { .. } => Kind::Head,
            Descriptor::End { .. } => Kind::End,
            Descriptor::Grant { .. } => Kind::Grant,
            Descriptor::Release(_) => Kind::Release,
        }
    }

    /// The call that it is about; none for a release.
    pub const fn call(&self) -> Option<CallNumber> {
        match self {
            Descriptor::Request(Request { call, .. })
            | Descriptor::Message { call, .. }
            | Descriptor::Close { call }
            | Descriptor::Cancel { call }
            | Descriptor::Head { call, .. }
            | Descriptor::End { call, .. }
            | Descriptor::Grant { call, .. } => Some(*call),
            Descriptor::Release(_) => None,
        }
    }

    /// The message that it names; nothing if its kind has none.
    #[inline]
    pub const fn message(&self) -> Contents {
        match self {
            Descriptor::Request(Request { message, .. })
            | Descriptor::Message { message, .. }
            | Descriptor::End { message, .. } => *message,
            _ => Contents::NONE,
        }
    }

    /// The bytes of a ring's slot (D4).
    pub fn to_bytes(&self) -> [u8; DESCRIPTOR_BYTES] {
        let bare = |call: &CallNumber| Words::new(self.kind(), *call);
        let words = match self {
            Descriptor::Request(request) => request_words(request),
            Descriptor::Message { call, message } => bare(call).message(*message),
            Descriptor::Close { call } | Descriptor::Cancel { call } => bare(call),
            Descriptor::Head { call, metadata } => bare(call).metadata(*metadata),
            Descriptor::End { call, status, has_not_run, message, metadata } => bare(call)
                .flags(if *has_not_run { flag::HAS_NOT_RUN } else { 0 })
                .message(*message)
                .metadata(*metadata)
                .value(u64::from(*status)),
            Descriptor::Grant { call, bytes } => bare(call).value(*bytes),
            Descriptor::Release(released) => release_words(released),
        };
        words.to_bytes()
    }
}

fn request_words(request: &Request) -> Words {
    let set = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = set(request.is_stream, flag::STREAM)
        | set(request.is_idempotent, flag::IDEMPOTENT)
        | set(request.waits_for_ready, flag::WAITS_FOR_READY);
    let mut words = Words::new(Kind::Request, request.call)
        .flags(flags)
        .message(request.message)
        .metadata(request.metadata)
        .value(request.time_left_us);
    words.put(at::METHOD, request.method.into());
    words.put(at::PARTNER, request.partner.into());
    words.put(at::BINDING, request.binding.into());
    words
}

fn release_words(released: &Released) -> Words {
    let mut words = Words([0; DESCRIPTOR_BYTES / 8]).flags(released.count);
    words.put(at::KIND, Kind::Release as u64);
    for (index, token) in released.tokens().iter().enumerate() {
        words.put(at::TOKENS + 8 * index, *token);
    }
    words
}
