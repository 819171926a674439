//! What ran where and when, and its pictures.
