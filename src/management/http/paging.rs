//! Paging of listings: which objects, in which order, with which fields. RabbitMQ's parameters:
//! `page`, `page_size`, `name`, `use_regex`, `sort`, `sort_reverse`, `columns`.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::json::put;
use super::query::Query;
use crate::access::Pattern;
use crate::base::limits::{HTTP_COLUMN_DEPTH_MAX, HTTP_COLUMNS_MAX};

/// Objects of a page by default, and at most (as RabbitMQ).
const PAGE_SIZE_DEFAULT: usize = 100;
const PAGE_SIZE_MAX: usize = 500;

/// The parameters of a listing.
#[derive(Debug, Default)]
pub struct Listing {
    page: Option<Page>,
    name: Option<Wanted>,
    sort: Option<String>,
    descending: bool,
    columns: Option<Vec<Vec<String>>>,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    number: usize,
    size: usize,
}

#[derive(Debug)]
enum Wanted {
    Containing(String),
    Matching(Pattern),
}

/// The range of the wanted objects among those that match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Index of the first wanted object.
    pub start: usize,
    /// Index behind the last wanted object.
    pub end: usize,
    /// The page around the objects, to be filled with their JSON; none: a plain array.
    pub frame: Option<Frame>,
}

/// The numbers in the JSON of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    total_count: usize,
    filtered_count: usize,
    item_count: usize,
    page: usize,
    page_size: usize,
    page_count: usize,
}

impl Listing {
    /// Parses the query of a listing.
    pub fn parse(query: &Query) -> Result<Self, Failure> {
        let invalid = || Failure::bad_request("Pagination parameters are invalid");
        let number = |name: &str| match query.get(name) {
            None => Ok(None),
            Some(text) => text.parse::<usize>().map(Some).map_err(|_| invalid()),
        };
        let page = match (number("page")?, number("page_size")?) {
            (None, _) => None,
            (Some(page), size) if page == 0 || size.is_some_and(is_no_size) => {
                let size = size.map_or_else(|| "undefined".to_owned(), |size| size.to_string());
                let reason =
                    format!("Invalid pagination parameters: page number {page}, page size {size}");
                return Err(Failure {
                    status: 400,
                    error: "invalid_pagination_parameters",
                    reason,
                });
            }
            (Some(number), size) => Some(Page {
                number,
                size: size.unwrap_or(PAGE_SIZE_DEFAULT),
            }),
        };
        // Forms send what is not filled in as empty.
        let flag = |name| match query.get(name) {
            Some("") => Ok(false),
            _ => query.flag(name),
        };
        let (is_pattern, descending) = (flag("use_regex")?, flag("sort_reverse")?);
        let name = match query.get("name").filter(|name| !name.is_empty()) {
            Some(name) if is_pattern => {
                let pattern = Pattern::of_search(name);
                Some(Wanted::Matching(pattern.map_err(|error| {
                    Failure::bad_request(format!("Pagination parameters are invalid: {error}"))
                })?))
            }
            Some(name) => Some(Wanted::Containing(name.to_lowercase())),
            None => None,
        };
        let columns = query.get("columns").map(columns).transpose()?;
        let sort = query.get("sort").filter(|sort| !sort.is_empty());
        if let Some(sort) = sort {
            path_of("sort", sort)?;
        }
        Ok(Self {
            page,
            // Without pages, RabbitMQ ignores names.
            name: name.filter(|_| page.is_some()),
            sort: sort.map(str::to_owned),
            descending,
            columns,
        })
    }

    /// Whether it wants all objects in their natural order.
    pub const fn takes_all_in_order(&self) -> bool {
        self.page.is_none() && self.sort.is_none() && !self.descending
    }

    /// Whether an object of this name matches.
    pub fn wants(&self, name: &str) -> bool {
        match &self.name {
            None => true,
            Some(Wanted::Containing(part)) => name.to_lowercase().contains(part),
            Some(Wanted::Matching(pattern)) => pattern.matches(name),
        }
    }

    /// The field to sort by, if it is not the name.
    pub fn sort_field(&self) -> Option<&str> {
        self.sort.as_deref()
    }

    /// Sorts by the field; equal objects keep their order.
    pub fn sort<T>(&self, objects: &mut [T], key: impl Fn(&T) -> &Value) {
        if self.sort.is_some() {
            objects.sort_by(|a, b| compare(key(a), key(b)));
        }
        if self.descending {
            objects.reverse();
        }
    }

    /// The wanted range of `remaining` objects that match, of `total`.
    pub fn window(&self, total: usize, remaining: usize) -> Result<Window, Failure> {
        let Some(Page { number, size }) = self.page else {
            return Ok(Window {
                start: 0,
                end: remaining,
                frame: None,
            });
        };
        let start = (number - 1).saturating_mul(size);
        if start >= remaining && number > 1 {
            let reason =
                format!("Page out of range, page: {number} page size: {size}, len: {remaining}");
            return Err(Failure {
                status: 400,
                error: "page_out_of_range",
                reason,
            });
        }
        let end = remaining.min(start.saturating_add(size));
        Ok(Window {
            start,
            end,
            frame: Some(Frame {
                total_count: total,
                filtered_count: remaining,
                item_count: end - start,
                page: number,
                page_size: size,
                page_count: remaining.div_ceil(size),
            }),
        })
    }

    /// The object with its wanted fields.
    pub fn project(&self, object: Value) -> Value {
        let Some(columns) = &self.columns else {
            return object;
        };
        let mut projected = Map::new();
        for path in columns {
            if let Some(value) = at(&object, path) {
                place(&mut projected, path, value.clone());
            }
        }
        Value::Object(projected)
    }

    /// Filters, sorts, cuts and projects a complete list of objects.
    pub fn answer(&self, objects: Vec<Value>) -> Result<Value, Failure> {
        let total = objects.len();
        let name = |object: &Value| {
            let name = object.get("name").and_then(Value::as_str);
            name.is_none_or(|name| self.wants(name))
        };
        let remaining = objects.into_iter().filter(name);
        let mut remaining: Vec<(Value, Value)> = remaining
            .map(|object| (self.sort_key(&object), object))
            .collect();
        self.sort(&mut remaining, |(key, _)| key);
        let window = self.window(total, remaining.len())?;
        let wanted = remaining
            .into_iter()
            .skip(window.start)
            .take(window.end - window.start);
        let items = wanted.map(|(_, object)| self.project(object)).collect();
        Ok(match window.frame {
            None => Value::Array(items),
            Some(frame) => frame.around(items),
        })
    }

    /// The value by which an object is sorted.
    pub fn sort_key(&self, object: &Value) -> Value {
        let path: Vec<String> = match &self.sort {
            None => return Value::Null,
            Some(path) => path.split('.').map(str::to_owned).collect(),
        };
        match at(object, &path) {
            // What is in them has no order, and may be large.
            Some(Value::Array(_)) => Value::Array(Vec::new()),
            Some(Value::Object(_)) => Value::Object(Map::new()),
            plain => plain.cloned().unwrap_or(Value::Null),
        }
    }
}

impl Frame {
    /// The page with its objects.
    pub fn around(&self, items: Vec<Value>) -> Value {
        let mut page = json!({
            "total_count": self.total_count,
            "filtered_count": self.filtered_count,
            "item_count": self.item_count,
            "page": self.page,
            "page_size": self.page_size,
            "page_count": self.page_count,
        });
        put(&mut page, "items", Value::Array(items));
        page
    }
}

/// The fields that `columns` names.
fn columns(text: &str) -> Result<Vec<Vec<String>>, Failure> {
    let paths = text.split(',').filter(|path| !path.is_empty());
    if paths.clone().count() > HTTP_COLUMNS_MAX {
        let why = format!("the parameter 'columns' names more than {HTTP_COLUMNS_MAX} fields");
        return Err(Failure::bad_request(why));
    }
    paths.map(|path| path_of("columns", path)).collect()
}

/// The names in the path of a field.
fn path_of(parameter: &str, path: &str) -> Result<Vec<String>, Failure> {
    let names = path.split('.');
    if names.clone().count() > HTTP_COLUMN_DEPTH_MAX {
        return Err(Failure::bad_request(format!(
            "a field in the parameter '{parameter}' has more than {HTTP_COLUMN_DEPTH_MAX} names"
        )));
    }
    Ok(names.map(str::to_owned).collect())
}

fn is_no_size(size: usize) -> bool {
    !(1..=PAGE_SIZE_MAX).contains(&size)
}

/// The value at a path of names.
fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

/// Sets the value at a path, adding objects on the way.
fn place(object: &mut Map<String, Value>, path: &[String], value: Value) {
    let Some((last, way)) = path.split_last() else {
        return;
    };
    let mut here = object;
    for name in way {
        let next = here.entry(name).or_insert_with(|| json!({}));
        let Value::Object(next) = next else { return };
        here = next;
    }
    here.insert(last.clone(), value);
}

/// Orders absent values first, then booleans, numbers, texts.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let number = |number: &serde_json::Number| number.as_f64().unwrap_or(0.0);
            number(a).total_cmp(&number(b))
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

const fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}
