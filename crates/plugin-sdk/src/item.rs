//! Items of calls, as engines see them.

use std::borrow::Cow;

use petasos_plugin_abi::{
    Code, Fact, Failure, IS_FROM_CALLER, IS_IDEMPOTENT, IS_INBOUND, IS_SEALED, IS_STREAM, ItemKind,
};

use crate::declare::Field;
use crate::service::Deciding;
use crate::value::Value;

/// The number of a method, in one datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodId(pub u32);

/// What an engine decides about: a request, a message, the end of a call.
pub struct Item<'a>(&'a mut dyn Deciding);

impl<'a> Item<'a> {
    pub(crate) fn new(service: &'a mut dyn Deciding) -> Item<'a> {
        Item(service)
    }

    /// Which kind it is of. Of a kind that later versions of the service add, it is a message.
    pub fn kind(&self) -> ItemKind {
        ItemKind::from_number(self.small(Fact::Kind)).unwrap_or(ItemKind::Message)
    }

    /// The call's number, which no other call of the datapath has while it goes on.
    pub fn call(&self) -> u64 {
        self.0.fact(Fact::Call)
    }

    /// The time of this batch.
    pub fn now_ns(&self) -> u64 {
        self.0.fact(Fact::Now)
    }

    /// When the item came.
    pub fn arrived_ns(&self) -> u64 {
        self.0.fact(Fact::Arrived)
    }

    /// The call's deadline, if it has one.
    pub fn deadline_ns(&self) -> Option<u64> {
        Some(self.0.fact(Fact::Deadline)).filter(|deadline| *deadline != u64::MAX)
    }

    /// The number of the application whose datapath this is.
    pub fn application(&self) -> u32 {
        self.small(Fact::Application)
    }

    /// The number of the other end.
    pub fn peer(&self) -> u32 {
        self.small(Fact::Peer)
    }

    /// The method.
    pub fn method(&self) -> MethodId {
        MethodId(self.small(Fact::Method))
    }

    /// Bytes of its message.
    pub fn bytes(&self) -> u32 {
        self.small(Fact::Bytes)
    }

    /// With what the call ends, if the item is an end.
    pub fn status(&self) -> Option<Code> {
        let is_end = self.kind() == ItemKind::End;
        is_end.then(|| Code::from_number(self.small(Fact::Status)).unwrap_or(Code::Unknown))
    }

    /// How many attempts at the call there were before this one.
    pub fn attempt(&self) -> u32 {
        self.small(Fact::Attempt)
    }

    /// Whether the call is a stream.
    pub fn is_stream(&self) -> bool {
        self.has(IS_STREAM)
    }

    /// Whether the method may be repeated.
    pub fn is_idempotent(&self) -> bool {
        self.has(IS_IDEMPOTENT)
    }

    /// Whether the call's session is sealed.
    pub fn is_sealed(&self) -> bool {
        self.has(IS_SEALED)
    }

    /// Whether it goes from the caller to the callee.
    pub fn is_from_caller(&self) -> bool {
        self.has(IS_FROM_CALLER)
    }

    /// Whether it comes to the application.
    pub fn is_inbound(&self) -> bool {
        self.has(IS_INBOUND)
    }

    /// Who the other end is, if that is proved. A module never knows.
    pub fn identity(&self) -> Option<&str> {
        self.0.identity()
    }

    /// The value of a declared field, if the item has one: it is a message of the caller, in a call
    /// of the field's method, and the field is set.
    pub fn field(&self, field: Field) -> Option<Value<'_>> {
        self.0.field(field.number)
    }

    /// Changes the value of a field that was declared as written.
    ///
    /// # Errors
    /// [`Failure::Invalid`]: it was not, or is of another kind. [`Failure::Absent`]: the item has
    /// no such field.
    pub fn set_field(&mut self, field: Field, value: &Value<'_>) -> Result<(), Failure> {
        // A module's service does not know which kind of number is meant.
        match field.kind {
            Some(kind) if kind == value.kind() => self.0.set_field(field.number, value),
            _ => Err(Failure::Invalid),
        }
    }

    /// The first value of a key of its metadata.
    pub fn metadata(&self, key: &str) -> Option<Cow<'_, [u8]>> {
        self.0.metadata(key)
    }

    /// Replaces the values of a key of its metadata.
    ///
    /// # Errors
    /// [`Failure::Invalid`]: this is no key, or no value of such a key. [`Failure::Full`]: there
    /// are too many.
    pub fn set_metadata(&mut self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.0.set_metadata(key, Some(value))
    }

    /// Removes the values of a key of its metadata, if there are some.
    pub fn remove_metadata(&mut self, key: &str) {
        // A key that cannot be is not there.
        let _ = self.0.set_metadata(key, None);
    }

    /// 64 random bits.
    pub fn random(&mut self) -> u64 {
        self.0.random()
    }

    fn small(&self, fact: Fact) -> u32 {
        // These are passed as 32 bits, or come from such.
        self.0.fact(fact) as u32
    }

    fn has(&self, flag: u32) -> bool {
        self.small(Fact::Flags) & flag != 0
    }
}
