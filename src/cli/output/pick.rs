//! Values inside JSON objects.

use serde_json::Value;

/// The value at a path such as `message_stats.publish_details.rate`. A field whose own name has
/// dots is found as well.
pub(in crate::cli) fn pick<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    if let Some(value) = object.get(path) {
        return Some(value);
    }
    path.split('.')
        .try_fold(object, |object, name| object.get(name))
}

/// A number from 0 on, which may be written as a text: positions are.
pub(in crate::cli) fn whole_number(value: &Value) -> Option<u64> {
    let written = || value.as_str()?.parse().ok();
    value.as_u64().or_else(written)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_into_objects() {
        let object = json!({"a": {"b": 1}, "c.d": 2});
        let check = |path: &str, value: Option<Value>| {
            assert_eq!(pick(&object, path), value.as_ref(), "{path}");
        };
        check("a.b", Some(json!(1)));
        check("c.d", Some(json!(2)));
        check("a.x", None);
        check("a.b.c", None);
    }
}
