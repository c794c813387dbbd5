//! How an application introduces itself, and the service's answer (D1).

use core::fmt;

use petasos_abi::{ABI_VERSION, ABI_VERSION_OLDEST, EXTENT_BYTES_MIN, HEAP_BYTES_MAX};

use crate::frame::{Malformed, Reader};

/// From this version on, an application is told of a successor (D14).
pub const HANDOVER_VERSION: u16 = 2;
/// From this version on, an application tells whether it moves from a predecessor (D14).
pub const MOVING_VERSION: u16 = 4;
/// The only flag.
const MOVES: u8 = 1;
/// The first bytes of a hello.
pub const MAGIC: [u8; 4] = *b"PTAT";
/// The most bytes of a name.
pub const NAME_BYTES_MAX: usize = 64;
/// The most bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 64;
/// The most lanes of an application.
pub const LANES_MAX: u16 = 256;

/// Versions of `docs/spec/abi.md` that a side speaks: all from `oldest` to `newest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// At most `newest`.
    pub oldest: u16,
    /// At least `oldest`.
    pub newest: u16,
}

impl Versions {
    /// Those that this code speaks.
    pub const SUPPORTED: Versions = Versions { oldest: ABI_VERSION_OLDEST, newest: ABI_VERSION };

    /// The newest version that both speak.
    pub fn agree(self, other: Versions) -> Option<u16> {
        let version = self.newest.min(other.newest);
        (version >= self.oldest && version >= other.oldest).then_some(version)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Versions, Malformed> {
        let versions = Versions { oldest: reader.u16()?, newest: reader.u16()? };
        let is_range = versions.oldest >= 1 && versions.oldest <= versions.newest;
        if is_range { Ok(versions) } else { Err(Malformed::Value("versions")) }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.oldest, self.newest)
    }
}

/// An application's name: 1 to 64 ASCII letters, digits and `.`, `_`, `-`, `/`. So it can be put
/// into logs, metrics and terminals as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

/// What cannot be said in a hello. The caller is at fault; a retry fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// See [`Name`].
    #[error("a name has 1 to 64 letters, digits, and characters of `._-/`")]
    Name,
    /// See [`Token`].
    #[error("a token has at most 64 bytes")]
    Token,
    /// See [`LANES_MAX`].
    #[error("an application has 1 to {LANES_MAX} lanes, not {0}")]
    Lanes(u16),
}

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// [`HelloError::Name`].
    pub fn new(name: &str) -> Result<Name, HelloError> {
        Name::is_valid(name).then(|| Name(name.to_owned())).ok_or(HelloError::Name)
    }

    /// Whether an application can have this name.
    pub fn is_valid(name: &str) -> bool {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// At most 64 bytes that an application shows if the service asks for them. Without bytes there is
/// no token. It is not printed.
#[derive(Clone, Default)]
pub struct Token(Vec<u8>);

impl Token {
    /// Checks the length.
    ///
    /// # Errors
    /// [`HelloError::Token`].
    pub fn new(token: &[u8]) -> Result<Token, HelloError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(HelloError::Token);
        }
        Ok(Token(token.to_vec()))
    }

    /// Whether both are the same. How long this takes depends on their lengths only.
    pub fn matches(&self, other: &Token) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let differs = pairs.fold(0, |differs, (ours, theirs)| differs | (ours ^ theirs));
        self.0.len() == other.0.len() && core::hint::black_box(differs) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} bytes)", self.0.len())
    }
}

/// What an application says first.
#[derive(Clone, Debug)]
pub struct Hello {
    /// What it speaks.
    pub versions: Versions,
    /// Lanes that it wants: 1 to [`LANES_MAX`].
    pub lanes: u16,
    /// Its name, which it has chosen itself.
    pub name: Name,
    /// What it shows the service.
    pub token: Token,
    /// D14: it is attached to the service's predecessor, which has told it to come. Not sent to a
    /// service before [`MOVING_VERSION`].
    pub is_moving: bool,
}

impl Hello {
    /// A hello of this code's versions, without a token.
    ///
    /// # Errors
    /// See [`HelloError`].
    pub fn new(name: &str, lanes: u16) -> Result<Hello, HelloError> {
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err(HelloError::Lanes(lanes));
        }
        let (versions, token) = (Versions::SUPPORTED, Token::default());
        Ok(Hello { versions, lanes, name: Name::new(name)?, token, is_moving: false })
    }

    /// Whether the application would say that it moves.
    pub fn tells_moving(&self) -> bool {
        self.versions.newest >= MOVING_VERSION
    }

    /// Whether the application moves, as far as it can say so.
    pub fn may_be_moving(&self) -> bool {
        self.is_moving || !self.tells_moving()
    }

    /// The versions that a hello's body offers, which any version can read.
    ///
    /// # Errors
    /// If it is no hello, or has no such range.
    pub(crate) fn versions_of(body: &[u8]) -> Result<Versions, Malformed> {
        read_versions(&mut Reader::new(body))
    }

    pub(crate) fn read(body: &[u8]) -> Result<Hello, Malformed> {
        let mut reader = Reader::new(body);
        let versions = read_versions(&mut reader)?;
        let lanes = reader.u16()?;
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err(Malformed::Value("lanes"));
        }
        let [name_bytes, token_bytes] = reader.array()?;
        let name = core::str::from_utf8(reader.bytes(name_bytes)?).unwrap_or_default();
        let name = Name::new(name).map_err(|_| Malformed::Value("name"))?;
        let token = Token::new(reader.bytes(token_bytes)?);
        let token = token.map_err(|_| Malformed::Value("token"))?;
        let flags = if versions.newest >= MOVING_VERSION { reader.array::<1>()?[0] } else { 0 };
        // What a later version says is not known here.
        if versions.newest <= ABI_VERSION {
            reader.finish()?;
            if flags & !MOVES != 0 {
                return Err(Malformed::Value("flags"));
            }
        }
        Ok(Hello { versions, lanes, name, token, is_moving: flags & MOVES != 0 })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let (name, token) = (self.name.0.as_bytes(), &self.token.0);
        out.extend_from_slice(&MAGIC);
        for number in [self.versions.oldest, self.versions.newest, self.lanes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&[name.len() as u8, token.len() as u8]);
        out.extend_from_slice(name);
        out.extend_from_slice(token);
        if self.tells_moving() {
            out.push(if self.is_moving { MOVES } else { 0 });
        }
    }
}

fn read_versions(reader: &mut Reader<'_>) -> Result<Versions, Malformed> {
    if reader.array() != Ok(MAGIC) {
        return Err(Malformed::Magic);
    }
    Versions::read(reader)
}

/// What an application may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls of a lane that each side may have begun and not ended: at least 1.
    pub calls_max: u32,
    /// Bytes of a stream's messages that each side may send before the first grant (D8).
    pub grant_bytes: u64,
    /// The send heap.
    pub send: HeapLimits,
    /// The receive heap.
    pub receive: HeapLimits,
}

/// How large a heap may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapLimits {
    /// Its range: a multiple of 64 KiB, at least that, and at most 2^40.
    pub range_bytes: u64,
    /// Bytes of all extents that it ever has, also those that were given up: at most 2^40.
    pub quota_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        let heap = HeapLimits { range_bytes: 1 << 34, quota_bytes: 1 << 30 };
        Limits { calls_max: 4096, grant_bytes: 1 << 20, send: heap, receive: heap }
    }
}

impl HeapLimits {
    /// Whether the numbers can be.
    pub fn is_possible(self) -> bool {
        let range = self.range_bytes;
        (EXTENT_BYTES_MIN..=HEAP_BYTES_MAX).contains(&range)
            && range.is_multiple_of(EXTENT_BYTES_MIN)
            && self.quota_bytes <= HEAP_BYTES_MAX
    }
}

/// The service takes the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that both use.
    pub version: u16,
    /// How many lanes follow: at least 1, and at most as many as were wanted.
    pub lanes: u16,
    /// What the application may have.
    pub limits: Limits,
}

impl Welcome {
    pub(crate) fn read(body: &[u8]) -> Result<Welcome, Malformed> {
        let mut reader = Reader::new(body);
        let (version, lanes) = (reader.u16()?, reader.u16()?);
        let (calls_max, grant_bytes) = (reader.u32()?, reader.u64()?);
        let ranges = [reader.u64()?, reader.u64()?];
        let quotas = [reader.u64()?, reader.u64()?];
        reader.finish()?;
        let heap = |n| HeapLimits { range_bytes: ranges[n], quota_bytes: quotas[n] };
        let [send, receive] = [heap(0), heap(1)];
        let checks = [
            (version >= 1, "version"),
            ((1..=LANES_MAX).contains(&lanes), "lanes"),
            (calls_max >= 1, "calls"),
            (grant_bytes >= 1, "bytes before the first grant"),
            (send.is_possible() && receive.is_possible(), "heaps"),
        ];
        match checks.iter().find(|(is_right, _)| !is_right) {
            Some((_, field)) => Err(Malformed::Value(field)),
            None => {
                let limits = Limits { calls_max, grant_bytes, send, receive };
                Ok(Welcome { version, lanes, limits })
            }
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Limits { calls_max, grant_bytes, send, receive } = self.limits;
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.lanes.to_le_bytes());
        out.extend_from_slice(&calls_max.to_le_bytes());
        let ranges = [grant_bytes, send.range_bytes, receive.range_bytes];
        for number in ranges.into_iter().chain([send.quota_bytes, receive.quota_bytes]) {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}
