//! The macros that generated code consists of.

/// Makes a struct of parts a message.
///
/// For code that codegen prints, and no other: what else is written next to the struct can reach
/// its fields, and could break what all `unsafe` of this crate relies on (M12).
#[macro_export]
macro_rules! message {
    (
        $type:ident, $cursor:ident, $owner:ident, $module:path,
        index $index:literal, bytes $bytes:expr;
        $($field:ident: $number:literal),+ $(,)?;
        $($oneof:ident: oneof $members:tt;)*
    ) => {
        $crate::message! {
            @all $type, $cursor, $owner, $module, $index, $bytes, [$($field: $number),+];
            $($oneof $members)*
        }
    };
    (
        $type:ident, $cursor:ident, $owner:ident, $module:path,
        index $index:literal, bytes $bytes:expr;
        $($oneof:ident: oneof $members:tt;)*
    ) => {
        $crate::message! {
            @all $type, $cursor, $owner, $module, $index, $bytes, [];
            $($oneof $members)*
        }
    };
    (
        @all $type:ident, $cursor:ident, $owner:ident, $module:path, $index:literal, $bytes:expr,
        [$($field:ident: $number:literal),*];
        $($oneof:ident { $($kind:ident $case:literal $($of:path)?),+ $(,)? })*
    ) => {
        #[doc = concat!("What a `Msg` of [`", stringify!($type), "`] dereferences to. Sets the")]
        /// first field, and gives the cursor for more.
        #[repr(transparent)]
        pub struct $owner($crate::Owner<$type>);

        const _: () = {
            use $crate as rt;
            const FIELDS: &[rt::Slot] = &[
                $(rt::Slot {
                    number: $number,
                    offset: ::core::mem::offset_of!($type, $field) as u32,
                    shape: rt::shape_of::<$type, _>(|message| &message.$field),
                },)*
                $(rt::Slot {
                    number: 0,
                    offset: ::core::mem::offset_of!($type, $oneof) as u32,
                    shape: {
                        const fn check(_: fn(&$type) -> &rt::OneOf) {}
                        check(|message| &message.$oneof);
                        rt::Shape::OneOf(&[$(rt::Member {
                            number: $case,
                            shape: rt::message!(@shape $kind $($of)?),
                        }),+])
                    },
                },)*
            ];
            const PARTS: ([(usize, rt::Part); FIELDS.len() + 2], usize) =
                rt::slots(FIELDS, size_of::<$type>());
            static TYPE: rt::MessageType = rt::MessageType {
                module: &$module,
                index: $index,
                slots: rt::Slots {
                    bytes: size_of::<$type>(),
                    align: align_of::<$type>(),
                    parts: PARTS.0.split_at(PARTS.1).0,
                },
                fields: FIELDS,
            };
            const fn check(_: fn(&$type) -> &rt::Unknown) {}
            check(|message| &message.unknown);
            assert!(::core::mem::offset_of!($type, unknown) == 0);
            assert!(size_of::<$type>() == $bytes, "a struct is what the schema's layout says");

            // SAFETY: size, offsets and types are the compiler's; the cursor and the owner lend
            // nothing but readers, setters and cursors, and fields are private to the generated
            // module.
            unsafe impl rt::Message for $type {
                type Mut<'a> = $cursor<'a>;
                type Owner = $owner;
                const TYPE: &'static rt::MessageType = &TYPE;
                #[inline]
                fn plan() -> rt::Plan<'static> {
                    static PLAN: rt::BoundPlan = rt::BoundPlan::new();
                    PLAN.get(&TYPE)
                }
                #[inline]
                fn validate(image: &[u8]) -> ::core::result::Result<(), rt::DecodeError> {
                    if const { !rt::is_flat(FIELDS, PARTS.0.split_at(PARTS.1).0) } {
                        return rt::validate(<Self as rt::Message>::plan(), image);
                    }
                    let accepted = rt::Flat::<$type>::accepts(image, |flat| flat$(.part(
                        ::core::mem::offset_of!($type, $field),
                        |message| &message.$field,
                    ))*);
                    match accepted {
                        true => ::core::result::Result::Ok(()),
                        false => rt::validate_by_plan::<$type>(image),
                    }
                }
            }

            impl<'a> ::core::convert::From<rt::Edit<'a, $type>> for $cursor<'a> {
                #[inline(always)]
                fn from(edit: rt::Edit<'a, $type>) -> $cursor<'a> {
                    $cursor(edit)
                }
            }

            impl ::core::ops::Deref for $cursor<'_> {
                type Target = $type;
                #[inline(always)]
                fn deref(&self) -> &$type {
                    self.0.get()
                }
            }

            impl ::core::ops::Deref for $owner {
                type Target = $type;
                #[inline(always)]
                fn deref(&self) -> &$type {
                    self.0.get()
                }
            }

            impl ::core::cmp::PartialEq for $type {
                fn eq(&self, other: &$type) -> bool {
                    rt::equal(self, other)
                }
            }

            impl ::core::fmt::Debug for $type {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    rt::debug(self, f)
                }
            }
        };
    };
    (@shape word1) => { $crate::ValueShape::Word1 };
    (@shape word4) => { $crate::ValueShape::Word4 };
    (@shape word8) => { $crate::ValueShape::Word8 };
    (@shape text) => { $crate::ValueShape::Text };
    (@shape blob) => { $crate::ValueShape::Blob };
    (@shape link $of:path) => { $crate::ValueShape::of_message::<$of>() };
}

/// Makes a struct of one `i32` an open enum: any number is a value, and some have names.
#[macro_export]
macro_rules! open_enum {
    ($type:ident; $($number:literal => $name:literal),* $(,)?) => {
        $crate::scalar!($type, Word4);

        impl $type {
            /// The value's name in the schema, if it has one.
            pub const fn name(self) -> ::core::option::Option<&'static str> {
                match self.0 {
                    $($number => ::core::option::Option::Some($name),)*
                    _ => ::core::option::Option::None,
                }
            }
        }

        impl ::core::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self.name() {
                    ::core::option::Option::Some(name) => f.write_str(name),
                    ::core::option::Option::None => ::core::fmt::Display::fmt(&self.0, f),
                }
            }
        }

        impl ::core::convert::From<i32> for $type {
            fn from(number: i32) -> $type {
                $type(number)
            }
        }

        impl ::core::convert::From<$type> for i32 {
            fn from(value: $type) -> i32 {
                value.0
            }
        }
    };
}
