//! Values that belong to a call at one end: at most one of each type.

use core::any::{Any, TypeId};
use core::fmt;
use std::sync::Arc;

type Value = Arc<dyn Any + Send + Sync>;

/// Values that interceptors, handlers and callers pass to each other along with a call, at one end
/// of it: at most one of each type. They are not sent.
///
/// One word in size; an empty value owns nothing. Clones share the values.
#[derive(Clone, Default)]
pub struct Extensions(Option<Box<Values>>);

#[derive(Clone, Default)]
struct Values(Vec<(TypeId, Value)>);

impl Extensions {
    /// Creates an empty value.
    pub const fn new() -> Extensions {
        Extensions(None)
    }

    /// The value of this type, if there is one.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let (_, value) = self.0.as_ref()?.0.iter().find(|(of, _)| *of == TypeId::of::<T>())?;
        value.downcast_ref()
    }

    /// Inserts a value, replacing one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let (of, value) = (TypeId::of::<T>(), Arc::new(value));
        let Values(values) = &mut **self.0.get_or_insert_default();
        match values.iter_mut().find(|(known, _)| *known == of) {
            Some((_, earlier)) => *earlier = value,
            None => values.push((of, value)),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |values| values.0.len())
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions").field("count", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_value_of_each_type() {
        assert_eq!(size_of::<Extensions>(), size_of::<usize>());
        let mut extensions = Extensions::new();
        assert!(extensions.is_empty() && extensions.get::<u8>().is_none());
        extensions.insert(1_u8);
        extensions.insert("text");
        let clone = extensions.clone();
        extensions.insert(2_u8);
        assert_eq!((extensions.get::<u8>(), clone.get::<u8>()), (Some(&2), Some(&1)));
        assert_eq!(extensions.get::<&str>(), Some(&"text"));
        assert_eq!((extensions.len(), extensions.get::<u16>()), (2, None));
    }
}
