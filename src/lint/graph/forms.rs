//! Graphs as text for other programs: DOT for Graphviz, and Mermaid.

use std::fmt::Write;

use super::drawing::{Drawing, Labelled, look, visible};
use super::{Graph, Place};

impl Graph {
    /// The graph for Graphviz.
    pub fn to_dot(&self) -> String {
        let drawing = Drawing::of(self);
        let mut text = String::from("digraph coroner {\n  rankdir=LR;\n");
        let title = format!("dead letters of vhost {}", visible(&self.vhost));
        let title: Vec<String> = [title].into_iter().chain(self.notes()).collect();
        let title = dot_text(&title.join("\n"));
        let _ = writeln!(text, "  label={title};");
        text.push_str("  node [shape=box, fontname=\"sans-serif\"];\n");
        text.push_str("  edge [fontname=\"sans-serif\", fontsize=10];\n");
        for (number, labelled) in drawing.boxes.iter().enumerate() {
            let label = dot_text(&labelled.lines().join("\n"));
            let shape = match labelled.place {
                Place::Queue(_) => "box",
                Place::Exchange(_) => "ellipse",
                Place::Wait | Place::Drop => "octagon",
            };
            let tooltip = dot_text(&labelled.words());
            let _ = writeln!(
                text,
                "  n{number} [label={label}, shape={shape}, tooltip={tooltip}];"
            );
        }
        for arrow in &drawing.arrows {
            let _ = writeln!(
                text,
                "  n{} -> n{} [label={}, penwidth={:.1}, {}];",
                arrow.from,
                arrow.to,
                dot_text(&arrow.lines().join("\n")),
                arrow.width(),
                look(arrow.reason()).dot,
            );
        }
        text.push_str("}\n");
        text
    }

    /// The graph for Mermaid, which many show in Markdown.
    pub fn to_mermaid(&self) -> String {
        let drawing = Drawing::of(self);
        let mut text = String::from("flowchart LR\n");
        for (number, labelled) in drawing.boxes.iter().enumerate() {
            let (open, close) = brackets(labelled);
            let lines = labelled.lines();
            let lines: Vec<String> = lines.iter().map(|line| mermaid_text(line)).collect();
            let _ = writeln!(text, "  n{number}{open}\"{}\"{close}", lines.join("<br/>"));
        }
        for (number, note) in self.notes().iter().enumerate() {
            let _ = writeln!(text, "  note{number}[/\"{}\"/]", mermaid_text(note));
        }
        for arrow in &drawing.arrows {
            let lines = arrow.lines();
            let lines: Vec<String> = lines.iter().map(|line| mermaid_text(line)).collect();
            let label = match lines.as_slice() {
                [] => String::new(),
                lines => format!("|\"{}\"|", lines.join("<br/>")),
            };
            let _ = writeln!(text, "  n{} -->{label} n{}", arrow.from, arrow.to);
        }
        for (number, arrow) in drawing.arrows.iter().enumerate() {
            let Some(reason) = arrow.reason() else {
                continue;
            };
            let look = look(Some(reason));
            let width = arrow.width();
            let _ = write!(
                text,
                "  linkStyle {number} stroke:{},stroke-width:{width:.1}px",
                look.colour
            );
            if look.dashes != "none" {
                let _ = write!(text, ",stroke-dasharray:{}", look.dashes);
            }
            text.push('\n');
        }
        text
    }
}

/// A text in quotes as DOT takes it: labels know backslashes, and entities of HTML.
fn dot_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '&' => quoted.push_str("&amp;"),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A text within quotes as Mermaid takes it: all that could mean something there is a number.
fn mermaid_text(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || " ._-,()".contains(c) {
            escaped.push(c);
        } else {
            let _ = write!(escaped, "#{};", u32::from(c));
        }
    }
    escaped
}

const fn brackets(labelled: &Labelled<'_>) -> (&'static str, &'static str) {
    match labelled.place {
        Place::Queue(_) => ("[", "]"),
        Place::Exchange(_) => ("([", "])"),
        Place::Wait | Place::Drop => ("{{", "}}"),
    }
}
