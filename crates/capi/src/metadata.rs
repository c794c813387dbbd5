//! Metadata of messages: keys with values.

use petasos::Metadata;

/// Keys with values, in order; a key may occur more than once. Only one thread at a time may use a
/// handle.
pub struct petasos_metadata(Metadata);

impl From<Metadata> for petasos_metadata {
    fn from(metadata: Metadata) -> petasos_metadata {
        petasos_metadata(metadata)
    }
}

impl petasos_metadata {
    pub(crate) fn get(&self) -> &Metadata {
        &self.0
    }

    pub(crate) fn get_mut(&mut self) -> &mut Metadata {
        &mut self.0
    }
}

/// A copy of the metadata at a pointer; empty if it is null.
///
/// # Safety
/// It is null, or the metadata are valid and not changed meanwhile.
pub(crate) unsafe fn copied(metadata: *const petasos_metadata) -> Metadata {
    // SAFETY: the caller's promise.
    unsafe { metadata.as_ref() }.map_or_else(Metadata::new, |known| known.get().clone())
}
