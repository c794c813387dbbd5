//! The table: services, their schemas and numbers, and who fits (RT31, R2, R3).

use std::collections::BTreeSet;
use std::sync::Arc;

use petasos_call::{BindRequest, BindResponse, CodecSet, Services, Status};
use petasos_schema::{Compatibility, Limits, Method, Schema, Service, ServiceId};

use crate::answers::{Answer, Answers};
use crate::messages;

/// The most services of a group.
pub const SERVICES_MAX: usize = 256;

/// The most bytes of the name of a service or of a method: what workers can be told (RT36).
pub const NAME_BYTES_MAX: usize = 255;

/// Members of a group exchange protobuf: nobody knows beforehand which worker gets a request, so
/// the native encoding would need that all have the same schema.
const NO_LAYOUT: u16 = 0;

/// What is wrong with the configured names. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    /// There are none, or too many.
    #[error("a table has 1 to {SERVICES_MAX} services, and not {0}")]
    Count(usize),
    /// A name is not that of a service.
    #[error("`{0}` is not the full name of a service, such as `package.Service`")]
    NotAName(String),
    /// A name is too long.
    #[error("`{0}` has more than {NAME_BYTES_MAX} bytes")]
    TooLong(String),
    /// A name is there twice.
    #[error("`{0}` is named twice")]
    Twice(String),
}

/// A service of the table, as workers are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableService {
    /// Its full name.
    pub name: String,
    /// The number of its first method.
    pub first: u16,
    /// The names of its methods, which have numbers in this order.
    pub methods: Vec<String>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Table {
    names: Vec<String>,
    /// `None` until a worker was accepted.
    defined: Option<Defined>,
}

#[derive(Debug)]
struct Defined {
    /// In the order of the names.
    schemas: Vec<KnownSchema>,
    numbers: Services,
    services: Arc<[TableService]>,
}

/// The schema of a service, as a worker has it.
#[derive(Debug)]
struct KnownSchema {
    /// Services of one module share both.
    schema: Arc<Schema>,
    compact: Arc<[u8]>,
    id: ServiceId,
}

impl Table {
    /// A table of services with these full names. None of them can be bound yet.
    ///
    /// # Errors
    /// See [`NamesError`].
    pub fn new(names: &[String]) -> Result<Table, NamesError> {
        if !(1..=SERVICES_MAX).contains(&names.len()) {
            return Err(NamesError::Count(names.len()));
        }
        let mut seen = BTreeSet::new();
        for name in names {
            if !name.split('.').all(is_identifier) {
                return Err(NamesError::NotAName(name.clone()));
            }
            if name.len() > NAME_BYTES_MAX {
                return Err(NamesError::TooLong(name.clone()));
            }
            if !seen.insert(name) {
                return Err(NamesError::Twice(name.clone()));
            }
        }
        Ok(Table { names: names.to_vec(), defined: None })
    }

    /// The names of the services, in the order in which workers are asked for them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Answers a client's bind, with both as whole messages.
    pub fn respond(&self, request: &[u8]) -> Vec<u8> {
        let request = messages::read_request(request);
        messages::answer(request.map_err(Status::from).and_then(|request| self.answer(&request)))
    }

    /// R2: the answer to a bind.
    fn answer(&self, request: &BindRequest<'_>) -> Result<BindResponse<'_>, Status> {
        let at = self.names.iter().position(|name| name == request.name);
        let at = at.ok_or_else(|| Status::unimplemented("the group has no such service"))?;
        let defined = self.defined.as_ref();
        let defined = defined.ok_or_else(|| Status::unavailable("no worker has joined yet"))?;
        let mut answer = defined.numbers.answer(request)?;
        if answer.hash != request.hash {
            answer.schema = &defined.schemas[at].compact;
        }
        Ok(answer)
    }

    /// Judges a worker by its answers to a bind of each service, in the order of the names. The
    /// first worker that is accepted defines the table, which is returned.
    ///
    /// # Errors
    /// Why the worker is refused, for its operator: the first service that does not fit, and the
    /// first field. Nothing has changed then.
    pub fn judge(&mut self, answers: &Answers) -> Result<Arc<[TableService]>, String> {
        if answers.len() != self.names.len() {
            return Err("it has not answered for each service".to_owned());
        }
        let mut reader = Reader::default();
        let both = self.names.iter().zip(answers.iter());
        let both = both.map(|(name, answer)| match answer {
            Ok(answer) => Ok((name, answer)),
            Err(status) => Err(of_service(name, &status.to_string())),
        });
        if let Some(defined) = &self.defined {
            for (both, known) in both.zip(&defined.schemas) {
                let (name, answer) = both?;
                known.compare(&mut reader, name, answer).map_err(|why| of_service(name, &why))?;
            }
            return Ok(defined.services.clone());
        }
        let mut schemas = Vec::with_capacity(self.names.len());
        for both in both {
            let (name, answer) = both?;
            schemas.push(reader.read(name, answer).map_err(|why| of_service(name, &why))?);
        }
        let defined = Defined::new(&self.names, schemas)?;
        Ok(self.defined.insert(defined).services.clone())
    }
}

impl Defined {
    fn new(names: &[String], schemas: Vec<KnownSchema>) -> Result<Defined, String> {
        let mut numbers = Services::new(NO_LAYOUT, CodecSet::IDENTITY);
        let mut services = Vec::with_capacity(names.len());
        for (name, known) in names.iter().zip(&schemas) {
            let methods: Vec<_> = known.service().methods().iter().map(|it| it.name()).collect();
            if methods.iter().any(|method| method.len() > NAME_BYTES_MAX) {
                let why = format!("a method's name has more than {NAME_BYTES_MAX} bytes");
                return Err(of_service(name, &why));
            }
            let hash = known.service().hash().to_bytes();
            // The schemas are here, each once.
            let first = numbers
                .add(name, hash, Vec::new(), &methods)
                .map_err(|error| of_service(name, &error.to_string()))?;
            let methods = methods.into_iter().map(str::to_owned).collect();
            services.push(TableService { name: name.clone(), first, methods });
        }
        Ok(Defined { schemas, numbers, services: services.into() })
    }
}

impl KnownSchema {
    fn service(&self) -> &Service {
        self.schema.service(self.id)
    }

    /// R3: whether a caller with this schema can call the worker, all methods of it.
    fn compare(&self, reader: &mut Reader, name: &str, answer: &Answer) -> Result<(), String> {
        let service = self.service();
        let has_same = answer.hash == service.hash().to_bytes() && answer.schema == self.compact;
        if has_same && usize::from(answer.methods) == service.methods().len() {
            // Most have the very same bytes, which need not be read again.
            return Ok(());
        }
        let there = reader.read(name, answer)?;
        let compatibility = self.schema.compare_services(self.id, &there.schema, there.id);
        if let Compatibility::Incompatible(mismatch) = compatibility {
            return Err(format!("{mismatch} (here: the group, there: the worker)"));
        }
        let is_lacking = |method: &&Method| there.service().method_by_name(method.name()).is_none();
        match service.methods().iter().find(is_lacking) {
            Some(method) => Err(format!("the worker lacks method `{}`", method.name())),
            None => Ok(()),
        }
    }
}

/// Reads the schemas of one worker, each once.
#[derive(Default)]
struct Reader {
    /// In the order of the answers, without repetition.
    known: Vec<(Arc<[u8]>, Arc<Schema>)>,
}

impl Reader {
    /// Reads the schema of an answer, and checks what the worker says of it.
    fn read(&mut self, name: &str, answer: &Answer) -> Result<KnownSchema, String> {
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

fn of_service(name: &str, why: &str) -> String {
    format!("service `{name}`: {why}")
}

/// Whether it is an identifier of protobuf: no schema has a service of another name.
fn is_identifier(part: &str) -> bool {
    let is_first = |it: char| it.is_ascii_alphabetic() || it == '_';
    part.starts_with(is_first) && part.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}
