//! Binds services of schemas for applications.

use std::sync::Arc;

use petasos_engine::Application as Number;
use petasos_schema::Digest;

use crate::application::{Application, Memory};
use crate::host::{Export, Server};
use crate::hub::Hub;
use crate::hub_error::{HubError, NAMES_MAX};
use crate::schemas::{BindError, Binding, Schemas};

/// Methods that one application has bound.
const METHODS_MAX: usize = 4096;

/// A schema that an application binds a service of.
#[derive(Clone, Copy)]
enum Named<'a> {
    Bytes(&'a [u8]),
    Digest(Digest),
}

impl Named<'_> {
    fn digest(self) -> Digest {
        match self {
            Named::Bytes(bytes) => Digest::of(bytes),
            Named::Digest(digest) => digest,
        }
    }

    /// How many bytes it has, if that is known.
    fn bytes(self, schemas: &Schemas) -> Option<usize> {
        match self {
            Named::Bytes(bytes) => Some(bytes.len()),
            Named::Digest(digest) => schemas.get(digest).map(|known| known.bytes().len()),
        }
    }
}

impl<M: Memory> Hub<M> {
    /// Binds a service of a schema for an application, which serves it if `is_served`, and may call
    /// it in any case. Gives the number that it names in requests.
    ///
    /// # Errors
    /// See [`HubError`].
    pub fn bind(
        &mut self,
        number: Number,
        schema: &[u8],
        service: &str,
        is_served: bool,
    ) -> Result<u16, HubError> {
        self.bind_named(number, Named::Bytes(schema), service, is_served)
    }

    /// The same, of a schema that is known by its digest: its bytes were checked before, and it
    /// does not matter who had submitted them.
    ///
    /// # Errors
    /// See [`HubError`]; [`BindError::Unknown`] if it is not known.
    pub fn recall(
        &mut self,
        number: Number,
        digest: Digest,
        service: &str,
        is_served: bool,
    ) -> Result<u16, HubError> {
        self.bind_named(number, Named::Digest(digest), service, is_served)
    }

    fn bind_named(
        &mut self,
        number: Number,
        schema: Named<'_>,
        service: &str,
        is_served: bool,
    ) -> Result<u16, HubError> {
        let server = Server { hub: self.id, application: number };
        let application = self.applications.get_mut(&number.0);
        let application = application.ok_or(HubError::NoApplication(number))?;
        let bindings = &application.bindings;
        let known = bindings.iter().position(|known| *known.service == *service);
        if let Some(index) = known {
            // Policies know the fields of a method by one schema.
            if bindings[index].known().digest() != schema.digest() {
                return Err(HubError::BoundOtherwise(service.to_owned()));
            }
            if is_served && !std::mem::replace(&mut application.serves[index], true) {
                self.host.add_service(application.export(server, index));
            }
            return Ok(index as u16);
        }
        let binding = application.binding_of(&mut self.host.schemas(), schema, service)?;
        self.host.note_change();
        let bound = application.bind(Arc::new(binding))?;
        application.serves.push(is_served);
        if is_served {
            self.host.add_service(application.export(server, usize::from(bound)));
        }
        Ok(bound)
    }
}

impl<M: Memory> Application<M> {
    /// A service of a schema, if the application may bind another one.
    fn binding_of(
        &self,
        schemas: &mut Schemas,
        schema: Named<'_>,
        service: &str,
    ) -> Result<Binding, HubError> {
        let bindings = &self.bindings;
        let bytes: usize = bindings.iter().map(|bound| bound.known().bytes().len()).sum();
        let more = schema.bytes(schemas).ok_or(BindError::Unknown)?;
        if bytes + more > schemas.limits().application_bytes_max {
            return Err(HubError::TooMany);
        }
        let binding = match schema {
            Named::Bytes(bytes) => schemas.bind(bytes, service)?,
            Named::Digest(digest) => schemas.recall(digest, service)?,
        };
        let methods: usize = bindings.iter().map(|known| known.methods.len()).sum();
        if bindings.len() >= NAMES_MAX || methods + binding.methods.len() > METHODS_MAX {
            return Err(HubError::TooMany);
        }
        Ok(binding)
    }

    /// A service that it serves, for others than its hub.
    fn export(&self, server: Server, index: usize) -> Export {
        Export {
            server,
            owner: self.identity(),
            number: index as u16,
            binding: self.bindings[index].clone(),
            message_bytes_max: self.limits.message_bytes_max,
        }
    }
}
