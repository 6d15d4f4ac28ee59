"""Time between two attempts of a client to connect."""

from gateway.client.state.backoff import CAP_S, Backoff


def test_waits_are_random_below_a_bound_that_doubles_up_to_a_maximum() -> None:
    longest = Backoff(lambda: 1.0)
    assert [longest.wait() for _ in range(4)] == [0.25, 0.5, 1.0, 2.0]
    assert [longest.wait() for _ in range(100)][-1] == CAP_S
    longest.reset()
    assert longest.wait() == 0.25
    assert Backoff(lambda: 0.0).wait() == 0.0
