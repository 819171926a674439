//! `pario view`

use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
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
use crate::arguments::Global;
use crate::view::{self, Door, Shown, Token};
use crate::{paths, reach, terminal};

/// Lines for the help.
pub const EXAMPLES: &str = "pario view /body\n  pario --data ./pario-data view /body /body2\n  \
                            pario view /body --listen 127.0.0.1:8080\n  \
                            pario view /body --listen 10.0.0.7:8080 --token our-own-secret\n  \
                            pario view /body --allow-origin https://lab.example";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// Where to listen: an address of this machine, and a port if not any will do [default:
    /// 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    listen: Option<SocketAddr>,

    /// The secret that whoever looks must know; made and printed if others than this machine can
    /// look and none is given
    #[arg(long, value_name = "TOKEN")]
    token: Option<Token>,

    /// Lets pages of this origin use the API, scheme and host; may be given several times
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin)]
    allow_origin: Vec<String>,

    /// How many slices are taken at the same time
    #[arg(long, value_name = "NUMBER", default_value = "2")]
    workers: NonZeroUsize,

    /// The volumes
    #[arg(required = true, value_name = "VOLUME")]
    volumes: Vec<OsString>,
}

/// Serves the page until somebody wants it to end.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.volumes)?;
    let cluster = reach::cluster(global)?;
    show(global, &cluster, &paths, options)
}

impl Options {
    /// Nothing but where one can look: on this machine.
    pub fn plain() -> Self {
        let workers = NonZeroUsize::MIN.saturating_add(1);
        Self { listen: None, token: None, allow_origin: vec![], workers, volumes: vec![] }
    }
}

/// The same with a cluster that is open.
pub fn show(
    global: &Global,
    cluster: &Cluster,
    paths: &[FilePath],
    options: &Options,
) -> anyhow::Result<()> {
    let open = |path: &FilePath| -> anyhow::Result<Shown> {
        let volume = Volume::open(cluster, path.as_str()).map_err(|error| match error {
            // The exit code is that of the cluster's own errors.
            ImageError::Cluster(error) => anyhow::Error::from(error),
            error => error.into(),
        })?;
        Ok(Shown { path: path.to_string(), volume })
    };
    let volumes = paths.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;

    let wanted = options.listen.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    let token = match &options.token {
        Some(token) => Some(token.clone()),
        None if wanted.ip().is_loopback() => None,
        None => Some(Token::random().context("cannot make a token")?),
    };
    let listener = TcpListener::bind(wanted).with_context(|| {
        format!("cannot listen on {wanted}: choose another address or port with --listen")
    })?;
    let address = listener.local_addr().context("cannot find the address")?;
    let end = watch_signals()?;
    announce(global, &volumes, &url(address, token.as_ref()))?;
    let door = Door::new(address, token, options.allow_origin.clone());
    view::serve(listener, volumes, door, options.workers, end).context("the viewer failed")
}

/// The first signal ends the viewer in order; a second one does not wait for that.
fn watch_signals() -> anyhow::Result<oneshot::Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot watch for signals")?;
    let (ask, asked) = oneshot::channel();
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut pending = signals.forever();
        if pending.next().is_some() {
            // Whoever is not served any more does not hear of it.
            let _ = ask.send(());
            let _ = pending.next();
            std::process::exit(i32::from(crate::exit::INTERRUPTED));
        }
    })?;
    Ok(asked)
}

fn announce(global: &Global, volumes: &[Shown], url: &str) -> anyhow::Result<()> {
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
    writeln!(out, "pario: {what} can be looked at: {url}")?;
    writeln!(out, "pario: Ctrl-C ends it")?;
    Ok(out.flush()?)
}

/// What to open in a browser.
fn url(address: SocketAddr, token: Option<&Token>) -> String {
    let host = match address.ip() {
        ip if ip.is_unspecified() => {
            let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
            format!("{machine}:{}", address.port())
        }
        _ => address.to_string(),
    };
    let token = token.map_or(String::new(), |token| format!("?token={}", token.as_str()));
    format!("http://{host}/{token}")
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let without_port = || text.parse().map(|ip: IpAddr| SocketAddr::from((ip, 0)));
    text.parse().or_else(|_| without_port()).map_err(|_| {
        "it is not an address, such as 127.0.0.1:8080, [::1]:8080 or 10.0.0.7".to_owned()
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
        None => Err("it is not an origin, such as https://lab.example".to_owned()),
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
    fn the_url_has_the_token() {
        let token: Token = "a-secret-of-12".parse().unwrap();
        let address = "10.0.0.7:81".parse().unwrap();
        assert_eq!(url(address, Some(&token)), "http://10.0.0.7:81/?token=a-secret-of-12");
        assert_eq!(url("127.0.0.1:80".parse().unwrap(), None), "http://127.0.0.1:80/");
        assert!(url("0.0.0.0:81".parse().unwrap(), None).ends_with(":81/"));
    }
}
