//! Many users who look at a volume at the same time: `pario view`, over HTTP.
//!
//! A node has the volume, the viewer is the program as it is built, and each user is a thread with
//! its own connection. The time of a slice runs from the request until the last byte of its
//! picture.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::body::{self, PATH};
use super::disks::{configuration_of, connect};
use super::node::Nodes;
use super::viewer_user::ViewerUser;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::namespaces::{output, text};
use crate::report::Report;
use crate::statistics::quantile;
use crate::turns::Comparison;

/// Users at once.
const USERS: u32 = 20;
/// The time limit for 95 of 100 slices.
const LIMIT_MS: f64 = 100.0;
const TURNS: u32 = 15;
/// A cache for the boxes of all users.
const CACHE_BYTES: u64 = 1 << 30;
const NEEDED_BYTES: u64 = 3 << 30;

/// The range of milliseconds from a picture to the next request; `None` without a pause.
type PauseMs = Option<[u64; 2]>;

/// The behaviour of users, and the ratio to reach.
const WAYS: [(&str, PauseMs, Option<f64>); 2] =
    [("viewer", Some([250, 750]), Some(1.0)), ("viewer-storm", None, None)];

/// Measures the figures and reports them.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let reason = match setting.lacks_space(NEEDED_BYTES)? {
        None => measure(setting, report)?,
        reason => reason,
    };
    if let Some(reason) = reason {
        WAYS.iter().for_each(|(figure, ..)| report.skipped(figure, &*reason));
    }
    Ok(())
}

/// Measures the figures; returns the reason if that is impossible here.
fn measure(setting: &RunSettings, report: &mut Report) -> Result<Option<String>> {
    let program = match build() {
        Ok(program) => program,
        Err(error) => return Ok(Some(format!("pario cannot be built: {error:#}"))),
    };
    let dir = setting.subdir("viewer")?;
    let configuration = configuration_of(&dir, 1, 4, Some(CACHE_BYTES), None)?;
    let _node = Nodes::start(&dir, &configuration, 1)?;
    let volume = body::volume(&connect(&dir)?, setting)?;
    let viewer = ViewerProcess::start(&program, &format!("unix:{}/n0.s", text(&dir)?))?;
    for (figure, pause_ms, goal) in WAYS {
        // Users without a pause see many slices in a short time.
        let quick_ms = if pause_ms.is_some() { 700 } else { 200 };
        let turn = Duration::from_millis(setting.choose(4000, quick_ms));
        let slices = look(&viewer.address, volume.centre(), pause_ms, turn)?;
        let times = |number: u32| -> Vec<f64> {
            let (from, to) = (turn * number, turn * (number + 1));
            let of_turn = slices.iter().filter(|slice| (from..to).contains(&slice.ended));
            of_turn.map(|slice| slice.took.as_secs_f64() * 1e3).collect()
        };
        // The first turn does not count.
        let turns: Vec<Vec<f64>> = (1..=TURNS).map(times).collect();
        ensure!(turns.iter().all(|turn| turn.len() >= 20), "{figure}: too few slices in a turn");
        let percentile: Vec<f64> = turns.iter().map(|turn| quantile(turn, 0.95)).collect();
        let all = turns.concat();
        #[expect(clippy::cast_precision_loss, reason = "some thousands")]
        let per_second = all.len() as f64 / (turn * TURNS).as_secs_f64();
        let (half, most) = (quantile(&all, 0.5), quantile(&all, 1.0));
        eprintln!(
            "  {figure}: {per_second:.1} slices per second; half of them within {half:.1} ms, all \
             within {most:.0}"
        );
        let limit = vec![LIMIT_MS; percentile.len()];
        let compared = Comparison::new(&percentile, &limit);
        report.measured(figure, compared, Quantity::Amount("ms"), goal);
    }
    Ok(None)
}

/// A slice that a user has received: its time since the beginning, and its duration.
struct ReceivedSlice {
    ended: Duration,
    took: Duration,
}

/// Lets all users look at the same time, for all turns and one before.
fn look(
    address: &str,
    centre: [f64; 3],
    pause_ms: PauseMs,
    turn: Duration,
) -> Result<Vec<ReceivedSlice>> {
    let users: Result<Vec<ViewerUser>> =
        (0..USERS).map(|number| ViewerUser::connect(address, number, centre)).collect();
    let (end, has_failed) = (turn * (TURNS + 1), AtomicBool::new(false));
    let began = Instant::now();
    let work = |mut user: ViewerUser| -> Result<Vec<ReceivedSlice>> {
        let mut got = Vec::new();
        while began.elapsed() < end && !has_failed.load(Ordering::Relaxed) {
            if let Some([least, most]) = pause_ms {
                thread::sleep(Duration::from_millis(user.random.u64(least..=most)));
            }
            let asked = Instant::now();
            if let Err(error) = user.step() {
                has_failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
            got.push(ReceivedSlice { ended: began.elapsed(), took: asked.elapsed() });
        }
        Ok(got)
    };
    thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> =
            users?.into_iter().map(|user| scope.spawn(move || work(user))).collect();
        let mut all = Vec::new();
        for user in running {
            all.extend(user.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(all)
    })
}

/// The viewer; dropping it ends the process.
struct ViewerProcess {
    process: Child,
    address: String,
}

impl ViewerProcess {
    fn start(program: &Path, cluster: &str) -> Result<Self> {
        let mut process = Command::new(program)
            .args(["--cluster", cluster, "view", PATH, "--no-token"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the viewer")?;
        let out = process.stdout.take().context("the second process has no output pipe")?;
        let mut viewer = Self { process, address: String::new() };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let url = line.split_once("http://").map(|(_, url)| url);
        let address = url.and_then(|url| url.split_once('/')).map(|(address, _)| address);
        let address = address.with_context(|| format!("the viewer sent the line {line:?}"))?;
        address.clone_into(&mut viewer.address);
        Ok(viewer)
    }
}

impl Drop for ViewerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        if let Some(process) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(process, Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

/// Builds the program `pario` beside this one, from the same source.
fn build() -> Result<PathBuf> {
    let here = std::env::current_exe().context("finding this program")?;
    let beside = here.parent().context("it lies in a directory")?;
    let target = beside.parent().context("the directory lies in another")?;
    let profile = match beside.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "pario-cli", "--bin", "pario"]);
    command.args(["--profile", profile]).arg("--target-dir").arg(target);
    output(command.current_dir(env!("CARGO_MANIFEST_DIR")))?;
    Ok(beside.join("pario"))
}
