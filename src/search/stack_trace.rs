//! The first line of an exception's text, and the top frame of its stack trace, in the forms of
//! .NET, Java, Node and Python, also where all lines stand in one.

use crate::base::limits::{GROUP_TEXT_BYTES_MAX, STACK_TRACE_BYTES_MAX};

/// What begins the next line where lines were joined, with the characters of it that are the line's
/// end: escaped line ends, and the blanks in front of a frame. A lone `\n` may be part of a path.
const JOINED: [(&str, usize); 7] = [
    ("\\r\\n", 4),
    ("\\n   at ", 2),
    ("\\n\\tat ", 4),
    ("\\n  File ", 2),
    ("   at ", 0),
    ("\tat ", 0),
    ("  File \"", 0),
];
/// The first line of a Python traceback; the error stands in its last.
const TRACEBACK: &str = "Traceback (most recent call last):";
/// What begins a frame: Java, .NET, Node; Python.
const FRAMES: [&str; 2] = ["at ", "File \""];

/// The line of an exception's text that says what happened.
pub(super) fn first_line(text: &str) -> String {
    let text = cut(text, GROUP_TEXT_BYTES_MAX).trim_start();
    if let Some(trace) = text.strip_prefix(TRACEBACK)
        && let Some(error) = lines(trace).rfind(|line| is_error(line))
    {
        return error.trim().to_owned();
    }
    lines(text).next().unwrap_or_default().trim().to_owned()
}

/// The frame in which an exception was thrown; empty if there is none.
pub(super) fn top_frame(trace: &str) -> String {
    let trace = cut(trace, STACK_TRACE_BYTES_MAX);
    let is_python = trace.contains(TRACEBACK);
    let frames = lines(trace).map(str::trim);
    let mut frames = frames.filter(|line| FRAMES.iter().any(|begin| line.starts_with(begin)));
    let top = if is_python {
        frames.next_back()
    } else {
        frames.next()
    };
    top.unwrap_or_default().to_owned()
}

/// The beginning of a text, cut at a character.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or(text)
}

/// Whether a line of a Python traceback is neither a frame nor the source in it.
fn is_error(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with([' ', '\t'])
}

/// The lines of a text, where they were joined also; each is found in one pass.
fn lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let mut lines = Vec::new();
    let (mut begin, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        let behind = text.get(at..).unwrap_or_default();
        let joined = JOINED.iter().find(|(begin, _)| behind.starts_with(begin));
        let ends = matches!(byte, b'\n' | b'\r');
        if ends || (joined.is_some() && at > begin) {
            lines.push(text.get(begin..at).unwrap_or_default());
            begin = at + joined.map_or(1, |(_, end)| *end);
            at = begin.max(at + 1);
        } else {
            at += 1;
        }
    }
    lines.push(text.get(begin..).unwrap_or_default());
    lines.into_iter().filter(|line| !line.trim().is_empty())
}
