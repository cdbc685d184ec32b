//! Enums with a word for each variant.

/// An enum with a list of its variants (`ALL`) and a word for each. The word is printed, and returned by `name`
/// or by the method that is given first. After `serde:` the word is also the variant's JSON.
#[macro_export]
macro_rules! words {
    (serde: $(#[$about:meta])* $visible:vis enum $name:ident {
        $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $crate::words! {
            name:
            $(#[$about])*
            #[derive(serde::Serialize, serde::Deserialize)]
            $visible enum $name {
                $($(#[$of])* #[serde(rename = $word)] $variant = $word),+
            }
        }
    };
    ($(#[$about:meta])* $visible:vis enum $($rest:tt)*) => {
        $crate::words! { name: $(#[$about])* $visible enum $($rest)* }
    };
    ($method:ident: $(#[$about:meta])* $visible:vis enum $name:ident {
        $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$about])*
        $visible enum $name {
            $($(#[$of])* $variant),+
        }

        impl $name {
            /// All variants, in their order.
            $visible const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// The word of the variant.
            $visible const fn $method(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.$method())
            }
        }
    };
}
