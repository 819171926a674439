//! Wrong wirings do not compile, and say why. The messages are those of the compiler they were
//! recorded with; another one may word them differently and is not asked.

use std::process::Command;

/// The compiler that the recorded messages are from.
const RECORDED_WITH: &str = "rustc 1.95.";

#[test]
fn wrong_wirings_do_not_compile() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().expect("rustc is there");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(RECORDED_WITH) {
        eprintln!(
            "not compared: the messages were recorded with {RECORDED_WITH}x, this is {version}"
        );
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/wirings/*.rs");
}
