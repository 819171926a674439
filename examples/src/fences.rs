//! The fenced blocks of the documents: programs, shell sessions, and text.
//!
//! The word after the opening fence is the kind of the block:
//!
//! | word | test |
//! | --- | --- |
//! | `rust` | a whole program: compiled and run (`examples/tests/suite/document_programs.rs`) |
//! | `rust,excerpt` | quoted word by word from an example (`examples/tests/suite/flow_document.rs`) |
//! | `rust,sketch` | no program: it explains another one |
//! | `c`, `fortran` | a whole program: compiled as the documents say, run by four processes (`crates/cli/tests/suite/document_examples.rs`) |
//! | `c,module` | an operation: compiled and tested by the session before it (same file) |
//! | `console` | a shell session: each line after `$ ` is run (same file) |
//! | `machines` | a session on two machines: each line after `sun$ ` or `moon$ ` is run there (`crates/cli/tests/suite/second_machine.rs`) |
//! | `sh` | commands for root, run in order on a separate machine (`crates/cli/tests/suite/administer_guide.rs`); `sh install` with the package (`packaging/debian/check`) |
//! | `toml` | a configuration or a placement: parsed (same file) |
//! | `text`, `json`, none | not run |

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block of a document.
#[derive(Clone, Debug)]
pub struct Fence {
    /// The path of the document from the root of the project.
    pub document: String,
    /// The line of the opening fence, counted from 1.
    pub line: usize,
    /// The word after the opening fence.
    pub language: String,
    /// The text between the fences.
    pub text: String,
}

impl Fence {
    /// Returns the location for messages: `README.md:53`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.document, self.line)
    }
}

/// Returns the fenced blocks of README.md and of all documents in `docs`, in order.
pub fn all(root: &Path) -> Vec<Fence> {
    let mut documents = vec![root.join("README.md")];
    add_documents(&root.join("docs"), &mut documents);
    documents.sort();
    documents.iter().flat_map(|document| of_document(root, document)).collect()
}

fn add_documents(folder: &Path, documents: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("the documents can be listed");
    for path in entries.map(|entry| entry.expect("the documents can be listed").path()) {
        if path.is_dir() {
            add_documents(&path, documents);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            documents.push(path);
        }
    }
}

fn of_document(root: &Path, document: &Path) -> Vec<Fence> {
    let text = fs::read_to_string(document).expect("a document can be read");
    let name = document.strip_prefix(root).unwrap_or(document).display().to_string();
    let mut fences: Vec<Fence> = Vec::new();
    let mut is_open = false;
    for (line, content) in (1..).zip(text.lines()) {
        match (content.trim_start().strip_prefix("```"), is_open) {
            (Some(language), false) => {
                let (document, language) = (name.clone(), language.trim().to_owned());
                fences.push(Fence { document, line, language, text: String::new() });
            }
            (None, true) => {
                if let Some(fence) = fences.last_mut() {
                    fence.text += content;
                    fence.text.push('\n');
                }
            }
            _ => {}
        }
        is_open ^= content.trim_start().starts_with("```");
    }
    assert!(!is_open, "{name}: the last fenced block is not closed");
    fences
}
