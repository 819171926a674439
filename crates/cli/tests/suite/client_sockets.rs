//! Clients must not listen: another user could send forged answers to a listening client, which
//! would print them as the bytes of a file.

use std::collections::HashSet;
use std::io::Read;
use std::process::Stdio;

use crate::command::Sandbox;

/// Returns the inode numbers of the sockets of a process.
fn sockets(pid: u32) -> HashSet<String> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let number = |link: std::path::PathBuf| {
        Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    links.filter_map(number).collect()
}

/// Returns the listening sockets of a process, by `/proc/net`.
fn listeners(pid: u32) -> Vec<String> {
    let own = sockets(pid);
    assert!(!own.is_empty(), "it is connected");
    let mut listening = Vec::new();
    for (table, state, inode, listens) in
        [("unix", 3, 6, "00010000"), ("tcp", 3, 9, "0A"), ("tcp6", 3, 9, "0A")]
    {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")) else {
            continue;
        };
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.get(state) == Some(&listens)
                && words.get(inode).is_some_and(|n| own.contains(*n))
            {
                listening.push(line.to_owned());
            }
        }
    }
    listening
}

#[test]
fn a_client_listens_nowhere() {
    let mut sandbox = Sandbox::served();
    let bytes = sandbox.write("x", 8 << 20, 1);
    sandbox.ok(&["cp", "x", "/x"]);
    // Without and with the short cut.
    for short_cut in ["0", "1"] {
        let mut cat = sandbox.pario(&["cat", "/x"]);
        let mut cat = cat.env("PARIO_SHORT_CUT", short_cut).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = cat.stdout.take().unwrap();
        // When the first byte arrives, the client is connected; the other bytes do not fit into the
        // pipe.
        let mut read = vec![0];
        output.read_exact(&mut read).unwrap();
        assert_eq!(listeners(cat.id()), Vec::<String>::new());
        output.read_to_end(&mut read).unwrap();
        assert!(cat.wait().unwrap().success());
        assert!(read == bytes);
    }
    // Cross-check: the node does listen, and this function sees it.
    let node = sandbox.node();
    assert!(!listeners(node.pid()).is_empty());
}
