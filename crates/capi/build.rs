//! Programs remember the shared library by the name that it is installed under, and see nothing of the
//! libraries that are used inside.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpario.so.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    println!("cargo::rerun-if-changed=build.rs");
}
