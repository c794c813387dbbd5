//! Schemas that are known before an application binds them: from the cache on disk, and from files
//! that the operator names.
//!
//! A schema is kept as its compact form, never as plans: those are addresses and offsets that a
//! reader would have to trust. What is read back is checked as if an application had sent it, and
//! planned when the service starts.

mod folder;
mod keeper;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use petasos_schema::{FORMAT_VERSION, Limits, Options, Schema};
use petasos_service::{SchemaLimits, Schemas};

pub use keeper::Keeper;

use folder::{Folder, FolderLimits};

/// The longest file to read a schema from: descriptors carry comments, too.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The schema in a file, in its compact form: that form itself, or an encoded `FileDescriptorSet`.
///
/// # Errors
/// What is wrong with the file.
fn read(path: &Path, limits: &Limits) -> Result<Vec<u8>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("cannot load {}: {error}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| wrong(&error))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(&format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    // No descriptors begin with this byte.
    let schema = match bytes.first() {
        Some(&FORMAT_VERSION) => Schema::decode(&bytes, limits).map_err(|error| wrong(&error))?,
        _ => {
            let limits = Limits { bytes_max: FILE_BYTES_MAX as usize, ..*limits };
            let options = Options { limits, ..Options::default() };
            Schema::from_descriptors(&bytes, &options).map_err(|error| wrong(&error))?
        }
    };
    match schema.services().len() {
        0 => Err(wrong(&"it has no service")),
        _ => Ok(schema.encode()),
    }
}

/// The schemas that are known when the service starts, and who keeps those that are bound later.
///
/// # Errors
/// What is wrong with a file or the folder.
pub fn open(
    prefetch: &[PathBuf],
    cache: Option<&Path>,
) -> Result<(Schemas, Option<Keeper>), String> {
    let mut schemas = Schemas::new(SchemaLimits::default());
    let folder = cache.map(|path| Folder::open(path, limits_of(&schemas))).transpose()?;
    if let Some(folder) = &folder {
        schemas.tell_bound();
        restore(&mut schemas, folder);
    }
    load(&mut schemas, prefetch)?;
    Ok((schemas, folder.map(Keeper::start).transpose()?))
}

/// Whether [`open`] would do. Nothing is written.
///
/// # Errors
/// What is wrong with a file or the folder.
pub fn check(prefetch: &[PathBuf], cache: Option<&Path>) -> Result<(), String> {
    let mut schemas = Schemas::new(SchemaLimits::default());
    load(&mut schemas, prefetch)?;
    let Some(path) = cache else { return Ok(()) };
    match path.symlink_metadata() {
        Ok(_) => Folder::open(path, limits_of(&schemas)).map(drop),
        Err(_)
            if path.parent().is_some_and(|parent| parent == Path::new("") || parent.is_dir()) =>
        {
            Ok(())
        }
        Err(error) => Err(format!("the schema cache {} cannot be used: {error}", path.display())),
    }
}

/// As many on disk as there are spare in memory.
fn limits_of(schemas: &Schemas) -> FolderLimits {
    let SchemaLimits { schema, spare_max, spare_bytes_max, .. } = *schemas.limits();
    let file_bytes_max = schema.bytes_max as u64;
    FolderLimits { files_max: spare_max, bytes_max: spare_bytes_max as u64, file_bytes_max }
}

/// Loads the schemas in files, which stay until an operator evicts them.
fn load(schemas: &mut Schemas, files: &[PathBuf]) -> Result<(), String> {
    for path in files {
        let schema = read(path, &schemas.limits().schema)?;
        let loaded = schemas.load(&schema, true);
        let (digest, _) =
            loaded.map_err(|error| format!("cannot load {}: {error}", path.display()))?;
        eprintln!("petasosd: loaded schema {digest} from {}", path.display());
    }
    Ok(())
}

/// Loads what a folder has kept, as schemas that were bound before. What is wrong with a file is
/// said, and the file is removed: the schema is kept anew when it is next bound.
fn restore(schemas: &mut Schemas, folder: &Folder) {
    let (mut count, mut bytes) = (0, 0);
    for digest in folder.scan() {
        let loaded = folder.read(digest).and_then(|schema| {
            let loaded = schemas.load(&schema, false);
            loaded.map(|_| schema.len()).map_err(|error| error.to_string())
        });
        match loaded {
            Ok(more) => (count, bytes) = (count + 1, bytes + more),
            Err(why) => folder.refuse(&digest.to_string(), &why),
        }
    }
    if count > 0 {
        let path = folder.path().display();
        eprintln!("petasosd: {count} schemas of {bytes} bytes are known from {path}");
    }
}
