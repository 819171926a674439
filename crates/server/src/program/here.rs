//! Tokens that never leave their process: all threads of a node live in one.

/// Makes tokens of types that stay in their process.
macro_rules! stays_here {
    ($($token:ty),+ $(,)?) => {$(
        impl serde::Serialize for $token {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("it does not leave its process"))
            }
        }

        impl<'de> serde::Deserialize<'de> for $token {
            fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                Err(serde::de::Error::custom("it does not leave its process"))
            }
        }
    )+};
}

pub(crate) use stays_here;
