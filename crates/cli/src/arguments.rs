//! The command line: global options, commands and their help. Each command's own file holds its
//! options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    cat, chmod, chown, compact, completions, cp, du, fsck, get, image, ls, man, mkdir, mv,
    operation, put, reset, rm, rmdir, run, serve, stat, status, stop, systemd, top, view, volume,
    why,
};
use crate::demo;

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    failure; the reason is on stderr
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
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalOptions,

    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster and output")]
pub struct GlobalOptions {
    /// The cluster: unix:PATH, tcp:HOST:PORT, a host, or a node's data directory [default:
    /// PARIO_CLUSTER, otherwise your running node]
    #[arg(long, global = true, value_name = "ADDRESS", conflicts_with = "data")]
    pub cluster: Option<String>,

    /// The cluster on this host, or at this address, as the commands of PFSLib name it
    #[arg(long, global = true, value_name = "HOST", hide = true, conflicts_with_all = ["data", "cluster"])]
    pub host: Option<String>,

    /// Run the cluster in this directory inside this command, without a server
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Create the cluster in the --data directory if there is none; `serve`, `run` and `demo`
    /// always do
    #[arg(long, global = true, conflicts_with = "cluster")]
    pub create: bool,

    /// The file with the cluster's key, for other machines [default: PARIO_KEY, otherwise
    /// ~/.config/pario/key]
    #[arg(long, global = true, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,

    /// Send all data through the node, even on the same machine
    #[arg(long, global = true)]
    pub no_short_cut: bool,

    /// Seconds to wait for a node that does not answer
    #[arg(long, global = true, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node until it is stopped
    ///
    /// Without a configuration, the node is a whole cluster with four disks in one directory.
    /// SIGTERM, Ctrl-C and `pario stop` end it after it has finished the requests under way. After
    /// a crash it recovers at the next start.
    #[command(after_help = after_help(serve::EXAMPLES))]
    Serve(serve::Options),
    /// Start the processes of a job and wait for them
    ///
    /// Every process finds its rank, the number of ranks, the job and the cluster in PARIO_RANK,
    /// PARIO_SIZE, PARIO_JOB and PARIO_CLUSTER. With --data, this command runs a node on that
    /// directory as long as the job runs. It does the same on ./pario-data if you name no cluster
    /// and run no node. If a process fails, the others get SIGTERM, and SIGKILL after the grace
    /// period. The command passes on SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2. Its exit code is
    /// that of the first process that failed: 128 plus the number for a signal. Rank 0 reads the
    /// command's input unless that is a terminal.
    #[command(after_help = after_help(run::EXAMPLES))]
    Run(run::Options),
    /// Stop nodes: finish acknowledged work, refuse new work
    #[command(after_help = after_help(stop::EXAMPLES))]
    Stop(stop::Options),
    /// Show the state of nodes, disks and clients
    ///
    /// Every node has two seconds to answer; a node that hangs does not delay the others. The exit
    /// code is 1 if a node is down or a disk is unusable.
    #[command(after_help = after_help(status::EXAMPLES))]
    Status(status::Options),
    /// Show which ranks of a job wait for which others
    ///
    /// For every round that has begun: the call in which ranks wait, for which ranks, since when,
    /// and the last calls of the missing ranks. Shows your own jobs, or those of all users if you
    /// run the node.
    #[command(after_help = after_help(why::EXAMPLES))]
    Why(why::Options),
    /// End the coordination of jobs: calls that wait fail
    ///
    /// Jobs must reopen the files that they share; written data stays. Resets your own jobs, or
    /// those of all users if you run the node. Without a file, the nodes also forget the jobs.
    #[command(after_help = after_help(reset::EXAMPLES))]
    Reset(reset::Options),
    /// Watch nodes, disks, rates, queues, open files and clients
    #[command(after_help = after_help(top::EXAMPLES))]
    Top(top::Options),
    /// List directories
    #[command(after_help = after_help(ls::EXAMPLES))]
    Ls(ls::Options),
    /// Create directories
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
    /// pario:/PATH is in the cluster; file:/PATH and relative paths are on this machine. Beside a
    /// path on this machine, an absolute path is in the cluster; beside pario:/PATH it is on this
    /// machine. If both are absolute, both are in the cluster, and cp refuses a path that also
    /// exists on this machine.
    ///
    /// A dash is stdin or stdout. A target that ends with a slash is a directory; cp creates it.
    /// After a failure cp copies the other files and lists the failures at the end. It follows
    /// symbolic links that you name and skips those inside directories (-L, -P). A file gets its
    /// name when it is complete; the same command continues an interrupted copy of a large file. An
    /// image or volume becomes one self-contained file outside the cluster, and an image or volume
    /// again inside.
    #[command(after_help = after_help(cp::EXAMPLES))]
    Cp(cp::Options),
    /// Copy files from this machine to the cluster
    ///
    /// The last path is in the cluster, all others are on this machine. Otherwise like `pario cp`.
    #[command(after_help = after_help(put::EXAMPLES))]
    Put(put::Options),
    /// Copy files from the cluster to this machine
    ///
    /// Copies a single path to the current directory. Of several paths, the last is on this machine
    /// and the others are in the cluster, unless the last is written pario:/PATH. Otherwise like
    /// `pario cp`.
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
    /// Show the size of directories, and their space on the disks
    #[command(after_help = after_help(du::EXAMPLES))]
    Du(du::Options),
    /// Show how full the disks are
    ///
    /// Disks on one file system show the same free space; the total counts it once.
    #[command(after_help = after_help("pario df\n  pario df --json | jq .total.free_bytes"))]
    Df,
    /// Return the space between the extents of files to the disks
    ///
    /// Moves the extents of each file together, on all its disks at the same time, while other
    /// programs use the file. Nodes compact files by themselves when they waste much space. Shows
    /// the space of each file on each disk before and after. An interrupted compaction keeps what it
    /// has done.
    #[command(after_help = after_help(compact::EXAMPLES))]
    Compact(compact::Options),
    /// Check the namespace against the disks
    ///
    /// Without options it changes nothing. The exit code is 1 if problems remain.
    #[command(after_help = after_help(fsck::EXAMPLES))]
    Fsck(fsck::Options),
    /// Add, list, show, remove and test operations that are WebAssembly modules
    ///
    /// An operation runs at the nodes, where the extents of a file are stored. Modules arrive while
    /// the nodes run, and reach nothing but the extents that they get.
    #[command(after_help = after_help(operation::EXAMPLES))]
    Operation(operation::Options),
    /// Import, inspect, process and export images that are spread over disks
    ///
    /// An image is cut into tiles; the nodes that store the tiles do the computation. Pixels that
    /// were never written are 0 and take no space.
    #[command(after_help = after_help(image::EXAMPLES))]
    Image(image::Options),
    /// Import, slice, show and export volumes: three-dimensional images
    #[command(subcommand, after_help = after_help(volume::EXAMPLES))]
    Volume(volume::VolumeAction),
    /// Look at volumes in a browser
    ///
    /// Serves a page with slices through the volumes: three orthogonal ones, an oblique one, and
    /// their positions. The nodes that store a volume compute its slices. By default only this
    /// machine can connect (--listen). Requests need the token in the printed URL. Ctrl-C ends the
    /// viewer.
    #[command(after_help = after_help(view::EXAMPLES))]
    View(view::Options),
    /// Show what Pario does, on a temporary cluster
    ///
    /// Creates a cluster of one node and four disks in a new directory, generates a synthetic body
    /// scan on the disks, takes a hundred slices and applies a filter there. Copies a file in and
    /// out and compares every byte, uses extents, runs a node as its own process, kills it during a
    /// copy, restarts it and checks all acknowledged data. Removes the directory and prints the
    /// speed of each phase. Needs no configuration.
    #[command(after_help = after_help(demo::EXAMPLES))]
    Demo(demo::Options),
    /// Print a systemd unit that runs a node
    ///
    /// Without options it prints a template, `pario@.service`, for nodes of
    /// /etc/pario/cluster.toml: `systemctl start pario@a` runs node a as user pario. With --node,
    /// the unit is for one node and may write to that node's directories only. With --data, it is
    /// for a single-node cluster. With --user, it is a user unit, for a single-node cluster in your
    /// state directory unless --config is given.
    #[command(after_help = after_help(systemd::EXAMPLES))]
    Systemd(systemd::Options),
    /// Print completions for a shell
    #[command(after_help = after_help(completions::EXAMPLES))]
    Completions(completions::Options),
    /// Write manual pages, one per command
    #[command(after_help = after_help(man::EXAMPLES))]
    Man(man::Options),
}

/// Returns the text that ends every help page: examples and exit codes.
pub fn after_help(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{EXIT_CODES}")
}

/// Parses a time limit in seconds, with an upper limit.
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
