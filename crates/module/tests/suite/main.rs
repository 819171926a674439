//! Tests of the sandbox with modules that clang builds from C.

mod clang;
mod examples;
mod mutated;
mod rust_module;
mod sandbox;
mod wild;
