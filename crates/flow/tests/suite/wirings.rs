//! Invalid chains do not compile, and the compiler explains why. The recorded messages are those of
//! one compiler version; the test skips the comparison for any other version.

use std::process::Command;

/// The compiler that the recorded messages are from.
const RECORDED_WITH: &str = "rustc 1.95.";

#[test]
fn wrong_wirings_do_not_compile() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().expect("rustc is there");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(RECORDED_WITH) {
        eprintln!("not compared: the messages are from {RECORDED_WITH}x, this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/wirings/*.rs");
}
