//! Owners, groups and modes, with a second user in a process of its own.
//!
//! These tests run as root and give a part of them to user 1000 with `setpriv`.

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};

use pario::{Cluster, ClusterOptions, File};

use crate::sites::NodeProcess;

const ADDRESS: &str = "PARIO_TEST_ADDRESS";
const SHORT_CUT: &str = "PARIO_TEST_SHORT_CUT";

/// A process of another user. It executes commands, one line each, and reports the result of each.
struct User {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl User {
    fn start(dir: &std::path::Path, uid: u32, address: &str, short_cut: bool) -> Self {
        // The other user may not search the directory of the test program.
        let program = dir.join("program");
        if !program.exists() {
            let own = std::env::current_exe().unwrap();
            std::fs::hard_link(&own, &program)
                .or_else(|_| std::fs::copy(&own, &program).map(|_| ()))
                .unwrap();
        }
        let mut process = Command::new("setpriv")
            .args(["--reuid", &uid.to_string(), "--regid", &uid.to_string(), "--clear-groups"])
            .arg(&program)
            .args(["--exact", "rights::user_process", "--nocapture"])
            .current_dir("/")
            .env(ADDRESS, address)
            .env(SHORT_CUT, if short_cut { "1" } else { "0" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv of util-linux is there");
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    fn tell(&mut self, order: &str) -> String {
        let stdin = self.process.stdin.as_mut().unwrap();
        stdin.write_all(format!("{order}\n").as_bytes()).unwrap();
        loop {
            let line = self.lines.next().expect("the user is there").unwrap();
            if let Some(at) = line.find('@') {
                return line[at + 1..].to_owned();
            }
        }
    }

    #[track_caller]
    fn can(&mut self, order: &str) -> String {
        let said = self.tell(order);
        said.strip_prefix("ok ").unwrap_or_else(|| panic!("{order}: {said}")).to_owned()
    }

    #[track_caller]
    fn cannot(&mut self, order: &str, why: &str) {
        let said = self.tell(order);
        assert_eq!(said, format!("PermissionDenied {why}"), "{order}");
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The other user; without its variables it is no test and does nothing.
#[test]
fn user_process() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let short_cut = std::env::var(SHORT_CUT).is_ok_and(|value| value == "1");
    let options = ClusterOptions { short_cut: Some(short_cut), ..Default::default() };
    let cluster = Cluster::connect_with(&address, options).unwrap();
    let mut file = None;
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let said = match obey(&cluster, &mut file, &line) {
            Ok(said) => format!("@ok {said}\n"),
            Err(error) => format!("@{:?} {error}\n", error.kind()),
        };
        std::io::stdout().write_all(said.as_bytes()).unwrap();
    }
}

fn obey(cluster: &Cluster, file: &mut Option<File>, line: &str) -> Result<String, pario::Error> {
    let words: Vec<&str> = line.split(' ').collect();
    let open = || file.as_ref().expect("a file is open");
    let mut bytes = [0; 4];
    match words[..] {
        ["identity"] => {
            let identity = cluster.identity()?;
            return Ok(format!("{} {:?}", identity.uid, identity.gids));
        }
        ["open", path, access] => {
            let options = cluster.options().read(access.contains('r')).write(access.contains('w'));
            let opened = file.insert(options.open(path)?);
            return Ok(format!("{}", opened.has_short_cut()));
        }
        ["create", path] => drop(cluster.create(path)?),
        ["read"] => open().read_exact_at(&mut bytes, 0)?,
        ["write"] => open().write_at(b"mine", 0)?,
        ["start-read"] => drop(open().start_read_at(4, 0)?.wait()?),
        ["start-write"] => open().start_write_at(&b"mine"[..], 0)?.wait()?,
        ["len"] => return Ok(open().len()?.to_string()),
        ["resize"] => open().set_len(4)?,
        ["sync"] => open().sync()?,
        ["stat", path] => return Ok(cluster.metadata(path)?.len.to_string()),
        ["list", path] => return Ok(cluster.list(path)?.count().to_string()),
        ["remove", path] => cluster.remove(path)?,
        ["rename", from, to] => cluster.rename(from, to)?,
        ["mode", path, mode] => {
            drop(cluster.set_mode(path, u32::from_str_radix(mode, 8).unwrap())?);
        }
        ["owner", path, uid] => drop(cluster.set_owner(path, Some(uid.parse().unwrap()), None)?),
        ["stop"] => drop(cluster.stop(None)?),
        ["check"] => drop(cluster.check(pario::status::CheckRequest {
            depth: pario::status::CheckDepth::Names,
            is_repair: false,
            is_rebuild: false,
        })?),
        _ => panic!("{line}"),
    }
    Ok(String::new())
}

/// Runs a test with root's client and user 1000, with and without the short cut.
fn with_a_user(test: impl Fn(&Cluster, &mut User, bool)) {
    for short_cut in [true, false] {
        println!("short cut: {short_cut}");
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let node = NodeProcess::start(dir.path(), "local", None);
        let address = format!("unix:{}", dir.path().join("s").display());
        let options = ClusterOptions { short_cut: Some(short_cut), ..Default::default() };
        let cluster = Cluster::connect_with(&address, options).unwrap();
        let mut user = User::start(dir.path(), 1000, &address, short_cut);
        test(&cluster, &mut user, short_cut);
        drop(user);
        drop(cluster);
        node.stop();
    }
}

fn file_with_mode(cluster: &Cluster, path: &str, mode: u32) {
    let file = cluster.create(path).unwrap();
    file.write_at(b"root", 0).unwrap();
    cluster.set_mode(path, mode).unwrap();
}

#[test]
fn the_kernel_says_who_asks_and_modes_are_kept() {
    with_a_user(|cluster, user, short_cut| {
        assert_eq!(user.can("identity"), "1000 [1000]");
        file_with_mode(cluster, "/secret", 0o600);
        file_with_mode(cluster, "/public", 0o644);
        file_with_mode(cluster, "/drop", 0o622);
        cluster.make_directory("/closed").unwrap();
        file_with_mode(cluster, "/closed/f", 0o666);
        cluster.set_mode("/closed", 0o700).unwrap();
        cluster.make_directory("/unlisted").unwrap();
        file_with_mode(cluster, "/unlisted/f", 0o666);
        cluster.set_mode("/unlisted", 0o711).unwrap();

        let secret = "/secret: user 1000 may not read it (owner 0, mode 0600)";
        user.cannot("open /secret r", secret);
        user.cannot(
            "open /public w",
            "/public: user 1000 may not write to it (owner 0, mode 0644)",
        );
        assert_eq!(user.can("open /public r"), short_cut.to_string());
        user.can("read");
        user.can("start-read");
        // Only to be written: its length is seen, its bytes are not.
        user.can("open /drop w");
        user.can("write");
        user.can("sync");
        assert_eq!(user.can("len"), "4");
        user.cannot("open /drop r", "/drop: user 1000 may not read it (owner 0, mode 0622)");

        let closed =
            "/closed: user 1000 may not look for names in this directory (owner 0, mode 0700)";
        user.cannot("open /closed/f r", closed);
        user.cannot("stat /closed/f", closed);
        user.can("open /unlisted/f rw");
        user.can("write");
        user.cannot(
            "list /unlisted",
            "/unlisted: user 1000 may not list this directory (owner 0, mode 0711)",
        );
        assert_eq!(user.can("stat /secret"), "4");

        let root = |action: &str| format!("/: user 1000 may not {action} (owner 0, mode 0755)");
        user.cannot("create /mine", &root("add or remove names in this directory"));
        user.cannot("remove /public", &root("add or remove names in this directory"));
        user.cannot("rename /public /p", &root("add or remove names in this directory"));
        let change = "/public: user 1000 may not change its mode (owner 0, mode 0644)";
        user.cannot("mode /public 666", change);
        let give = "/public: user 1000 may not give it to another user (owner 0, mode 0644)";
        user.cannot("owner /public 1000", give);
        let only = "only the user that runs the node, and root, may";
        user.cannot("stop", &format!("user 1000 may not stop the node: {only}"));
        user.cannot("check", &format!("user 1000 may not check the cluster: {only}"));

        // A directory and a file of the user's own.
        cluster.make_directory("/home").unwrap();
        cluster.set_owner("/home", Some(1000), Some(1000)).unwrap();
        user.can("create /home/f");
        user.can("mode /home/f 600");
        let record = cluster.metadata("/home/f").unwrap().record;
        assert_eq!((record.uid, record.gid, record.mode), (1000, 1000, 0o600));
        cluster.open("/home/f").unwrap();
        user.cannot(
            "owner /home/f 0",
            "/home/f: user 1000 may not give it to another user (owner 1000, mode 0600)",
        );
    });
}

/// In a directory with the sticky bit users delete, rename and replace what is their own.
#[test]
fn the_sticky_bit_is_enforced_for_another_user() {
    with_a_user(|cluster, user, _| {
        cluster.make_directory("/scratch").unwrap();
        cluster.set_mode("/scratch", 0o1777).unwrap();
        file_with_mode(cluster, "/scratch/root", 0o666);
        user.can("create /scratch/own");
        let sticky = "/scratch: user 1000 may not delete, rename or replace what belongs to another \
                      user in this directory, which has the sticky bit (owner 0, mode 1777)";
        user.cannot("remove /scratch/root", sticky);
        user.cannot("rename /scratch/root /scratch/mine", sticky);
        user.cannot("rename /scratch/own /scratch/root", sticky);
        user.can("rename /scratch/own /scratch/mine");
        user.can("open /scratch/root rw");
        user.can("write");
        user.can("remove /scratch/mine");
        cluster.set_mode("/scratch", 0o777).unwrap();
        user.can("remove /scratch/root");
    });
}

/// Rights that are taken away hold from the next call on, for files that are open too.
#[test]
fn rights_are_revoked_at_once() {
    with_a_user(|cluster, user, short_cut| {
        file_with_mode(cluster, "/f", 0o666);
        assert_eq!(user.can("open /f rw"), short_cut.to_string());
        user.can("read");
        user.can("write");
        // A change that takes nothing from the user does not disturb.
        cluster.set_mode("/f", 0o676).unwrap();
        for order in ["start-read", "start-write", "read", "write", "resize", "sync", "len"] {
            cluster.set_mode("/f", 0o676).unwrap();
            cluster.set_mode("/f", 0o666).unwrap();
            user.can(order);
        }
        cluster.set_mode("/f", 0o600).unwrap();
        let denied = "/f: user 1000 may not read it (owner 0, mode 0600)";
        for order in ["start-read", "read", "write", "start-write", "resize", "sync", "read"] {
            let said = user.tell(order);
            assert!(said.starts_with("PermissionDenied /f: "), "{order}: {said}");
            assert!(said.contains(denied), "{order}: {said}");
        }
        let mut bytes = [0; 4];
        cluster.open("/f").unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"mine");
        // Given back, they hold again.
        cluster.set_mode("/f", 0o604).unwrap();
        user.can("open /f r");
        user.can("read");
        cluster.set_owner("/f", Some(1000), None).unwrap();
        user.can("read");
        cluster.set_owner("/f", Some(0), None).unwrap();
        cluster.set_mode("/f", 0o640).unwrap();
        assert!(user.tell("read").contains("may not read it"));
    });
}

/// Revoked rights stay revoked when the node is killed and started again. Later revocations reach
/// the clients that have kept their files open.
#[test]
fn revoked_rights_stay_revoked_over_a_restart() {
    for short_cut in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut node = NodeProcess::start(dir.path(), "local", None);
        let address = format!("unix:{}", dir.path().join("s").display());
        let cluster = Cluster::connect(&address).unwrap();
        file_with_mode(&cluster, "/before", 0o666);
        file_with_mode(&cluster, "/after", 0o666);
        let mut first = User::start(dir.path(), 1000, &address, short_cut);
        let mut second = User::start(dir.path(), 1000, &address, short_cut);
        first.can("open /before r");
        second.can("open /after r");
        cluster.set_mode("/before", 0o600).unwrap();
        node.kill();
        node = NodeProcess::start(dir.path(), "local", None);
        for user in [&mut first, &mut second] {
            crate::sites::until("the user has noticed", || user.tell("stat /").starts_with("ok"));
        }
        crate::sites::until("root has noticed", || cluster.metadata("/").is_ok());
        first.cannot("read", "/before: user 1000 may not read it (owner 0, mode 0600)");
        second.can("read");
        cluster.set_mode("/after", 0o600).unwrap();
        second.cannot("read", "/after: user 1000 may not read it (owner 0, mode 0600)");
        drop((first, second, cluster));
        node.stop();
    }
}
