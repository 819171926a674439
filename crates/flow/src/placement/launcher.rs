//! Starting the other processes of a program.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::file::Process;

/// Starts processes: on this machine by spawning them, on others through `ssh`.
#[derive(Debug, Clone, Copy)]
pub struct Launcher;

/// A process could not be started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The path of the program that runs now is not known.
    #[error("process \"{process}\": the program that runs now cannot be found: {error}")]
    Executable {
        /// The process.
        process: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The program, or `ssh`, cannot be run.
    #[error("process \"{process}\": {program} cannot be started: {error}")]
    Spawn {
        /// The process.
        process: String,
        /// What was to be run.
        program: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The remote shell ended before it took the secret.
    #[error("process \"{process}\": {host} did not take the key: {error}")]
    Secret {
        /// The process.
        process: String,
        /// The machine.
        host: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The secret or the environment cannot be handed over as they are.
    #[error("process \"{process}\": {what}")]
    Unsuitable {
        /// The process.
        process: String,
        /// What cannot be handed over.
        what: String,
    },
}

/// A process that was started. It is killed when this is dropped.
#[derive(Debug)]
pub struct Started {
    name: String,
    child: Child,
    /// Open as long as the process should live, if it is on another machine: a process that sees
    /// its end knows that the program is gone.
    lifeline: Option<ChildStdin>,
}

impl Launcher {
    /// The variable with the secret, or with `stdin` where the secret is the first line there.
    pub const KEY_VARIABLE: &'static str = "PARIO_KEY";
    /// The variable that names another program than `ssh`.
    pub const SSH_VARIABLE: &'static str = "PARIO_SSH";

    /// Starts a process with some variables added to its environment.
    ///
    /// On this machine it gets the secret in the variable `PARIO_KEY`. On others the command line
    /// can be seen by everybody, so there `PARIO_KEY` is `stdin` and the secret is the first line
    /// of the standard input, which stays open until the process is stopped. What the process
    /// prints goes where the output of this one goes.
    pub fn start(
        process: &Process,
        environment: &[(&str, String)],
        secret: &str,
    ) -> Result<Started, LaunchError> {
        let ssh = std::env::var_os(Launcher::SSH_VARIABLE)
            .filter(|program| !program.is_empty())
            .unwrap_or_else(|| "ssh".into());
        start(&ssh, process, environment, secret)
    }
}

impl Started {
    /// The name of the process in the placement file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the process on this machine: its own, or that of its `ssh`.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended, if it did.
    pub fn try_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for the process to end by itself, then kills it, and says how it ended.
    pub fn stop(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        const LONGEST_PAUSE: Duration = Duration::from_millis(20);
        self.lifeline = None;
        let begin = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            let left = patience.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Both fail only if the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(
    ssh: &OsStr,
    process: &Process,
    environment: &[(&str, String)],
    secret: &str,
) -> Result<Started, LaunchError> {
    check(process, environment, secret)?;
    let executable = match &process.executable {
        Some(path) => path.clone().into_os_string(),
        None => std::env::current_exe()
            .map_err(|error| LaunchError::Executable { process: process.name.clone(), error })?
            .into_os_string(),
    };
    let arguments: Vec<OsString> = match &process.arguments {
        Some(arguments) => arguments.iter().map(OsString::from).collect(),
        None => std::env::args_os().skip(1).collect(),
    };
    match process.host.as_deref().filter(|host| !is_this_machine(host)) {
        None => start_here(process, &executable, &arguments, environment, secret),
        Some(host) => {
            let line = remote_line(&executable, &arguments, environment);
            start_there(ssh, process, host, &line, secret)
        }
    }
}

fn check(
    process: &Process,
    environment: &[(&str, String)],
    secret: &str,
) -> Result<(), LaunchError> {
    let unsuitable =
        |what: String| Err(LaunchError::Unsuitable { process: process.name.clone(), what });
    if secret.is_empty() || secret.contains(['\n', '\r', '\0']) {
        return unsuitable("the key must be one line that is not empty".into());
    }
    if process.host.as_ref().is_some_and(|host| host.is_empty() || host.starts_with('-')) {
        return unsuitable("the name of the host is not one".into());
    }
    for (name, value) in environment {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            || !name.chars().all(word)
        {
            return unsuitable(format!("\"{name}\" is not the name of an environment variable"));
        }
        if value.contains('\0') {
            return unsuitable(format!("the value of {name} contains a zero byte"));
        }
    }
    Ok(())
}

fn start_here(
    process: &Process,
    executable: &OsStr,
    arguments: &[OsString],
    environment: &[(&str, String)],
    secret: &str,
) -> Result<Started, LaunchError> {
    let child = Command::new(executable)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .env(Launcher::KEY_VARIABLE, secret)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| LaunchError::Spawn {
            process: process.name.clone(),
            program: executable.to_string_lossy().into_owned(),
            error,
        })?;
    Ok(Started { name: process.name.clone(), child, lifeline: None })
}

fn start_there(
    ssh: &OsStr,
    process: &Process,
    host: &str,
    line: &OsStr,
    secret: &str,
) -> Result<Started, LaunchError> {
    let mut child = Command::new(ssh)
        .args(["-o", "BatchMode=yes", host])
        .arg(line)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| LaunchError::Spawn {
            process: process.name.clone(),
            program: ssh.to_string_lossy().into_owned(),
            error,
        })?;
    let stdin = child.stdin.take();
    // From here on the child is killed if anything goes wrong.
    let mut started = Started { name: process.name.clone(), child, lifeline: stdin };
    let handed_over = match &mut started.lifeline {
        Some(stdin) => stdin.write_all(format!("{secret}\n").as_bytes()),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    };
    match handed_over {
        Ok(()) => Ok(started),
        Err(error) => {
            Err(LaunchError::Secret { process: process.name.clone(), host: host.to_owned(), error })
        }
    }
}

/// The line for the shell of the other machine.
fn remote_line(
    executable: &OsStr,
    arguments: &[OsString],
    environment: &[(&str, String)],
) -> OsString {
    let mut line = b"env".to_vec();
    let mut add = |word: &[u8]| {
        line.push(b' ');
        line.extend(quoted(word));
    };
    for (name, value) in environment {
        add(format!("{name}={value}").as_bytes());
    }
    add(format!("{}=stdin", Launcher::KEY_VARIABLE).as_bytes());
    add(executable.as_bytes());
    for argument in arguments {
        add(argument.as_bytes());
    }
    OsString::from_vec(line)
}

/// A word as a POSIX shell reads it back unchanged.
fn quoted(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+=:,./@%".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Whether a host is the machine this runs on.
fn is_this_machine(host: &str) -> bool {
    let name = rustix::system::uname();
    let own = name.nodename().to_string_lossy();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let full_differ = host.contains('.') && own.contains('.');
    ["localhost", "127.0.0.1", "::1"].contains(&host)
        || host.eq_ignore_ascii_case(&own)
        || (!full_differ && short(host).eq_ignore_ascii_case(&short(&own)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Process {
        Process {
            name: "B".into(),
            host: None,
            executable: Some("/bin/sh".into()),
            arguments: Some(vec!["-c".into(), script.into()]),
        }
    }

    fn output(folder: &Path) -> String {
        fs::read_to_string(folder.join("out")).unwrap()
    }

    /// A program that stands for ssh: it notes its arguments and runs the last of them here.
    ///
    /// Another process copies it to its place: a program cannot be run while anybody has it open
    /// for writing, and a test beside this one may just then fork with all files open.
    fn stand_in(folder: &Path) -> PathBuf {
        let (text, path) = (folder.join("text"), folder.join("ssh"));
        let notes = folder.join("notes").display().to_string();
        let script = format!("#!/bin/sh\necho \"$1 $2 $3\" > '{notes}'\nexec /bin/sh -c \"$4\"\n");
        fs::write(&text, script).unwrap();
        let copied = Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
        assert!(copied.unwrap().success());
        path
    }

    #[test]
    fn on_this_machine_the_environment_has_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out").display().to_string();
        let environment = [("PARIO_OUT", out), ("PARIO_SPACE", "it's 1".into())];
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        for host in [None, Some("localhost".to_owned()), Some(own)] {
            let process =
                Process { host, ..shell("echo \"$PARIO_KEY/$PARIO_SPACE\" > \"$PARIO_OUT\"") };
            let ssh = OsStr::new("/does/not/exist");
            let mut started = start(ssh, &process, &environment, "secret").unwrap();
            assert_eq!(started.name(), "B");
            assert!(started.pid() > 0);
            assert!(started.stop(PATIENCE).unwrap().success());
            assert_eq!(output(folder.path()), "secret/it's 1\n");
        }
    }

    #[test]
    fn on_other_machines_the_key_comes_through_the_standard_input() {
        let folder = tempfile::tempdir().unwrap();
        let ssh = stand_in(folder.path());
        let out = folder.path().join("out").display().to_string();
        let script = "read -r key; echo \"$PARIO_KEY/$key/$PARIO_SPACE/$1\" > \"$PARIO_OUT\"";
        let mut process = Process { host: Some("n2.example".into()), ..shell(script) };
        process.arguments.as_mut().unwrap().extend(["sh".to_owned(), "a 'b' $c".to_owned()]);
        let environment = [("PARIO_OUT", out), ("PARIO_SPACE", "$HOME; \"x\"".into())];
        let mut started = start(ssh.as_os_str(), &process, &environment, "secret").unwrap();
        assert!(started.stop(PATIENCE).unwrap().success());
        assert_eq!(output(folder.path()), "stdin/secret/$HOME; \"x\"/a 'b' $c\n");
        let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
        assert_eq!(notes, "-o BatchMode=yes n2.example\n");
    }

    #[test]
    fn a_remote_process_sees_the_end_of_its_input_when_it_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let ssh = stand_in(folder.path());
        let process =
            Process { host: Some("n2.example".into()), ..shell("read key; read more; exit 5") };
        let mut started = start(ssh.as_os_str(), &process, &[], "secret").unwrap();
        assert_eq!(started.try_status().unwrap(), None);
        assert_eq!(started.stop(PATIENCE).unwrap().code(), Some(5));
    }

    #[test]
    fn who_does_not_end_is_killed() {
        let mut started = start(OsStr::new("ssh"), &shell("exec sleep 600"), &[], "s").unwrap();
        assert_eq!(started.try_status().unwrap(), None);
        let status = started.stop(Duration::from_millis(20)).unwrap();
        assert!(!status.success());
        assert_eq!(started.try_status().unwrap(), Some(status));
        assert_eq!(started.stop(PATIENCE).unwrap(), status, "stopping twice is the same");
    }

    #[test]
    fn who_is_dropped_is_killed_and_reaped() {
        let started = start(OsStr::new("ssh"), &shell("exec sleep 600"), &[], "s").unwrap();
        let entry = PathBuf::from(format!("/proc/{}", started.pid()));
        assert!(entry.exists());
        drop(started);
        assert!(!entry.exists());
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let missing = Process { executable: Some("/no/such/sieve".into()), ..shell("") };
        let error = start(OsStr::new("ssh"), &missing, &[], "s").unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("process \"B\": /no/such/sieve cannot be started: "),
            "{message}"
        );
        let far = Process { host: Some("n2.example".into()), ..shell("") };
        let error = start(OsStr::new("/no/such/ssh"), &far, &[], "s").unwrap_err();
        assert!(error.to_string().starts_with("process \"B\": /no/such/ssh cannot be started: "));
    }

    #[test]
    fn what_cannot_be_handed_over_is_refused() {
        let refused = |process: &Process, name: &str, value: &str, secret: &str| {
            let environment = [(name, value.to_owned())];
            let result = start(OsStr::new("ssh"), process, &environment, secret);
            assert!(matches!(result, Err(LaunchError::Unsuitable { .. })), "{name} {value:?}");
        };
        refused(&shell(""), "A", "", "two\nlines");
        refused(&shell(""), "A", "", "");
        refused(&shell(""), "A B", "", "s");
        refused(&shell(""), "", "", "s");
        refused(&shell(""), "A", "\0", "s");
        let option = Process { host: Some("-oProxyCommand=x".into()), ..shell("") };
        refused(&option, "A", "", "s");
    }

    #[test]
    fn this_machine_has_several_names() {
        assert!(["localhost", "127.0.0.1", "::1"].into_iter().all(is_this_machine));
        assert!(!is_this_machine("n2.example"));
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(is_this_machine(&own) && is_this_machine(&own.to_uppercase()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_shell_reads_quoted_words_back(words in prop::collection::vec("[^\0]{0,12}", 1..4)) {
            let mut line = b"printf '%s\\0'".to_vec();
            for word in &words {
                line.push(b' ');
                line.extend(quoted(word.as_bytes()));
            }
            let command = OsString::from_vec(line);
            let printed = Command::new("/bin/sh").arg("-c").arg(command).output().unwrap().stdout;
            let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
            prop_assert_eq!(printed, expected.into_bytes());
        }
    }
}
