//! Decides which declaration becomes which item of which module.
//!
//! A package's items are in one private module, so that only generated code can access the fields
//! of structs. Items nested in a message are in a module named after the message. All names are
//! decided before any code is written, because types refer to each other in any order.

use std::collections::BTreeMap;

use petasos_schema::{EnumId, Message, MessageId, Schema, ServiceId};

use crate::externs::Externs;
use crate::names::{Allocator, around, camel, shout, snake, variant};

/// The private module of a package.
pub(crate) const PRIVATE: &str = "generated";

/// The items of all packages.
#[derive(Debug)]
pub(crate) struct Scopes {
    /// By package.
    pub(crate) packages: BTreeMap<String, Scope>,
    /// Whether plain structs are generated, too.
    pub(crate) owned: bool,
    messages: Vec<Item>,
    enums: Vec<Item>,
}

/// A module: a package's, or that of a message.
#[derive(Debug)]
pub(crate) struct Scope {
    /// The modules below the package's.
    pub(crate) path: Vec<String>,
    /// The message whose module this is, if it is generated, too.
    pub(crate) owner: Option<MessageId>,
    pub(crate) messages: Vec<MessageId>,
    pub(crate) enums: Vec<EnumId>,
    pub(crate) services: BTreeMap<ServiceId, ServiceNames>,
    /// The names of the enums for the owner's oneofs, in their order.
    pub(crate) oneofs: Vec<String>,
    /// The names of the enums for its plain struct's oneofs.
    pub(crate) owned_oneofs: Vec<String>,
    /// By the message's name in its .proto file.
    pub(crate) children: BTreeMap<String, Scope>,
    pub(crate) names: Allocator,
}

/// The Rust names for a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceNames {
    /// The trait.
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) client: String,
    /// The static that describes it.
    pub(crate) info: String,
}

/// The Rust item of a message or enum.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// In a module of this build.
    Local {
        /// The modules of the package.
        package: Vec<String>,
        /// The modules within it.
        path: Vec<String>,
        /// The type.
        name: String,
        /// The cursor of a message.
        cursor: String,
        /// The type to which a message's `Msg` dereferences.
        owner: String,
        /// A message's plain struct.
        owned: String,
    },
    /// In a crate that already has it: the whole path.
    Extern(String),
}

impl Scopes {
    pub(crate) fn new(schema: &Schema, externs: &Externs, services: bool, owned: bool) -> Scopes {
        let mut packages = trees(schema, externs, services);
        let below: Vec<String> = packages.keys().cloned().collect();
        for (package, scope) in &mut packages {
            // Modules of packages within this one stand beside its items.
            let prefix = if package.is_empty() { String::new() } else { format!("{package}.") };
            let children = below.iter().filter_map(|other| other.strip_prefix(&prefix));
            for child in children.filter(|child| !child.is_empty()) {
                scope.names.take(snake(child.split('.').next().unwrap_or_default()));
            }
        }
        let missing = Item::Extern(String::new());
        let mut scopes = Scopes {
            owned,
            messages: vec![missing.clone(); schema.messages().len()],
            enums: vec![missing; schema.enums().len()],
            packages: BTreeMap::new(),
        };
        for (package, mut scope) in packages {
            scopes.name(schema, &modules(&package), &mut scope);
            scopes.packages.insert(package, scope);
        }
        for (id, message) in schema.messages() {
            if let Some(path) = externs.path(message.full_name()) {
                scopes.messages[id.index()] = Item::Extern(path);
            }
        }
        for (id, item) in schema.enums() {
            if let Some(path) = externs.path(item.full_name()) {
                scopes.enums[id.index()] = Item::Extern(path);
            }
        }
        scopes
    }

    pub(crate) fn message(&self, id: MessageId) -> &Item {
        &self.messages[id.index()]
    }

    pub(crate) fn enumeration(&self, id: EnumId) -> &Item {
        &self.enums[id.index()]
    }

    /// Names the items of a module, and of the modules in it. Declarations that need no conversion
    /// choose first.
    fn name(&mut self, schema: &Schema, package: &[String], scope: &mut Scope) {
        let mut names = std::mem::take(&mut scope.names);
        for exact in [true, false] {
            for id in &scope.messages {
                let last = last(schema.message(*id).local_name());
                if (camel(last) == last) == exact {
                    let name = names.take(camel(last));
                    self.messages[id.index()] = local(package, &scope.path, name);
                }
            }
            for id in &scope.enums {
                let last = last(schema.enumeration(*id).local_name());
                if (camel(last) == last) == exact {
                    let name = names.take(camel(last));
                    self.enums[id.index()] = local(package, &scope.path, name);
                }
            }
        }
        if let Some(owner) = scope.owner {
            let oneofs = schema.message(owner).oneofs().iter();
            scope.oneofs = oneofs.map(|oneof| names.take(variant(oneof.name()))).collect();
        }
        for id in &scope.messages {
            if let Item::Local { name, cursor, owner, .. } = &mut self.messages[id.index()] {
                *cursor = names.take(around("", name, "Mut"));
                *owner = names.take(around("", name, "Msg"));
            }
        }
        if self.owned {
            self.name_owned(scope, &mut names);
        }
        for (name, child) in &mut scope.children {
            child.path = scope.path.clone();
            child.path.push(names.take(snake(name)));
            self.name(schema, package, child);
        }
        for (id, service) in &mut scope.services {
            let wanted = camel(last(schema.service(*id).local_name()));
            let made = |name: &str| service_names(name);
            let name = names.take_all(wanted, |name| made(name).to_vec());
            let [name, server, client, info] = made(&name);
            *service = ServiceNames { name, server, client, info };
        }
        scope.names = names;
    }

    /// Names the items of plain structs, after all others, so that they change no other name.
    fn name_owned(&mut self, scope: &mut Scope, names: &mut Allocator) {
        let owned_name = |name: &str| around("Owned", name, "");
        scope.owned_oneofs = scope.oneofs.iter().map(|name| names.take(owned_name(name))).collect();
        for id in &scope.messages {
            if let Item::Local { name, owned, .. } = &mut self.messages[id.index()] {
                *owned = names.take(owned_name(name));
            }
        }
    }
}

/// A service's trait, server, client and static.
fn service_names(name: &str) -> [String; 4] {
    let [server, client] = ["Server", "Client"].map(|end| around("", name, end));
    [name.to_owned(), server, client, around("", &shout(name), "_INFO")]
}

impl Scope {
    fn new() -> Scope {
        Scope {
            path: Vec::new(),
            owner: None,
            messages: Vec::new(),
            enums: Vec::new(),
            services: BTreeMap::new(),
            oneofs: Vec::new(),
            owned_oneofs: Vec::new(),
            children: BTreeMap::new(),
            names: Allocator::without(RESERVED),
        }
    }

    /// The module of the declaration with the local name `name`, made if need be.
    fn of(&mut self, name: &str) -> &mut Scope {
        match name.rsplit_once('.') {
            None => self,
            Some((outer, _)) => self.within(outer),
        }
    }

    /// The module named after the message `outer`, made if need be.
    fn within(&mut self, outer: &str) -> &mut Scope {
        outer.split('.').fold(self, |scope, part| {
            scope.children.entry(part.to_owned()).or_insert_with(Scope::new)
        })
    }

    /// The module named after the message `outer`, if there is one.
    pub(crate) fn find(&mut self, outer: &str) -> Option<&mut Scope> {
        outer.split('.').try_fold(self, |scope, part| scope.children.get_mut(part))
    }

    /// A name of the standard prelude, in full if something here hides it.
    pub(crate) fn prelude(&self, short: &'static str, full: &'static str) -> &'static str {
        if self.names.has(short) { full } else { short }
    }
}

impl Item {
    /// How code in the module `from` of `package` names it.
    pub(crate) fn path(&self, package: &[String], from: &Scope) -> String {
        self.in_scope(package, from, |item| match item {
            Item::Local { name, .. } => name.clone(),
            Item::Extern(path) => path.clone(),
        })
    }

    /// How it names a message's cursor.
    pub(crate) fn cursor_path(&self, package: &[String], from: &Scope) -> String {
        self.in_scope(package, from, |item| match item {
            Item::Local { cursor, .. } => cursor.clone(),
            Item::Extern(path) => around("", path, "Mut"),
        })
    }

    /// How it names what a message's `Msg` dereferences to.
    pub(crate) fn owner_path(&self, package: &[String], from: &Scope) -> String {
        self.in_scope(package, from, |item| match item {
            Item::Local { owner, .. } => owner.clone(),
            Item::Extern(path) => around("", path, "Msg"),
        })
    }

    /// How it names a message's plain struct.
    pub(crate) fn owned_path(&self, package: &[String], from: &Scope) -> String {
        self.in_scope(package, from, |item| match item {
            Item::Local { owned, .. } => owned.clone(),
            Item::Extern(path) => match path.rsplit_once("::") {
                Some((modules, name)) => format!("{modules}::{}", around("Owned", name, "")),
                None => around("Owned", path, ""),
            },
        })
    }

    fn in_scope(&self, at: &[String], from: &Scope, name: impl Fn(&Item) -> String) -> String {
        let Item::Local { package, path, .. } = self else { return name(self) };
        let mut parts: Vec<&str>;
        if package == at {
            parts = steps(&from.path, path);
        } else {
            // Up to the package's own module, past the private one, and over.
            parts = vec!["super"; from.path.len() + 1];
            parts.extend(steps(at, package));
            parts.extend(path.iter().map(String::as_str));
        }
        let name = name(self);
        parts.push(&name);
        parts.join("::")
    }
}

/// The way between two modules of one tree.
fn steps<'a>(from: &'a [String], to: &'a [String]) -> Vec<&'a str> {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let mut parts = vec!["super"; from.len() - common];
    parts.extend(to[common..].iter().map(String::as_str));
    parts
}

/// The modules of a package.
pub(crate) fn modules(package: &str) -> Vec<String> {
    package.split('.').filter(|part| !part.is_empty()).map(snake).collect()
}

/// What is declared where, still without names.
fn trees(schema: &Schema, externs: &Externs, services: bool) -> BTreeMap<String, Scope> {
    let mut packages: BTreeMap<String, Scope> = BTreeMap::new();
    let ours = |message: &Message| externs.path(message.full_name()).is_none();
    for (id, message) in schema.messages().filter(|(_, message)| ours(message)) {
        let root = package(&mut packages, message.package());
        root.of(message.local_name()).messages.push(id);
        if !message.oneofs().is_empty() {
            root.within(message.local_name());
        }
    }
    for (id, item) in schema.enums() {
        if externs.path(item.full_name()).is_none() {
            let root = package(&mut packages, item.package());
            root.of(item.local_name()).enums.push(id);
        }
    }
    for (id, service) in schema.services().filter(|_| services) {
        package(&mut packages, service.package()).services.insert(id, ServiceNames::default());
    }
    for (id, message) in schema.messages().filter(|(_, message)| ours(message)) {
        let root = packages.get_mut(message.package());
        if let Some(scope) = root.and_then(|root| root.find(message.local_name())) {
            scope.owner = Some(id);
        }
    }
    packages
}

fn package<'a>(packages: &'a mut BTreeMap<String, Scope>, name: &str) -> &'a mut Scope {
    packages.entry(name.to_owned()).or_insert_with(Scope::new)
}

fn last(local_name: &str) -> &str {
    local_name.rsplit('.').next().unwrap_or(local_name)
}

fn local(package: &[String], path: &[String], name: String) -> Item {
    let (package, path) = (package.to_vec(), path.to_vec());
    let later = String::new;
    Item::Local { package, path, name, cursor: later(), owner: later(), owned: later() }
}

/// Names that generated code uses itself; a module of a primitive's name would hide that.
const RESERVED: &[&str] = &[
    PRIVATE, "rt", "calls", "SCHEMA", "bool", "char", "str", "i8", "i16", "i32", "i64", "i128",
    "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32", "f64",
];
