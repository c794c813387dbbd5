//! The services of a server: method numbers (R1) and answers to binds (R2).

use crate::{BindRequest, BindResponse, CodecSet, Hash, Status};

/// The services of a server, which may come and go while it has sessions. A number is given once,
/// so that it means the same in all sessions for ever (R1). Binds leave no state (R3).
#[derive(Clone, Debug)]
pub struct Services {
    layout: u16,
    codecs: CodecSet,
    /// In the order of their numbers, those that were withdrawn among them.
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
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Served,
    /// It has its name and numbers, but cannot be bound.
    Paused,
    Withdrawn,
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
    /// All services together, with those that were withdrawn, would have more than 65,534 methods,
    /// or there would be more than 65,534 services.
    #[error("a server has at most 65,534 methods and as many services, with those withdrawn")]
    TooMany,
}

/// Number 0 is bind itself (R1).
const FIRST: u16 = 1;
/// The most services of a server, with those that were withdrawn.
pub const SERVICES_MAX: usize = 65_534;

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
        let known = self.entries.iter().position(|entry| entry.name == name);
        if known.is_some_and(|at| self.entries[at].state != State::Withdrawn) {
            return Err(ServiceError::Duplicate);
        }
        if !methods.is_sorted_by(|a, b| a.as_bytes() < b.as_bytes()) {
            return Err(ServiceError::Order);
        }
        let first = self.entries.last().map_or(FIRST, |last| last.first + last.methods);
        let methods = u16::try_from(methods.len()).map_err(|_| ServiceError::TooMany)?;
        let next = first.checked_add(methods);
        next.filter(|_| self.entries.len() < SERVICES_MAX).ok_or(ServiceError::TooMany)?;
        if let Some(at) = known {
            // The name is the new one's now.
            self.entries[at].name = String::new();
        }
        let (name, layout, state) = (name.to_owned(), self.layout, State::Served);
        self.entries.push(Entry { name, hash, schema, first, methods, layout, state });
        Ok(first)
    }

    /// Withdraws a service: its binds fail with `UNAVAILABLE` from now on. Its methods keep their
    /// numbers, which are returned, and a service of its name that is added later gets others.
    pub fn withdraw(&mut self, name: &str) -> Option<core::ops::Range<u16>> {
        let entry = self.entry(name).filter(|entry| entry.state != State::Withdrawn)?;
        (entry.state, entry.schema) = (State::Withdrawn, Vec::new());
        Some(entry.first..entry.first + entry.methods)
    }

    /// Pauses a service: its schema is freed, and its binds fail with `UNAVAILABLE` until
    /// [`Services::resume`]. Returns whether it was served until now.
    pub fn pause(&mut self, name: &str) -> bool {
        let entry = self.entry(name).filter(|entry| entry.state == State::Served);
        let Some(entry) = entry else { return false };
        (entry.state, entry.schema) = (State::Paused, Vec::new());
        true
    }

    /// Lets a paused service be bound again, if this is its hash. Its methods have the numbers that
    /// they had. Returns whether that is so.
    pub fn resume(&mut self, name: &str, hash: Hash, schema: Vec<u8>) -> bool {
        let is_it = |entry: &&mut Entry| entry.state == State::Paused && entry.hash == hash;
        let Some(entry) = self.entry(name).filter(is_it) else { return false };
        (entry.state, entry.schema) = (State::Served, schema);
        true
    }

    /// The entry that has a name.
    fn entry(&mut self, name: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.name == name)
    }

    /// Sets the native layout of the service that was added last (R2, R4).
    pub fn set_layout(&mut self, layout: u16) {
        if let Some(entry) = self.entries.last_mut() {
            entry.layout = layout;
        }
    }

    /// R2: the answer to a bind. The schema is omitted if the caller has an equal one.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` if there is no such service, `UNAVAILABLE` if it was withdrawn or is paused.
    pub fn answer(&self, request: &BindRequest<'_>) -> Result<BindResponse<'_>, Status> {
        let entry = self.entries.iter().find(|entry| entry.name == request.name);
        let entry = entry.ok_or_else(|| Status::unimplemented("the server has no such service"))?;
        if entry.state != State::Served {
            return Err(Status::unavailable("the server does not serve this now"));
        }
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
    fn r1_a_number_is_not_given_again_when_its_service_goes_and_comes_back() {
        let mut services = services();
        assert_eq!(services.withdraw("a.B"), Some(3..6));
        assert_eq!(services.withdraw("a.B"), None, "it is gone");
        let ask = BindRequest { layout: 1, hash: [3; 16], name: "a.B" };
        assert_eq!(services.answer(&ask).unwrap_err().code(), Code::Unavailable);
        assert_eq!(services.find(4), Some(MethodPlace { service: 2, method: 1 }));
        // Another version of it.
        assert_eq!(services.add("a.B", [4; 16], vec![9], &["b"]), Ok(6));
        let answer = services.answer(&ask).unwrap();
        assert_eq!((answer.first, answer.methods, answer.schema), (6, 1, &[9][..]));
        assert_eq!(services.add("a.B", [5; 16], vec![], &["b"]), Err(ServiceError::Duplicate));
    }

    #[test]
    fn r1_a_service_that_was_paused_keeps_its_numbers_and_no_schema() {
        let mut services = services();
        assert!(services.pause("a.B") && !services.pause("a.B") && !services.pause("a.C"));
        let ask = BindRequest { layout: 1, hash: [9; 16], name: "a.B" };
        assert_eq!(services.answer(&ask).unwrap_err().code(), Code::Unavailable);
        assert!(services.entries[2].schema.is_empty());
        assert_eq!(services.find(4), Some(MethodPlace { service: 2, method: 1 }));
        assert_eq!(services.add("a.B", [3; 16], vec![8], &["b"]), Err(ServiceError::Duplicate));
        assert!(!services.resume("a.B", [4; 16], vec![9]), "that is another version");
        assert!(services.resume("a.B", [3; 16], vec![8]));
        assert!(!services.resume("a.B", [3; 16], vec![8]), "it is served");
        let answer = services.answer(&ask).unwrap();
        assert_eq!((answer.first, answer.methods, answer.schema), (3, 3, &[8][..]));
        assert!(services.pause("a.B"));
        assert_eq!(services.withdraw("a.B"), Some(3..6));
        assert!(!services.resume("a.B", [3; 16], vec![8]), "it is gone");
    }

    #[test]
    fn services_that_come_and_go_are_bounded_in_number() {
        let mut services = Services::new(1, CodecSet::IDENTITY);
        for _ in 0..SERVICES_MAX {
            services.add("a.None", [0; 16], vec![], &[]).unwrap();
            services.withdraw("a.None").unwrap();
        }
        assert_eq!(services.add("a.None", [0; 16], vec![], &[]), Err(ServiceError::TooMany));
    }

    #[test]
    fn r4_a_service_can_have_no_layout_while_others_have_one() {
        let mut services = services();
        services.set_layout(0);
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
