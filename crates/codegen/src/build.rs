//! The interface for build scripts: settings, and files in and out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use petasos_schema::{
    CompileError, Compiled, Layouts, Limits, LoadError, Options, Position, Schema,
};

use crate::error::{Error, FIELDS_MAX};
use crate::externs::Externs;
use crate::files::{file_name, tree};
use crate::package::Package;
use crate::scope::{self, Scopes};

/// The well-known types that `petasos-message` has in its module `well_known`.
const WELL_KNOWN: &[&str] = &[
    "Any",
    "BoolValue",
    "BytesValue",
    "DoubleValue",
    "Duration",
    "Empty",
    "FieldMask",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "ListValue",
    "NullValue",
    "StringValue",
    "Struct",
    "Timestamp",
    "UInt32Value",
    "UInt64Value",
    "Value",
];

/// The limits for a build's own files. They are large, because comments count as well, which
/// programs do not see.
const LIMITS: Limits =
    Limits { bytes_max: 1 << 28, elements_max: 1 << 24, depth_max: 32, cycle_steps_max: 1 << 22 };

/// The settings of a build.
#[derive(Clone, Debug)]
pub struct Builder {
    includes: Vec<PathBuf>,
    out_dir: Option<PathBuf>,
    include_file: Option<PathBuf>,
    runtime: String,
    calls: String,
    services: bool,
    owned: bool,
    externs: Externs,
    well_known: bool,
}

/// The settings that most programs need: files go to `OUT_DIR`, and generated code takes its
/// runtime from the crate `petasos`.
pub fn configure() -> Builder {
    Builder {
        includes: Vec::new(),
        out_dir: None,
        include_file: None,
        runtime: "::petasos::message".to_owned(),
        calls: "::petasos::rt".to_owned(),
        services: true,
        owned: false,
        externs: Externs::default(),
        well_known: true,
    }
}

impl Builder {
    /// Also searches this directory for files and their imports, after those that were named
    /// before. If none is named, the directories of the files themselves are searched.
    pub fn include(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.includes.push(directory.into());
        self
    }

    /// Writes to this directory instead of `OUT_DIR`.
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.out_dir = Some(directory.into());
        self
    }

    /// Also writes a file with this name, which includes the files of all packages, each in the
    /// modules of its package.
    pub fn include_file(mut self, name: impl Into<PathBuf>) -> Builder {
        self.include_file = Some(name.into());
        self
    }

    /// Makes generated code take its runtime from this path instead of `::petasos::message`. For
    /// crates that depend on `petasos-message` without `petasos`.
    pub fn runtime(mut self, path: impl Into<String>) -> Builder {
        self.runtime = path.into();
        self
    }

    /// Makes generated services take their runtime from this path instead of `::petasos::rt`.
    pub fn calls(mut self, path: impl Into<String>) -> Builder {
        self.calls = path.into();
        self
    }

    /// Sets whether to generate code for services. The default is true.
    pub fn services(mut self, wanted: bool) -> Builder {
        self.services = wanted;
        self
    }

    /// Sets whether to generate, for each message `Note`, a plain struct `OwnedNote` with
    /// conversions in both directions, for state that lives long. A crate named by
    /// [`Builder::extern_path`] must have them, too. The default is false.
    pub fn owned(mut self, wanted: bool) -> Builder {
        self.owned = wanted;
        self
    }

    /// Generates nothing for the declarations of `proto`, a package or a type, but refers to the
    /// Rust path `rust`, where another crate has them. If several names fit a declaration, the
    /// longest decides.
    pub fn extern_path(mut self, proto: &str, rust: &str) -> Builder {
        self.externs.add(proto, rust);
        self
    }

    /// Generates the well-known types like all other types.
    pub fn compile_well_known_types(mut self) -> Builder {
        self.well_known = false;
        self
    }

    /// Generates code for `files` and everything that they refer to, and tells cargo to run the
    /// build script again when one of them changes. Output files that would not change are not
    /// written again.
    pub fn compile<F: AsRef<Path>>(self, files: &[F]) -> Result<(), Error> {
        let from_cargo = || std::env::var_os("OUT_DIR").map(PathBuf::from);
        let out_dir = self.out_dir.clone().or_else(from_cargo).ok_or(Error::NoOutDir)?;
        let compiled = self.read(files)?;
        for path in &compiled.paths {
            println!("cargo:rerun-if-changed={}", path.display());
        }
        for (name, text) in self.files(&compiled.schema) {
            write(&out_dir.join(name), &text)?;
        }
        Ok(())
    }

    /// Returns the code for `files`, by the names of the files that [`Builder::compile`] would
    /// write, for tools that check or store it.
    pub fn generate<F: AsRef<Path>>(
        &self,
        files: &[F],
    ) -> Result<BTreeMap<PathBuf, String>, Error> {
        Ok(self.files(&self.read(files)?.schema))
    }

    fn read<F: AsRef<Path>>(&self, files: &[F]) -> Result<Compiled, Error> {
        let mut includes = self.includes.clone();
        if includes.is_empty() {
            let of_file = |file: &F| file.as_ref().parent().map(Path::to_owned);
            includes.extend(files.iter().filter_map(of_file).map(|directory| {
                if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory }
            }));
            includes.dedup();
        }
        let files = files.iter().map(AsRef::as_ref);
        let options = Options { limits: LIMITS, ..Options::default() };
        let compiled = petasos_schema::compile(files, &includes, &options)
            .map_err(|error| Error::Schema(locate(error, &includes)))?;
        check_size(&compiled.schema)?;
        Ok(compiled)
    }

    fn files(&self, schema: &Schema) -> BTreeMap<PathBuf, String> {
        let externs = self.externs();
        let layouts = Layouts::of(schema);
        let scopes = Scopes::new(schema, &externs, self.services, self.owned);
        let mut files = BTreeMap::new();
        for (name, root) in &scopes.packages {
            let package = Package {
                schema,
                layouts: &layouts,
                scopes: &scopes,
                modules: scope::modules(name),
                runtime: &self.runtime,
                calls: &self.calls,
            };
            files.insert(file_name(name).into(), package.write(root));
        }
        if let Some(name) = &self.include_file {
            let packages = scopes.packages.keys().map(String::as_str);
            files.insert(name.clone(), tree(packages));
        }
        files
    }

    fn externs(&self) -> Externs {
        let mut externs = self.externs.clone();
        for name in WELL_KNOWN.iter().filter(|_| self.well_known) {
            externs.add_default(
                &format!("google.protobuf.{name}"),
                &format!("{}::well_known::{name}", self.runtime),
            );
        }
        externs
    }
}

/// The error with the path of its file, if that can be found, instead of the name used by an
/// import: a place that editors can open.
fn locate(mut error: CompileError, includes: &[PathBuf]) -> CompileError {
    let at: Option<&mut Position> = match &mut error {
        CompileError::File { at, .. } => at.as_mut(),
        CompileError::Load(LoadError::Invalid { at, .. } | LoadError::Refused { at, .. }) => {
            Some(at)
        }
        _ => None,
    };
    if let Some(at) = at {
        let mut paths = includes.iter().map(|include| include.join(&*at.file));
        if let Some(path) = paths.find(|path| path.exists()) {
            at.file = path.display().to_string().into();
        }
    }
    error
}

/// Refuses a schema that the program would refuse to read at start.
fn check_size(schema: &Schema) -> Result<(), Error> {
    let mut messages = schema.messages().map(|(_, message)| message);
    if let Some(message) = messages.find(|message| message.fields().len() > FIELDS_MAX) {
        return Err(Error::TooManyFields { message: message.full_name().to_owned() });
    }
    let decoded = Schema::decode(&schema.encode(), &Limits::default());
    decoded.map(|_| ()).map_err(Error::TooLarge)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| Error::Write { path: path.to_owned(), error })
}
