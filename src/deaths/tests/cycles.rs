use proptest::prelude::*;
use rstest::rstest;

use super::{death, history};
use crate::base::Name;
use crate::deaths::{Death, History, Reason};

/// Deaths in a short form, the first one first: `a:e` is queue a, expired; reasons by first letter.
fn deaths(text: &str) -> Vec<Death> {
    let one = |(time, word): (usize, &str)| {
        let (queue, reason) = word.split_once(':').unwrap();
        let reason = match reason {
            "r" => Reason::Rejected,
            "e" => Reason::Expired,
            "m" => Reason::Maxlen,
            _ => Reason::DeliveryLimit,
        };
        death(queue, reason, i64::try_from(time).unwrap())
    };
    text.split_whitespace().enumerate().map(one).collect()
}

fn path(history: &History, target: &str) -> String {
    let path = history.cycle_path(target);
    let path = path.iter().map(Name::as_str);
    path.collect::<Vec<_>>().join(" ")
}

/// [dead-lettering part 4]
#[rstest]
#[case::into_itself("a:e", "a", true, "a a")]
#[case::elsewhere("a:e", "b", false, "")]
#[case::two_queues("a:e b:e", "a", true, "a b a")]
#[case::by_length_limit("a:m b:m", "a", true, "a b a")]
#[case::by_delivery_limit("a:d", "a", true, "a a")]
#[case::three_queues("a:e b:m c:d", "a", true, "a b c a")]
#[case::into_the_middle("a:e b:e c:e", "b", true, "b c b")]
#[case::rejected_in_the_loop("a:r b:e", "a", false, "a b a")]
#[case::rejected_at_the_target("b:e a:r", "a", false, "a a")]
#[case::rejected_newer_than_the_target("a:e b:r c:e", "a", false, "a b c a")]
#[case::rejection_before_the_loop("r:r a:e b:e", "a", true, "a b a")]
#[case::target_rejected_long_ago_but_expired_since("a:r b:e a:e", "a", true, "a a")]
#[case::expired_then_rejected_at_the_target("a:e b:e a:r b:e", "a", false, "a b a")]
#[case::several_reasons_in_one_queue("a:e b:m b:e", "a", true, "a b a")]
#[case::rejection_moved_to_the_front("a:r b:e c:e a:r b:e", "c", false, "c a b c")]
fn automatic_loop_is_a_cycle_unless_a_rejection_is_part_of_it(
    #[case] deaths_first_to_last: &str,
    #[case] target: &str,
    #[case] is_cycle: bool,
    #[case] cycle_path: &str,
) {
    let history = history(&deaths(deaths_first_to_last));
    assert_eq!(history.is_cycle(target), is_cycle);
    assert_eq!(path(&history, target), cycle_path);
}

/// The rule on all deaths one by one: back from the latest, is the target met before a rejection?
fn naive_is_cycle(deaths: &[Death], target: &str) -> bool {
    let mut back = deaths
        .iter()
        .rev()
        .take_while(|death| death.reason != Reason::Rejected);
    back.any(|death| death.queue.as_str() == target)
}

proptest! {
    #[test]
    fn compressed_history_knows_the_same_cycles_as_a_list_of_all_deaths(
        words in proptest::collection::vec("[a-d]:[remd]", 1..30), target in "[a-e]",
    ) {
        let deaths = deaths(&words.join(" "));
        let expect = naive_is_cycle(&deaths, &target);
        prop_assert_eq!(history(&deaths).is_cycle(&target), expect);
    }
}
