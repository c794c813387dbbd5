//! Assembles checked parts: order, cycles, hashes.

use crate::hashing::{self, CycleTooLarge};
use crate::ids::OneofIndex;
use crate::model::{Cardinality, Enum, Message};
use crate::schema::Schema;
use crate::service::Service;

/// Parts that passed `check`. They are sorted by full name and their ids are valid; the rest has
/// any order.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) messages: Vec<Message>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) services: Vec<Service>,
}

impl Parts {
    pub(crate) fn finish(mut self, cycle_steps_max: usize) -> Result<Schema, CycleTooLarge> {
        self.messages.iter_mut().for_each(sort_message);
        self.enums.iter_mut().for_each(|item| item.values.sort_by_key(|value| value.number));
        for service in &mut self.services {
            service.methods.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let Parts { mut messages, enums, mut services } = self;
        hashing::seal(&mut messages, cycle_steps_max)?;
        services.iter_mut().for_each(|service| hashing::seal_service(service, &messages));
        let hash = hashing::of_schema(&messages, &services);
        Ok(Schema { messages, enums, services, hash, descriptors: None })
    }
}

/// Sorts fields by number, and oneofs by their first field.
fn sort_message(message: &mut Message) {
    message.fields.sort_by_key(|field| field.number);
    let mut order: Vec<Option<usize>> = vec![None; message.oneofs.len()];
    let mut sorted = Vec::with_capacity(message.oneofs.len());
    for field in &mut message.fields {
        let Cardinality::Oneof(index) = &mut field.cardinality else { continue };
        let place = order[index.index()].get_or_insert_with(|| {
            sorted.push(message.oneofs[index.index()].clone());
            sorted.len() - 1
        });
        *index = OneofIndex::new(*place);
    }
    message.oneofs = sorted;
}

impl Default for Schema {
    /// A schema with nothing in it.
    fn default() -> Schema {
        let hash = hashing::of_schema(&[], &[]);
        Schema { messages: vec![], enums: vec![], services: vec![], hash, descriptors: None }
    }
}
