//! Declared fields of messages (E3), and their values.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_engine::{FieldError, FieldId, FieldKind, Fields, MethodId, Peer, Schema, Value};
use petasos_message::{FieldPath, Leaf, NativeMsg, PathError, SetError, Value as Read};
use petasos_schema::Kind;

use crate::host::Host;
use crate::schemas::Binding;

/// What the engines of one application have declared, and the methods that it has bound.
pub(crate) struct DeclaredFields {
    /// Of methods that have some, in ascending order.
    by_method: Vec<(MethodId, Vec<(FieldId, FieldPath)>)>,
    /// By number, the path's type and schema.
    methods: HashMap<MethodId, (String, Arc<Binding>, petasos_schema::MessageId)>,
    /// The application's name.
    application: Arc<str>,
    /// What numbers names, once the application has a hub.
    host: Option<Arc<Host>>,
    /// Names that engines know by their numbers. They are as few as the names in policies.
    peers: Vec<(Arc<str>, Peer)>,
}

impl DeclaredFields {
    /// Of an application with this name.
    pub(crate) fn new(application: Arc<str>) -> DeclaredFields {
        let (by_method, methods, host, peers) = Default::default();
        DeclaredFields { by_method, methods, application, host, peers }
    }

    /// The application is at a hub of this host now.
    pub(crate) fn at(&mut self, host: &Arc<Host>) {
        self.host = Some(host.clone());
    }

    /// The name that engines know by this number.
    pub(crate) fn name_of(&self, peer: Peer) -> Option<Arc<str>> {
        let known = self.peers.iter().find(|(_, known)| *known == peer);
        known.filter(|_| peer != Peer::NONE).map(|(name, _)| name.clone())
    }

    /// A method can be called now.
    pub(crate) fn add_method(&mut self, binding: &Arc<Binding>, index: usize) {
        let method = &binding.methods[index];
        let known = (method.name.to_string(), binding.clone(), method.request);
        self.methods.insert(method.id, known);
    }

    /// No engine has declared a field.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_method.is_empty()
    }

    /// Whether a leaf that may be long can be read or written, so that it has to be copied first:
    /// its sender may change it at any time.
    pub(crate) fn have_bytes(&self, method: MethodId) -> bool {
        self.of(method).iter().any(|(_, path)| path.kind() == Kind::Bytes)
    }

    /// Copies the values of declared fields out of a message from the caller.
    pub(crate) fn read(&self, method: MethodId, message: &mut NativeMsg, fields: &mut Fields) {
        if message.is_gathered() {
            self.make_readable(method, message);
        }
        for (id, path) in self.of(method) {
            if let Some(value) = message.get(path).and_then(value) {
                fields.insert(*id, value);
            }
        }
    }

    #[cold]
    fn make_readable(&self, method: MethodId, message: &mut NativeMsg) {
        if !self.of(method).iter().all(|(_, path)| message.is_readable(path)) {
            message.make_whole();
        }
    }

    /// Writes into a message what engines have set.
    ///
    /// # Errors
    /// A value that the field cannot have, or no room for it.
    pub(crate) fn write(
        &self,
        method: MethodId,
        message: &mut NativeMsg,
        fields: &Fields,
    ) -> Result<(), SetError> {
        let declared = self.of(method);
        for (id, value) in fields.written() {
            let path = declared.iter().find(|(known, _)| *known == id);
            if let Some((_, path)) = path {
                message.set(path, leaf(value))?;
            }
        }
        Ok(())
    }

    /// The fields of a method.
    #[inline]
    fn of(&self, method: MethodId) -> &[(FieldId, FieldPath)] {
        self.place(method).map_or(&[], |at| &self.by_method[at].1)
    }

    /// Where a method is, or where it would be.
    #[inline]
    fn place(&self, method: MethodId) -> Result<usize, usize> {
        self.by_method.binary_search_by_key(&method, |(known, _)| *known)
    }
}

impl Schema for DeclaredFields {
    fn field(
        &mut self,
        method: MethodId,
        path: &str,
        id: FieldId,
        _: bool,
    ) -> Result<FieldKind, FieldError> {
        let (name, binding, message) = self.methods.get(&method).expect("methods are added first");
        let found = FieldPath::new(&binding.types, *message, path);
        let (method_name, path_name) = (name.clone(), path.to_owned());
        let path = found.map_err(|error| match error {
            PathError::Unknown { .. } => {
                FieldError::Unknown { method: method_name, path: path_name }
            }
            _ => FieldError::NotSingle { method: method_name, path: path_name },
        })?;
        let kind = kind(path.kind());
        let at = self.place(method).unwrap_or_else(|at| {
            self.by_method.insert(at, (method, Vec::new()));
            at
        });
        let known = &mut self.by_method[at].1;
        if known.iter().all(|(known, _)| *known != id) {
            known.push((id, path));
        }
        Ok(kind)
    }

    fn forget(&mut self, id: FieldId) {
        self.by_method.retain_mut(|(_, known)| {
            known.retain(|(known, _)| *known != id);
            !known.is_empty()
        });
    }

    fn application(&self) -> &str {
        &self.application
    }

    fn peer(&mut self, name: &str) -> Peer {
        if let Some((_, peer)) = self.peers.iter().find(|(known, _)| **known == *name) {
            return *peer;
        }
        let Some(host) = &self.host else { return Peer::NONE };
        // The name is kept as long as the application: so its number stays its own.
        let (name, peer) = host.peer(name);
        self.peers.push((name, peer));
        peer
    }
}

fn kind(kind: Kind) -> FieldKind {
    match kind {
        Kind::Bool => FieldKind::Bool,
        Kind::String => FieldKind::Text,
        Kind::Bytes => FieldKind::Bytes,
        Kind::Float | Kind::Double => FieldKind::Float,
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => FieldKind::Unsigned,
        _ => FieldKind::Signed,
    }
}

/// A single value as engines see it.
#[inline]
fn value(value: Read<'_>) -> Option<Value<'_>> {
    Some(match value {
        Read::Bool(value) => Value::Bool(value),
        Read::I32(value) | Read::Enum(_, value) => Value::Signed(value.into()),
        Read::I64(value) => Value::Signed(value),
        Read::U32(value) => Value::Unsigned(value.into()),
        Read::U64(value) => Value::Unsigned(value),
        Read::F32(value) => Value::Float(value.into()),
        Read::F64(value) => Value::Float(value),
        Read::String(value) => Value::Text(value),
        Read::Bytes(value) => Value::Bytes(value),
        Read::Message(_) | Read::List(_) | Read::Map(_) => return None,
    })
}

fn leaf(value: Value<'_>) -> Leaf<'_> {
    match value {
        Value::Bool(value) => Leaf::Bool(value),
        Value::Signed(value) => Leaf::Signed(value),
        Value::Unsigned(value) => Leaf::Unsigned(value),
        Value::Float(value) => Leaf::Float(value),
        Value::Text(value) => Leaf::Text(value),
        Value::Bytes(value) => Leaf::Bytes(value),
    }
}
