//! Descriptors of services that become known at run time.
//!
//! Equal services share one descriptor, which is freed with its last reference. Until then, a table
//! of weak references finds it. All services of a schema share its bytes. What is alive at the same
//! time is bounded, so that names and schemas from outside cannot fill the memory of a process.
//!
//! # Invariants
//! - A descriptor takes its own entry out of the table when it is dropped. After its last reference
//!   is gone and before that, the entry may have become that of an equal, newer one, which stays.
//! - What the table counts are the descriptors that exist, whether or not they have an entry.
//! - Nothing is dropped under the table's lock that could be the last reference to a descriptor:
//!   its drop takes the lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use petasos_message::{Module, ModuleRef};
use petasos_schema::Digest;

use super::{Idempotency, MethodKind};

/// The most services at the same time.
const SERVICES_MAX: usize = 1 << 16;
/// The most bytes of their schemas and names.
const BYTES_MAX: usize = 64 << 20;

/// All that are alive.
static ALIVE: Mutex<Table> = Mutex::new(Table::new(BYTES_MAX));

/// The properties by which services differ.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Described {
    pub(crate) name: Box<str>,
    pub(crate) hash: [u8; 16],
    /// By name in ascending order (R1).
    pub(crate) methods: Box<[DescribedMethod]>,
    /// Whether messages of unary methods may be images.
    pub(crate) has_images: bool,
}

/// A method of such a service.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DescribedMethod {
    pub(crate) name: Box<str>,
    pub(crate) kind: MethodKind,
    pub(crate) idempotency: Idempotency,
}

/// A descriptor that was made at run time.
pub(super) struct Owned {
    pub(super) described: Arc<Described>,
    pub(super) module: ModuleRef,
    /// Of the schema, unless that is of generated code.
    digest: Option<[u8; 32]>,
    table: &'static Mutex<Table>,
}

/// There is no room for another one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// What there is of services that became known at run time, and that something still uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alive {
    /// How many, at most 65,536.
    pub services: usize,
    /// Bytes of their names, and of their schemas, each once; at most 64 MiB.
    pub bytes: usize,
}

/// Services that became known at run time and are in use in this process now.
pub fn alive() -> Alive {
    lock(&ALIVE).alive
}

impl Described {
    /// The descriptor of these properties, with the schema that `module` makes if it is a new one.
    ///
    /// # Errors
    /// There are too many services, or bytes of them.
    pub(super) fn shared(self, module: impl FnOnce() -> ModuleRef) -> Result<Arc<Owned>, Full> {
        shared(&ALIVE, self, module)
    }

    fn bytes(&self) -> usize {
        let names: usize = self.methods.iter().map(|method| method.name.len()).sum();
        self.name.len() + names + size_of_val(&*self.methods)
    }
}

fn shared(
    table: &'static Mutex<Table>,
    described: Described,
    module: impl FnOnce() -> ModuleRef,
) -> Result<Arc<Owned>, Full> {
    if let Some(known) = lock(table).find(&described) {
        return Ok(known);
    }
    // Without the lock, since it takes a while.
    let module = Schema::of(module());
    lock(table).add(table, described, module)
}

/// A schema that is about to be a descriptor's.
enum Schema {
    /// Of generated code.
    Static(ModuleRef),
    Owned(Digest, Arc<Module>),
}

impl Schema {
    fn of(module: ModuleRef) -> Schema {
        match module {
            ModuleRef::Owned(module) => Schema::Owned(Digest::of(module.compact()), module),
            module => Schema::Static(module),
        }
    }
}

struct Table {
    services: BTreeMap<Arc<Described>, Weak<Owned>>,
    /// The schemas of the descriptors that exist, each with the number of these.
    schemas: BTreeMap<[u8; 32], (Arc<Module>, usize)>,
    alive: Alive,
    bytes_max: usize,
}

fn lock(table: &'static Mutex<Table>) -> MutexGuard<'static, Table> {
    table.lock().expect("nothing panics under the lock")
}

impl Table {
    const fn new(bytes_max: usize) -> Table {
        Table {
            services: BTreeMap::new(),
            schemas: BTreeMap::new(),
            alive: Alive { services: 0, bytes: 0 },
            bytes_max,
        }
    }

    fn find(&self, described: &Described) -> Option<Arc<Owned>> {
        self.services.get(described).and_then(Weak::upgrade)
    }

    fn add(
        &mut self,
        table: &'static Mutex<Table>,
        described: Described,
        schema: Schema,
    ) -> Result<Arc<Owned>, Full> {
        if let Some(known) = self.find(&described) {
            // Another thread was faster.
            return Ok(known);
        }
        let mut bytes = described.bytes();
        if let Schema::Owned(digest, module) = &schema
            && !self.schemas.contains_key(&digest.to_bytes())
        {
            bytes += module.compact().len();
        }
        if self.alive.services >= SERVICES_MAX || self.alive.bytes + bytes > self.bytes_max {
            return Err(Full);
        }
        self.alive.services += 1;
        self.alive.bytes += bytes;
        let (module, digest) = match schema {
            Schema::Static(module) => (module, None),
            Schema::Owned(digest, module) => {
                let digest = digest.to_bytes();
                let (module, uses) = self.schemas.entry(digest).or_insert((module, 0));
                *uses += 1;
                (ModuleRef::Owned(module.clone()), Some(digest))
            }
        };
        let described = Arc::new(described);
        let service = Arc::new(Owned { described: described.clone(), module, digest, table });
        // Of one whose drop waits for the lock, the entry is this one's from now on.
        self.services.insert(described, Arc::downgrade(&service));
        Ok(service)
    }

    /// A descriptor is gone.
    fn remove(&mut self, gone: &Owned) {
        self.alive.services -= 1;
        self.alive.bytes -= gone.described.bytes();
        if let Some(digest) = gone.digest
            && let Some((module, uses)) = self.schemas.get_mut(&digest)
        {
            *uses -= 1;
            if *uses == 0 {
                self.alive.bytes -= module.compact().len();
                self.schemas.remove(&digest);
            }
        }
        let entry = self.services.get(&gone.described);
        if entry.is_some_and(|entry| core::ptr::eq(entry.as_ptr(), gone)) {
            self.services.remove(&gone.described);
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        lock(self.table).remove(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &str) -> Described {
        let (methods, has_images) = (Box::default(), false);
        Described { name: name.into(), hash: [1; 16], methods, has_images }
    }

    /// A schema: so many bytes of this value.
    fn schema(byte: u8, bytes: usize) -> ModuleRef {
        Module::owned(vec![byte; bytes]).into()
    }

    fn make(table: &'static Mutex<Table>, name: &str, bytes: usize) -> Result<Arc<Owned>, Full> {
        shared(table, described(name), || schema(name.as_bytes()[0], bytes))
    }

    #[test]
    fn equal_services_share_a_descriptor_whose_bytes_come_back_with_the_last_reference() {
        static TABLE: Mutex<Table> = Mutex::new(Table::new(1000));
        let alive = |services, bytes| assert_eq!(lock(&TABLE).alive, Alive { services, bytes });
        let first = make(&TABLE, "a", 900).expect("there is room");
        let again = make(&TABLE, "a", 900).expect("it is there");
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(make(&TABLE, "b", 200).err(), Some(Full));
        let other = make(&TABLE, "c", 90).expect("nothing was counted of what was refused");
        assert!(!Arc::ptr_eq(&first, &other));
        alive(2, 992);
        drop(first);
        alive(2, 992);
        assert_eq!(make(&TABLE, "b", 200).err(), Some(Full), "one reference is left");
        drop(again);
        alive(1, 91);
        let b = make(&TABLE, "b", 200).expect("there is room again");
        drop((b, other));
        alive(0, 0);
        assert!(lock(&TABLE).services.is_empty());
    }

    #[test]
    fn services_of_one_schema_share_its_bytes() {
        static TABLE: Mutex<Table> = Mutex::new(Table::new(1000));
        let make = |name| shared(&TABLE, described(name), || schema(1, 900));
        let all = ["a", "b", "c"].map(|name| make(name).expect("there is room"));
        let modules = all.each_ref().map(|service| service.module.compact().as_ptr());
        assert_eq!(modules, [modules[0]; 3]);
        assert_eq!(lock(&TABLE).alive, Alive { services: 3, bytes: 903 });
        let [a, b, c] = all;
        drop((a, c));
        assert_eq!(lock(&TABLE).alive, Alive { services: 1, bytes: 901 });
        drop(b);
        assert_eq!(lock(&TABLE).alive, Alive::default());
        assert!(lock(&TABLE).schemas.is_empty());
    }

    #[test]
    fn who_asks_between_the_last_reference_and_its_drop_gets_a_new_descriptor_that_stays() {
        static TABLE: Mutex<Table> = Mutex::new(Table::new(1000));
        let old = make(&TABLE, "a", 300).expect("there is room");
        let mut table = lock(&TABLE);
        let weak = table.services.values().next().expect("it is there").clone();
        let dropping = std::thread::spawn(move || drop(old));
        // Its drop waits for the lock.
        while weak.strong_count() > 0 {
            std::thread::yield_now();
        }
        let module = Schema::of(schema(b'b', 400));
        let new = table.add(&TABLE, described("a"), module).expect("there is room");
        assert_eq!(table.alive, Alive { services: 2, bytes: 702 });
        drop(table);
        dropping.join().expect("it is dropped");
        assert_eq!(lock(&TABLE).alive, Alive { services: 1, bytes: 401 });
        assert!(Arc::ptr_eq(&make(&TABLE, "a", 300).expect("it is there"), &new));
        drop(new);
        assert!(lock(&TABLE).services.is_empty());
    }

    #[test]
    fn threads_that_make_and_drop_the_same_service_leave_nothing() {
        static TABLE: Mutex<Table> = Mutex::new(Table::new(1000));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let service = make(&TABLE, "a", 9).expect("there is room");
                        assert_eq!(&*service.described.name, "a");
                    }
                });
            }
        });
        let table = lock(&TABLE);
        assert!(table.services.is_empty() && table.alive == Alive::default());
    }
}
