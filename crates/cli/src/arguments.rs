//! What can be typed, and the help for it. What a command takes stands in the file of the command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    cat, chmod, chown, completions, cp, du, fsck, get, image, ls, man, mkdir, mv, put, reset, rm,
    rmdir, run, serve, stat, status, stop, systemd, top, view, volume, why,
};
use crate::demo;

const EXIT_CODES: &str = "\
Exit codes:
  0    everything is fine
  1    it failed; the reason is on stderr
  2    wrong usage
  3    there is no such file or directory
  4    not permitted
  5    a node or the cluster cannot be reached
  130  interrupted (Ctrl-C)";

/// Parallel files, shared by many processes and processed where the data lies.
#[derive(Debug, Parser)]
#[command(
    name = "pario",
    version,
    max_term_width = 100,
    after_help = after_help(
        "pario demo\n  pario serve\n  pario cp results.h5 /runs/\n  pario --data ./pario-data ls -l /runs"
    )
)]
pub struct Arguments {
    /// What every command can be told.
    #[command(flatten)]
    pub global: Global,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command can be told.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster and output")]
pub struct Global {
    /// The cluster: unix:PATH, tcp:HOST:PORT, or a node's data directory [default: the environment's
    /// PARIO_CLUSTER, otherwise your running node]
    #[arg(long, global = true, value_name = "ADDRESS", conflicts_with = "data")]
    pub cluster: Option<String>,

    /// Use the cluster in this directory inside of this command, without a server
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Create the cluster in the directory of --data if there is none; `serve`, `run` and `demo` do
    /// that in any case
    #[arg(long, global = true, conflicts_with = "cluster")]
    pub create: bool,

    /// The file with the cluster's key, for addresses beyond this machine
    #[arg(long, global = true, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    pub json: bool,

    /// Send all data through the node, also on the same machine
    #[arg(long, global = true)]
    pub no_short_cut: bool,

    /// How long to wait for a node that does not answer
    #[arg(long, global = true, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node until it is stopped
    ///
    /// Without a configuration it is a whole cluster: one node with four disks in a directory.
    /// SIGTERM, Ctrl-C and `pario stop` end it after what is under way; after a crash it
    /// recovers when it is started again.
    #[command(after_help = after_help(serve::EXAMPLES))]
    Serve(serve::Options),
    /// Start the processes of a job, and wait for them
    ///
    /// Every process finds its rank, their number, the job and the cluster in PARIO_RANK,
    /// PARIO_SIZE, PARIO_JOB and PARIO_CLUSTER. With --data, a node runs on that directory inside
    /// of this command as long as the job does; so it does on ./pario-data if no cluster is named
    /// and none of yours is running. When a process fails, the others get SIGTERM, and SIGKILL
    /// after a grace. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on. The exit code is
    /// the first bad one of the processes, 128 and the number if it was a signal. Rank 0 has the
    /// command's input, unless that is a terminal.
    #[command(after_help = after_help(run::EXAMPLES))]
    Run(run::Options),
    /// Stop nodes: what is acknowledged is finished, new work is refused
    #[command(after_help = after_help(stop::EXAMPLES))]
    Stop(stop::Options),
    /// Show how nodes, disks and clients are doing
    ///
    /// Every node has two seconds to answer; one that hangs does not keep the others from being
    /// shown. If a node is down or a disk cannot be used the exit code is 1.
    #[command(after_help = after_help(status::EXAMPLES))]
    Status(status::Options),
    /// Show who waits for whom in a job
    ///
    /// For every meeting that has begun: in which call who waits, for whom, since when, and what
    /// the missing ranks called last. Your own jobs; whoever runs the node sees those of all.
    #[command(after_help = after_help(why::EXAMPLES))]
    Why(why::Options),
    /// End what jobs do together: whoever waits is told
    ///
    /// Files that were opened together must be opened again; what was written stays. Concerns your
    /// own jobs; if you run the node, those of all. Without a file all jobs are forgotten.
    #[command(after_help = after_help(reset::EXAMPLES))]
    Reset(reset::Options),
    /// Watch nodes, disks, rates, queues, open files and clients
    #[command(after_help = after_help(top::EXAMPLES))]
    Top(top::Options),
    /// List directories
    #[command(after_help = after_help(ls::EXAMPLES))]
    Ls(ls::Options),
    /// Make directories
    #[command(after_help = after_help(mkdir::EXAMPLES))]
    Mkdir(mkdir::Options),
    /// Remove empty directories
    #[command(after_help = after_help(rmdir::EXAMPLES))]
    Rmdir(rmdir::Options),
    /// Remove files
    #[command(after_help = after_help(rm::EXAMPLES))]
    Rm(rm::Options),
    /// Rename files and directories, or move them into a directory
    #[command(after_help = after_help(mv::EXAMPLES))]
    Mv(mv::Options),
    /// Copy files to, from and inside the cluster
    ///
    /// pario:/PATH is in the cluster; file:/PATH and relative paths are on this machine and leave an
    /// absolute path on the other side in the cluster, while beside pario:/PATH an absolute path is on
    /// this machine. If both sides are absolute, both are in the cluster, and cp refuses a path that
    /// could also be on this machine.
    ///
    /// A dash is stdin or stdout. A target that ends with a slash is a directory, and is made. After
    /// a failure the other files are copied all the same; the failures are listed at the end. Symbolic
    /// links are followed where they are named, and left out inside of directories (-L, -P). A file
    /// gets its name when it is whole; a large one that was interrupted is continued by the same
    /// command. An image or volume that leaves the cluster becomes one self-contained file, and an
    /// image or volume again when it comes back.
    #[command(after_help = after_help(cp::EXAMPLES))]
    Cp(cp::Options),
    /// Copy files from this machine to the cluster
    ///
    /// All paths but the last are on this machine, the last is in the cluster. Everything else is as
    /// with `pario cp`.
    #[command(after_help = after_help(put::EXAMPLES))]
    Put(put::Options),
    /// Copy files from the cluster to this machine
    ///
    /// One path alone is copied to the current directory. Of several, the last is on this machine and
    /// the others are in the cluster, unless the last is written pario:/PATH, too. Everything else is
    /// as with `pario cp`.
    #[command(after_help = after_help(get::EXAMPLES))]
    Get(get::Options),
    /// Print files
    #[command(after_help = after_help(cat::EXAMPLES))]
    Cat(cat::Options),
    /// Show size, layout, owner and the bytes on each disk
    #[command(after_help = after_help(stat::EXAMPLES))]
    Stat(stat::Options),
    /// Change permissions
    #[command(after_help = after_help(chmod::EXAMPLES))]
    Chmod(chmod::Options),
    /// Change owner and group
    #[command(after_help = after_help(chown::EXAMPLES))]
    Chown(chown::Options),
    /// Show how many bytes directories hold, and how many they take on the disks
    #[command(after_help = after_help(du::EXAMPLES))]
    Du(du::Options),
    /// Show how full the disks are
    ///
    /// Disks that share a file system show the same room; the total counts it once.
    #[command(after_help = after_help("pario df\n  pario df --json | jq .total.free_bytes"))]
    Df,
    /// Check the names against the disks
    ///
    /// Without options it only looks. The exit code is 1 if something is wrong and was not put
    /// right.
    #[command(after_help = after_help(fsck::EXAMPLES))]
    Fsck(fsck::Options),
    /// Bring in, look at, change and take out images that are spread over disks
    ///
    /// An image is cut into tiles, and everything is computed where they lie. What nobody has
    /// written is 0 and takes no space.
    #[command(after_help = after_help(image::EXAMPLES))]
    Image(image::Options),
    /// Volumes: three-dimensional images, with slices at any place and in any direction
    #[command(subcommand, after_help = after_help(volume::EXAMPLES))]
    Volume(volume::Action),
    /// Look at volumes in a browser
    ///
    /// Serves one page that shows slices through the volumes: three orthogonal ones, a free one,
    /// and where they lie. Each slice is taken where the volume is stored. Only this machine can
    /// look, unless an address is given. A token is needed, which is in the printed URL. Ctrl-C
    /// ends it.
    #[command(after_help = after_help(view::EXAMPLES))]
    View(view::Options),
    /// Show what Pario does, on nodes and disks of its own
    ///
    /// Makes a cluster of one node and four disks in a new directory. A body that does not exist is
    /// made at the disks; a hundred slices through it are taken there, and a filter is applied.
    /// Then it copies a file in and out and compares every byte, uses extents, runs a node in a process of its own, kills it in
    /// the middle of a copy, starts it again and finds everything that was acknowledged. Then it
    /// removes the directory and prints how fast each phase was. Nothing needs to be configured.
    #[command(after_help = after_help(demo::EXAMPLES))]
    Demo(demo::Options),
    /// Print a systemd unit that runs a node
    ///
    /// Without options it is a template, `pario@.service`, for nodes of /etc/pario/cluster.toml:
    /// `systemctl start pario@a` runs node a as the user pario. With --node the unit is for one
    /// node and may write to its directories only. With --data it is for a node alone. With --user
    /// it is a unit of your own, for a node alone in your state directory unless --config is given.
    #[command(after_help = after_help(systemd::EXAMPLES))]
    Systemd(systemd::Options),
    /// Print completions for a shell
    #[command(after_help = after_help(completions::EXAMPLES))]
    Completions(completions::Options),
    /// Write manual pages, one for each command
    #[command(after_help = after_help(man::EXAMPLES))]
    Man(man::Options),
}

/// What stands at the end of every help.
pub fn after_help(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{EXIT_CODES}")
}

pub fn parse_seconds(text: &str) -> Result<f64, String> {
    const LONGEST: f64 = 86_400.0;
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST)
        .ok_or_else(|| "it is not a number of seconds, such as 2 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_make_sense() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_help_ends_with_examples_and_exit_codes() {
        let mut all = Arguments::command();
        all.build();
        for command in all.get_subcommands().filter(|command| command.get_name() != "help") {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Examples:\n  pario "), "{}", command.get_name());
            assert!(help.ends_with("interrupted (Ctrl-C)"), "{}", command.get_name());
        }
    }

    #[test]
    fn global_options_stand_before_and_behind_the_command() {
        for line in ["pario --json --data d ls /", "pario ls / --json --data d"] {
            let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
            assert!(arguments.global.json, "{line}");
            assert_eq!(arguments.global.data, Some("d".into()), "{line}");
        }
        assert!(
            Arguments::try_parse_from(["pario", "df", "--data", "d", "--cluster", "c"]).is_err()
        );
    }

    #[test]
    fn time_limits_are_seconds() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        for text in ["", "0", "-1", "nan", "inf", "soon", "1e9"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
