//! Names of types as people write them.
