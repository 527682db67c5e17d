use std::io::Write;

use flate2::write::GzEncoder;

use super::*;

const ALL: [Compression; 4] = [
    Compression::Gzip,
    Compression::Xz,
    Compression::Zstd,
    Compression::Bzip2,
];

fn pack(compression: Compression, text: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Bzip2 => {
            let level = bzip2::Compression::fast();
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => zstd::encode_all(text, 3).unwrap(),
        Compression::Xz => {
            let options = lzma_rust2::XzOptions::with_preset(1);
            let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
    }
}

/// The text of a packed input and where it is cut, or why it cannot be read.
fn unpack(packed: &[u8]) -> io::Result<(Vec<u8>, Option<Cut>)> {
    let compression = Compression::of(packed).unwrap();
    let (mut unpacked, found) = compression.unpack(packed);
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match unpacked.read(&mut buffer)? {
            0 => break,
            read => text.extend_from_slice(&buffer[..read]),
        }
    }
    assert!(!found.has_trailing());
    Ok((text, found.cut()))
}

/// Lines that do not repeat, so that the packed text has many blocks.
fn text(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let numbers = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        format!("line {state}\n")
    });
    numbers.flat_map(String::into_bytes).take(bytes).collect()
}

#[test]
fn each_compression_is_known_by_its_first_bytes_and_may_come_in_several_pieces() {
    let text = text(100_000);
    for compression in ALL {
        let packed = pack(compression, &text);
        assert_eq!(Compression::of(&packed), Some(compression));
        let both = [packed.clone(), packed].concat();
        let (found, cut) = unpack(&both).unwrap();
        assert!(found == text.repeat(2), "{compression:?}");
        assert_eq!(cut, None, "{compression:?}");
    }
    // A frame to skip, with four bytes.
    let skipped = [
        &b"\x50\x2a\x4d\x18\x04\0\0\0abcd"[..],
        &pack(Compression::Zstd, b"a\n"),
    ];
    assert_eq!(unpack(&skipped.concat()).unwrap(), (b"a\n".to_vec(), None));
    for none in [
        &b""[..],
        b"1.2.3.4",
        b"\x1f",
        b"\xfd7zX",
        b"\x50\x2a\x4d\x19",
    ] {
        assert_eq!(Compression::of(none), None);
    }
}

#[test]
fn zeros_behind_the_data_are_padding_and_anything_else_is_noticed() {
    let text = text(100_000);
    for compression in ALL {
        let packed = pack(compression, &text);
        for zeros in [4, 512, CHUNK_BYTES + 4] {
            let padded = [packed.clone(), vec![0; zeros]].concat();
            let (found, cut) = unpack(&padded).unwrap();
            assert!(found == text && cut.is_none(), "{compression:?}: {zeros}");
        }
        if compression == Compression::Xz {
            continue;
        }
        let zeros = vec![0; CHUNK_BYTES];
        for trailing in [
            &b"x"[..],
            b"garbage\n",
            b"\x1f\x8c\0\0\0",
            &[&zeros[..], b"x"].concat(),
        ] {
            let followed = [packed.clone(), trailing.to_vec()].concat();
            let (mut unpacked, end) = compression.unpack(&*followed);
            let mut found = Vec::new();
            unpacked.read_to_end(&mut found).unwrap();
            assert!(found == text, "{compression:?}");
            assert!(end.has_trailing() && !end.is_cut(), "{compression:?}");
        }
        // The beginning of another piece is one.
        let followed = [&packed[..], &packed[..packed.len() / 2]].concat();
        let (found, cut) = unpack(&followed).unwrap();
        assert!(found.starts_with(&text) && cut.is_some(), "{compression:?}");
    }
}

#[test]
fn frames_of_zstd_without_text_are_skipped() {
    let text = text(1000);
    let packed = pack(Compression::Zstd, &text);
    let skippable = b"\x5e\x2a\x4d\x18\x03\0\0\0abc";
    let all = [&packed[..], skippable, &packed, skippable].concat();
    let (found, cut) = unpack(&all).unwrap();
    assert!(found == [&text[..], &text].concat() && cut.is_none());
}

#[test]
fn what_was_unpacked_before_a_cut_is_kept() {
    let text = text(1_200_000);
    for compression in ALL {
        let packed = pack(compression, &text);
        for (part, at_least) in [(4, 700_000), (2, 300_000)] {
            let part = packed.len() - packed.len() / part;
            let (found, cut) = unpack(&packed[..part]).unwrap();
            let bytes = u64::try_from(found.len()).unwrap();
            assert!(text.starts_with(&found), "{compression:?}");
            assert!(found.len() >= at_least, "{compression:?}: {bytes}");
            let expected = Cut {
                compression,
                bytes,
                is_short: true,
            };
            assert_eq!(cut, Some(expected), "{compression:?}");
        }
        let (found, cut) = unpack(&packed[..packed.len() - 1]).unwrap();
        assert!(
            found.len() > text.len() - 100_000 && cut.is_some(),
            "{compression:?}"
        );
    }
}

#[test]
fn all_that_a_cut_chunk_of_xz_has_is_kept() {
    // So little that it is one chunk.
    let text = text(100_000);
    let packed = pack(Compression::Xz, &text);
    let half = &packed[..packed.len() / 2];
    let (found, cut) = unpack(half).unwrap();
    assert!(text.starts_with(&found));
    assert!(
        found.len() > text.len() / 3,
        "{} of {}",
        found.len(),
        text.len()
    );
    assert!(cut.is_some_and(|cut| cut.is_short));

    let mut damaged = packed.clone();
    damaged[packed.len() * 3 / 4] ^= 0xff;
    let (found, cut) = unpack(&damaged).unwrap();
    assert!(
        found.len() > text.len() / 3,
        "{} of {}",
        found.len(),
        text.len()
    );
    assert!(cut.is_some_and(|cut| !cut.is_short));
}

/// A damaged bit leads to a block of other text.
#[test]
fn no_text_of_a_damaged_block_of_bzip2_is_kept() {
    // Five blocks, the third of which is one line of equal bytes.
    let text = [text(150_000), vec![b'-'; 2_000_000], text(250_000)].concat();
    let packed = pack(Compression::Bzip2, &text);
    let mut longest = 0;
    for at in (4..packed.len()).step_by(packed.len() / 20) {
        let mut damaged = packed.clone();
        damaged[at] ^= 1;
        let (found, cut) = unpack(&damaged).unwrap();
        assert!(text.starts_with(&found), "at {at}: {}", found.len());
        assert!(cut.is_some_and(|cut| !cut.is_short), "at {at}");
        longest = longest.max(found.len());
    }
    assert!(longest > text.len() - 200_000, "{longest}");
}

#[test]
fn no_damage_is_a_panic_and_none_is_unnoticed() {
    let text = text(20_000);
    for compression in ALL {
        let packed = pack(compression, &text);
        let step = packed.len() / 41;
        for at in (0..packed.len()).step_by(step).skip(1) {
            for bits in [1, 0x80, 0xff] {
                let mut damaged = packed.clone();
                damaged[at] ^= bits;
                let Ok((found, cut)) = unpack(&damaged) else {
                    continue;
                };
                let is_same = found == text;
                // zstd's encoder writes no checksum unless it is asked to.
                let has_checksum = compression != Compression::Zstd;
                assert!(
                    is_same || cut.is_some() || !has_checksum,
                    "{compression:?} at {at}"
                );
            }
        }
    }
}

#[test]
fn an_input_that_needs_too_much_memory_is_an_error_that_says_how_to_unpack_it() {
    // The head of a frame whose window has 1 GiB, and an empty block.
    let zstd = b"\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00";
    let why = unpack(zstd).unwrap_err().to_string();
    assert!(
        why.contains("more than 128 MiB; unpack it first: `zstd -dc --long=31 "),
        "{why}"
    );

    let mut options = lzma_rust2::XzOptions::with_preset(1);
    options.lzma_options.dict_size = (1 << 27) + (8 << 20);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(b"a\n").unwrap();
    let why = unpack(&encoder.finish().unwrap()).unwrap_err().to_string();
    assert!(
        why.contains("more than 128 MiB; unpack it first: `xz -dc "),
        "{why}"
    );
}
