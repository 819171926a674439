//! What an operation looks like, and its pictures.
