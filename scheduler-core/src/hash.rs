//! Hashes over text, in the two alphabets that names and marks need.

use sha2::{Digest, Sha256};

/// The first `digits` hex digits of the SHA-256 of `bytes` (at most 64).
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        for half in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(half), 16));
        }
    }
    text.truncate(digits);
    text
}

/// The first `digits` base-32 digits (`0-9a-v`, 5 bits each) of a SHA-256 over `parts`, each led by its length, so that
/// no two lists of parts are the same bytes.
pub(crate) fn base32(parts: &[&str], digits: usize) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part.as_bytes());
    }
    let mut text = String::with_capacity(digits);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in sha.finalize() {
        bits = (bits << 8) | u32::from(byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            text.extend(char::from_digit((bits >> held) & 31, 32));
        }
        bits &= (1 << held) - 1;
    }
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_sha256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(hex(b"abc", 64), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(b"abc", 8), "ba7816bf");
    }

    #[test]
    fn base32_has_the_digits_asked_for_and_keeps_parts_apart() {
        assert_eq!(base32(&["a"], 13).len(), 13);
        assert_ne!(base32(&["ab", "c"], 13), base32(&["a", "bc"], 13));
    }
}
