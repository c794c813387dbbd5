//! What a file declares, by name. The numbers are the fields' in `descriptor.proto`.

use crate::descriptor::{Fields, Value};
use crate::error::LoadError;
use crate::limits::Limits;

/// The names in one file.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) name: Box<str>,
    pub(super) imports: Vec<Box<str>>,
    /// Full names of everything.
    pub(super) symbols: Vec<Box<str>>,
    pub(super) messages: Vec<Box<str>>,
    pub(super) services: Vec<Box<str>>,
    /// Full names of extended messages, and the numbers of the extensions.
    pub(super) extensions: Vec<(Box<str>, i32)>,
}

/// Reads an encoded `FileDescriptorProto`.
pub(super) fn read(file: &[u8], limits: &Limits) -> Result<Index, LoadError> {
    let mut reader = Reader { limits, index: Index::default() };
    let mut package = "";
    let mut fields = Fields::new(file);
    // The package can come behind what is in it.
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(name)) => reader.index.name = name.text()?.into(),
            (2, Value::Bytes(name)) => package = name.text()?,
            (3, Value::Bytes(name)) => {
                let name = name.text()?.into();
                reader.index.imports.push(name);
            }
            _ => {}
        }
    }
    reader.scope(Fields::new(file), package, &FILE, 0)?;
    Ok(reader.index)
}

/// The fields in which a scope has its declarations.
struct Scope {
    messages: u64,
    enums: u64,
    services: u64,
    extensions: u64,
    /// Fields and oneofs, which have nothing in them.
    names: [u64; 2],
}

const NONE: u64 = u64::MAX;
const FILE: Scope =
    Scope { messages: 4, enums: 5, services: 6, extensions: 7, names: [NONE, NONE] };
const MESSAGE: Scope =
    Scope { messages: 3, enums: 4, services: NONE, extensions: 6, names: [2, 8] };

struct Reader<'l> {
    limits: &'l Limits,
    index: Index,
}

impl Reader<'_> {
    fn scope(
        &mut self,
        mut fields: Fields<'_>,
        outer: &str,
        scope: &Scope,
        depth: usize,
    ) -> Result<(), LoadError> {
        if depth > self.limits.depth_max {
            let max = self.limits.depth_max;
            return Err(LoadError::TooLarge { what: "levels of nested messages", max });
        }
        while let Some((number, value)) = fields.next()? {
            let Value::Bytes(body) = value else { continue };
            if number == scope.messages {
                let name = self.declare(outer, body)?;
                self.index.messages.push(name.as_str().into());
                self.scope(body, &name, &MESSAGE, depth + 1)?;
            } else if number == scope.enums {
                self.declare(outer, body)?;
                // Values belong to the scope that their enum is in.
                self.elements(body, outer)?;
            } else if number == scope.services {
                let name = self.declare(outer, body)?;
                self.index.services.push(name.as_str().into());
                self.elements(body, &name)?;
            } else if number == scope.extensions {
                self.declare(outer, body)?;
                self.extension(body)?;
            } else if scope.names.contains(&number) {
                self.declare(outer, body)?;
            }
        }
        Ok(())
    }

    /// An enum's values, or a service's methods.
    fn elements(&mut self, mut fields: Fields<'_>, outer: &str) -> Result<(), LoadError> {
        while let Some((number, value)) = fields.next()? {
            if let (2, Value::Bytes(body)) = (number, value) {
                self.declare(outer, body)?;
            }
        }
        Ok(())
    }

    fn extension(&mut self, mut fields: Fields<'_>) -> Result<(), LoadError> {
        let (mut extended, mut number_in_it) = ("", 0);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (2, Value::Bytes(name)) => extended = name.text()?,
                (3, Value::Varint(value)) => number_in_it = value as i32,
                _ => {}
            }
        }
        let extended = extended.strip_prefix('.').unwrap_or(extended).into();
        self.index.extensions.push((extended, number_in_it));
        Ok(())
    }

    /// Notes what has its name in field 1, and gives its full name.
    fn declare(&mut self, outer: &str, mut fields: Fields<'_>) -> Result<String, LoadError> {
        let max = self.limits.elements_max;
        if self.index.symbols.len() >= max {
            return Err(LoadError::TooLarge { what: "elements", max });
        }
        let mut name = "";
        while let Some((number, value)) = fields.next()? {
            if let (1, Value::Bytes(text)) = (number, value) {
                name = text.text()?;
            }
        }
        let full = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
        if full.len() > crate::check::NAME_BYTES_MAX {
            return Err(fields.malformed("a declaration with a name of more than 255 bytes"));
        }
        self.index.symbols.push(full.as_str().into());
        Ok(full)
    }
}
