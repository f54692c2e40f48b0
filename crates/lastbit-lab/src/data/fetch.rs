//! Downloading one file by curl, which knows the proxies and certificates of its machine. Its size and SHA-256 are
//! checked before anything reads it.

use std::io::{self, Read};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::convert::File;
use super::known::Remote;
use crate::error::Error;
use crate::progress::{Monitor, Progress};

/// An address that is silent for longer than this many seconds counts as out of reach.
const PATIENCE: &str = "20";

/// The file `remote` in the folder `address`.
pub fn fetch(address: &str, remote: &Remote, monitor: &dyn Monitor) -> Result<File, Error> {
    let url = format!("{address}{}", remote.name);
    let fail = |message: String| Error::Download { url: url.clone(), message };
    let mut curl = Command::new("curl")
        .args(["--fail", "--location", "--silent", "--show-error", "--proto", "=http,https"])
        .args(["--connect-timeout", PATIENCE, "--speed-time", PATIENCE, "--speed-limit", "1"])
        .args(["--url", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fail(format!("curl cannot be started ({error}); install it")))?;
    // One byte more than there should be is enough to know that it is another file.
    let body = curl.stdout.take().expect("it is piped").take(remote.bytes as u64 + 1);
    let bytes = read(body, remote, monitor).map_err(|error| fail(error.to_string()))?;
    let ended = curl.wait_with_output().map_err(|error| fail(error.to_string()))?;
    if bytes.len() > remote.bytes {
        return Err(fail(format!("it goes on after {} bytes", remote.bytes)));
    }
    if !ended.status.success() {
        return Err(fail(String::from_utf8_lossy(&ended.stderr).trim().to_owned()));
    }
    if bytes.len() < remote.bytes {
        return Err(fail(format!("it ended after {} of {} bytes", bytes.len(), remote.bytes)));
    }
    let sha256 = sha256(&bytes);
    if sha256 != remote.sha256 {
        let found = format!("found the SHA-256 {sha256}, expected {}", remote.sha256);
        return Err(fail(format!("{found}: the file has changed")));
    }
    Ok(File { path: url.into(), bytes })
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(mut body: impl Read, remote: &Remote, monitor: &dyn Monitor) -> io::Result<Vec<u8>> {
    let progress = Progress::new(monitor, remote.name, remote.bytes as u64);
    let mut bytes = Vec::with_capacity(remote.bytes);
    let mut piece = [0; 1 << 16];
    loop {
        match body.read(&mut piece)? {
            0 => return Ok(bytes),
            read => {
                bytes.extend_from_slice(&piece[..read]);
                progress.advance(read as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;
    use std::io::Write;
    use std::net::TcpListener;

    /// Answers one request on this machine; returns the address.
    fn serve(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    const ABC: Remote = Remote {
        name: "abc",
        bytes: 3,
        // FIPS 180-4, the example of one block.
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    };

    #[test]
    fn a_file_is_taken_only_as_it_should_be() {
        if Command::new("curl").arg("--version").output().is_err() {
            eprintln!("skipped: there is no curl");
            return;
        }
        let good = serve("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(fetch(&good, &ABC, &Silent).unwrap().bytes, b"abc");
        for (answer, part) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabd", "the file has changed"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", "goes on after 3 bytes"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "after 2 of 3 bytes"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "/abc"),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        ] {
            let message = fetch(&serve(answer), &ABC, &Silent).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
