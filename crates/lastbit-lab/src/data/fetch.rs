//! Downloading one file by curl, which knows the proxies and certificates of its machine. Its size and SHA-256 are
//! checked before anything reads it. Redirects are refused: the addresses that we name have none. An address that
//! is silent or slow counts as out of reach ([`Patience`]).

use std::io::{self, Read};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::convert::File;
use super::known::Remote;
use crate::error::Error;
use crate::progress::{Monitor, Progress};

/// How long a download may take.
struct Patience {
    /// Seconds without an answer, or at less than `slowest`.
    silence: u32,
    /// Bytes per second.
    slowest: u32,
    /// Seconds in all.
    longest: u32,
}

/// The largest file takes three hours at the slowest speed.
const PATIENCE: Patience = Patience { silence: 20, slowest: 16_384, longest: 3 * 3600 };

/// The file `remote` in the folder `address`.
pub fn fetch(address: &str, remote: &Remote, monitor: &dyn Monitor) -> Result<File, Error> {
    fetch_within(&PATIENCE, address, remote, monitor)
}

fn fetch_within(
    patience: &Patience,
    address: &str,
    remote: &Remote,
    monitor: &dyn Monitor,
) -> Result<File, Error> {
    let url = format!("{address}{}", remote.name);
    let fail = |message: String| Error::Download { url: url.clone(), message };
    let mut curl = Command::new("curl")
        .args(["--fail", "--silent", "--show-error", "--proto", "=http,https"])
        // A redirect is an error, and not an empty file.
        .args(["--location", "--max-redirs", "0"])
        .args(["--connect-timeout", &patience.silence.to_string()])
        .args(["--speed-time", &patience.silence.to_string()])
        .args(["--speed-limit", &patience.slowest.to_string()])
        .args(["--max-time", &patience.longest.to_string()])
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
    fn an_address_that_trickles_is_given_up() {
        if Command::new("curl").arg("--version").output().is_err() {
            eprintln!("skipped: there is no curl");
            return;
        }
        let trickle = |patience: &Patience| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = format!("http://{}/", listener.local_addr().unwrap());
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
                stream.write_all(head.as_bytes()).unwrap();
                // Until curl hangs up.
                while stream.write_all(b"a").and_then(|()| stream.flush()).is_ok() {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            });
            let remote = Remote { bytes: 1_000_000, ..ABC };
            fetch_within(patience, &address, &remote, &Silent).err().unwrap().to_string()
        };
        let slow = trickle(&Patience { silence: 1, slowest: 1000, longest: 600 });
        assert!(slow.contains("too slow"), "{slow}");
        let long = trickle(&Patience { silence: 600, slowest: 1, longest: 1 });
        assert!(long.contains("timed out"), "{long}");
    }

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
            (
                "HTTP/1.1 302 Found\r\nLocation: https://example.com/abc\r\nContent-Length: 0\r\n\r\n",
                "redirects",
            ),
        ] {
            let message = fetch(&serve(answer), &ABC, &Silent).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
