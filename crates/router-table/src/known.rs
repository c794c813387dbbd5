//! Schemas of services, as workers have them (R2, R3).

use std::sync::Arc;

use petasos_schema::{Compatibility, Limits, Method, Schema, Service, ServiceId};

use crate::answers::Answer;

/// The schema of a service, as a worker has it.
#[derive(Clone, Debug)]
pub(crate) struct KnownSchema {
    /// Services of one module share both.
    schema: Arc<Schema>,
    pub(crate) compact: Arc<[u8]>,
    id: ServiceId,
}

impl KnownSchema {
    pub(crate) fn service(&self) -> &Service {
        self.schema.service(self.id)
    }

    /// Whether this is what a worker has answered.
    pub(crate) fn is(&self, answer: &Answer) -> bool {
        let service = self.service();
        let has_same = answer.hash == service.hash().to_bytes() && answer.schema == self.compact;
        has_same && usize::from(answer.methods) == service.methods().len()
    }

    /// R3: whether a caller with this schema can call the worker, all methods of it.
    ///
    /// # Errors
    /// The first thing that it would not understand.
    pub(crate) fn compare(
        &self,
        reader: &mut Reader,
        name: &str,
        answer: &Answer,
    ) -> Result<(), String> {
        if self.is(answer) {
            // Most have the very same bytes, which need not be read again.
            return Ok(());
        }
        let there = reader.read(name, answer)?;
        let compatibility = self.schema.compare_services(self.id, &there.schema, there.id);
        if let Compatibility::Incompatible(mismatch) = compatibility {
            return Err(format!("{mismatch} (here: the group, there: the worker)"));
        }
        let is_lacking = |method: &&Method| there.service().method_by_name(method.name()).is_none();
        match self.service().methods().iter().find(is_lacking) {
            Some(method) => Err(format!("the worker lacks method `{}`", method.name())),
            None => Ok(()),
        }
    }
}

/// Reads schemas, each once.
#[derive(Default)]
pub(crate) struct Reader {
    /// In the order of the answers, without repetition.
    known: Vec<(Arc<[u8]>, Arc<Schema>)>,
}

impl Reader {
    /// Reads the schema of an answer, and checks what the worker says of it.
    pub(crate) fn read(&mut self, name: &str, answer: &Answer) -> Result<KnownSchema, String> {
        let schema = self.schema(&answer.schema)?;
        let (id, service) =
            schema.service_by_name(name).ok_or("the worker's schema does not have it")?;
        let is_it = service.hash().to_bytes() == answer.hash;
        if !is_it || service.methods().len() != usize::from(answer.methods) {
            return Err("the worker's schema is not the one that it names".to_owned());
        }
        Ok(KnownSchema { id, compact: answer.schema.clone(), schema })
    }

    fn schema(&mut self, compact: &Arc<[u8]>) -> Result<Arc<Schema>, String> {
        let same = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, compact));
        if let Some((_, schema)) = same {
            return Ok(schema.clone());
        }
        let schema = Schema::decode(compact, &Limits::default())
            .map_err(|error| format!("the worker's schema cannot be read: {error}"))?;
        let schema = Arc::new(schema);
        self.known.push((compact.clone(), schema.clone()));
        Ok(schema)
    }
}
