from __future__ import annotations

from gateway.engines.vllm.follower import REACH, DraftFollower

DRAFT = list(range(100, 140))


def test_the_rest_of_a_draft_is_offered_while_the_output_follows_it() -> None:
    follower = DraftFollower(DRAFT)
    assert follower.follow([]) == DRAFT
    assert follower.follow([100, 101]) == DRAFT[2:]
    assert follower.follow(DRAFT) == []


def test_after_a_token_that_differs_nothing_is_offered_until_one_is_equal_again() -> None:
    follower = DraftFollower(DRAFT)
    assert follower.follow([100, 7]) == []
    assert follower.follow([100, 7, 8]) == []
    assert follower.follow([100, 7, 8, 103]) == DRAFT[4:]


def test_a_token_that_was_put_in_or_left_out_does_not_end_the_draft() -> None:
    assert DraftFollower(DRAFT).follow([100, 7, 101]) == DRAFT[2:]
    assert DraftFollower(DRAFT).follow([100, 102]) == DRAFT[3:]


def test_an_equal_token_far_away_is_not_taken_for_the_place() -> None:
    assert DraftFollower(DRAFT).follow([DRAFT[REACH - 1]]) == DRAFT[REACH:]
    assert DraftFollower(DRAFT).follow([DRAFT[REACH]]) == []


def test_the_output_may_be_longer_than_the_draft() -> None:
    follower = DraftFollower([1, 2])
    assert follower.follow([1, 2, 3]) == []
    assert follower.follow([1, 2, 3, 1]) == []
