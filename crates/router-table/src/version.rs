//! One version of the table: a schema for each service, and numbers for its methods.
//!
//! Invariant (RT31): a number that was given once means the same method of the same schema ever
//! after. So a service whose schema changes gets new numbers, and one that goes back to an earlier
//! schema gets those that it had then.

use std::collections::BTreeMap;
use std::sync::Arc;

use petasos_call::{BindRequest, BindResponse, Hash};

use crate::answers::Answer;
use crate::form::Form;
use crate::known::{KnownSchema, Reader};
use crate::names::{NAME_BYTES_MAX, TableService, of_service};

/// Number 0 is bind itself (R1).
const FIRST: u16 = 1;

/// The numbers that were given, ever.
#[derive(Debug)]
pub(crate) struct Numbers {
    next: u16,
    /// First numbers, by service and schema. Services without methods have none.
    given: BTreeMap<(usize, Hash), u16>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { next: FIRST, given: BTreeMap::new() }
    }
}

impl Numbers {
    /// The first number of a service with this schema. `None`: there are not as many left.
    fn first(&mut self, service: usize, hash: Hash, methods: usize) -> Option<u16> {
        if let Some(first) = self.given.get(&(service, hash)) {
            return Some(*first);
        }
        let first = self.next;
        self.next = first.checked_add(u16::try_from(methods).ok()?)?;
        if methods > 0 {
            self.given.insert((service, hash), first);
        }
        Some(first)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Version {
    /// Counts up.
    pub(crate) number: u64,
    /// In the order of the names, as all that follow.
    pub(crate) schemas: Vec<KnownSchema>,
    pub(crate) forms: Vec<Form>,
    pub(crate) services: Arc<[TableService]>,
}

impl Version {
    /// A version with these schemas, in the order of the names.
    ///
    /// # Errors
    /// Why there is none: names that are too long, or no numbers are left.
    pub(crate) fn new(
        number: u64,
        names: &[String],
        (schemas, forms): (Vec<KnownSchema>, Vec<Form>),
        numbers: &mut Numbers,
    ) -> Result<Version, String> {
        let mut services = Vec::with_capacity(names.len());
        for (name, known) in names.iter().zip(&schemas) {
            let methods = known.service().methods().iter().map(|it| it.name().to_owned());
            let methods: Vec<String> = methods.collect();
            if methods.iter().any(|method| method.len() > NAME_BYTES_MAX) {
                let why = format!("a method's name has more than {NAME_BYTES_MAX} bytes");
                return Err(of_service(name, &why));
            }
            let hash = known.service().hash().to_bytes();
            let first = numbers.first(services.len(), hash, methods.len());
            let first = first.ok_or_else(|| {
                of_service(name, "the router has no numbers for more methods: start it anew")
            })?;
            services.push(TableService { name: name.clone(), first, methods });
        }
        Ok(Version { number, schemas, forms, services: services.into() })
    }

    /// R2: the answer to a bind of the service at this place.
    pub(crate) fn answer(&self, at: usize, request: &BindRequest<'_>) -> BindResponse<'_> {
        let (known, service) = (&self.schemas[at], &self.services[at]);
        let hash = known.service().hash().to_bytes();
        BindResponse {
            layout: self.forms[at].layout,
            codecs: self.forms[at].codecs,
            hash,
            first: service.first,
            methods: service.methods.len() as u16,
            schema: if hash == request.hash { &[] } else { &known.compact },
        }
    }

    /// Whether callers by this version understand a worker, by its answers for all services.
    ///
    /// # Errors
    /// The first service that does not fit, and the first field.
    pub(crate) fn compare(
        &self,
        reader: &mut Reader,
        names: &[String],
        answers: &[Answer],
    ) -> Result<(), String> {
        for ((name, known), answer) in names.iter().zip(&self.schemas).zip(answers) {
            known.compare(reader, name, answer).map_err(|why| of_service(name, &why))?;
        }
        Ok(())
    }

    /// The forms that this version can have with a worker as a member, too.
    pub(crate) fn forms_with(&self, answers: &[Answer]) -> Vec<Form> {
        let hashes = self.schemas.iter().map(|known| known.service().hash().to_bytes());
        let all = self.forms.iter().zip(hashes).zip(answers);
        all.map(|((form, hash), answer)| form.with(hash, answer)).collect()
    }

    /// Whether it has these schemas and forms.
    pub(crate) fn is(&self, (schemas, forms): &(Vec<KnownSchema>, Vec<Form>)) -> bool {
        self.has_schemas(schemas) && self.forms == *forms
    }

    /// Whether it has these schemas.
    pub(crate) fn has_schemas(&self, schemas: &[KnownSchema]) -> bool {
        let hash = |known: &KnownSchema| known.service().hash();
        self.schemas.iter().map(hash).eq(schemas.iter().map(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rt31_a_number_is_given_to_one_schema_only_and_kept_for_it() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.first(0, [1; 16], 3), Some(1));
        assert_eq!(numbers.first(1, [1; 16], 2), Some(4), "another service");
        assert_eq!(numbers.first(0, [2; 16], 3), Some(6), "another schema");
        assert_eq!(numbers.first(0, [1; 16], 3), Some(1), "the one before");
        assert_eq!(numbers.first(2, [0; 16], 0), Some(9), "no methods");
        assert_eq!(numbers.first(3, [3; 16], 65_526), Some(9), "up to 65,534");
        assert_eq!(numbers.first(4, [4; 16], 1), None);
        assert_eq!(numbers.first(0, [2; 16], 3), Some(6));
    }
}
