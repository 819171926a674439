use std::num::NonZeroU64;
use std::os::unix::fs::PermissionsExt;

use super::*;

const WHOLE: &str = r#"
name = "lab"
key_file = "/etc/pario/lab.key"
interface = "b"
grant_epoch_seconds = 2.5

[nodes.a]
listen = "10.0.0.1:7411"
socket = "/run/pario/a.sock"
data = "/var/lib/pario/a"
disks = ["/mnt/d0", "/mnt//d1/.", { path = "/mnt/archive", read_only = true }]
storage_threads = 2
compute_threads = 4
cache = "1GiB"
all_users = true
short_cut = false
wait_warning_seconds = 2.5
audit = false

[nodes.b]
listen = "10.0.0.2:7411"
data = "/var/lib/pario/b"
disks = [{ path = "/mnt/d2", read_only = true }]
"#;

/// Returns the messages about a text, line by line.
fn told(text: &str) -> Vec<String> {
    let refused = Config::parse(text, "cluster.toml").expect_err(text);
    refused.to_string().lines().map(str::to_owned).collect()
}

/// A text with a good node `a` in its lines 1 to 3, and something more from line 4.
fn after_a(more: &str) -> String {
    format!("[nodes.a]\ndata = \"/data/a\"\ndisks = [\"/mnt/a0\", \"/mnt/a1\"]\n{more}")
}

/// Nodes `a`, in lines 2 to 5, and `b`, in lines 6 to 9, with something more from line 10.
fn after_b(more: &str) -> String {
    format!(
        "key_file = \"/k\"\n\
         [nodes.a]\nlisten = \"127.0.0.1:1\"\ndata = \"/data/a\"\ndisks = [\"/mnt/a0\"]\n\
         [nodes.b]\nlisten = \"127.0.0.1:2\"\ndata = \"/data/b\"\ndisks = [\"/mnt/b0\"]\n{more}"
    )
}

#[test]
fn a_whole_configuration_is_read() {
    let config = Config::parse(WHOLE, "cluster.toml").unwrap();
    assert_eq!((config.name.as_str(), config.interface), ("lab", 1));
    assert_eq!(config.grant_epoch, Duration::from_millis(2_500));
    assert_eq!(config.key_file.as_deref(), Some(Path::new("/etc/pario/lab.key")));
    let disk = |path: &str, is_read_only| DiskConfig { is_read_only, ..DiskConfig::at(path) };
    let a = config.node("a").unwrap();
    let expected = NodeConfig {
        name: "a".to_owned(),
        listen: Some("10.0.0.1:7411".parse().unwrap()),
        socket: "/run/pario/a.sock".into(),
        all_users: true,
        data: "/var/lib/pario/a".into(),
        disks: vec![disk("/mnt/d0", false), disk("/mnt/d1", false), disk("/mnt/archive", true)],
        storage_threads: 2,
        concurrent_requests: 16,
        compute_threads: 4,
        cache_bytes: 1 << 30,
        short_cut: ShortCut::Off,
        wait_warning: Some(Duration::from_millis(2_500)),
        audit: false,
    };
    assert_eq!(*a, expected);
}

#[test]
fn missing_settings_have_defaults() {
    let config = Config::parse(WHOLE, "cluster.toml").unwrap();
    let b = config.node("b").unwrap();
    assert_eq!(b.socket, Path::new("/var/lib/pario/b/pario.sock"));
    assert_eq!((b.storage_threads, b.compute_threads), (1, processors()));
    assert_eq!((b.cache_bytes, b.all_users, b.short_cut), (256 << 20, false, ShortCut::Write));
    assert_eq!(b.wait_warning, Some(Duration::from_secs(10)));

    let config = Config::parse(&after_a(""), "cluster.toml").unwrap();
    assert_eq!((config.name.as_str(), config.interface, &config.key_file), ("pario", 0, &None));
    let threads = (processors() / 4).clamp(1, 2);
    assert_eq!(config.nodes[0].storage_threads, threads, "one for every four processors");
    assert_eq!(config.nodes[0].listen, None);
}

#[test]
fn an_unknown_node_is_reported_with_the_known_ones() {
    let config = Config::parse(WHOLE, "cluster.toml").unwrap();
    assert_eq!(
        config.node("c").unwrap_err().to_string(),
        "there is no node \"c\" in the configuration; its nodes are \"a\", \"b\""
    );
}

#[test]
fn invalid_toml_is_reported_with_its_column() {
    let told = told("[nodes.a]\ndata = = 3\n");
    assert!(told[0].starts_with("cluster.toml:2:8: not valid TOML: "), "{told:?}");
    assert_eq!(
        self::told(&after_a("data = \"/other\"\n")),
        ["cluster.toml:4: \"data\" is given twice, first in line 2"]
    );
}

#[test]
fn unknown_settings_are_reported_with_the_nearest_known_one() {
    assert_eq!(
        told(&format!("interfaces = \"a\"\n{}", after_a("disk = []\ncolour = 3\n"))),
        [
            "cluster.toml:1: a cluster has no setting \"interfaces\"; did you mean \"interface\"?",
            "cluster.toml:5: node \"a\" has no setting \"disk\"; did you mean \"disks\"?",
            "cluster.toml:6: node \"a\" has no setting \"colour\"",
        ]
    );
    assert_eq!(
        told("[nodes.a]\ndata = \"/a\"\ndisks = [{ path = \"/d\", readonly = true }]\n"),
        ["cluster.toml:3: a disk of node \"a\" has no setting \"readonly\"; did you mean \
             \"read_only\"?"]
    );
}

#[test]
fn wrong_types_are_reported_with_the_value() {
    let text = "name = 3\nkey_file = true\ninterface = []\n[nodes.a]\nlisten = \"here\"\n\
                socket = 1\ndata = 2\ndisks = \"/mnt/a0\"\nstorage_threads = \"two\"\n\
                compute_threads = 0\ncache = \"much\"\nall_users = \"yes\"\nshort_cut = 1\n";
    assert_eq!(
        told(text),
        [
            "cluster.toml:1: name must be a string, but is 3",
            "cluster.toml:2: key_file must be a path, but is true",
            "cluster.toml:3: interface must be a string, but is []",
            "cluster.toml:5: node \"a\": listen must be an address and a port, such as \
             \"10.0.0.1:7411\", but is \"here\"",
            "cluster.toml:6: node \"a\": socket must be a path, but is 1",
            "cluster.toml:7: node \"a\": data must be a path, but is 2",
            "cluster.toml:8: node \"a\": disks must be a list of directories, but is \"/mnt/a0\"",
            "cluster.toml:9: node \"a\": storage_threads must be a number from 1 to 1024, but is \
             \"two\"",
            "cluster.toml:10: node \"a\": compute_threads must be a number from 1 to 1024, but is \
             0",
            "cluster.toml:11: node \"a\": cache must be a size, such as \"256MiB\", but is \"much\"",
            "cluster.toml:12: node \"a\": all_users must be true or false, but is \"yes\"",
            "cluster.toml:13: node \"a\": short_cut must be \"write\", \"read\" or \"off\", but is 1",
        ]
    );
    assert_eq!(told("nodes = 3\n").len(), 2);
    assert_eq!(told("[nodes]\na = 3\n"), ["cluster.toml:2: node \"a\" must be a table, but is 3"]);
    assert_eq!(
        told("[nodes.a]\ndata = \"/a\"\ndisks = [3, { read_only = true }]\n"),
        [
            "cluster.toml:3: node \"a\": disk must be a directory, or a table such as { path = \
             \"/mnt/d0\" }, but is 3",
            "cluster.toml:3: node \"a\": disk must be a directory, or a table such as { path = \
             \"/mnt/d0\" }, but is { read_only = true }",
        ]
    );
}

#[test]
fn sizes_are_texts_or_numbers_and_not_negative() {
    let cache = |value: &str| {
        let config = Config::parse(&after_a(&format!("cache = {value}\n")), "cluster.toml");
        config.map(|config| config.nodes[0].cache_bytes).map_err(|error| error.to_string())
    };
    assert_eq!(cache("\"1.5GiB\""), Ok(3 << 29));
    assert_eq!(cache("65536"), Ok(65_536));
    assert_eq!(cache("0"), Ok(0));
    assert_eq!(
        cache("-1").unwrap_err(),
        "cluster.toml:4: node \"a\": cache must be a size, such as \"256MiB\", but is -1"
    );
}

#[test]
fn a_warning_comes_after_seconds_or_never() {
    let warning = |value: &str| {
        let text = after_a(&format!("wait_warning_seconds = {value}\n"));
        let config = Config::parse(&text, "cluster.toml").map_err(|error| error.to_string());
        config.map(|config| config.nodes[0].wait_warning)
    };
    assert_eq!(warning("3"), Ok(Some(Duration::from_secs(3))));
    assert_eq!(warning("0.25"), Ok(Some(Duration::from_millis(250))));
    assert_eq!(warning("0"), Ok(None));
    for wrong in ["-1", "nan", "inf", "1e9", "\"soon\""] {
        let told = warning(wrong).unwrap_err();
        let expected = "cluster.toml:4: node \"a\": wait_warning_seconds must be a number of \
                        seconds, such as 10 or 0.5, but is ";
        assert_eq!(told, format!("{expected}{wrong}"));
    }
}

#[test]
fn a_disk_can_imitate_a_slow_one() {
    let disk = |more: &str| {
        let text = format!("[nodes.a]\ndata = \"/a\"\ndisks = [{{ path = \"/d\"{more} }}]\n");
        let config = Config::parse(&text, "cluster.toml").map_err(|error| error.to_string());
        config.map(|config| config.nodes[0].disks[0].clone())
    };
    let pace = |more: &str| disk(more).unwrap().pace;
    assert_eq!(pace(""), None);
    let (latency, bytes_per_second) = (Duration::from_micros(13_800), NonZeroU64::new(3_500_000));
    let both = Some(Pace { latency, bytes_per_second });
    assert_eq!(pace(", latency_ms = 13.8, mb_per_s = 3.5"), both);
    assert_eq!(pace(", latency_ms = 13.8"), Some(Pace { latency, ..Pace::default() }));
    assert_eq!(pace(", mb_per_s = 3.5"), Some(Pace { bytes_per_second, ..Pace::default() }));
    let slowest =
        Pace { latency: Duration::from_secs(10), bytes_per_second: NonZeroU64::new(1_000) };
    assert_eq!(pace(", latency_ms = 10_000, mb_per_s = 0.001"), Some(slowest));
    let fastest =
        Pace { latency: Duration::ZERO, bytes_per_second: NonZeroU64::new(100_000_000_000) };
    assert_eq!(pace(", latency_ms = 0, mb_per_s = 1e5"), Some(fastest));
    let with_more = disk(", read_only = true, mb_per_s = 3.5").unwrap();
    assert!(with_more.is_read_only && with_more.pace.is_some());

    for wrong in ["-1", "-0.5", "nan", "inf", "10000.1", "\"13.8\"", "true"] {
        let expected = "cluster.toml:3: node \"a\": disk: latency_ms must be a number of \
                        milliseconds from 0 to 10000, such as 13.8, but is ";
        let told = disk(&format!(", latency_ms = {wrong}")).unwrap_err();
        assert_eq!(told, format!("{expected}{wrong}"));
    }
    for wrong in ["0", "0.0", "-3.5", "nan", "inf", "1e-9", "100001", "\"3.5MB\"", "[]"] {
        let expected = "cluster.toml:3: node \"a\": disk: mb_per_s must be a number of megabytes \
                        per second from 0.001 to 100000, such as 3.5, but is ";
        let told = disk(&format!(", mb_per_s = {wrong}")).unwrap_err();
        assert_eq!(told, format!("{expected}{wrong}"));
    }
    assert_eq!(
        disk(", latency = 13.8").unwrap_err(),
        "cluster.toml:3: a disk of node \"a\" has no setting \"latency\"; did you mean \
         \"latency_ms\"?"
    );
    assert_eq!(
        told(
            "[nodes.a]\ndata = \"/a\"\ndisks = [\n  \"/d\",\n  { path = \"/e\", mb_per_s = 0 },\n]\n"
        ),
        [
            "cluster.toml:5: node \"a\": disk: mb_per_s must be a number of megabytes per second from \
             0.001 to 100000, such as 3.5, but is 0"
        ]
    );
}

#[test]
fn nodes_disks_and_data_directories_are_needed() {
    let no_nodes = "there are no nodes; add at least one, such as [nodes.a] with data and disks";
    assert_eq!(told("name = \"lab\"\n"), [format!("cluster.toml: {no_nodes}")]);
    assert_eq!(told(""), [format!("cluster.toml: {no_nodes}")]);
    assert_eq!(
        told("[nodes.a]\ndisks = []\n"),
        [
            "cluster.toml:1: node \"a\": it has no data directory; add data = \"/var/lib/pario/a\"",
            "cluster.toml:1: node \"a\": it has no disks; add disks = [\"/mnt/d0\"]",
        ]
    );
}

#[test]
fn names_are_plain() {
    let rule = "a name has 1 to 64 letters, digits, dots, dashes or underscores, and begins with a \
                letter or a digit";
    let text = after_a("").replace("nodes.a", "nodes.\"a/b\"");
    assert_eq!(
        told(&format!("name = \"\"\n{text}")),
        [
            format!("cluster.toml:1: cluster \"\": {rule}"),
            format!("cluster.toml:2: node \"a/b\": {rule}")
        ]
    );
}

#[test]
fn a_path_used_twice_is_reported_with_the_first_use() {
    let text = after_b("[nodes.c]\nlisten = \"127.0.0.1:2\"\ndata = \"/data/a\"\n")
        + "disks = [\"/mnt/a0/\", \"/mnt/c0\", \"/mnt/c0\", \"/data/b\"]\n";
    assert_eq!(
        told(&text),
        [
            "cluster.toml:11: node \"c\": address \"127.0.0.1:2\" is also the address of node \
             \"b\" (line 7)",
            "cluster.toml:12: node \"c\": data directory \"/data/a\" is also the data directory of \
             node \"a\" (line 4)",
            "cluster.toml:13: node \"c\": disk \"/mnt/a0\" is also a disk of node \"a\" (line 5)",
            "cluster.toml:13: node \"c\": disk \"/mnt/c0\" is also a disk of node \"c\" (line 13)",
            "cluster.toml:13: node \"c\": disk \"/data/b\" is also the data directory of node \
             \"b\" (line 8)",
        ]
    );
    let sockets = after_b("socket = \"/run/x\"\n").replacen(
        "data = \"/data/a\"",
        "data = \"/data/a\"\nsocket = \"/run/x\"",
        1,
    );
    assert_eq!(
        told(&sockets),
        [
            "cluster.toml:11: node \"b\": socket \"/run/x\" is also the socket of node \"a\" (line 5)"
        ]
    );
}

#[test]
fn a_disk_inside_another_is_reported_in_either_order() {
    let nested = after_b("").replace("/mnt/b0", "/mnt/a0/inside");
    assert_eq!(
        told(&nested),
        ["cluster.toml:9: node \"b\": disk \"/mnt/a0/inside\" lies inside disk \"/mnt/a0\" of \
             node \"a\" (line 5)"]
    );
    let around = after_b("").replace("/mnt/b0", "/mnt");
    assert_eq!(
        told(&around),
        ["cluster.toml:5: node \"a\": disk \"/mnt/a0\" lies inside disk \"/mnt\" of node \"b\" \
             (line 9)"]
    );
    assert!(Config::parse(&after_b("").replace("/mnt/b0", "/mnt/a0x"), "").is_ok());
}

#[test]
fn paths_are_absolute() {
    let text = "key_file = \"lab.key\"\n[nodes.a]\nsocket = \"\"\ndata = \"data/a\"\n\
                disks = [\"./d0\", { path = \"/mnt/../d1\" }]\n";
    assert_eq!(
        told(text),
        [
            "cluster.toml:1: key_file \"lab.key\" must be an absolute path without \"..\"",
            "cluster.toml:3: node \"a\": socket \"\" must be an absolute path without \"..\"",
            "cluster.toml:4: node \"a\": data \"data/a\" must be an absolute path without \"..\"",
            "cluster.toml:5: node \"a\": disk \"./d0\" must be an absolute path without \"..\"",
            "cluster.toml:5: node \"a\": disk \"/mnt/../d1\" must be an absolute path without \
             \"..\"",
        ]
    );
}

#[test]
fn a_socket_has_a_short_path() {
    let long = format!("/{}", "x".repeat(107));
    assert_eq!(
        told(&after_a(&format!("socket = \"{long}\"\n"))),
        [format!(
            "cluster.toml:4: node \"a\": socket \"{long}\" has 108 bytes, and a socket can have \
             107; set socket = \"/run/pario/a.sock\""
        )]
    );
}

#[test]
fn nodes_can_reach_each_other() {
    let text = after_b("").replace("listen = \"127.0.0.1:1\"\n", "");
    assert_eq!(
        told(&text),
        ["cluster.toml:2: node \"a\": it has no listen address, and the other nodes could not \
             reach it; add listen = \"IP:PORT\""]
    );
    assert_eq!(
        told(&after_b("").replace("127.0.0.1:1", "127.0.0.1:0")),
        ["cluster.toml:3: node \"a\": the other nodes cannot know where 127.0.0.1:0 is; give \
             the address and port under which they reach it"]
    );
    let any_port = after_a("listen = \"127.0.0.1:0\"\n");
    assert!(Config::parse(&format!("key_file = \"/k\"\n{any_port}"), "").is_ok());
}

#[test]
fn a_node_that_listens_has_a_key() {
    for address in ["10.0.0.1:7411", "127.0.0.1:7411", "[::1]:0"] {
        let text = after_a(&format!("listen = \"{address}\"\n"));
        assert_eq!(
            told(&text),
            [format!(
                "cluster.toml:4: node \"a\": over TCP, at {address}, a node accepts only peers with \
                 the key of the cluster, and there is no key_file; add key_file = \
                 \"/etc/pario/cluster.key\" with 64 hexadecimal digits in it"
            )]
        );
        assert!(Config::parse(&format!("key_file = \"/k\"\n{text}"), "").is_ok());
        // A wrong key is not a missing key.
        assert_eq!(
            told(&format!("key_file = 3\n{text}")),
            ["cluster.toml:1: key_file must be a path, but is 3"]
        );
    }
}

#[test]
fn the_key_file_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (key, file) = (dir.path().join("lab.key"), dir.path().join("cluster.toml"));
    fs::write(&file, format!("key_file = \"{}\"\n{}", key.display(), after_a(""))).unwrap();
    let load = || Config::load(&file).map_err(|error| error.to_string());
    let told = |what: &str| format!("{}:1: key_file \"{}\" {what}", file.display(), key.display());
    let missing = "cannot be read: No such file or directory (os error 2)";
    assert_eq!(load().unwrap_err(), told(missing));

    fs::write(&key, "0123456789abcdef\n").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let open = format!("is readable by other users (mode 0640); run: chmod 600 {}", key.display());
    assert_eq!(load().unwrap_err(), told(&open));

    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let short = "must hold 64 hexadecimal digits, but holds 16 characters; make one with: openssl \
                 rand -hex 32";
    assert_eq!(load().unwrap_err(), told(short));

    fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    assert_eq!(load().unwrap().key_file, Some(key));
}

#[test]
fn a_missing_file_is_reported() {
    let refused = Config::load(Path::new("/nowhere/cluster.toml")).unwrap_err().to_string();
    assert_eq!(
        refused,
        "/nowhere/cluster.toml: the configuration cannot be read: No such file or directory (os \
         error 2)"
    );
}

#[test]
fn storage_threads_have_disks() {
    assert_eq!(
        told(&after_a("storage_threads = 0\n")),
        ["cluster.toml:4: node \"a\": storage_threads must be a number from 1 to 1024, but is 0"]
    );
    assert_eq!(
        told(&after_a("storage_threads = 3\n")),
        ["cluster.toml:4: node \"a\": 3 storage threads for 2 disks; at most one per disk has \
             work"]
    );
}

#[test]
fn the_interface_is_a_node() {
    assert_eq!(
        told(&format!("interface = \"bb\"\n{}", after_b(""))),
        ["cluster.toml:1: interface: there is no node \"bb\"; did you mean \"b\"?"]
    );
}

#[test]
fn all_disks_may_be_read_only() {
    let text = "[nodes.a]\ndata = \"/a\"\ndisks = [{ path = \"/d\", read_only = true }]\n";
    assert!(Config::parse(text, "cluster.toml").unwrap().nodes[0].disks[0].is_read_only);
}

#[test]
fn the_short_cut_has_three_values_and_two_more_names() {
    for (text, expected) in [
        ("\"write\"", ShortCut::Write),
        ("true", ShortCut::Write),
        ("\"read\"", ShortCut::Read),
        ("\"off\"", ShortCut::Off),
        ("false", ShortCut::Off),
    ] {
        let text = format!("[nodes.a]\ndata = \"/a\"\ndisks = [\"/d\"]\nshort_cut = {text}\n");
        let config = Config::parse(&text, "cluster.toml").unwrap();
        assert_eq!(config.nodes[0].short_cut, expected, "{text}");
    }
    let text = "[nodes.a]\ndata = \"/a\"\ndisks = [\"/d\"]\nshort_cut = \"some\"\n";
    assert_eq!(
        Config::parse(text, "cluster.toml").unwrap_err().to_string(),
        "cluster.toml:4: node \"a\": short_cut must be \"write\", \"read\" or \"off\", but is \"some\""
    );
}
