//! The partitions that one loop owns, and what is done to their keys.

use petasos_store::{
    Condition, Item, Key, KeyHash, Partition, Refused, Side, UPDATED_BYTES_MAX, Write, partition_of,
};

use crate::request::{Operation, Request};
use crate::response::{Outcome, Returned};
use crate::status::Status;

/// In place of a number of a partition: another loop's.
const ELSEWHERE: u16 = u16::MAX;

/// Where a key is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought {
    /// Its partition, of the loop's.
    place: u16,
    hash: KeyHash,
}

/// The partitions of a loop.
#[derive(Debug)]
pub(crate) struct Owned {
    partitions: Vec<Partition>,
    /// Where each partition of the table is among those; or [`ELSEWHERE`].
    places: Vec<u16>,
}

impl Owned {
    /// A loop's partitions with their numbers, of so many.
    pub fn new(owned: Vec<(u16, Partition)>, of: u16) -> Owned {
        let mut places = vec![ELSEWHERE; of.into()];
        let mut partitions = Vec::with_capacity(owned.len());
        for (number, partition) in owned {
            places[usize::from(number)] = partitions.len() as u16;
            partitions.push(partition);
        }
        Owned { partitions, places }
    }

    pub fn all(&self) -> &[Partition] {
        &self.partitions
    }

    pub fn end_batch(&mut self) {
        self.partitions.iter_mut().for_each(Partition::end_batch);
    }

    /// Where a key's partition is, if it is this loop's.
    #[inline]
    fn place_of(&self, key: &[u8]) -> Option<usize> {
        // One partition needs no hash.
        let number = if let [_] = self.places[..] { 0 } else { self.number_of(key) };
        let place = self.places[usize::from(number)];
        (place != ELSEWHERE).then_some(place.into())
    }

    /// The number of a key's partition.
    pub fn number_of(&self, key: &[u8]) -> u16 {
        partition_of(key, self.places.len() as u16)
    }

    /// Where a key is looked for, if it is this loop's, and as long as keys are.
    #[inline]
    pub fn seek(&self, key: &[u8]) -> Option<Sought> {
        let place = self.place_of(key)?;
        let hash = self.partitions[place].key(key).ok()?.hash();
        Some(Sought { place: place as u16, hash })
    }

    /// Asks for its bucket.
    #[inline]
    pub fn fetch_bucket(&self, sought: Sought) {
        self.partitions[usize::from(sought.place)].prefetch_bucket(sought.hash);
    }

    /// Asks for its entry.
    #[inline]
    pub fn fetch_entry(&self, sought: Sought) {
        self.partitions[usize::from(sought.place)].prefetch_entry(sought.hash);
    }

    /// Does what a request asks, whose key is looked for there. Nothing, if another loop owns it.
    #[inline]
    pub fn perform(
        &mut self,
        now_ms: u64,
        request: &Request<'_>,
        sought: Option<Sought>,
    ) -> Option<Outcome<'_>> {
        let Sought { place, hash } = match sought {
            Some(sought) => sought,
            None => self.seek(request.key)?,
        };
        let partition = &mut self.partitions[usize::from(place)];
        let key = partition.hashed_key(request.key, hash).expect("a request has an allowed one");
        Some(perform(partition, now_ms, &key, request))
    }
}

fn perform<'t>(
    partition: &'t mut Partition,
    now_ms: u64,
    key: &Key<'_>,
    request: &Request<'_>,
) -> Outcome<'t> {
    let expiry_ms = (request.expiry_ms != 0).then(|| now_ms.saturating_add(request.expiry_ms));
    let written = match request.operation {
        Operation::Get => return found(partition.get(now_ms, key), request),
        Operation::Delete => partition.delete(now_ms, key, Condition::Always, None).map(|()| 0),
        Operation::Append => partition.extend(now_ms, key, Side::Append, request.value, None),
        Operation::Prepend => partition.extend(now_ms, key, Side::Prepend, request.value, None),
        Operation::AddNumber => return add_number(partition, now_ms, key, request),
        Operation::Touch => partition.touch(now_ms, key, expiry_ms, None).map(|()| 0),
        Operation::GetAndTouch => match partition.touch(now_ms, key, expiry_ms, None) {
            Ok(()) => return found(partition.get(now_ms, key), request),
            Err(refused) => Err(refused),
        },
        Operation::Set => set(partition, now_ms, key, request, Condition::Always),
        Operation::Add => set(partition, now_ms, key, request, Condition::Absent),
        Operation::Replace => set(partition, now_ms, key, request, Condition::Present),
        Operation::CompareAndSet => {
            set(partition, now_ms, key, request, Condition::Stamp(request.operand))
        }
    };
    match written {
        Ok(stamp) => Outcome { stamp, ..Outcome::of(Status::Done) },
        Err(refused) => Outcome::of(status_of(refused)),
    }
}

fn set(
    partition: &mut Partition,
    now_ms: u64,
    key: &Key<'_>,
    request: &Request<'_>,
    condition: Condition,
) -> Result<u64, Refused> {
    let expiry_ms = (request.expiry_ms != 0).then(|| now_ms.saturating_add(request.expiry_ms));
    let Request { value, flags, .. } = *request;
    partition.set(now_ms, key, &Write { value, flags, expiry_ms, condition, owner: None })
}

fn found<'t>(item: Option<Item<'t>>, request: &Request<'_>) -> Outcome<'t> {
    let Some(item) = item else { return Outcome::of(Status::Absent) };
    let value = match request.without_value {
        true => Returned::Flags(item.flags()),
        false => Returned::Item(item),
    };
    Outcome { status: Status::Done, stamp: item.stamp(), value }
}

/// K9: the value is a number of 8 bytes, and the sum must be one as well.
fn add_number<'t>(
    partition: &mut Partition,
    now_ms: u64,
    key: &Key<'_>,
    request: &Request<'_>,
) -> Outcome<'t> {
    let mut sum = 0;
    let add = |bytes: &mut [u8; UPDATED_BYTES_MAX], len: usize| {
        let number = u64::from_le_bytes(bytes.get(..len)?.try_into().ok()?);
        sum = number.checked_add_signed(request.operand as i64)?;
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        Some(8)
    };
    match partition.update(now_ms, key, None, add) {
        Ok(stamp) if request.without_value => Outcome { stamp, ..Outcome::of(Status::Done) },
        Ok(stamp) => Outcome { status: Status::Done, stamp, value: Returned::Number(sum) },
        Err(refused) => Outcome::of(status_of(refused)),
    }
}

fn status_of(refused: Refused) -> Status {
    match refused {
        Refused::Absent => Status::Absent,
        Refused::Present => Status::Present,
        Refused::Full => Status::Full,
        Refused::TooLong => Status::TooLong,
        Refused::Locked => Status::Locked,
        // No other reason is left, and updates are of numbers alone.
        _ => Status::NoNumber,
    }
}
