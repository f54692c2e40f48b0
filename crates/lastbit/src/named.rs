//! Enums whose variants have names: declared once for code, flags, TOML files and records.
//!
//! [`named_enum!`](crate::named_enum) declares the enum; its variants' doc comments are also the help of a flag
//! that takes it. With the feature `serde` a value is (de)serialized as its name.

/// An enum of named choices.
pub trait Named: Copy + Eq + 'static {
    /// All variants, in the order of their declaration.
    const ALL: &'static [Self];
    /// Their names, in the same order.
    const NAMES: &'static [&'static str];

    /// The name in flags, TOML files and records.
    fn name(self) -> &'static str;

    /// What the variant means, for `--help`.
    fn help(self) -> &'static str;

    /// The variant of this name.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variant| variant.name() == name)
    }
}

/// Declares an enum that implements [`Named`](crate::named::Named) and prints as its name.
///
/// ```
/// use lastbit::named::Named;
///
/// lastbit::named_enum! {
///     /// What happens at the ends of the interval.
///     pub enum Ends, default Fixed {
///         /// Held at their initial values.
///         Fixed = "fixed",
///         /// Joined to a ring.
///         Periodic = "periodic",
///     }
/// }
/// assert_eq!(Ends::from_name("periodic"), Some(Ends::Periodic));
/// assert_eq!(Ends::default().to_string(), "fixed");
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Enum:ident $(, default $Default:ident)? {
            $($(#[doc = $doc:literal])+ $Variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $Enum {
            $($(#[doc = $doc])+ $Variant,)+
        }

        impl $Enum {
            /// The name in flags, TOML files and records.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                }
            }
        }

        impl $crate::named::Named for $Enum {
            const ALL: &'static [Self] = &[$(Self::$Variant),+];
            const NAMES: &'static [&'static str] = &[$($name),+];

            fn name(self) -> &'static str {
                self.name()
            }

            fn help(self) -> &'static str {
                match self {
                    $(Self::$Variant => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }

        impl ::std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut ::std::fmt::Formatter) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        $(impl Default for $Enum {
            fn default() -> Self {
                Self::$Default
            }
        })?

        $crate::serde_of_named!($Enum);
    };
}

/// Without the feature `serde`: nothing.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! serde_of_named {
    ($Enum:ident) => {};
}

/// With the feature `serde`: a value is its name.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! serde_of_named {
    ($Enum:ident) => {
        impl $crate::named::serde::Serialize for $Enum {
            fn serialize<S: $crate::named::serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> $crate::named::serde::Deserialize<'de> for $Enum {
            fn deserialize<D: $crate::named::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                $crate::named::from_name_in(deserializer)
            }
        }
    };
}

#[cfg(feature = "serde")]
#[doc(hidden)]
pub use serde;

/// Reads a name; one that no variant has is answered by all names.
#[cfg(feature = "serde")]
#[doc(hidden)]
pub fn from_name_in<'de, T: Named, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct NameVisitor<T>(std::marker::PhantomData<T>);

    impl<T: Named> serde::de::Visitor<'_> for NameVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
            write!(f, "one of \"{}\"", T::NAMES.join("\", \""))
        }

        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<T, E> {
            T::from_name(name).ok_or_else(|| E::unknown_variant(name, T::NAMES))
        }
    }

    deserializer.deserialize_str(NameVisitor(std::marker::PhantomData))
}

/// A choice that is a word or, with a number, a table of one key: `"relu"` or `{ swish = 1.5 }`.
#[cfg(feature = "serde")]
pub trait WordOrNumber: Sized {
    /// All that may be there, for messages.
    const EXPECTED: &'static str;

    /// The word or key, and the number if it has one.
    fn parts(&self) -> (&'static str, Option<f64>);

    /// Back from these.
    fn from_parts(word: &str, number: Option<f64>) -> Option<Self>;
}

/// (De)serializes a [`WordOrNumber`](crate::named::WordOrNumber).
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! serde_of_word_or_number {
    ($Enum:ident) => {
        impl $crate::named::serde::Serialize for $Enum {
            fn serialize<S: $crate::named::serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                $crate::named::serialize_parts($crate::named::WordOrNumber::parts(self), serializer)
            }
        }

        impl<'de> $crate::named::serde::Deserialize<'de> for $Enum {
            fn deserialize<D: $crate::named::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                $crate::named::word_or_number_in(deserializer)
            }
        }
    };
}

/// Writes a word, or a table of it and its number.
#[cfg(feature = "serde")]
#[doc(hidden)]
pub fn serialize_parts<S: serde::Serializer>(
    (word, number): (&str, Option<f64>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serializer.collect_map([(word, number)]),
        None => serializer.serialize_str(word),
    }
}

/// Reads a word, or a table of one key and a number.
#[cfg(feature = "serde")]
#[doc(hidden)]
pub fn word_or_number_in<'de, T: WordOrNumber, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct PartsVisitor<T>(std::marker::PhantomData<T>);

    impl<'de, T: WordOrNumber> serde::de::Visitor<'de> for PartsVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
            f.write_str(T::EXPECTED)
        }

        fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<T, E> {
            let refuse = || E::custom(format!("found \"{word}\", expected {}", T::EXPECTED));
            T::from_parts(word, None).ok_or_else(refuse)
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            use serde::de::Error;
            let refuse =
                |found: &str| A::Error::custom(format!("found {found}, expected {}", T::EXPECTED));
            let Some((word, number)) = map.next_entry::<String, f64>()? else {
                return Err(refuse("an empty table"));
            };
            if let Some(other) = map.next_key::<String>()? {
                return Err(refuse(&format!("a table with {word} and {other}")));
            }
            let shown = format!("{{ {word} = {number} }}");
            T::from_parts(&word, Some(number)).ok_or_else(|| refuse(&shown))
        }
    }

    deserializer.deserialize_any(PartsVisitor(std::marker::PhantomData))
}
