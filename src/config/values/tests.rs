use std::fmt;
use std::str::FromStr;

use super::*;

fn check<T: FromStr<Err = String> + fmt::Display>(text: &str, expect: Result<&str, &str>) {
    let parsed = text.parse::<T>().map(|value| value.to_string());
    assert_eq!(
        parsed,
        expect.map(str::to_owned).map_err(str::to_owned),
        "{text}"
    );
}

#[test]
fn sizes_take_binary_and_decimal_units() {
    check::<ByteSize>("16MiB", Ok("16MiB"));
    check::<ByteSize>("16777216", Ok("16MiB"));
    check::<ByteSize>("1000", Ok("1000"));
    check::<ByteSize>("0", Ok("0"));
    check::<ByteSize>("1GB", Ok("1GB"));
    check::<ByteSize>("512MB", Ok("512MB"));
    check::<ByteSize>("512 mb", Ok("512MB"));
    check::<ByteSize>("1 GiB", Ok("1GiB"));
    check::<ByteSize>("4g", Ok("4GiB"));
    check::<ByteSize>("1TiB", Ok("1024GiB"));
    check::<ByteSize>("64b", Ok("64"));
    check::<ByteSize>("16Mb/s", Err("this is not a number of bytes"));
    check::<ByteSize>("-1", Err("this is not a number of bytes"));
    check::<ByteSize>("MiB", Err("this is not a number of bytes"));
    check::<ByteSize>("", Err("this is not a number of bytes"));
    check::<ByteSize>("40%", Err("this setting takes no share of the memory"));
    check::<ByteSize>("99999999999GiB", Err("this is too large"));
    check::<ByteSize>("99999999999999999999", Err("this is too large"));
}

#[test]
fn spans_are_numbers_with_units_the_longest_first() {
    check::<Span>("1500ms", Ok("1s500ms"));
    check::<Span>("90s", Ok("1m30s"));
    check::<Span>("120s", Ok("2m"));
    check::<Span>("1m30s", Ok("1m30s"));
    check::<Span>("1m 30s", Ok("1m30s"));
    check::<Span>("60d", Ok("60d"));
    check::<Span>("36h", Ok("1d12h"));
    check::<Span>("1D", Ok("1d"));
    check::<Span>("0", Ok("0"));
    check::<Span>("0s", Ok("0"));
    let units = "d, h, m, s or ms";
    let missing = format!("the unit is missing: {units}");
    check::<Span>("30", Err(&missing));
    check::<Span>("1m30", Err(&missing));
    let order = "the longest unit comes first, and each once";
    check::<Span>("30s1m", Err(order));
    check::<Span>("1s1s", Err(order));
    check::<Span>("fours", Err("this is not a length of time"));
    let unknown = format!("'fortnights' is no unit of time: {units}");
    check::<Span>("4 fortnights", Err(&unknown));
    check::<Span>("", Err("this is not a length of time"));
    check::<Span>("999999999999d", Err("too long"));
}

#[test]
fn listen_addresses_need_host_and_port() {
    check::<ListenAddress>("127.0.0.1:5672", Ok("127.0.0.1:5672"));
    check::<ListenAddress>("[::1]:0", Ok("[::1]:0"));
    check::<ListenAddress>("localhost", Err("the port is missing"));
    check::<ListenAddress>("localhost:70000", Err("'70000' is not a port"));
    check::<ListenAddress>(
        "::1:5672",
        Err("'::1' is not a host (IPv6 addresses go in brackets)"),
    );
}

#[test]
fn http_is_somewhere_nowhere_or_where_there_is_room() {
    check::<HttpListen>("auto", Ok("auto"));
    check::<HttpListen>("off", Ok("off"));
    check::<HttpListen>("[::]:15672", Ok("[::]:15672"));
    check::<HttpListen>("yes", Err("the port is missing"));
    assert!(HttpListen::Off.address().is_none());
    assert!(HttpListen::Auto.address().is_some());
}

#[test]
fn users_and_permissions_say_what_is_missing() {
    check::<UserEntry>("a:b:c", Ok("a:b:c"));
    check::<UserEntry>("guest", Err("the ':' between name and password is missing"));
    check::<PermissionEntry>("u / ^mine ^mine .*", Ok("u / ^mine ^mine .*"));
    check::<UserTagsEntry>(
        "ops=monitoring policymaker",
        Ok("ops=monitoring,policymaker"),
    );
    check::<UserTagsEntry>("ops=", Ok("ops="));
    check::<UserTagsEntry>("ops", Err("the '=' between name and tags is missing"));
    check::<PermissionEntry>("u /", Err("there are fewer than five words"));
}
