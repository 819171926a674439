//! Sets the soname that programs record, and hides the symbols of libraries that are linked in.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpario.so.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    println!("cargo::rerun-if-changed=build.rs");
}
