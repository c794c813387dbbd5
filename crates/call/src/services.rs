//! The services of a server: method numbers (R1) and answers to binds (R2).

use crate::{BindRequest, BindResponse, CodecSet, Hash, Status};

/// The services of a server. All are added before the first session, and none is removed, so that
/// numbers stay valid for all sessions. Binds leave no state (R3).
#[derive(Clone, Debug)]
pub struct Services {
    layout: u16,
    codecs: CodecSet,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    hash: Hash,
    schema: Vec<u8>,
    first: u16,
    methods: u16,
    /// Version of the native layout that the service supports; 0: none.
    layout: u16,
}

/// The method that a number refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodPlace {
    /// The service's index in the order of adding.
    pub service: usize,
    /// The method's index in the service.
    pub method: u16,
}

/// A service cannot be added: the program's fault. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// There is a service with that name.
    #[error("a service of that name is there already")]
    Duplicate,
    /// The method names are not in ascending order.
    #[error("names of methods must ascend, each once")]
    Order,
    /// All services together would have more than 65,534 methods.
    #[error("a server has at most 65,534 methods")]
    TooMany,
}

/// Number 0 is bind itself (R1).
const FIRST: u16 = 1;

impl Services {
    /// No services yet. `layout` is the version of the native layout that the server supports (0:
    /// none). `codecs` are the codecs that it accepts.
    pub fn new(layout: u16, codecs: CodecSet) -> Services {
        Services { layout, codecs, entries: Vec::new() }
    }

    /// Adds a service with its full name, its compact schema with the hash, and the names of its
    /// methods in ascending order. Returns the number of the first method.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn add(
        &mut self,
        name: &str,
        hash: Hash,
        schema: Vec<u8>,
        methods: &[&str],
    ) -> Result<u16, ServiceError> {
        if self.entries.iter().any(|entry| entry.name == name) {
            return Err(ServiceError::Duplicate);
        }
        if !methods.is_sorted_by(|a, b| a.as_bytes() < b.as_bytes()) {
            return Err(ServiceError::Order);
        }
        let first = self.entries.last().map_or(FIRST, |last| last.first + last.methods);
        let methods = u16::try_from(methods.len()).map_err(|_| ServiceError::TooMany)?;
        first.checked_add(methods).ok_or(ServiceError::TooMany)?;
        let (name, layout) = (name.to_owned(), self.layout);
        self.entries.push(Entry { name, hash, schema, first, methods, layout });
        Ok(first)
    }

    /// Disables the native layout for the service that was added last (R4).
    pub fn without_layout(&mut self) {
        if let Some(entry) = self.entries.last_mut() {
            entry.layout = 0;
        }
    }

    /// R2: the answer to a bind. The schema is omitted if the caller has an equal one.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` if there is no such service.
    pub fn answer(&self, request: &BindRequest<'_>) -> Result<BindResponse<'_>, Status> {
        let entry = self.entries.iter().find(|entry| entry.name == request.name);
        let entry = entry.ok_or_else(|| Status::unimplemented("the server has no such service"))?;
        Ok(BindResponse {
            layout: entry.layout,
            codecs: self.codecs,
            hash: entry.hash,
            first: entry.first,
            methods: entry.methods,
            schema: if entry.hash == request.hash { &[] } else { &entry.schema },
        })
    }

    /// R1: the method with a number. `None` for bind and for unassigned numbers, which are rejected
    /// as unknown methods.
    pub fn find(&self, number: u16) -> Option<MethodPlace> {
        // A service without methods has the same first number as the next one. The last of them
        // owns it.
        let service = self.entries.partition_point(|entry| entry.first <= number).checked_sub(1)?;
        let entry = &self.entries[service];
        let method = number - entry.first;
        (method < entry.methods).then_some(MethodPlace { service, method })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    fn services() -> Services {
        let mut services = Services::new(1, CodecSet::IDENTITY);
        assert_eq!(services.add("a.A", [1; 16], vec![7], &["Do", "Get"]), Ok(1));
        assert_eq!(services.add("a.None", [2; 16], vec![], &[]), Ok(3));
        assert_eq!(services.add("a.B", [3; 16], vec![8], &["Z", "a", "b"]), Ok(3));
        services
    }

    #[test]
    fn r1_methods_have_consecutive_numbers_and_bind_has_0() {
        let services = services();
        let found: Vec<_> = (0..7).map(|number| services.find(number)).collect();
        let place = |service, method| Some(MethodPlace { service, method });
        let expected =
            [None, place(0, 0), place(0, 1), place(2, 0), place(2, 1), place(2, 2), None];
        assert_eq!(found, expected);
        assert_eq!(services.find(u16::MAX), None);
    }

    #[test]
    fn r4_a_service_can_have_no_layout_while_others_have_one() {
        let mut services = services();
        services.without_layout();
        let ask = |name| BindRequest { layout: 1, hash: [9; 16], name };
        let layout = |name| services.answer(&ask(name)).map(|answer| answer.layout);
        assert_eq!((layout("a.A"), layout("a.B")), (Ok(1), Ok(0)));
    }

    #[test]
    fn r1_what_cannot_be_numbered_is_refused() {
        let mut services = services();
        assert_eq!(services.add("a.A", [0; 16], vec![], &[]), Err(ServiceError::Duplicate));
        assert_eq!(services.add("c", [0; 16], vec![], &["a", "Z"]), Err(ServiceError::Order));
        assert_eq!(services.add("c", [0; 16], vec![], &["a", "a"]), Err(ServiceError::Order));
        let names: Vec<String> = (0..65_530).map(|n| format!("{n:05}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(services.add("c", [0; 16], vec![], &names), Err(ServiceError::TooMany));
        assert_eq!(services.add("c", [0; 16], vec![], &names[1..]), Ok(6));
        let last = MethodPlace { service: 3, method: 65_528 };
        assert_eq!((services.find(65_534), services.find(65_535)), (Some(last), None));
    }

    #[test]
    fn r2_a_bind_is_answered_with_the_schema_only_if_hashes_differ() {
        let services = services();
        let request = |hash, name| BindRequest { layout: 1, hash, name };
        let equal = services.answer(&request([3; 16], "a.B")).unwrap();
        assert_eq!((equal.first, equal.methods, equal.schema), (3, 3, &[][..]));
        for hash in [[4; 16], Hash::default()] {
            let other = services.answer(&request(hash, "a.B")).unwrap();
            assert_eq!((other.hash, other.schema), ([3; 16], &[8][..]));
        }
        let unknown = services.answer(&request([3; 16], "a.C")).unwrap_err();
        assert_eq!(unknown.code(), Code::Unimplemented);
    }
}
