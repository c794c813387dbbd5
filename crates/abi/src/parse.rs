//! Descriptors from bytes that another process wrote (D4 to D10).

use crate::descriptor::{
    CallNumber, Contents, DESCRIPTOR_BYTES, Descriptor, Kind, Released, Request, Side, at, flag,
};

const ZEROS: [u8; DESCRIPTOR_BYTES] = [0; DESCRIPTOR_BYTES];
/// The greatest canonical status code.
const STATUS_MAX: u64 = 16;

/// What the other side wrote, copied out of shared memory and not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Untrusted<T>(T);

/// A record that is no descriptor that its sender may send (D10): a bug or an attack. Nothing of it
/// was used. A retry is of no use: the sender is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It has another length.
    #[error("a record of {0} bytes, where a descriptor has {DESCRIPTOR_BYTES}")]
    Length(usize),
    /// Its kind is unknown.
    #[error("a descriptor of unknown kind {0}")]
    Kind(u8),
    /// The sender sends no such descriptors for a call that this side has begun.
    #[error("a {0:?} from the wrong side of a call")]
    Side(Kind),
    /// A bit or byte that its kind does not have is set.
    #[error("a {0:?} in which something is set that has to be zero")]
    NotZero(Kind),
    /// A number that cannot be: a status above 16, more tokens than fit, or a place without bytes.
    #[error("a {0:?} with a number out of range")]
    Range(Kind),
}

impl<'a> Untrusted<&'a [u8]> {
    /// A record that was copied out of a ring. The copy must be private: it is read more than once.
    pub const fn new(record: &'a [u8]) -> Untrusted<&'a [u8]> {
        Untrusted(record)
    }

    /// The descriptor that the record is, if `from` may send it.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub fn check(self, from: Side) -> Result<Descriptor, Refusal> {
        let mut descriptor = Descriptor::default();
        self.check_into(from, &mut descriptor)?;
        Ok(descriptor)
    }

    /// The same, written to where it is read: a descriptor is long, and to move it right after it
    /// was written costs more than to check it.
    ///
    /// # Errors
    /// See [`Refusal`]. Then there may be anything in `to`.
    #[inline]
    pub fn check_into(self, from: Side, to: &mut Descriptor) -> Result<(), Refusal> {
        let bytes: &[u8; DESCRIPTOR_BYTES] =
            self.0.try_into().map_err(|_| Refusal::Length(self.0.len()))?;
        let record = Record { bytes, kind: kind_of(bytes[at::KIND])? };
        record.write(to)?;
        if record.has_unused_bits() {
            return Err(Refusal::NotZero(record.kind));
        }
        if !may_send(to, from) {
            return Err(Refusal::Side(record.kind));
        }
        Ok(())
    }
}

/// The bits of each word that a kind has (D4). A status is judged as a number.
mod used {
    use super::{DESCRIPTOR_BYTES, at, flag};

    type Words = [u64; DESCRIPTOR_BYTES / 8];

    const KIND: u64 = 0xff;
    const ALL: u64 = u64::MAX;
    const LOW: u64 = u32::MAX as u64;
    const REQUEST_FLAGS: u64 =
        ((flag::STREAM | flag::IDEMPOTENT | flag::WAITS_FOR_READY) as u64) << (8 * at::FLAGS);
    const END_FLAGS: u64 = (flag::HAS_NOT_RUN as u64) << (8 * at::FLAGS);
    /// Method and partner.
    const TO: u64 = ALL << (8 * at::METHOD);

    pub const REQUEST: Words = [KIND | REQUEST_FLAGS | TO, ALL, ALL, ALL, ALL, ALL, 0xffff];
    pub const MESSAGE: Words = [KIND, ALL, ALL, LOW, 0, 0, 0];
    pub const BARE: Words = [KIND, ALL, 0, 0, 0, 0, 0];
    pub const HEAD: Words = [KIND, ALL, 0, !LOW, ALL, 0, 0];
    pub const END: Words = [KIND | END_FLAGS, ALL, ALL, ALL, ALL, ALL, 0];
    pub const GRANT: Words = [KIND, ALL, 0, 0, 0, ALL, 0];

    const _: () = assert!(at::METHOD == 2 && at::PARTNER == 4 && at::CALL == 8);
    const _: () = assert!(at::MESSAGE == 16 && at::MESSAGE_BYTES == 24 && at::METADATA_BYTES == 28);
    const _: () = assert!(at::METADATA == 32 && at::VALUE == 40 && at::BINDING == 48);
    const _: () = assert!(at::ZERO == 50);
}

/// D5, D7: who may send what about a call that was begun by either.
fn may_send(descriptor: &Descriptor, from: Side) -> bool {
    let Some(call) = descriptor.call() else { return true };
    let is_caller = call.begun_by() == from;
    match descriptor.kind() {
        Kind::Request | Kind::Close | Kind::Cancel => is_caller,
        Kind::Head | Kind::End => !is_caller,
        Kind::Message | Kind::Grant | Kind::Release => true,
    }
}

fn kind_of(byte: u8) -> Result<Kind, Refusal> {
    Ok(match byte {
        1 => Kind::Request,
        2 => Kind::Message,
        3 => Kind::Close,
        4 => Kind::Cancel,
        5 => Kind::Head,
        6 => Kind::End,
        7 => Kind::Grant,
        8 => Kind::Release,
        unknown => return Err(Refusal::Kind(unknown)),
    })
}

struct Record<'a> {
    bytes: &'a [u8; DESCRIPTOR_BYTES],
    kind: Kind,
}

impl Record<'_> {
    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.bytes[at..].first_chunk().expect("fields lie within a descriptor")
    }

    fn flags(&self) -> u8 {
        self.bytes[at::FLAGS]
    }

    /// D4: a bit is set that the kind does not have.
    fn has_unused_bits(&self) -> bool {
        let used = match self.kind {
            Kind::Release => return self.has_bits_behind_tokens(),
            Kind::Request => &used::REQUEST,
            Kind::Message => &used::MESSAGE,
            Kind::Close | Kind::Cancel => &used::BARE,
            Kind::Head => &used::HEAD,
            Kind::End => &used::END,
            Kind::Grant => &used::GRANT,
        };
        let unused = |word: usize| u64::from_le_bytes(self.get(8 * word)) & !used[word];
        (unused(0) | unused(1) | unused(2) | unused(3) | unused(4) | unused(5) | unused(6)) != 0
    }

    /// Of a release: beside its kind and count, and behind its tokens.
    fn has_bits_behind_tokens(&self) -> bool {
        let behind = at::TOKENS + 8 * usize::from(self.flags());
        let head = u64::from_le_bytes(self.get(at::KIND));
        head >> (8 * at::METHOD) != 0 || self.bytes[behind..] != ZEROS[behind..]
    }

    fn call(&self) -> CallNumber {
        CallNumber::from_bits(u64::from_le_bytes(self.get(at::CALL)))
    }

    fn value(&self) -> u64 {
        u64::from_le_bytes(self.get(at::VALUE))
    }

    /// D6: a place, or nothing.
    fn contents(&self, at: usize, bytes_at: usize) -> Result<Contents, Refusal> {
        let offset = u64::from_le_bytes(self.get(at));
        let bytes = u32::from_le_bytes(self.get(bytes_at));
        if bytes == 0 && offset != 0 {
            return Err(Refusal::Range(self.kind));
        }
        Ok(Contents { offset, bytes })
    }

    fn message(&self) -> Result<Contents, Refusal> {
        self.contents(at::MESSAGE, at::MESSAGE_BYTES)
    }

    fn metadata(&self) -> Result<Contents, Refusal> {
        self.contents(at::METADATA, at::METADATA_BYTES)
    }

    fn write(&self, to: &mut Descriptor) -> Result<(), Refusal> {
        let call = self.call();
        match self.kind {
            Kind::Request => *to = Descriptor::Request(self.request()?),
            Kind::Message => {
                let message = self.message()?;
                if message.is_none() {
                    return Err(Refusal::Range(self.kind));
                }
                *to = Descriptor::Message { call, message };
            }
            Kind::Close => *to = Descriptor::Close { call },
            Kind::Cancel => *to = Descriptor::Cancel { call },
            Kind::Head => *to = Descriptor::Head { call, metadata: self.metadata()? },
            Kind::End => *to = self.end()?,
            Kind::Grant => *to = Descriptor::Grant { call, bytes: self.value() },
            Kind::Release => *to = Descriptor::Release(self.released()?),
        }
        Ok(())
    }

    #[inline]
    fn request(&self) -> Result<Request, Refusal> {
        let flags = self.flags();
        let message = self.message()?;
        let is_stream = flags & flag::STREAM != 0;
        // A unary call has its message here, a stream none.
        if is_stream != message.is_none() {
            return Err(Refusal::Range(self.kind));
        }
        Ok(Request {
            call: self.call(),
            binding: u16::from_le_bytes(self.get(at::BINDING)),
            method: u16::from_le_bytes(self.get(at::METHOD)),
            partner: u32::from_le_bytes(self.get(at::PARTNER)),
            is_stream,
            is_idempotent: flags & flag::IDEMPOTENT != 0,
            waits_for_ready: flags & flag::WAITS_FOR_READY != 0,
            time_left_us: self.value(),
            message,
            metadata: self.metadata()?,
        })
    }

    #[inline]
    fn end(&self) -> Result<Descriptor, Refusal> {
        let (value, message) = (self.value(), self.message()?);
        // A message goes with success, and what has not run has no success.
        let has_not_run = self.flags() & flag::HAS_NOT_RUN != 0;
        let is_ok = value == 0;
        if value > STATUS_MAX || !is_ok && !message.is_none() || is_ok && has_not_run {
            return Err(Refusal::Range(self.kind));
        }
        let status = value as u8;
        let (call, metadata) = (self.call(), self.metadata()?);
        Ok(Descriptor::End { call, status, has_not_run, message, metadata })
    }

    fn released(&self) -> Result<Released, Refusal> {
        let mut released = Released::new();
        let count = usize::from(self.flags());
        if count == 0 {
            return Err(Refusal::Range(self.kind));
        }
        for index in 0..count {
            let at = at::TOKENS + 8 * index;
            let token = self.bytes.get(at..at + 8).ok_or(Refusal::Range(self.kind))?;
            let token = u64::from_le_bytes(token.try_into().expect("it has 8 bytes"));
            released.push(token).map_err(|_| Refusal::Range(self.kind))?;
        }
        Ok(released)
    }
}

#[cfg(test)]
mod tests;
