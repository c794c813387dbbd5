//! Small indices into a schema's arenas.
//!
//! An id belongs to the schema that it came from. With another schema it names another element or
//! none, and accessors panic.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// `index` counts elements that [`Limits`](crate::Limits) bounds below 2^32.
            pub(crate) fn new(index: usize) -> $name {
                $name(u32::try_from(index).expect("limits keep counts below 2^32"))
            }

            /// The place in the arena, for tables beside it.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A message of one schema.
    MessageId
}
id! {
    /// An enum of one schema.
    EnumId
}
id! {
    /// A service of one schema.
    ServiceId
}
id! {
    /// A oneof of one message.
    OneofIndex
}
id! {
    /// A set of messages of one schema, each of which contains all of them at some depth.
    CycleId
}
