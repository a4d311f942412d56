//! Where boxes and arrows are drawn: from left to right, in ranks by the longest way; within a rank by
//! the middle of the neighbours. Arrows that close a loop are drawn back as arcs.
//!
//! ```text
//!   rank 0     rank 1      rank 2
//!   +---+      +----+      +---+
//!   | a |----->| xd |----->| b |      an arrow over several ranks bends in each of them
//!   +---+      +----+      +---+
//!     ^______________________|        an arc
//! ```

use std::collections::VecDeque;

use crate::base::limits::GRAPH_BENDS_MAX;
use crate::base::order::sort_by;

/// A box without a place, in pixels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A point, in pixels from the left and from the top.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// How an arrow is drawn.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Way {
    /// Through these points, from box to box.
    Forward(Vec<Point>),
    /// From the top of one box back to the top of the other one, as high as this.
    Back { from: Point, to: Point, top: f64 },
    /// From the right of a box to its top.
    Around { from: Point, to: Point },
}

/// Places of all boxes and arrows.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The middle of each box.
    pub(super) centres: Vec<Point>,
    /// The way of each arrow.
    pub(super) ways: Vec<Way>,
    pub(super) size: Size,
}

/// Space between ranks, where labels stand, is given; this is the one between boxes of a rank.
const GAP: f64 = 26.0;
const MARGIN: f64 = 24.0;
/// How much higher each arc is than the one before.
const ARC: f64 = 12.0;
/// Passes over all ranks that bring neighbours to the same height.
const SWEEPS: usize = 12;
/// Width of the field of boxes without arrows, if the rest is narrower.
const FIELD_WIDTH_MIN: f64 = 900.0;

/// Finds a place for each box and a way for each arrow, given by the numbers of its boxes.
pub(super) fn lay(sizes: &[Size], arrows: &[(usize, usize)], rank_gap: f64) -> Layout {
    let mut ranked = Ranked::of(sizes, arrows);
    ranked.order();
    let columns = ranked.columns(rank_gap);
    let heights = ranked.heights();
    let mut centres = vec![Point::default(); sizes.len()];
    for (rank, row) in ranked.ranks.iter().enumerate() {
        for number in row {
            let x = columns.get(rank).copied().unwrap_or_default();
            let y = heights.get(*number).copied().unwrap_or_default();
            if let Some(centre) = centres.get_mut(*number) {
                *centre = Point { x, y };
            }
        }
    }
    let bend = |number: &usize| Point {
        x: ranked
            .rank_of(*number)
            .map_or(0.0, |rank| columns.get(rank).copied().unwrap_or(0.0)),
        y: heights.get(*number).copied().unwrap_or_default(),
    };
    let mut arcs = 0;
    let ways = arrows.iter().zip(&ranked.links).map(|(&(from, to), link)| {
        let at = |number: usize| Placed {
            centre: centres.get(number).copied().unwrap_or_default(),
            size: sizes.get(number).copied().unwrap_or_default(),
        };
        let ends = (at(from), at(to));
        match link {
            Link::Itself => ends.0.around(),
            Link::Back => {
                arcs += 1;
                ends.0.back_to(ends.1, arcs)
            }
            Link::Forward(bends) => ends.0.forward_to(ends.1, bends.iter().map(bend)),
        }
    });
    let ways: Vec<Way> = ways.collect();
    let mut layout = Layout {
        centres,
        ways,
        size: Size::default(),
    };
    layout.settle(sizes, &ranked.alone);
    layout
}

/// A box in its place.
#[derive(Clone, Copy)]
struct Placed {
    centre: Point,
    size: Size,
}

impl Placed {
    fn right(self) -> Point {
        Point {
            x: self.centre.x + self.size.width / 2.0,
            y: self.centre.y,
        }
    }

    fn top(self) -> Point {
        Point {
            x: self.centre.x,
            y: self.centre.y - self.size.height / 2.0,
        }
    }

    fn around(self) -> Way {
        let top = self.top();
        let x = top.x + self.size.width / 4.0;
        Way::Around {
            from: self.right(),
            to: Point { x, ..top },
        }
    }

    /// An arc to a box on its left, or beside it.
    fn back_to(self, other: Self, number: u32) -> Way {
        let (from, to) = (self.top(), other.top());
        let higher = f64::from(number % 8) * ARC;
        Way::Back {
            from,
            to,
            top: from.y.min(to.y) - 2.0 * GAP - higher,
        }
    }

    fn forward_to(self, other: Self, bends: impl Iterator<Item = Point>) -> Way {
        let end = Point {
            x: other.centre.x - other.size.width / 2.0,
            y: other.centre.y,
        };
        let points = [self.right()].into_iter().chain(bends).chain([end]);
        Way::Forward(points.collect())
    }
}

impl Layout {
    /// Moves all to where the top and the left are 0, places the boxes without arrows beneath the others,
    /// and takes the size of all.
    fn settle(&mut self, sizes: &[Size], alone: &[usize]) {
        let (mut top, mut bottom, mut right) = (f64::MAX, 0.0_f64, 0.0_f64);
        for (number, (centre, size)) in self.centres.iter().zip(sizes).enumerate() {
            if alone.contains(&number) {
                continue;
            }
            top = top.min(centre.y - size.height / 2.0);
            bottom = bottom.max(centre.y + size.height / 2.0);
            right = right.max(centre.x + size.width / 2.0);
        }
        for way in &self.ways {
            match way {
                Way::Back { top: arc, .. } => top = top.min(*arc),
                Way::Around { from, to } => {
                    top = top.min(to.y - GAP);
                    right = right.max(from.x + 2.0 * GAP);
                }
                Way::Forward(_) => {}
            }
        }
        let down = MARGIN - if top < f64::MAX { top } else { 0.0 };
        for centre in &mut self.centres {
            centre.y += down;
        }
        for way in &mut self.ways {
            way.move_down(down);
        }
        let bottom = if top < f64::MAX { bottom + down } else { 0.0 };
        self.size = Size {
            width: right + MARGIN,
            height: bottom + MARGIN,
        };
        self.place_alone(sizes, alone);
    }

    fn place_alone(&mut self, sizes: &[Size], alone: &[usize]) {
        let width = alone.iter().filter_map(|number| sizes.get(*number));
        let widest = width.map(|size| size.width).fold(0.0, f64::max);
        let limit = self.size.width.max(FIELD_WIDTH_MIN);
        let (mut x, mut y, mut row) = (MARGIN, self.size.height, 0.0_f64);
        for number in alone {
            let size = sizes.get(*number).copied().unwrap_or_default();
            if x > MARGIN && x + widest + MARGIN > limit {
                (x, y, row) = (MARGIN, y + row + GAP, 0.0);
            }
            if let Some(centre) = self.centres.get_mut(*number) {
                *centre = Point {
                    x: x + widest / 2.0,
                    y: y + size.height / 2.0,
                };
            }
            x += widest + GAP;
            row = row.max(size.height);
            self.size.width = self.size.width.max(x);
        }
        if !alone.is_empty() {
            self.size.height = y + row + MARGIN;
        }
    }
}

impl Way {
    fn move_down(&mut self, by: f64) {
        match self {
            Self::Forward(points) => points.iter_mut().for_each(|point| point.y += by),
            Self::Back { from, to, top } => {
                from.y += by;
                to.y += by;
                *top += by;
            }
            Self::Around { from, to } => {
                from.y += by;
                to.y += by;
            }
        }
    }
}

/// What an arrow is to the ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Link {
    /// It leads to a higher rank, through these bends.
    Forward(Vec<usize>),
    /// It would close a loop.
    Back,
    /// It leads to where it begins.
    Itself,
}

/// Boxes and bends in ranks. Bends are numbered behind the boxes, and take no room.
struct Ranked {
    sizes: Vec<Size>,
    links: Vec<Link>,
    rank: Vec<usize>,
    /// The numbers in each rank, from the top.
    ranks: Vec<Vec<usize>>,
    /// Neighbours in the rank before and in the one behind.
    before: Vec<Vec<usize>>,
    behind: Vec<Vec<usize>>,
    /// Boxes without arrows.
    alone: Vec<usize>,
}

impl Ranked {
    fn of(sizes: &[Size], arrows: &[(usize, usize)]) -> Self {
        let count = sizes.len();
        let mut out: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
        let mut touched = vec![false; count];
        for (arrow, &(from, to)) in arrows.iter().enumerate() {
            if let Some(out) = out.get_mut(from) {
                out.push((to, arrow));
            }
            for number in [from, to] {
                if let Some(touched) = touched.get_mut(number) {
                    *touched = true;
                }
            }
        }
        let mut links = links(&out, arrows);
        let rank = ranks(&out, &links, count);
        let mut ranked = Self {
            sizes: sizes.to_vec(),
            links: Vec::new(),
            ranks: vec![Vec::new(); rank.iter().max().map_or(0, |highest| highest + 1)],
            before: vec![Vec::new(); count],
            behind: vec![Vec::new(); count],
            rank,
            alone: Vec::new(),
        };
        for (number, touched) in touched.into_iter().enumerate() {
            if touched {
                ranked.enter(number);
            } else {
                ranked.alone.push(number);
            }
        }
        let mut bends_left = GRAPH_BENDS_MAX;
        for (&(from, to), link) in arrows.iter().zip(&mut links) {
            if let Link::Forward(bends) = link {
                *bends = ranked.join(from, to, &mut bends_left);
            }
        }
        ranked.links = links;
        ranked
    }

    fn rank_of(&self, number: usize) -> Option<usize> {
        self.rank.get(number).copied()
    }

    fn enter(&mut self, number: usize) {
        let row = self
            .rank_of(number)
            .and_then(|rank| self.ranks.get_mut(rank));
        if let Some(row) = row {
            row.push(number);
        }
    }

    /// Makes neighbours of two boxes, with bends in the ranks between as long as there are some left;
    /// returns the bends.
    fn join(&mut self, from: usize, to: usize, bends_left: &mut usize) -> Vec<usize> {
        let (Some(first), Some(last)) = (self.rank_of(from), self.rank_of(to)) else {
            return Vec::new();
        };
        let between = first + 1..last;
        let Some(left) = bends_left.checked_sub(between.len()) else {
            return Vec::new();
        };
        *bends_left = left;
        let mut bends = Vec::new();
        for rank in between {
            let number = self.rank.len();
            self.rank.push(rank);
            self.sizes.push(Size::default());
            self.before.push(Vec::new());
            self.behind.push(Vec::new());
            self.enter(number);
            bends.push(number);
        }
        let chain = [from].into_iter().chain(bends.iter().copied()).chain([to]);
        let chain: Vec<usize> = chain.collect();
        for pair in chain.windows(2) {
            let &[one, next] = pair else {
                continue; // windows of two
            };
            if let Some(behind) = self.behind.get_mut(one) {
                behind.push(next);
            }
            if let Some(before) = self.before.get_mut(next) {
                before.push(one);
            }
        }
        bends
    }

    /// Orders each rank by the middle of the neighbours in the one before, and back again.
    fn order(&mut self) {
        let mut places = vec![0.0; self.rank.len()];
        for sweep in 0..SWEEPS {
            let is_down = sweep % 2 == 0;
            let count = self.ranks.len();
            for step in 0..count {
                let rank = if is_down { step } else { count - 1 - step };
                let neighbours = if is_down { &self.before } else { &self.behind };
                let Some(row) = self.ranks.get_mut(rank) else {
                    continue;
                };
                for (place, number) in row.iter().enumerate() {
                    if let Some(known) = places.get_mut(*number) {
                        *known = as_number(place);
                    }
                }
                let middle = |number: &usize| {
                    let near = neighbours.get(*number).map_or(&[][..], Vec::as_slice);
                    mean(near, &places).or_else(|| places.get(*number).copied())
                };
                sort_by(row, |a, b| {
                    let (a, b) = (middle(a).unwrap_or(0.0), middle(b).unwrap_or(0.0));
                    a.total_cmp(&b)
                });
                for (place, number) in row.iter().enumerate() {
                    if let Some(known) = places.get_mut(*number) {
                        *known = as_number(place);
                    }
                }
            }
        }
    }

    /// The middle of each rank, from the left.
    fn columns(&self, rank_gap: f64) -> Vec<f64> {
        let mut left = MARGIN;
        let columns = self.ranks.iter().map(|row| {
            let widths = row.iter().filter_map(|number| self.sizes.get(*number));
            let width = widths.map(|size| size.width).fold(0.0, f64::max);
            let middle = left + width / 2.0;
            left += width + rank_gap;
            middle
        });
        columns.collect()
    }

    /// The height of the middle of each box and bend: near its neighbours, and over no other one.
    fn heights(&self) -> Vec<f64> {
        let mut heights = vec![0.0; self.rank.len()];
        for row in &self.ranks {
            let wanted: Vec<f64> = row.iter().map(|_| 0.0).collect();
            self.spread(row, &wanted, &mut heights);
        }
        for sweep in 0..SWEEPS {
            let is_down = sweep % 2 == 0;
            let neighbours = if is_down { &self.before } else { &self.behind };
            let mut rows: Vec<&Vec<usize>> = self.ranks.iter().collect();
            if !is_down {
                rows.reverse();
            }
            for row in rows {
                let wanted = row.iter().map(|number| {
                    let near = neighbours.get(*number).map_or(&[][..], Vec::as_slice);
                    let own = heights.get(*number).copied();
                    mean(near, &heights).or(own).unwrap_or(0.0)
                });
                let wanted: Vec<f64> = wanted.collect();
                self.spread(row, &wanted, &mut heights);
            }
        }
        heights
    }

    /// Places a rank as near as it can to the heights that are wanted.
    fn spread(&self, row: &[usize], wanted: &[f64], heights: &mut [f64]) {
        let mut placed: Vec<f64> = Vec::with_capacity(row.len());
        let mut bottom = f64::MIN;
        for (number, wanted) in row.iter().zip(wanted) {
            let half = self
                .sizes
                .get(*number)
                .map_or(0.0, |size| size.height / 2.0);
            let y = wanted.max(bottom + half);
            placed.push(y);
            bottom = y + half + GAP;
        }
        let off: f64 = placed
            .iter()
            .zip(wanted)
            .map(|(y, wanted)| y - wanted)
            .sum();
        let off = off / as_number(row.len().max(1));
        for (number, y) in row.iter().zip(placed) {
            if let Some(height) = heights.get_mut(*number) {
                *height = y - off;
            }
        }
    }
}

/// Tells the arrows apart that close a loop, in the order in which a walk in depth meets them.
fn links(out: &[Vec<(usize, usize)>], arrows: &[(usize, usize)]) -> Vec<Link> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Seen {
        Not,
        OnTheWay,
        Done,
    }
    let mut links = vec![Link::Forward(Vec::new()); arrows.len()];
    let mut has_before = vec![false; out.len()];
    for &(from, to) in arrows {
        if let Some(has) = has_before.get_mut(to) {
            *has |= from != to;
        }
    }
    let mut seen = vec![Seen::Not; out.len()];
    let first = has_before.iter().enumerate().filter(|(_, has)| !**has);
    let starts = first.map(|(number, _)| number).chain(0..out.len());
    for start in starts {
        if seen.get(start) != Some(&Seen::Not) {
            continue;
        }
        let mut way = vec![(start, 0)];
        while let Some((number, next)) = way.last_mut() {
            if let Some(seen) = seen.get_mut(*number) {
                *seen = Seen::OnTheWay;
            }
            let Some(&(to, arrow)) = out.get(*number).and_then(|out| out.get(*next)) else {
                if let Some(seen) = seen.get_mut(*number) {
                    *seen = Seen::Done;
                }
                way.pop();
                continue;
            };
            *next += 1;
            let link = match seen.get(to) {
                _ if to == *number => Some(Link::Itself),
                Some(Seen::OnTheWay) => Some(Link::Back),
                Some(Seen::Not) => {
                    way.push((to, 0));
                    None
                }
                _ => None,
            };
            if let (Some(link), Some(known)) = (link, links.get_mut(arrow)) {
                *known = link;
            }
        }
    }
    links
}

/// The rank of each box: that of the longest way to it. A box to which none leads stands just before the
/// first that it leads to.
fn ranks(out: &[Vec<(usize, usize)>], links: &[Link], count: usize) -> Vec<usize> {
    let is_forward = |arrow: usize| matches!(links.get(arrow), Some(Link::Forward(_)));
    let forward = |number: usize| {
        let out = out.get(number).map_or(&[][..], Vec::as_slice);
        out.iter()
            .filter(|(_, arrow)| is_forward(*arrow))
            .map(|(to, _)| *to)
    };
    let mut waits = vec![0_usize; count];
    for to in (0..count).flat_map(forward) {
        if let Some(waits) = waits.get_mut(to) {
            *waits += 1;
        }
    }
    let first: Vec<usize> = waits
        .iter()
        .enumerate()
        .filter_map(|(number, waits)| (*waits == 0).then_some(number))
        .collect();
    let mut rank = vec![0_usize; count];
    let mut open: VecDeque<usize> = first.iter().copied().collect();
    while let Some(number) = open.pop_front() {
        let next = rank.get(number).map_or(0, |rank| rank + 1);
        for to in forward(number) {
            if let Some(rank) = rank.get_mut(to) {
                *rank = next.max(*rank);
            }
            if let Some(waits) = waits.get_mut(to) {
                *waits -= 1;
                if *waits == 0 {
                    open.push_back(to);
                }
            }
        }
    }
    for number in first {
        let nearest = forward(number).filter_map(|to| rank.get(to).copied()).min();
        if let (Some(nearest), Some(rank)) = (nearest, rank.get_mut(number)) {
            *rank = nearest.saturating_sub(1);
        }
    }
    rank
}

/// The mean of the values of these numbers; none: there are none.
fn mean(numbers: &[usize], values: &[f64]) -> Option<f64> {
    let sum: f64 = numbers
        .iter()
        .filter_map(|number| values.get(*number))
        .sum();
    (!numbers.is_empty()).then(|| sum / as_number(numbers.len()))
}

/// A count for reckoning in pixels: there are few thousands of anything.
fn as_number(count: usize) -> f64 {
    u32::try_from(count).map_or_else(|_| f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Size = Size {
        width: 100.0,
        height: 40.0,
    };

    fn laid(count: usize, arrows: &[(usize, usize)]) -> Layout {
        let layout = lay(&vec![BOX; count], arrows, 60.0);
        for (number, one) in layout.centres.iter().enumerate() {
            let inside = one.x >= 50.0
                && one.y >= 20.0
                && one.x + 50.0 <= layout.size.width
                && one.y + 20.0 <= layout.size.height;
            assert!(inside, "{number} at {one:?} of {:?}", layout.size);
            for other in layout.centres.iter().skip(number + 1) {
                let apart = (one.x - other.x).abs() >= 100.0 || (one.y - other.y).abs() >= 40.0;
                assert!(apart, "{one:?} is over {other:?}");
            }
        }
        layout
    }

    #[test]
    fn arrows_lead_to_the_right_and_bend_where_they_pass_ranks() {
        let layout = laid(4, &[(0, 1), (1, 2), (0, 2), (3, 2)]);
        for (&(from, to), way) in [(0, 1), (1, 2), (0, 2), (3, 2)].iter().zip(&layout.ways) {
            assert!(layout.centres[from].x < layout.centres[to].x);
            let Way::Forward(points) = way else {
                panic!("{way:?}");
            };
            assert!(points.is_sorted_by(|a, b| a.x < b.x), "{points:?}");
        }
        let bends = layout.ways.iter().map(|way| match way {
            Way::Forward(points) => points.len() - 2,
            _ => 9,
        });
        assert_eq!(bends.collect::<Vec<_>>(), [0, 0, 1, 0]);
        // Nothing leads to the last one: it stands just before where it leads to.
        assert!((layout.centres[3].x - layout.centres[1].x).abs() < 1.0);
    }

    #[test]
    fn loops_are_broken_and_drawn_back_as_arcs() {
        let layout = laid(3, &[(0, 1), (1, 2), (2, 0), (1, 1)]);
        let kinds = layout.ways.iter().map(|way| match way {
            Way::Forward(_) => "forward",
            Way::Back { .. } => "back",
            Way::Around { .. } => "around",
        });
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, ["forward", "forward", "back", "around"]);
        let Way::Back { from, to, top } = layout.ways[2] else {
            panic!("no arc");
        };
        assert!(top < from.y && top < to.y && top >= 0.0);
    }

    #[test]
    fn boxes_without_arrows_stand_beneath_the_others_in_rows() {
        let layout = laid(40, &[(0, 1)]);
        let lowest = layout.centres[0].y.max(layout.centres[1].y);
        let others = layout.centres.iter().skip(2);
        assert!(others.clone().all(|other| other.y > lowest));
        let first = layout.centres[2].y;
        assert!(others.filter(|other| (other.y - first).abs() < 1.0).count() > 3);
        assert!(laid(0, &[]).centres.is_empty());
    }

    /// So many arrows over so many ranks would have a million bends.
    #[test]
    fn bends_are_bounded() {
        let chain = (0..999).map(|number| (number, number + 1));
        let long = (0..900).map(|number| (number, 999));
        let arrows: Vec<_> = chain.chain(long).collect();
        let layout = laid(1_000, &arrows);
        let points = layout.ways.iter().map(|way| match way {
            Way::Forward(points) => points.len() - 2,
            _ => 0,
        });
        assert!(points.sum::<usize>() <= GRAPH_BENDS_MAX);
    }
}
