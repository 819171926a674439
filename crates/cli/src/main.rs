//! `pario`: the one binary of Pario.
//!
//! It prints, and nothing else in Pario does; what it prints about is done by the libraries. Here
//! it is only decided how the process ends:
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | everything is fine |
//! | 1 | it failed; the reason is on stderr |
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
mod interrupt;
mod owners;
mod paths;
mod rank;
mod reach;
mod table;
mod terminal;
mod view;

use std::process::ExitCode;

use clap::Parser;
use pario_server::config::ConfigError;

use arguments::{Arguments, Command, Global};

fn main() -> ExitCode {
    let mut typed = std::env::args_os();
    if typed.next().is_some_and(|name| rank::is_one(&name)) {
        return rank::become_program(typed);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(asked_or_wrong) => {
            let is_wrong = asked_or_wrong.use_stderr();
            // Where nobody reads it, nobody misses it.
            let _ = asked_or_wrong.print();
            return if is_wrong { exit::WRONG_USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match run(&arguments.global, &arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.is::<ConfigError>() {
                // Each of its lines begins with a file and a line of it, where editors look for them.
                eprintln!("{error}");
            } else if !exit::nobody_listens(&error) && !error.is::<exit::Told>() {
                eprintln!("pario: {error:#}");
            }
            exit::code(&error).into()
        }
    }
}

fn run(global: &Global, command: &Command) -> anyhow::Result<()> {
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
        Command::Cat(options) => commands::cat::run(global, options),
        Command::Stat(options) => commands::stat::run(global, options),
        Command::Chmod(options) => commands::chmod::run(global, options),
        Command::Chown(options) => commands::chown::run(global, options),
        Command::Df => commands::df::run(global),
        Command::Fsck(options) => commands::fsck::run(global, options),
        Command::Image(options) => commands::image::run(global, options),
        Command::Volume(action) => commands::volume::run(global, action),
        Command::View(options) => commands::view::run(global, options),
        Command::Demo(options) => demo::run(global, options),
        Command::Completions(options) => commands::completions::run(options),
        Command::Man(options) => commands::man::run(options),
    }
}
