//! The first message in each direction: the sender's versions and identity (C4).

use crate::Malformed;
use crate::fields::{Reader, Write};
use crate::text::Text;
use crate::version::{Version, VersionRange};

/// The first bytes of a hello's body.
pub const MAGIC: [u8; 4] = *b"PTSC";
/// The most bytes of a process's name.
pub const NAME_BYTES_MAX: usize = 64;

/// What a process can do. Unassigned bits are kept, and have no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u32);

impl Capabilities {
    /// The process opens sessions.
    pub const CLIENT: Capabilities = Capabilities(1);
    /// The process accepts sessions.
    pub const SERVER: Capabilities = Capabilities(2);
    /// The process understands the local part of connects and of their replies (C17).
    pub const LOCAL: Capabilities = Capabilities(4);
    /// The process understands data addresses of TCP (C7).
    pub const TCP: Capabilities = Capabilities(8);
    /// The process understands data addresses of fabrics (C7).
    pub const FABRIC: Capabilities = Capabilities(16);
    /// The process has the messages of groups: it is a router, or can attach to one or join one
    /// (RT33 to RT37).
    pub const GROUPS: Capabilities = Capabilities(32);

    /// The capabilities whose bits are set.
    pub const fn from_bits(bits: u32) -> Capabilities {
        Capabilities(bits)
    }

    /// The bits as on the wire.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The capabilities in either set.
    pub const fn with(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 | other.0)
    }

    /// Whether all of `other` is among them.
    pub const fn contains(self, other: Capabilities) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Where a process runs. Two processes that name the same place share a kernel and its network
/// namespace, and so may reach each other by local names (C17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The random number that the kernel chose when it started.
    pub boot: [u8; 16],
    /// The kernel's number of the network namespace.
    pub namespace: u64,
}

impl Place {
    /// The value that a process sends if it does not know where it runs.
    const UNKNOWN: Place = Place { boot: [0; 16], namespace: 0 };

    /// A hello of an earlier version ends before this field.
    fn read(reader: &mut Reader<'_>) -> Option<Place> {
        let place = Place { boot: reader.array().ok()?, namespace: reader.u64().ok()? };
        (place != Place::UNKNOWN).then_some(place)
    }
}

/// A process's introduction (C4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The versions that it supports.
    pub versions: VersionRange,
    /// A random number, chosen once per start of the process. Another number means another process.
    pub incarnation: u64,
    /// Data endpoints that it offers, numbered from 0.
    pub endpoints: u16,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Its name, only for messages to people.
    pub name: Text<NAME_BYTES_MAX>,
    /// Where it runs; not all zeros. `None` if it does not know, or its version does not say.
    pub place: Option<Place>,
}

impl Hello {
    /// Whether the process that sent this is another one than the one that sent `previous`. If so,
    /// every session with the earlier process is dead, whatever its packets still seem to say (C6).
    pub fn ends_sessions_of(&self, previous: &Hello) -> bool {
        self.incarnation != previous.incarnation
    }

    /// Whether both processes run in one place and understand local names (C17).
    pub(crate) fn is_beside(&self, other: &Hello) -> bool {
        let local = |hello: &Hello| hello.capabilities.contains(Capabilities::LOCAL);
        self.place.is_some() && self.place == other.place && local(self) && local(other)
    }

    /// The versions that a hello's body offers. Readable whatever the peer's version (C4).
    ///
    /// # Errors
    /// [`Malformed::Magic`] if the peer does not use this protocol at all.
    pub fn versions_of(body: &[u8]) -> Result<VersionRange, Malformed> {
        read_versions(&mut Reader::new(body))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.put_u16(self.versions.oldest.to_bits());
        out.put_u16(self.versions.newest.to_bits());
        out.put_u64(self.incarnation);
        out.put_u16(self.endpoints);
        out.put_u32(self.capabilities.to_bits());
        out.put_text(&self.name);
        let place = self.place.unwrap_or(Place::UNKNOWN);
        out.extend_from_slice(&place.boot);
        out.put_u64(place.namespace);
    }

    /// Bytes after the last known field belong to a later minor version and are ignored.
    pub(crate) fn read(body: &[u8]) -> Result<Hello, Malformed> {
        let mut reader = Reader::new(body);
        Ok(Hello {
            versions: read_versions(&mut reader)?,
            incarnation: reader.u64()?,
            endpoints: reader.u16()?,
            capabilities: Capabilities::from_bits(reader.u32()?),
            name: reader.text("name")?,
            place: Place::read(&mut reader),
        })
    }
}

fn read_versions(reader: &mut Reader<'_>) -> Result<VersionRange, Malformed> {
    // A body too short for the magic is treated as a stranger's, as it is when it arrives byte by
    // byte.
    if reader.array() != Ok(MAGIC) {
        return Err(Malformed::Magic);
    }
    let oldest = Version::from_bits(reader.u16()?);
    let newest = Version::from_bits(reader.u16()?);
    if oldest > newest {
        return Err(Malformed::Value("versions"));
    }
    Ok(VersionRange { oldest, newest })
}
