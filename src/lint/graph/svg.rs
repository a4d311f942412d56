//! Graphs as SVG: no script, no style, presentation attributes only, which a page may overrule by the
//! classes `node`, `arrow`, the kinds and the reasons.

use std::fmt::{self, Write};

use super::drawing::{Arrow, Drawing, Labelled, columns, look, shortened, shortened_to, visible};
use super::layout::{Layout, Point, Size, Way, lay};
use super::{Graph, Place};
use crate::base::Name;
use crate::deaths::Reason;
use crate::lint::finding::Severity;

/// Width of a column of text, height of a line, padding of a box: in pixels.
const COLUMN: f64 = 6.8;
const LINE: f64 = 16.0;
const PADDING: f64 = 10.0;
const BOX_WIDTH_MIN: f64 = 90.0;
/// Space between ranks: labels stand in it.
const RANK_GAP_MIN: f64 = 70.0;
const RANK_GAP_MAX: f64 = 200.0;
/// Height and least width of the legend.
const LEGEND_HEIGHT: f64 = 40.0;
const LEGEND_WIDTH: f64 = 700.0;
/// Columns of a note, at most: they fit into the least width.
const NOTE_COLUMNS_MAX: usize = 95;

impl Graph {
    /// The graph as a drawing, with text that is read aloud.
    pub fn to_svg(&self) -> String {
        self.drawn(None)
    }

    /// The same with links to queues. `link`: the address of a queue.
    pub(crate) fn drawn(&self, links: Option<Link<'_>>) -> String {
        let drawing = Drawing::of(self);
        let sizes: Vec<Size> = drawing.boxes.iter().map(size).collect();
        let arrows = drawing.arrows.iter().map(|arrow| (arrow.from, arrow.to));
        let arrows: Vec<(usize, usize)> = arrows.collect();
        let layout = lay(&sizes, &arrows, rank_gap(&drawing));
        let mut svg = Svg {
            text: String::new(),
            graph: self,
            links,
        };
        svg.begin(&layout);
        for (arrow, way) in drawing.arrows.iter().zip(&layout.ways) {
            svg.arrow(arrow, way, &drawing.boxes);
        }
        for ((labelled, size), centre) in drawing.boxes.iter().zip(&sizes).zip(&layout.centres) {
            svg.node(labelled, *size, *centre);
        }
        svg.legend(layout.size.height);
        svg.notes(layout.size.height + LEGEND_HEIGHT);
        svg.text.push_str("</svg>\n");
        svg.text
    }
}

/// A drawing that is being written.
struct Svg<'a> {
    text: String,
    graph: &'a Graph,
    links: Option<Link<'a>>,
}

/// Makes the address of a queue.
type Link<'a> = &'a dyn Fn(&Name) -> String;

/// A text as it stands in SVG, between tags or in quotes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

impl Svg<'_> {
    fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(text);
    }

    fn begin(&mut self, layout: &Layout) {
        let width = layout.size.width.max(LEGEND_WIDTH);
        let notes = self.graph.notes();
        let height = layout.size.height + LEGEND_HEIGHT + pixels(notes.len(), LINE);
        // What is in an image is not read aloud, and so has no links.
        let role = if self.links.is_some() { "group" } else { "img" };
        let vhost = visible(&self.graph.vhost);
        let (nodes, edges) = (self.graph.nodes.rows().len(), self.graph.edges.len());
        let more = if notes.is_empty() { "" } else { "; " };
        let notes = notes.join("; ");
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"dead-letter-graph\" \
             width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             role=\"{role}\" aria-labelledby=\"graph-title graph-description\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">\n\
             <title id=\"graph-title\">Where the dead letters of vhost {} go</title>\n\
             <desc id=\"graph-description\">{nodes} queues, exchanges and places, {edges} ways of dead \
             letters{more}{}</desc>\n<defs>\n",
            Escaped(&vhost),
            Escaped(&notes)
        ));
        for reason in reasons() {
            let (word, colour) = (class(reason), look(reason).colour);
            self.put(format_args!(
                "<marker id=\"graph-head-{word}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" \
                 markerUnits=\"userSpaceOnUse\" markerWidth=\"11\" markerHeight=\"11\" \
                 orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" fill=\"{colour}\"/></marker>\n"
            ));
        }
        self.text.push_str("</defs>\n");
    }

    fn arrow(&mut self, arrow: &Arrow, way: &Way, boxes: &[Labelled<'_>]) {
        let (path, label) = path(way);
        let words = arrow.words(boxes);
        let turns = if arrow.turns.is_some() { " loop" } else { "" };
        let ends = if arrow.ends.is_empty() {
            ""
        } else {
            " dead-end"
        };
        let reason = arrow.reason();
        self.put(format_args!(
            "<g class=\"arrow {}{turns}{ends}\"><title>{}</title>",
            class(reason),
            Escaped(&words)
        ));
        self.line(&path, reason, arrow.width());
        let keys = shortened(&arrow.keys_words());
        self.label(
            &keys,
            Point {
                y: label.y - 5.0,
                ..label
            },
            "key",
            "normal",
        );
        let marks = arrow.marks().join(", ");
        self.label(
            &marks,
            Point {
                y: label.y + 13.0,
                ..label
            },
            "mark",
            "bold",
        );
        self.text.push_str("</g>\n");
    }

    fn line(&mut self, path: &str, reason: Option<Reason>, width: f64) {
        let look = look(reason);
        let opacity = if reason.is_some() { 1.0 } else { 0.6 };
        self.put(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width:.1}\" \
             stroke-dasharray=\"{}\" stroke-opacity=\"{opacity}\" \
             marker-end=\"url(#graph-head-{})\"/>",
            look.colour,
            look.dashes,
            class(reason)
        ));
    }

    fn label(&mut self, text: &str, at: Point, class: &str, weight: &str) {
        if !text.is_empty() {
            self.put(format_args!(
                "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                 font-size=\"10\" font-weight=\"{weight}\">{}</text>",
                at.x,
                at.y,
                Escaped(text)
            ));
        }
    }

    fn node(&mut self, labelled: &Labelled<'_>, size: Size, centre: Point) {
        let kind = labelled.place.kind();
        let lines = labelled.lines();
        let words = lines.get(1..).unwrap_or_default().join("; ");
        let words = match words.as_str() {
            "" => labelled.words(),
            more => format!("{}: {more}", labelled.words()),
        };
        let missing = labelled.is_missing();
        let link = self.link(labelled.place).filter(|_| !missing);
        if let Some(link) = &link {
            // Named by its title and its text: a label would have to say the same in the same words.
            self.put(format_args!(
                "<a class=\"node {kind}\" href=\"{}\">",
                Escaped(link)
            ));
        } else {
            self.put(format_args!("<g class=\"node {kind}\">"));
        }
        self.put(format_args!("<title>{}</title>", Escaped(&words)));
        let rules = labelled.node.rules.iter();
        let is_bad = rules.map(|rule| rule.severity()).min() == Some(Severity::Error);
        let (radius, dashes) = match labelled.place {
            Place::Exchange(_) if missing => (14, "3 3"),
            Place::Exchange(_) => (14, "none"),
            Place::Queue(_) if missing => (3, "3 3"),
            Place::Queue(_) => (3, "none"),
            Place::Wait | Place::Drop => (0, "6 3"),
        };
        let width = if is_bad { 3.0 } else { 1.2 };
        let (left, top) = (centre.x - size.width / 2.0, centre.y - size.height / 2.0);
        self.put(format_args!(
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{radius}\" \
             fill=\"currentColor\" fill-opacity=\"0.06\" stroke=\"currentColor\" \
             stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"/>",
            size.width, size.height
        ));
        let mut y = top + PADDING / 2.0;
        for (number, line) in lines.iter().enumerate() {
            y += LINE;
            let weight = if number == 0 || line.starts_with("DL") {
                "bold"
            } else {
                "normal"
            };
            self.put(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                 font-weight=\"{weight}\">{}</text>",
                centre.x,
                y - 4.0,
                Escaped(line)
            ));
        }
        self.text
            .push_str(if link.is_some() { "</a>\n" } else { "</g>\n" });
    }

    fn link(&self, place: &Place) -> Option<String> {
        let Place::Queue(name) = place else {
            return None;
        };
        self.links.map(|link| link(name))
    }

    /// What the lines mean: word and pattern, not the colour alone.
    fn legend(&mut self, top: f64) {
        self.text.push_str("<g class=\"legend\">");
        let y = top + LEGEND_HEIGHT / 2.0;
        let mut x = 24.0;
        for reason in reasons() {
            let path = format!("M{x:.1} {y:.1}L{:.1} {y:.1}", x + 40.0);
            self.line(&path, reason, 1.5);
            let word = reason.map_or("nothing died", Reason::as_str);
            self.put(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{word}</text>",
                x + 46.0,
                y + 3.5
            ));
            x += 130.0;
        }
        self.text.push_str("</g>\n");
    }

    /// What is not shown, below all else; the description has it in full.
    fn notes(&mut self, top: f64) {
        let mut y = top;
        for note in self.graph.notes() {
            self.put(format_args!(
                "<text class=\"note\" x=\"24.0\" y=\"{y:.1}\" font-size=\"10\">{}</text>\n",
                Escaped(&shortened_to(&note, NOTE_COLUMNS_MAX))
            ));
            y += LINE;
        }
    }
}

fn reasons() -> impl Iterator<Item = Option<Reason>> {
    let reasons = Reason::ALL.into_iter().map(Some);
    reasons.chain([None])
}

/// The class of a reason: its word.
fn class(reason: Option<Reason>) -> &'static str {
    reason.map_or("none", Reason::as_str)
}

fn size(labelled: &Labelled<'_>) -> Size {
    let lines = labelled.lines();
    let widest = lines.iter().map(|line| columns(line)).max().unwrap_or(0);
    let (widest, count) = (pixels(widest, COLUMN), pixels(lines.len(), LINE));
    Size {
        width: (widest + 2.0 * PADDING).max(BOX_WIDTH_MIN),
        height: count + PADDING,
    }
}

/// Room for the longest label between two ranks.
fn rank_gap(drawing: &Drawing<'_>) -> f64 {
    let labels = drawing.arrows.iter();
    let labels = labels.map(|arrow| {
        let marks = columns(&arrow.marks().join(", "));
        columns(&shortened(&arrow.keys_words())).max(marks)
    });
    let longest = pixels(labels.max().unwrap_or(0), COLUMN);
    (longest + 2.0 * PADDING).clamp(RANK_GAP_MIN, RANK_GAP_MAX)
}

/// What a number of columns or lines takes.
fn pixels(count: usize, each: f64) -> f64 {
    u32::try_from(count).map_or_else(|_| f64::from(u16::MAX), f64::from) * each
}

/// The path of an arrow, and where its label stands.
fn path(way: &Way) -> (String, Point) {
    let middle = |a: Point, b: Point| Point {
        x: f64::midpoint(a.x, b.x),
        y: f64::midpoint(a.y, b.y),
    };
    match way {
        Way::Forward(points) => {
            let mut path = String::new();
            for (number, point) in points.iter().enumerate() {
                let before = number.checked_sub(1).and_then(|before| points.get(before));
                let _ = match before {
                    None => write!(path, "M{:.1} {:.1}", point.x, point.y),
                    Some(before) => {
                        let x = f64::midpoint(before.x, point.x);
                        let (from, to) = (before.y, point.y);
                        write!(
                            path,
                            "C{x:.1} {from:.1} {x:.1} {to:.1} {:.1} {to:.1}",
                            point.x
                        )
                    }
                };
            }
            let label = match points.as_slice() {
                [first, second, ..] => middle(*first, *second),
                _ => Point::default(),
            };
            (path, label)
        }
        Way::Back { from, to, top } => {
            let path = format!(
                "M{:.1} {:.1}C{:.1} {top:.1} {:.1} {top:.1} {:.1} {:.1}",
                from.x, from.y, from.x, to.x, to.x, to.y
            );
            // The middle of the curve: three quarters of the way up.
            let base = middle(*from, *to);
            let y = 0.25 * base.y + 0.75 * top;
            (path, Point { x: base.x, y })
        }
        Way::Around { from, to } => {
            let (right, top) = (from.x + 40.0, to.y - 26.0);
            let path = format!(
                "M{:.1} {:.1}C{right:.1} {:.1} {:.1} {top:.1} {:.1} {:.1}",
                from.x, from.y, from.y, to.x, to.x, to.y
            );
            (
                path,
                Point {
                    x: from.x,
                    y: to.y - 10.0,
                },
            )
        }
    }
}
