//! Arithmetic of structs of amounts, field by field.

/// Implements `+=` and `-` for structs with these fields.
macro_rules! fieldwise {
    ($($name:ident { $($field:ident),+ })+) => {$(
        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                $(self.$field += other.$field;)+
            }
        }

        impl std::ops::Sub for $name {
            type Output = $name;

            fn sub(self, other: $name) -> $name {
                $name { $($field: self.$field - other.$field),+ }
            }
        }
    )+};
}

pub(crate) use fieldwise;
