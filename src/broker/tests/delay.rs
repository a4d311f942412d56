//! Delays of retries, as a table and in general.

use proptest::prelude::*;

use super::*;

fn draw(position: u64) -> Draw {
    Draw {
        seed: Seed(7),
        queue: QueueId(3),
        position: Position(position),
    }
}

fn keys(kind: RetryType, min_ms: u64, max_ms: Option<u64>) -> RetryKeys {
    RetryKeys {
        kind: Some(kind),
        min_ms: Some(min_ms),
        max_ms,
        ..RetryKeys::default()
    }
}

fn multiplied(min_ms: u64, max_ms: Option<u64>, by: f64) -> RetryKeys {
    RetryKeys {
        multiplier: Some(Multiplier(by)),
        ..keys(RetryType::All, min_ms, max_ms)
    }
}

fn of(keys: RetryKeys) -> DelayedRetry {
    let none = RetryKeys::default();
    DelayedRetry::of(&keys, &none, &none).expect("delays are on")
}

#[test]
fn delays_follow_the_formula_in_a_table() {
    let check = |keys: RetryKeys, expected: &[u64]| {
        let retry = of(keys);
        for (failures, expected) in (1..).zip(expected) {
            let delay = retry.delay_ms(true, failures, draw(1));
            assert_eq!(delay, Some(*expected), "{retry} after {failures}");
        }
        assert_eq!(
            retry.delay_ms(true, 0, draw(1)),
            Some(expected[0]),
            "one at least"
        );
    };
    check(keys(RetryType::All, 1_000, None), &[1_000, 1_000, 1_000]);
    check(
        keys(RetryType::All, 1_000, Some(3_500)),
        &[1_000, 2_000, 3_000, 3_500, 3_500],
    );
    check(
        multiplied(1_000, Some(5_000), 2.0),
        &[1_000, 2_000, 4_000, 5_000, 5_000],
    );
    check(
        multiplied(1_000, None, 1.5),
        &[1_000, 1_500, 2_250, 3_375, 5_063],
    );
    check(multiplied(7, None, 1.0), &[7, 7, 7]);
    let day = 24 * 3600 * 1000;
    check(
        multiplied(1_000, None, 100.0),
        &[1_000, 100_000, 10_000_000, day, day],
    );
    check(multiplied(2 * day, None, 2.0), &[2 * day, 2 * day]);
    let many = of(multiplied(1, None, 100.0)).delay_ms(true, u32::MAX, draw(1));
    assert_eq!(many, Some(day));
    let many = of(keys(RetryType::All, DURATION_MS_MAX, None)).delay_ms(true, u32::MAX, draw(1));
    assert_eq!(many, Some(DURATION_MS_MAX));
}

#[test]
fn the_type_says_which_returns_wait() {
    for (kind, failed, returned) in [
        (RetryType::All, true, true),
        (RetryType::Failed, true, false),
        (RetryType::Returned, false, true),
    ] {
        let retry = of(keys(kind, 5, None));
        assert_eq!(retry.delay_ms(true, 1, draw(1)).is_some(), failed);
        assert_eq!(retry.delay_ms(false, 0, draw(1)).is_some(), returned);
    }
}

#[test]
fn arguments_policies_and_operator_policies_make_delays_together() {
    let none = RetryKeys::default();
    let check = |arguments: RetryKeys, user: RetryKeys, operator: RetryKeys, shown: &str| {
        let retry = DelayedRetry::of(&arguments, &user, &operator);
        let text = retry.map_or_else(|| "disabled".to_owned(), |retry| retry.to_string());
        assert_eq!(text, shown);
    };
    let arguments = keys(RetryType::All, 1_000, Some(30_000));
    check(arguments, none, none, "all (min: 1000ms, max: 30000ms)");
    let user = keys(RetryType::Failed, 2_000, Some(9_000));
    check(arguments, user, none, "failed (min: 1000ms, max: 9000ms)");
    let off = RetryKeys {
        kind: Some(RetryType::Disabled),
        ..none
    };
    check(arguments, off, none, "disabled");
    check(arguments, user, off, "disabled");
    let operator = keys(RetryType::Returned, 5_000, Some(6_000));
    check(
        arguments,
        user,
        operator,
        "returned (min: 5000ms, max: 6000ms)",
    );
    let raised = RetryKeys {
        min_ms: Some(20_000),
        ..none
    };
    check(
        arguments,
        user,
        raised,
        "failed (min: 20000ms, max: 20000ms)",
    );
    let without_min = RetryKeys {
        min_ms: None,
        ..arguments
    };
    check(without_min, none, none, "disabled");
    let slow = RetryKeys {
        jitter_percent: Some(10),
        ..multiplied(1_000, Some(30_000), 2.0)
    };
    check(
        none,
        slow,
        none,
        "all (min: 1000ms, max: 30000ms), multiplier: 2, jitter: 10%",
    );
}

#[test]
fn values_out_of_range_are_refused_with_their_bounds() {
    let mut keys = RetryKeys::default();
    let double = |number: f64| Value::Double(number.to_bits());
    for wrong in [
        double(0.99),
        double(100.1),
        double(f64::NAN),
        Value::Uint(0),
    ] {
        let why = keys.read_multiplier(&wrong).unwrap_err();
        assert!(why.starts_with("must be a number from 1 to 100"), "{why}");
    }
    for right in [double(1.0), double(1.5), Value::Uint(100)] {
        keys.read_multiplier(&right).unwrap();
    }
    for (wrong, read) in [
        (
            Value::Uint(0),
            RetryKeys::read_min as fn(&mut RetryKeys, &Value) -> Result<(), String>,
        ),
        (Value::Int(-1), RetryKeys::read_max),
        (Value::Ulong(DURATION_MS_MAX + 1), RetryKeys::read_max),
        (Value::Uint(101), RetryKeys::read_jitter),
        (Value::string("sometimes"), RetryKeys::read_type),
    ] {
        assert!(read(&mut keys, &wrong).is_err(), "{wrong:?}");
    }
    let wrong = RetryKeys {
        max_ms: Some(9),
        min_ms: Some(10),
        ..RetryKeys::default()
    };
    assert!(
        wrong
            .check_max()
            .unwrap_err()
            .contains("which is 10, and is 9")
    );
}

proptest! {
    /// Every delay lies in what the jitter leaves of the one without, is drawn again alike, and
    /// never shrinks by a further failure.
    #[test]
    fn delays_lie_within_their_jitter_and_are_drawn_alike(
        min_ms in 1..100_000_u64,
        more_ms in 0..10_000_000_u64,
        by in prop::option::of(1.0..100.0_f64),
        jitter_percent in 0..=100_u8,
        failures in any::<u32>(),
        place in any::<u64>(),
    ) {
        let still = RetryKeys {
            multiplier: by.map(Multiplier),
            ..keys(RetryType::All, min_ms, Some(min_ms + more_ms))
        };
        let shaken = of(RetryKeys { jitter_percent: Some(jitter_percent), ..still });
        let still = of(still);
        let whole = still.delay_ms(true, failures, draw(place)).unwrap();
        prop_assert!((min_ms..=min_ms + more_ms).contains(&whole));
        let next = still.delay_ms(true, failures.saturating_add(1), draw(place)).unwrap();
        prop_assert!(next >= whole);
        let delay = shaken.delay_ms(true, failures, draw(place)).unwrap();
        prop_assert_eq!(shaken.delay_ms(true, failures, draw(place)), Some(delay));
        let least = u128::from(whole) * (100 - u128::from(jitter_percent)) / 100;
        prop_assert!(delay >= 1 && delay <= whole);
        prop_assert!(u128::from(delay) >= least, "{} {}", delay, least);
    }
}

#[test]
fn delays_of_different_messages_are_spread_over_their_jitter() {
    let shaken = of(RetryKeys {
        jitter_percent: Some(50),
        ..keys(RetryType::All, 1_000, None)
    });
    let mut tenths = [0; 10];
    for place in 0..1_000 {
        let delay = shaken.delay_ms(true, 1, draw(place)).unwrap();
        assert!(delay > 500, "less than the half is cut: {delay}");
        tenths[usize::try_from((delay - 501) / 50).unwrap()] += 1;
    }
    assert!(
        tenths.iter().all(|tenth| (60..=140).contains(tenth)),
        "{tenths:?}"
    );
}
