//! Claims about values, the structural check and the sections of a message.

mod check;
mod readers;
mod sections;
mod values;

/// Bytes from hexadecimal digits; blanks separate.
fn hex(text: &str) -> Vec<u8> {
    let digits = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect::<Vec<_>>();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
