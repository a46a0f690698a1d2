//! The golden bytes of every message, as seeds.

const GOLDEN: &str = include_str!("../../messages/tests/golden.txt");

/// Returns the bytes of the messages whose names begin with one of these.
pub(crate) fn golden(prefixes: &[&str]) -> Vec<Vec<u8>> {
    GOLDEN
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(_, hex)| bytes(hex))
        .collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks_exact(2);
    let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or_default() as u8;
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}
