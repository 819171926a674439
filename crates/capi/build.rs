//! Programs remember the shared library by the name that it is installed under.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpario.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
