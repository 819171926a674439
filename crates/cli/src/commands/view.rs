//! `pario view`: serves the viewer of volumes.

use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use anyhow::Context;
use clap::Args;
use pario::{Cluster, FilePath};
use pario_image::{ImageError, Volume};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::oneshot;

use crate::amounts::count;
use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::http::{AccessToken, read_token};
use crate::view::{self, AccessGate, ViewedVolume};
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario view /body\n  pario --data ./pario-data view /body /body2\n  \
                            pario view /body --listen 127.0.0.1:8080\n  \
                            pario view /body --listen 10.0.0.7:8080 --token-file ~/.pario-token\n  \
                            pario view /body --allow-origin https://lab.example";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Address to listen on, with an optional port [default: 127.0.0.1, any port]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    listen: Option<SocketAddr>,

    /// The file with the token that clients must send; no other user may be able to read it
    /// [default: the variable PARIO_VIEW_TOKEN, otherwise a random token that is printed]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Let every user of this machine connect without a token; loopback addresses only
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,

    /// Always refused, with an error that names the alternatives.
    #[arg(long, hide = true, value_name = "TOKEN")]
    token: Option<OsString>,

    /// Let pages of this origin (scheme and host) use the API; may be repeated
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin)]
    allow_origin: Vec<String>,

    /// Slices computed at the same time
    #[arg(long, value_name = "NUMBER", default_value = "2")]
    workers: NonZeroUsize,

    /// The volumes
    #[arg(required = true, value_name = "VOLUME")]
    volumes: Vec<OsString>,
}

/// The variable with the token.
const TOKEN_VARIABLE: &str = "PARIO_VIEW_TOKEN";

/// A token and its source.
#[derive(Debug)]
struct ViewerToken {
    token: AccessToken,
    source: TokenSource,
}

#[derive(Debug)]
enum TokenSource {
    /// Generated, so it must be printed.
    Generated,
    /// Given by the user in this file or variable, so it is not printed.
    Given(String),
}

/// Serves the page until a signal ends it.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.volumes)?;
    let cluster = reach::cluster(global)?;
    show(global, &cluster, &paths, options)
}

impl Options {
    /// Returns default options: listen on this machine only.
    pub fn plain() -> Self {
        let workers = NonZeroUsize::MIN.saturating_add(1);
        Self {
            listen: None,
            token_file: None,
            no_token: false,
            token: None,
            allow_origin: vec![],
            workers,
            volumes: vec![],
        }
    }

    /// Returns the token for a viewer at an address; `None` with `--no-token`.
    fn secret(&self, address: IpAddr) -> anyhow::Result<Option<ViewerToken>> {
        if self.token.is_some() {
            let text = "--token is not accepted, because every user of this machine can read the \
             arguments of a command: put the token into a file of mode 600 and use \
             --token-file FILE, or into the variable PARIO_VIEW_TOKEN; without both, \
             pario generates and prints a token";
            return Err(UsageError(text.to_owned()).into());
        }
        if self.no_token {
            if !address.is_loopback() {
                let text = "--no-token is for loopback addresses, such as 127.0.0.1; other addresses \
                 require a token";
                return Err(UsageError(text.to_owned()).into());
            }
            return Ok(None);
        }
        let (token, source) = match read_token(self.token_file.as_deref(), TOKEN_VARIABLE)? {
            Some((token, place)) => (token, TokenSource::Given(place)),
            None => {
                (AccessToken::random().context("cannot generate a token")?, TokenSource::Generated)
            }
        };
        Ok(Some(ViewerToken { token, source }))
    }
}

/// Serves volumes of an open cluster.
pub fn show(
    global: &GlobalOptions,
    cluster: &Cluster,
    paths: &[FilePath],
    options: &Options,
) -> anyhow::Result<()> {
    let open = |path: &FilePath| -> anyhow::Result<ViewedVolume> {
        let volume = Volume::open(cluster, path.as_str()).map_err(|error| match error {
            // Unwraps the cluster's error, so that it decides the exit code.
            ImageError::Cluster(error) => anyhow::Error::from(error),
            error => error.into(),
        })?;
        Ok(ViewedVolume::new(path.to_string(), volume))
    };
    let volumes = paths.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    for shown in volumes.iter().filter(|shown| shown.lacks_values()) {
        eprintln!(
            "pario: {}: its header does not record the range of values; the nodes compute it when \
             the volume is first opened",
            shown.path
        );
    }

    let wanted = options.listen.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    let secret = options.secret(wanted.ip())?;
    let listener = TcpListener::bind(wanted).with_context(|| {
        format!("cannot listen on {wanted}: choose another address or port with --listen")
    })?;
    let address = listener.local_addr().context("cannot get the address of the listener")?;
    let end = watch_signals()?;
    announce(global, &volumes, address, secret.as_ref())?;
    let token = secret.map(|secret| secret.token);
    let gate = AccessGate::new(address, token, options.allow_origin.clone());
    let gate = gate.context("cannot generate a session secret")?;
    view::serve(listener, volumes, gate, options.workers, end).context("the viewer failed")
}

/// The first signal ends the viewer after the slices under way; a second one ends it at once.
fn watch_signals() -> anyhow::Result<oneshot::Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot watch for signals")?;
    let (ask, asked) = oneshot::channel();
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut pending = signals.forever();
        if pending.next().is_some() {
            // The server may have ended already.
            let _ = ask.send(());
            let _ = pending.next();
            std::process::exit(i32::from(crate::exit::INTERRUPTED));
        }
    })?;
    Ok(asked)
}

fn announce(
    global: &GlobalOptions,
    volumes: &[ViewedVolume],
    address: SocketAddr,
    secret: Option<&ViewerToken>,
) -> anyhow::Result<()> {
    let url = url(address, secret);
    let paths: Vec<_> = volumes.iter().map(|shown| &shown.path).collect();
    if global.json {
        let pid = std::process::id();
        return terminal::print_json(&json!({ "url": url, "volumes": paths, "pid": pid }));
    }
    let mut out = terminal::output();
    let what = match volumes {
        [shown] => shown.path.clone(),
        _ => count(volumes.len() as u64, "volume"),
    };
    match secret {
        Some(ViewerToken { source: TokenSource::Given(place), .. }) => {
            writeln!(out, "pario: {what} can be looked at: {url} (the token is in {place})")?;
        }
        _ => writeln!(out, "pario: {what} can be looked at: {url}")?,
    }
    writeln!(out, "pario: Ctrl-C ends it")?;
    Ok(out.flush()?)
}

/// Returns the URL for a browser. It includes the token only if Pario generated it.
fn url(address: SocketAddr, secret: Option<&ViewerToken>) -> String {
    let host = match address.ip() {
        ip if ip.is_unspecified() => {
            let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
            format!("{machine}:{}", address.port())
        }
        _ => address.to_string(),
    };
    let token = match secret {
        Some(ViewerToken { token, source: TokenSource::Generated }) => {
            format!("?token={}", token.as_str())
        }
        _ => String::new(),
    };
    format!("http://{host}/{token}")
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let without_port = || text.parse().map(|ip: IpAddr| SocketAddr::from((ip, 0)));
    text.parse().or_else(|_| without_port()).map_err(|_| {
        "it must be an address, such as 127.0.0.1:8080, [::1]:8080 or 10.0.0.7".to_owned()
    })
}

fn parse_origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_good = |host: &&str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        !host.is_empty() && host.bytes().all(is_plain)
    };
    match host.filter(is_good) {
        Some(_) => Ok(text.to_ascii_lowercase()),
        None => Err("it must be an origin, such as https://lab.example".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_leave_the_port_open() {
        for (text, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("10.0.0.7", "10.0.0.7:0"),
            ("::1", "[::1]:0"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(parse_address(text).unwrap().to_string(), address);
        }
        for text in ["", "localhost", ":80", "127.0.0.1:99999"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        assert_eq!(parse_origin("https://Lab.example:8443").unwrap(), "https://lab.example:8443");
        for text in ["*", "null", "lab.example", "https://", "https://lab.example/page"] {
            assert!(parse_origin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_url_has_the_token_if_it_was_made() {
        let token: AccessToken = "a-secret-of-12".parse().unwrap();
        let address = "10.0.0.7:81".parse().unwrap();
        let secret = |source| ViewerToken { token: token.clone(), source };
        let made = secret(TokenSource::Generated);
        assert_eq!(url(address, Some(&made)), "http://10.0.0.7:81/?token=a-secret-of-12");
        let given = secret(TokenSource::Given("token.txt".to_owned()));
        assert_eq!(url(address, Some(&given)), "http://10.0.0.7:81/");
        assert_eq!(url("127.0.0.1:80".parse().unwrap(), None), "http://127.0.0.1:80/");
        assert!(url("0.0.0.0:81".parse().unwrap(), None).ends_with(":81/"));
    }
}
