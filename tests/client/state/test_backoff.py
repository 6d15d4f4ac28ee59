"""Time between two attempts of a client to connect."""

from gateway.client.state.backoff import CAP_S, backoff


def test_waits_are_random_below_a_bound_that_doubles_up_to_a_maximum() -> None:
    assert [backoff(tries, 1.0) for tries in range(4)] == [0.25, 0.5, 1.0, 2.0]
    assert backoff(1_000_000, 1.0) == CAP_S
    assert backoff(0, 0.0) == 0.0
