//! Plain structs with the fields of messages: the basis of codegen's `owned`.
//!
//! Both conversions recurse as deeply as the message. A received message has at most
//! [`DEPTH_MAX`](crate::DEPTH_MAX) levels (M18, M26), so a peer cannot exhaust the stack.

use std::collections::BTreeMap;

use crate::msg::Msg;
use crate::part::ListMut;
use crate::part::MapMut;
use crate::part::Message;
use crate::part::{Blob, Element, Key, Map, Scalar, Text};

/// A struct of ordinary Rust values with the fields of a message, for state that lives long and
/// changes: `String`, `Vec`, `BTreeMap`, `Option`. Generated, by `petasos_codegen::Builder::owned`.
///
/// Unknown fields are lost.
pub trait Owned: Default + Clone {
    /// The message.
    type Message: Message;

    /// A copy of what is in a message.
    fn from_message(message: &Self::Message) -> Self;

    /// Writes the fields to an empty message.
    #[doc(hidden)]
    fn write(&self, to: <Self::Message as Message>::Mut<'_>);

    /// A message with these fields, in the process's default heap.
    ///
    /// # Panics
    /// As setters do: if a string, a list or all of the message would take 4 GiB.
    fn to_message(&self) -> Msg<Self::Message> {
        let mut message = Msg::<Self::Message>::new();
        self.write(message.edit());
        message
    }
}

/// Conversions for generated structs. They are functions, because code next to messages of any name
/// cannot rely on a trait's methods.
#[doc(hidden)]
pub mod plain {
    use super::*;

    pub fn text(value: &str) -> String {
        value.to_owned()
    }

    pub fn bytes(value: &[u8]) -> Vec<u8> {
        value.to_vec()
    }

    pub fn boxed<O: Owned>(message: &O::Message) -> Box<O> {
        Box::new(O::from_message(message))
    }

    pub fn list<T, O>(list: &[T], owned: impl Fn(&T) -> O) -> Vec<O> {
        list.iter().map(owned).collect()
    }

    pub fn map<K: Key, V: Element, N, O>(map: &Map<K, V>, owned: impl Fn(&V) -> O) -> BTreeMap<N, O>
    where
        N: for<'a> From<K::Ref<'a>> + Ord,
    {
        map.iter().map(|(key, value)| (N::from(key), owned(value))).collect()
    }

    pub fn put_list<V: Element>(mut list: ListMut<'_, V>, values: &[impl AsValue<V>]) {
        list.reserve(values.len());
        for value in values {
            list.push_with(value.as_value());
        }
    }

    pub fn put_messages<O: Owned>(mut list: ListMut<'_, O::Message>, values: &[O]) {
        list.reserve(values.len());
        for value in values {
            value.write(list.add());
        }
    }

    pub fn put_map<K: Key, V: Element, N: AsKey<K>, O: AsValue<V>>(
        mut map: MapMut<'_, K, V>,
        values: &BTreeMap<N, O>,
    ) {
        map.extend(values.iter().map(|(key, value)| (key.as_key(), value.as_value())));
    }

    pub fn put_message_map<K: Key, N: AsKey<K>, O: Owned>(
        mut map: MapMut<'_, K, O::Message>,
        values: &BTreeMap<N, O>,
    ) {
        // Ascending, as in the message: each entry is added behind those before.
        for (key, value) in values {
            value.write(map.at(key.as_key()));
        }
    }
}

/// A type from which an element or value `V` can be set.
#[doc(hidden)]
pub trait AsValue<V: Element> {
    fn as_value(&self) -> V::Value<'_>;
}

impl<S: Scalar + for<'v> Element<Value<'v> = S>> AsValue<S> for S {
    fn as_value(&self) -> S {
        *self
    }
}

impl AsValue<Text> for String {
    fn as_value(&self) -> &str {
        self
    }
}

impl AsValue<Blob> for Vec<u8> {
    fn as_value(&self) -> <Blob as Element>::Value<'_> {
        self.as_slice().into()
    }
}

/// A type from which an entry's key `K` can be set.
#[doc(hidden)]
pub trait AsKey<K: Key> {
    fn as_key(&self) -> K::Ref<'_>;
}

macro_rules! as_key {
    ($($type:ty),*) => {$(
        impl AsKey<$type> for $type {
            fn as_key(&self) -> $type {
                *self
            }
        }
    )*};
}
as_key!(i32, i64, u32, u64, bool);

impl AsKey<Text> for String {
    fn as_key(&self) -> &str {
        self
    }
}

/// The conversions of a generated struct, beside its [`Owned`].
#[doc(hidden)]
#[macro_export]
macro_rules! owned {
    ($owned:ident, $message:ident) => {
        impl $owned {
            /// A message with these fields, in the process's default heap.
            pub fn to_message(&self) -> $crate::Msg<$message> {
                $crate::Owned::to_message(self)
            }
        }

        impl ::core::convert::From<&$message> for $owned {
            fn from(message: &$message) -> $owned {
                $crate::Owned::from_message(message)
            }
        }

        impl ::core::convert::From<&$crate::Msg<$message>> for $owned {
            fn from(message: &$crate::Msg<$message>) -> $owned {
                $crate::Owned::from_message(&***message)
            }
        }

        impl ::core::convert::From<&$owned> for $crate::Msg<$message> {
            fn from(owned: &$owned) -> $crate::Msg<$message> {
                $crate::Owned::to_message(owned)
            }
        }
    };
}
