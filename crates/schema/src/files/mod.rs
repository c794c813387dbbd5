//! Descriptors by file, as reflection asks for them and returns them.
//!
//! Files come from a set or one by one, encoded by another program ([`Files::add_set`],
//! [`Files::add`]), or are made from schemas, which may not know their files
//! ([`Files::of_schemas`]). They are kept as bytes and read only for names; other errors in them
//! are found when a schema is made of them.

mod group;
mod index;
mod write;

use std::collections::{BTreeSet, HashMap};

use crate::descriptor::{Fields, Value};
use crate::error::LoadError;
use crate::limits::Limits;
use crate::schema::Schema;

/// A set of encoded `FileDescriptorProto`s that can be searched by what they declare.
#[derive(Clone, Debug, Default)]
pub struct Files {
    files: Vec<DescriptorFile>,
    by_name: HashMap<Box<str>, usize>,
    /// Everything that has a full name: types, fields, values, services, methods, extensions.
    by_symbol: HashMap<Box<str>, usize>,
    /// By the full name of the extended message, then by number.
    extensions: HashMap<Box<str>, Vec<(i32, usize)>>,
    messages: BTreeSet<Box<str>>,
    services: BTreeSet<Box<str>>,
}

/// One file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescriptorFile {
    name: Box<str>,
    imports: Vec<Box<str>>,
    bytes: Box<[u8]>,
}

impl DescriptorFile {
    /// The name, as an `import` would give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the files that it imports.
    pub fn imports(&self) -> impl ExactSizeIterator<Item = &str> {
        self.imports.iter().map(|name| &**name)
    }

    /// The encoded `google.protobuf.FileDescriptorProto`.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Files {
    /// Makes files for everything that the schemas declare. If several declare the same item, the
    /// first counts. A declaration that knows its file goes to a file of that name. The others are
    /// distributed so that no files import each other in a cycle: usually one file per package.
    ///
    /// Comments, options that a [`Schema`] does not contain, and reserved numbers are lost. A
    /// schema made from these files has the same hash and the same compact form.
    pub fn of_schemas<'a>(schemas: impl IntoIterator<Item = &'a Schema>) -> Files {
        let mut files = Files::default();
        for file in group::files(schemas.into_iter()) {
            files.insert(file.encode(), &Limits::default()).expect("what was just written is read");
        }
        files
    }

    /// Adds the files of an encoded `google.protobuf.FileDescriptorSet`, except those whose names
    /// are already known.
    ///
    /// # Errors
    /// The bytes are no such set, or exceed the limits. Files before the faulty one are added.
    pub fn add_set(&mut self, set: &[u8], limits: &Limits) -> Result<(), LoadError> {
        if set.len() > limits.bytes_max {
            return Err(LoadError::TooLarge { what: "bytes", max: limits.bytes_max });
        }
        let mut fields = Fields::new(set);
        while let Some((number, value)) = fields.next()? {
            if let (1, Value::Bytes(file)) = (number, value) {
                self.insert(file.bytes().into(), limits)?;
            }
        }
        Ok(())
    }

    /// Adds an encoded `google.protobuf.FileDescriptorProto`, unless its name is already known.
    ///
    /// # Errors
    /// The bytes are no such file, or exceed the limits.
    pub fn add(&mut self, file: &[u8], limits: &Limits) -> Result<(), LoadError> {
        if file.len() > limits.bytes_max {
            return Err(LoadError::TooLarge { what: "bytes", max: limits.bytes_max });
        }
        self.insert(file.into(), limits)
    }

    /// All files, in the order in which they were added.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &DescriptorFile> {
        self.files.iter()
    }

    /// The file of this name.
    pub fn file(&self, name: &str) -> Option<&DescriptorFile> {
        self.by_name.get(name).map(|at| &self.files[*at])
    }

    /// The file that declares the item with this full name (without a leading dot): a type, a
    /// field, an enum's value, a service, a method or an extension.
    pub fn file_of_symbol(&self, name: &str) -> Option<&DescriptorFile> {
        self.by_symbol.get(name).map(|at| &self.files[*at])
    }

    /// The file that declares the extension of a message with a number.
    pub fn file_of_extension(&self, message: &str, number: i32) -> Option<&DescriptorFile> {
        let extensions = self.extensions.get(message)?;
        let (_, at) = extensions.iter().find(|(known, _)| *known == number)?;
        Some(&self.files[*at])
    }

    /// The numbers of all extensions of a message, ascending; `None` if there is no such message.
    pub fn extension_numbers(&self, message: &str) -> Option<Vec<i32>> {
        let known = self.extensions.get(message).map(|list| list.iter().map(|(n, _)| *n).collect());
        let mut numbers: Vec<i32> = match known {
            Some(numbers) => numbers,
            None => self.messages.contains(message).then(Vec::new)?,
        };
        numbers.sort_unstable();
        numbers.dedup();
        Some(numbers)
    }

    /// The full names of all services, ascending.
    pub fn services(&self) -> impl ExactSizeIterator<Item = &str> {
        self.services.iter().map(|name| &**name)
    }

    /// A file with everything that it imports, at any depth, each once. Imports that are missing
    /// here are left out.
    pub fn with_imports<'f>(&'f self, file: &'f DescriptorFile) -> Vec<&'f DescriptorFile> {
        let mut found = vec![file];
        let mut seen = BTreeSet::from([file.name()]);
        let mut at = 0;
        while let Some(file) = found.get(at) {
            let imports = file.imports().filter_map(|name| self.file(name));
            let new: Vec<_> = imports.filter(|import| seen.insert(import.name())).collect();
            found.extend(new);
            at += 1;
        }
        found
    }

    /// An import that no file here has, if there is one.
    pub fn missing_import(&self) -> Option<&str> {
        let mut imports = self.files.iter().flat_map(DescriptorFile::imports);
        imports.find(|name| !self.by_name.contains_key(*name))
    }

    /// All files as one encoded `google.protobuf.FileDescriptorSet`.
    pub fn to_set(&self) -> Vec<u8> {
        let mut set = write::Output::default();
        self.files.iter().for_each(|file| set.bytes(1, &file.bytes));
        set.into_bytes()
    }

    fn insert(&mut self, bytes: Box<[u8]>, limits: &Limits) -> Result<(), LoadError> {
        let found = index::read(&bytes, limits)?;
        if self.by_name.contains_key(&*found.name) {
            return Ok(());
        }
        let at = self.files.len();
        for name in found.symbols {
            self.by_symbol.entry(name).or_insert(at);
        }
        for (message, number) in found.extensions {
            self.extensions.entry(message).or_default().push((number, at));
        }
        self.messages.extend(found.messages);
        self.services.extend(found.services);
        self.by_name.insert(found.name.clone(), at);
        self.files.push(DescriptorFile { name: found.name, imports: found.imports, bytes });
        Ok(())
    }
}
