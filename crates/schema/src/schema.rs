//! The schema that holds messages, enums and services.
//!
//! Only `build` creates it, and establishes the invariants in `lib.rs`.

use crate::hash::Hash;
use crate::ids::{EnumId, MessageId, ServiceId};
use crate::model::{Docs, Enum, Field, Message};
use crate::service::Service;

/// Checked messages, enums and services. The crate's documentation lists its invariants.
///
/// Equality includes comments, files and kept descriptors. Compare hashes for layout, or the bytes
/// of [`Schema::encode`] for everything except those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    pub(crate) messages: Vec<Message>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) services: Vec<Service>,
    pub(crate) hash: Hash,
    pub(crate) descriptors: Option<Box<[u8]>>,
}

impl Schema {
    /// The message behind an id of this schema. Panics on an id of a larger schema.
    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.index()]
    }

    /// The enum behind an id of this schema. Panics on an id of a larger schema.
    pub fn enumeration(&self, id: EnumId) -> &Enum {
        &self.enums[id.index()]
    }

    /// The service behind an id of this schema. Panics on an id of a larger schema.
    pub fn service(&self, id: ServiceId) -> &Service {
        &self.services[id.index()]
    }

    /// All messages, sorted by full name.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = (MessageId, &Message)> {
        self.messages.iter().enumerate().map(|(at, message)| (MessageId::new(at), message))
    }

    /// All enums, sorted by full name.
    pub fn enums(&self) -> impl ExactSizeIterator<Item = (EnumId, &Enum)> {
        self.enums.iter().enumerate().map(|(at, item)| (EnumId::new(at), item))
    }

    /// All services, sorted by full name.
    pub fn services(&self) -> impl ExactSizeIterator<Item = (ServiceId, &Service)> {
        self.services.iter().enumerate().map(|(at, service)| (ServiceId::new(at), service))
    }

    /// The message with a full name such as `package.Outer.Inner`, without a leading dot.
    pub fn message_by_name(&self, name: &str) -> Option<(MessageId, &Message)> {
        let at = self.messages.binary_search_by(|message| message.name.full().cmp(name)).ok()?;
        Some((MessageId::new(at), &self.messages[at]))
    }

    /// The enum with a full name, without a leading dot.
    pub fn enum_by_name(&self, name: &str) -> Option<(EnumId, &Enum)> {
        let at = self.enums.binary_search_by(|item| item.name.full().cmp(name)).ok()?;
        Some((EnumId::new(at), &self.enums[at]))
    }

    /// The service with a full name such as `package.Greeter`, without a leading dot.
    pub fn service_by_name(&self, name: &str) -> Option<(ServiceId, &Service)> {
        let at = self.services.binary_search_by(|service| service.name.full().cmp(name)).ok()?;
        Some((ServiceId::new(at), &self.services[at]))
    }

    /// The hash over all services and messages.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Whether a value of `field` in `message` can contain another `message`, at any depth. If so,
    /// a layout needs a pointer.
    pub fn is_recursive(&self, message: MessageId, field: &Field) -> bool {
        let cycle = self.message(message).cycle;
        cycle.is_some() && field.kind.message().is_some_and(|to| self.message(to).cycle == cycle)
    }

    /// The encoded `FileDescriptorSet` that the schema was made from, if its
    /// [`Options`](crate::Options) asked to keep it.
    pub fn descriptors(&self) -> Option<&[u8]> {
        self.descriptors.as_deref()
    }

    /// The schema without comments, names of files and kept descriptors, as in the compact form.
    pub fn without_sources(mut self) -> Schema {
        self.descriptors = None;
        for message in &mut self.messages {
            message.docs = Docs::default();
            message.fields.iter_mut().for_each(|field| field.comment = Box::default());
            message.oneofs.iter_mut().for_each(|oneof| oneof.comment = Box::default());
        }
        for item in &mut self.enums {
            item.docs = Docs::default();
            item.values.iter_mut().for_each(|value| value.comment = Box::default());
        }
        for service in &mut self.services {
            service.docs = Docs::default();
            service.methods.iter_mut().for_each(|method| method.comment = Box::default());
        }
        self
    }
}
