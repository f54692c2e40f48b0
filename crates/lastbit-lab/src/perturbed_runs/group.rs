//! A program with all processes that it starts: they end together, also where this process is killed.
//!
//! ```text
//! sh         leads the process group; reads words from a pipe that this process alone holds
//! program    a member of the group, as are the processes that it starts, unless they leave it
//!
//! "stop"     SIGTERM to the group, which sh itself ignores
//! "end"      SIGKILL to the group, sh included
//! no words more, since this process is gone: SIGTERM, and a second later SIGKILL
//! ```
//!
//! A shell sends the signals, since no process of ours can be told what to do when it is killed.
//!
//! Some programs start processes in groups of their own, as `torchrun` does with its workers. Those are ended before the group is, where
//! `/proc` tells them by their environment: the variable `LASTBIT_GROUP`, which is the number of the leader.

use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LEADER: &str = "trap '' TERM INT HUP; \
     end() { for file in $(grep -lszxF \"LASTBIT_GROUP=$$\" /proc/[0-9]*/environ); do \
       file=${file#/proc/}; kill -KILL \"${file%/environ}\"; done; kill -KILL 0; }; \
     while read -r word; do case $word in stop) kill -TERM 0;; end) end;; esac; done; \
     kill -TERM 0; sleep 1; end";

/// A program that is asked to stop has this long to do so.
const GRACE: Duration = Duration::from_secs(10);

/// A program that runs. Dropping it ends it.
pub struct Group {
    leader: Child,
    program: Child,
}

impl Group {
    /// Starts a program in a group of its own.
    pub fn start(program: &mut Command) -> io::Result<Self> {
        let mut leader = Command::new("/bin/sh");
        leader.args(["-c", LEADER]).stdin(Stdio::piped());
        leader.stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut leader, 0);
        let mut leader = leader.spawn()?;
        program.env("LASTBIT_GROUP", leader.id().to_string());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(program, leader.id().cast_signed());
        match program.spawn() {
            Ok(program) => Ok(Self { leader, program }),
            Err(error) => {
                tell(&mut leader, "end");
                leader.wait()?;
                Err(error)
            }
        }
    }

    /// How the program ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.program.try_wait()
    }

    /// Asks all processes of the group to stop, and waits until the program has, or its time is over.
    pub fn stop(&mut self) -> io::Result<()> {
        tell(&mut self.leader, "stop");
        let asked = Instant::now();
        while self.ended()?.is_none() && asked.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// What cannot be told has no one to hear it: the group has ended.
fn tell(leader: &mut Child, word: &str) {
    if let Some(pipe) = &mut leader.stdin {
        let _ = writeln!(pipe, "{word}");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        tell(&mut self.leader, "end");
        // All are gone or were just killed, also a program that has left the group.
        let _ = self.leader.wait();
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
