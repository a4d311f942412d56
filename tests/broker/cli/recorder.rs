//! An HTTP server that writes down what it is asked and answers as it is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Longest body of a request, in bytes.
const BODY_MAX: usize = 1 << 20;

/// An answer: the beginning of `METHOD /path`, status, body.
pub type Answer = (&'static str, u16, &'static str);

/// A recording stand-in for the HTTP API.
pub struct Recorder {
    /// Where it listens.
    pub url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    /// Listens; what no answer is prepared for is answered with 204.
    pub fn start(answers: &'static [Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        // It ends with the process: it waits for clients that do not come.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let record = Arc::clone(&record);
                thread::spawn(move || serve(stream, answers, &record));
            }
        });
        Self { url, seen }
    }

    /// The requests so far: `METHOD /path` and the body behind it, if there was one.
    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

fn serve(stream: TcpStream, answers: &[Answer], seen: &Mutex<Vec<String>>) {
    let mut out = stream.try_clone().expect("a socket can be shared");
    let mut input = BufReader::new(stream);
    while let Some((line, body)) = request(&mut input) {
        let found = answers.iter().find(|(begin, ..)| line.starts_with(begin));
        let (_, status, answer) = found.unwrap_or(&("", 204, ""));
        let shown = if body.is_empty() {
            line
        } else {
            format!("{line} {body}")
        };
        seen.lock().expect("not poisoned").push(shown);
        let length = answer.len();
        let head = format!("HTTP/1.1 {status} It\r\ncontent-length: {length}\r\n\r\n{answer}");
        if out.write_all(head.as_bytes()).is_err() {
            return;
        }
    }
}

/// `METHOD /path`, with the reason if one was given, and the body.
fn request(input: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let mut shown = format!("{} {}", words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut header = String::new();
        input.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().ok().filter(|it| *it <= BODY_MAX)?,
            "x-reason" => shown.extend([" because ", value]),
            "authorization" => assert_eq!(value, "Basic Z3Vlc3Q6Z3Vlc3Q=", "guest:guest"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some((shown, String::from_utf8_lossy(&body).into_owned()))
}
