//! Named counters: plain fields to write, and an iterator over names and values to read.

/// Declares a struct of `u64` counters with `iter()` over `(name, value)` and `add()`.
///
/// Counters belong to one thread; a reader on another thread gets a copy.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: u64,)* }

        impl $name {
            /// Every counter's name and value, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// Adds each counter of `other` to the counter of the same name.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

#[cfg(test)]
mod tests {
    counters! {
        /// Two counters.
        pub struct Pair {
            /// One.
            first,
            /// Another.
            second,
        }
    }

    #[test]
    fn counters_are_read_by_name_and_add_up() {
        let mut pair = Pair { first: 1, second: 2 };
        pair.add(&Pair { first: 10, second: 20 });
        let named: Vec<_> = pair.iter().collect();
        assert_eq!(named, [("first", 11), ("second", 22)]);
    }
}
