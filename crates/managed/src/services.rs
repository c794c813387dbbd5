//! The services that this process calls or serves, and the numbers of their methods.

use std::cell::OnceCell;

use petasos_buf::MsgBuf;
use petasos_call::{BindRequest, CodecSet, Hash, ServiceError, Services, Status};
use petasos_message::{ModuleRef, NativeMsg};
use petasos_schema::Digest;

use crate::convert::{Converter, Meant};

/// What the service says of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    Unasked,
    Asked,
    Bound(u16),
    Refused(String),
}

/// A service of a schema.
pub(crate) struct Known {
    pub(crate) name: String,
    hash: Hash,
    pub(crate) schema: ModuleRef,
    digest: OnceCell<Digest>,
    /// By index: whether it has streams.
    methods: Vec<bool>,
    /// It can be called.
    is_called: bool,
    /// The loop's number of its first method, if it is served.
    pub(crate) served: Option<u16>,
    /// It is served without a native layout: its requests are to be protobuf (R4).
    serves_bytes: bool,
    /// Made when the first message needs it.
    converter: OnceCell<Result<Converter, Status>>,
}

impl Known {
    /// What names the schema.
    pub(crate) fn digest(&self) -> [u8; 32] {
        self.digest.get_or_init(|| Digest::of(self.schema.compact())).to_bytes()
    }
}

/// A service, as its process describes it.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// The full name.
    pub name: &'a str,
    /// The hash of its schema.
    pub hash: Hash,
    /// The methods by name, in ascending order, and whether they have streams.
    pub methods: &'a [(&'a str, bool)],
    /// Whether the process has native forms of its messages (R4).
    pub has_layout: bool,
}

/// A method that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// The loop's number of it.
    pub(crate) number: u16,
    pub(crate) is_stream: bool,
    /// Its requests, if they are to be protobuf.
    pub(crate) bytes: Option<Meant>,
}

/// The method that a number of an external session refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    pub(crate) service: usize,
    pub(crate) method: u16,
    pub(crate) is_stream: bool,
}

/// All of them.
pub(crate) struct KnownServices {
    pub(crate) list: Vec<Known>,
    /// Those that are called, for binds (R2).
    called: Services,
    /// By number, from 1.
    numbered: Vec<Method>,
}

/// What an attachment says of the services.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    /// By the index of the service; those behind the last are not asked for.
    of: Vec<Binding>,
    /// By the number of the binding.
    bound: Vec<Option<usize>>,
}

impl Bindings {
    pub(crate) fn of(&self, service: usize) -> &Binding {
        self.of.get(service).unwrap_or(&Binding::Unasked)
    }

    pub(crate) fn set(&mut self, service: usize, binding: Binding) {
        if self.of.len() <= service {
            self.of.resize(service + 1, Binding::Unasked);
        }
        self.of[service] = binding;
    }

    /// Notes what the service says of a binding.
    pub(crate) fn bind(&mut self, service: usize, answer: Result<u16, String>) {
        let binding = match answer {
            Ok(number) => {
                let at = usize::from(number);
                if self.bound.len() <= at {
                    self.bound.resize(at + 1, None);
                }
                self.bound[at] = Some(service);
                Binding::Bound(number)
            }
            Err(why) => Binding::Refused(why),
        };
        self.set(service, binding);
    }

    /// The service that has a number.
    fn service(&self, number: u16) -> Option<usize> {
        *self.bound.get(usize::from(number))?
    }
}

impl KnownServices {
    /// `layout` is the version of the native layout.
    pub(crate) fn new(layout: u16) -> KnownServices {
        let called = Services::new(layout, CodecSet::IDENTITY);
        KnownServices { list: Vec::new(), called, numbered: Vec::new() }
    }

    /// The index of a service, which is new or known already.
    fn place(&mut self, described: &Description<'_>, schema: &ModuleRef) -> usize {
        let known = self.list.iter().position(|known| known.name == described.name);
        known.unwrap_or_else(|| {
            self.list.push(Known {
                name: described.name.to_owned(),
                hash: described.hash,
                schema: schema.clone(),
                digest: OnceCell::new(),
                methods: described.methods.iter().map(|(_, is_stream)| *is_stream).collect(),
                is_called: false,
                served: None,
                serves_bytes: false,
                converter: OnceCell::new(),
            });
            self.list.len() - 1
        })
    }

    /// Lets a service be called.
    pub(crate) fn call(
        &mut self,
        described: &Description<'_>,
        schema: &ModuleRef,
    ) -> Result<(), ServiceError> {
        let service = self.place(described, schema);
        let known = &mut self.list[service];
        if std::mem::replace(&mut known.is_called, true) {
            return Ok(());
        }
        let names: Vec<&str> = described.methods.iter().map(|(name, _)| *name).collect();
        self.called.add(described.name, described.hash, known.schema.compact().to_vec(), &names)?;
        for (method, is_stream) in known.methods.iter().enumerate() {
            let method = method as u16;
            self.numbered.push(Method { service, method, is_stream: *is_stream });
        }
        Ok(())
    }

    /// Notes that a service is served, by methods with consecutive numbers from `first` on. Gives
    /// its index.
    pub(crate) fn serve(
        &mut self,
        described: &Description<'_>,
        schema: &ModuleRef,
        first: u16,
    ) -> usize {
        let service = self.place(described, schema);
        let known = &mut self.list[service];
        (known.served, known.serves_bytes) = (Some(first), !described.has_layout);
        service
    }

    /// The index of the service that a bind names.
    pub(crate) fn named(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|known| known.is_called && known.name == name)
    }

    /// R2: the body of the answer to a bind.
    pub(crate) fn answer(&self, bind: &BindRequest<'_>) -> Result<Vec<u8>, Status> {
        let mut body = Vec::new();
        self.called.answer(bind)?.write(&mut body);
        Ok(body)
    }

    /// The method with a number.
    pub(crate) fn method(&self, number: u16) -> Option<Method> {
        self.numbered.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The method of a binding that this process serves.
    pub(crate) fn served(&self, bindings: &Bindings, binding: u16, method: u16) -> Option<Served> {
        let service = bindings.service(binding)?;
        let known = &self.list[service];
        let is_stream = *known.methods.get(usize::from(method))?;
        let requests = Meant { service, method, is_response: false };
        let bytes = known.serves_bytes.then_some(requests);
        Some(Served { number: known.served? + method, is_stream, bytes })
    }

    fn converter(&self, service: usize) -> Result<&Converter, Status> {
        let known = &self.list[service];
        let made =
            known.converter.get_or_init(|| Converter::new(&known.name, known.schema.compact()));
        made.as_ref().map_err(Status::clone)
    }

    /// The image of a message in protobuf's encoding.
    ///
    /// # Errors
    /// See [`Converter::image`].
    pub(crate) fn image(&self, meant: Meant, bytes: &[u8]) -> Result<NativeMsg, Status> {
        self.converter(meant.service)?.image(meant, bytes)
    }

    /// The protobuf encoding of an image.
    ///
    /// # Errors
    /// See [`Converter::protobuf`].
    pub(crate) fn protobuf(&self, meant: Meant, image: &[u8]) -> Result<MsgBuf, Status> {
        self.converter(meant.service)?.protobuf(meant, image)
    }

    /// Whether a service of this name is known by another schema.
    pub(crate) fn has_other_version(&self, described: &Description<'_>) -> bool {
        let mut same_name = self.list.iter().filter(|known| known.name == described.name);
        same_name.any(|known| known.hash != described.hash)
    }

    /// Whether the service has bound all that is served.
    pub(crate) fn are_served(&self, bindings: &Bindings) -> bool {
        let is_bound = |service| matches!(bindings.of(service), Binding::Bound(_));
        self.served_ones().all(is_bound)
    }

    /// The indexes of those that are served.
    pub(crate) fn served_ones(&self) -> impl Iterator<Item = usize> {
        let all = self.list.iter().enumerate();
        all.filter(|(_, known)| known.served.is_some()).map(|(service, _)| service)
    }

    /// Why the service does not bind one that is served, if it does not.
    pub(crate) fn refused<'a>(&self, bindings: &'a Bindings) -> Option<&'a str> {
        self.served_ones().find_map(|service| match bindings.of(service) {
            Binding::Refused(why) => Some(why.as_str()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use petasos_message::Module;

    use super::*;

    const CHAT: Description<'static> = Description {
        name: "a.Chat",
        hash: [1; 16],
        methods: &[("Say", true), ("Who", false)],
        has_layout: false,
    };

    fn schema(byte: u8) -> ModuleRef {
        Module::owned(vec![byte]).into()
    }

    #[test]
    fn methods_are_numbered_and_found_by_binding() {
        let mut services = KnownServices::new(1);
        let methods = &[("Greet", false)];
        let greet = Description { name: "a.Greet", hash: [2; 16], methods, has_layout: true };
        services.call(&greet, &schema(1)).expect("it is new");
        services.call(&CHAT, &schema(2)).expect("it is new");
        services.call(&CHAT, &schema(3)).expect("it is known");
        let found = services.method(2).expect("Chat's first");
        assert_eq!((found.service, found.method, found.is_stream), (1, 0, true));
        assert!(services.method(0).is_none() && services.method(4).is_none());
        let bind = BindRequest { layout: 1, hash: [1; 16], name: "a.Chat" };
        let body = services.answer(&bind).expect("it is called");
        let answer = petasos_call::BindResponse::parse(&body).expect("it is well-formed");
        assert_eq!((answer.first, answer.methods, answer.schema), (2, 2, &[][..]));
        assert_eq!(services.serve(&CHAT, &schema(3), 7), 1);
        let mut bindings = Bindings::default();
        assert_eq!(services.served(&bindings, 5, 1), None);
        assert!(!services.are_served(&bindings));
        bindings.bind(1, Ok(5));
        assert!(services.are_served(&bindings));
        let bytes = Some(Meant { service: 1, method: 1, is_response: false });
        let served = Served { number: 8, is_stream: false, bytes };
        assert_eq!(services.served(&bindings, 5, 1), Some(served));
        assert_eq!(services.served(&bindings, 5, 2), None);
        assert_eq!(services.served(&bindings, 4, 0), None);
        bindings.bind(1, Err("no".to_owned()));
        assert_eq!(services.refused(&bindings), Some("no"));
        assert_eq!(bindings.of(0), &Binding::Unasked);
    }

    #[test]
    fn a_schema_that_cannot_be_read_ends_calls_with_a_status() {
        let mut services = KnownServices::new(1);
        let service = services.serve(&CHAT, &schema(99), 1);
        let meant = Meant { service, method: 0, is_response: false };
        let statuses = [
            services.image(meant, &[]).expect_err("no schema"),
            services.protobuf(meant, &[]).expect_err("no schema"),
        ];
        for status in statuses {
            assert_eq!(status.code(), petasos_call::Code::FailedPrecondition);
            assert!(status.message().contains("a.Chat"), "{status:?}");
        }
    }
}
