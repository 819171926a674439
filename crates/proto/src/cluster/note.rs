//! The note by which programs of a user find a running node.
//!
//! A node writes one note per data directory to the directory [`NOTES_DIRECTORY`] of its user's
//! runtime directory and removes it when it stops.

/// The directory of notes, in the runtime directory of a user.
pub const NOTES_DIRECTORY: &str = "nodes";

/// The extension of a note's file name, after a hash of the data directory.
pub const NOTE_EXTENSION: &str = "address";

/// The content of a note: one line each for the address, the name and the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNote {
    /// The address, in the full form that a node prints.
    pub address: String,
    /// The name of the node.
    pub node: String,
    /// The data directory, absolute.
    pub data: String,
}

impl NodeNote {
    /// The text of the file.
    ///
    /// ```
    /// use pario_proto::NodeNote;
    ///
    /// let note = NodeNote {
    ///     address: "unix=/run/user/1000/pario/d5ede538f628.sock".to_owned(),
    ///     node: "local".to_owned(),
    ///     data: "/home/ada/pario-data".to_owned(),
    /// };
    /// assert_eq!(NodeNote::parse(&note.to_text()), Some(note));
    /// ```
    pub fn to_text(&self) -> String {
        format!("{}\n{}\n{}\n", self.address, self.node, self.data)
    }

    /// Reads the text of a file; `None` if a line is missing or empty.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.splitn(3, '\n');
        let mut line = || lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
        Some(Self { address: line()?, node: line()?, data: line()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_is_cut_is_no_note() {
        let text = "unix=/a.sock\nlocal\n/data\n";
        assert!(NodeNote::parse(text).is_some());
        for end in 0..text.len() {
            assert_eq!(NodeNote::parse(&text[..end]), None, "{end}");
        }
        assert_eq!(NodeNote::parse("\nlocal\n/data\n"), None);
    }
}
