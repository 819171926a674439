//! `pario operation`: modules are tested, added, listed, shown and removed.

use serde_json::json;

use crate::clang::example;
use crate::command::{Sandbox, stdout};

fn sandboxes() -> [Sandbox; 2] {
    let sandboxes = Sandbox::both();
    for sandbox in &sandboxes {
        for name in ["threshold", "grep"] {
            std::fs::write(sandbox.file(&format!("{name}.wasm")), example(name)).unwrap();
        }
    }
    sandboxes
}

#[test]
fn a_module_is_added_listed_shown_and_removed() {
    for sandbox in sandboxes() {
        assert_eq!(sandbox.json(&["operation", "list"]), json!([]));
        let added = sandbox.ok(&["operation", "add", "threshold", "threshold.wasm"]);
        assert!(added.starts_with("threshold   version 1, "), "{added}");
        let replaced =
            sandbox.json(&["operation", "add", "threshold", "grep.wasm", "--mode", "750"]);
        assert_eq!((&replaced["version"], &replaced["mode"]), (&json!(2), &json!("0750")));
        let listed = sandbox.json(&["operation", "list"]);
        assert_eq!(listed, json!([replaced]));
        let fields: Vec<&String> = replaced.as_object().unwrap().keys().collect();
        let promised = [
            "added_ns",
            "bytes",
            "functions",
            "gid",
            "group",
            "hash",
            "mode",
            "name",
            "owner",
            "uid",
            "version",
        ];
        assert_eq!(fields, promised);
        assert!(sandbox.ok(&["operation", "list"]).starts_with("rwxr-x---  root"));
        let shown = sandbox.ok(&["operation", "show", "threshold", "--save", "copy.wasm"]);
        assert!(shown.contains("\n  functions pario_process\n"), "{shown}");
        assert_eq!(sandbox.read("copy.wasm"), sandbox.read("grep.wasm"));
        sandbox.ok(&["operation", "remove", "threshold"]);
        let missing = sandbox.refused(3, &["operation", "show", "threshold"]);
        assert!(missing.contains("the cluster has no module \"threshold\""), "{missing}");
    }
}

#[test]
fn a_module_is_tested_without_a_node() {
    let [sandbox, _] = sandboxes();
    std::fs::write(sandbox.file("log"), "all is well\nan error\n").unwrap();
    let grep = ["operation", "test", "grep.wasm", "log", "-p", "pattern=error"];
    let output = sandbox.pario(&[&grep[..], &["--output", "-"]].concat()).output().unwrap();
    assert_eq!(stdout(&output), "an error\n");
    let output = sandbox.pario(&grep).output().unwrap();
    assert!(stdout(&output).starts_with("log   result of 9 B after "), "{}", stdout(&output));
    let output = sandbox.pario(&[&["--json"], &grep[..]].concat()).output().unwrap();
    let tested: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    let result = &tested["results"][0];
    assert_eq!((&result["input"], &result["kind"]), (&json!("log"), &json!("result")));
    // A module of the cluster.
    sandbox.ok(&["operation", "add", "grep", "grep.wasm"]);
    let tested = sandbox.ok(&["operation", "test", "grep", "log", "-p", "pattern=nothing like it"]);
    assert!(tested.starts_with("log   nothing after "), "{tested}");
}

#[test]
fn wrong_modules_and_arguments_are_refused_with_their_codes() {
    for sandbox in sandboxes() {
        std::fs::write(sandbox.file("text.wasm"), "no module").unwrap();
        for (code, arguments, text) in [
            (2, &["add", "x", "text.wasm"][..], "not a WebAssembly module"),
            (2, &["test", "text.wasm"], "not a WebAssembly module"),
            (2, &["add", "a b", "grep.wasm"], "cannot be the name of a module"),
            (2, &["add", "x", "grep.wasm", "--mode", "9"], "not a mode"),
            (2, &["test", "grep.wasm", "grep.wasm", "-p", "pattern"], "write NAME=VALUE"),
            (1, &["test", "grep.wasm", "grep.wasm"], "grep needs the parameter pattern"),
            (3, &["add", "x", "missing.wasm"], "missing.wasm"),
            (3, &["remove", "missing"], "no module \"missing\""),
        ] {
            let refused = sandbox.refused(code, &[&["operation"], arguments].concat());
            assert!(refused.contains(text), "{arguments:?}: {refused}");
        }
    }
}
