//! `pario`: the one binary of Pario.
//!
//! It parses arguments, calls the libraries, and prints; no other part of Pario prints. The exit
//! codes:
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | success |
//! | 1 | failure; the reason is on stderr |
//! | 2 | wrong usage |
//! | 3 | there is no such file or directory |
//! | 4 | not permitted |
//! | 5 | a node or the cluster cannot be reached |
//! | 130 | interrupted, mostly with Ctrl-C |

#![forbid(unsafe_code)]

mod amounts;
mod arguments;
mod commands;
mod demo;
mod entry;
mod exit;
mod http;
mod interrupt;
mod metrics;
mod owners;
mod paths;
mod rank;
mod reach;
mod service_manager;
mod table;
mod terminal;
mod unfinished_file;
mod view;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command, GlobalOptions};
use commands::completions;

fn main() -> ExitCode {
    let mut typed = std::env::args_os();
    if typed.next().is_some_and(|name| rank::is_rank_process(&name)) {
        return rank::become_program(typed);
    }
    let typed: Vec<_> = std::env::args_os().collect();
    if typed.get(1).is_some_and(|word| word == completions::paths::NAME) {
        return completions::paths::run(typed.into_iter().skip(2));
    }
    let asks_for_json = typed.iter().any(|word| word == "--json");
    let arguments = match Arguments::try_parse_from(commands::run::accept_np(typed)) {
        Ok(arguments) => arguments,
        Err(asked) if !asked.use_stderr() => {
            // The reader of the help may have closed the pipe.
            let _ = asked.print();
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            exit::report_usage(&wrong.render().to_string(), asks_for_json);
            return exit::WRONG_USAGE.into();
        }
    };
    match run(&arguments.global, &arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::report(&error, arguments.global.json);
            exit::code(&error).into()
        }
    }
}

fn run(global: &GlobalOptions, command: &Command) -> anyhow::Result<()> {
    if global.create && global.data.is_none() {
        let text = "--create creates the cluster in the --data directory; name one with --data DIR"
            .to_owned();
        return Err(exit::UsageError(text).into());
    }
    match command {
        Command::Serve(options) => commands::serve::run(global, options),
        Command::Run(options) => commands::run::run(global, options),
        Command::Stop(options) => commands::stop::run(global, options),
        Command::Status(options) => commands::status::run(global, options),
        Command::Why(options) => commands::why::run(global, options),
        Command::Reset(options) => commands::reset::run(global, options),
        Command::Top(options) => commands::top::run(global, options),
        Command::Ls(options) => commands::ls::run(global, options),
        Command::Mkdir(options) => commands::mkdir::run(global, options),
        Command::Rmdir(options) => commands::rmdir::run(global, options),
        Command::Rm(options) => commands::rm::run(global, options),
        Command::Mv(options) => commands::mv::run(global, options),
        Command::Cp(options) => commands::cp::run(global, options),
        Command::Put(options) => commands::put::run(global, options),
        Command::Get(options) => commands::get::run(global, options),
        Command::Cat(options) => commands::cat::run(global, options),
        Command::Stat(options) => commands::stat::run(global, options),
        Command::Chmod(options) => commands::chmod::run(global, options),
        Command::Chown(options) => commands::chown::run(global, options),
        Command::Df => commands::df::run(global),
        Command::Du(options) => commands::du::run(global, options),
        Command::Compact(options) => commands::compact::run(global, options),
        Command::Fsck(options) => commands::fsck::run(global, options),
        Command::Operation(options) => commands::operation::run(global, options),
        Command::Image(options) => commands::image::run(global, options),
        Command::Volume(action) => commands::volume::run(global, action),
        Command::View(options) => commands::view::run(global, options),
        Command::Demo(options) => demo::run(global, options),
        Command::Systemd(options) => commands::systemd::run(global, options),
        Command::Completions(options) => completions::run(options),
        Command::Man(options) => commands::man::run(options),
    }
}
