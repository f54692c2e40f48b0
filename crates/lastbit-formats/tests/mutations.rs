//! Damaged files: cut at every length, and changed at random places with a fixed seed. No parser
//! may panic; a cut may not pass as the whole.

use std::io::Write;

use lastbit::rng::Stream;
use lastbit_formats::cifar::Kind;
use lastbit_formats::logs::{events, json, table, trainer_state};
use lastbit_formats::tensors::{Tensor, TensorFile, Values};
use lastbit_formats::{archive, cifar, csv, idx, labels, npy, png, results, tensors};

const MUTATIONS: u64 = 4000;

/// A parser with a file it accepts.
struct Case {
    name: &'static str,
    file: Vec<u8>,
    accepts: fn(&[u8]) -> bool,
    /// Whether what is left of a cut file may be a file again.
    cut_may_pass: bool,
}

fn cases() -> Vec<Case> {
    let pixels = (0..63).map(|k| k % 9 * 20 + k / 9).collect();
    let picture = png::Picture { shape: [7, 9, 1], pixels }.to_png().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(b"some bytes, some bytes, some bytes").unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    for name in ["data_batch_1.bin", "test_batch.bin"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(40);
        tar.append_data(&mut header, name, &[7; 40][..]).unwrap();
    }
    let mut safetensors = Vec::new();
    let tensor = Tensor { name: "x".to_owned(), shape: vec![3], values: Values::F32(vec![0.5; 3]) };
    let file = TensorFile { tensors: vec![tensor], ..TensorFile::default() };
    tensors::write(&file, &mut safetensors).unwrap();
    let case = |name, file, accepts, cut_may_pass| Case { name, file, accepts, cut_may_pass };
    vec![
        case(
            "idx",
            [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4][..], &[9; 24]].concat(),
            |bytes| idx::parse(bytes).is_ok(),
            false,
        ),
        // Whole records remain a file.
        case("cifar", vec![3; 2 * 3073], |bytes| cifar::parse(bytes, Kind::Ten).is_ok(), true),
        case("cifar100", vec![3; 3074], |bytes| cifar::parse(bytes, Kind::Hundred).is_ok(), false),
        case("npy", npy::write(&[2, 3], &[0.5; 6]), |bytes| npy::parse(bytes).is_ok(), false),
        case("csv", b"x,y\n1,2.5\n-3e2,4\n".to_vec(), |bytes| csv::parse(bytes).is_ok(), true),
        case(
            "results",
            b"group,seed,value\nold,0,93.1\nnew,0,93.4\n".to_vec(),
            |bytes| results::parse(bytes).is_ok(),
            true,
        ),
        case("labels", b"[1, 20, 3, 9]".to_vec(), |bytes| labels::parse(bytes).is_ok(), false),
        // The last chunk holds nothing that is needed.
        case("png", picture, |bytes| png::parse(bytes).is_ok(), true),
        case(
            "gzip",
            gzip.finish().unwrap(),
            |bytes| archive::gunzip(bytes, 1 << 20).is_ok(),
            false,
        ),
        case(
            "tensors",
            safetensors,
            |bytes| tensors::parse(bytes, bytes.len() as u64).is_ok(),
            false,
        ),
        // The records that are left of a cut file are read; the end says that it is cut.
        case(
            "events",
            event_file(),
            |bytes| {
                let whole = events::End { records: 2, cut_at: None };
                events::parse(bytes, &mut |_| ()) == Ok(whole)
            },
            false,
        ),
        case(
            "row of metrics",
            br#"{"step": 10, "loss": NaN, "eval": {"top": [0.5, "inf"]}, "note": "a \"b\""}"#
                .to_vec(),
            |bytes| json::row(bytes, &mut |_, _| ()).is_ok(),
            false,
        ),
        // A last line without its end is left out.
        case(
            "table of metrics",
            b"step,loss,note\n1,0.5,\n2,NaN,\"a, b\"\n".to_vec(),
            |bytes| table::rows(bytes, &mut |_, _, _| ()).is_ok(),
            true,
        ),
        case(
            "trainer state",
            br#"{"global_step": 2, "log_history": [{"step": 1, "loss": -Infinity}, {"step": 2}]}"#
                .to_vec(),
            |bytes| trainer_state::parse(bytes, &mut |_, _, _| ()).is_ok(),
            false,
        ),
        // An archive may end after any member.
        case("tar", tar.into_inner().unwrap(), |bytes| archive::tar_files(bytes).is_ok(), true),
    ]
}

/// `loss` at steps 1 and 2.
fn event_file() -> Vec<u8> {
    let event = |step: u8| {
        [&[0x10, step, 0x2a, 13, 0x0a, 11, 0x0a, 4][..], b"loss", &[0x15, 0, 0, 0, 0x3f]].concat()
    };
    [events::framed(&event(1)), events::framed(&event(2))].concat()
}

#[test]
fn a_file_that_is_cut_is_refused() {
    for case in cases() {
        assert!((case.accepts)(&case.file), "{}", case.name);
        for length in 0..case.file.len() {
            let passes = (case.accepts)(&case.file[..length]);
            assert!(case.cut_may_pass || !passes, "{} cut to {length} bytes", case.name);
        }
    }
}

#[test]
fn random_damage_never_panics() {
    for (stream, case) in cases().into_iter().enumerate() {
        let random = Stream::new(20, stream as u64);
        let mut accepted = 0;
        for counter in 0..MUTATIONS {
            accepted += u64::from((case.accepts)(&damaged(&case.file, &random, counter)));
        }
        // A checksum lets nothing pass.
        // Damage that is never refused, or always, would not reach what is to be tested; the
        // labels of CIFAR are a 3073rd of its bytes, so there nearly all passes unless cut.
        assert!(accepted < MUTATIONS, "{}: all accepted", case.name);
        assert!(
            accepted > 0 || ["gzip", "png", "events"].contains(&case.name),
            "{}: none",
            case.name
        );
    }
}

/// One to eight changes: a byte replaced by an extreme or a random one, a bit flipped, a piece
/// removed or doubled. Half of them within the first 64 bytes, where headers are.
fn damaged(file: &[u8], random: &Stream, counter: u64) -> Vec<u8> {
    let mut file = file.to_vec();
    let changes = 1 + u64::from(random.block(16 * counter)[0] % 8);
    for change in 1..=changes {
        let [kind, place, value, length] = random.block(16 * counter + change);
        let reach = if kind & 0x100 == 0 { file.len() } else { file.len().min(64) };
        if reach == 0 {
            return file;
        }
        let at = place as usize % reach;
        let end = (at + 1 + length as usize % 16).min(file.len());
        match kind % 6 {
            0 => file[at] = value as u8,
            1 => file[at] = [0, 1, 0x7f, 0x80, 0xff][value as usize % 5],
            2 => file[at] ^= 1 << (value % 8),
            3 => file[at..end].fill(0xff),
            4 => drop(file.drain(at..end)),
            _ => {
                let piece = file[at..end].to_vec();
                file.splice(at..at, piece);
            }
        }
    }
    file
}
