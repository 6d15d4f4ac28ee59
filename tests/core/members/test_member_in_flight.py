"""The utterances of a session in flight."""

from gateway.core.members.member import InFlight


def test_a_request_without_an_answer_counts_like_an_utterance() -> None:
    work = InFlight()
    assert not work
    work.utterances.add("u1")
    work.pending = 2
    assert len(work) == 3
    work.clear()
    assert not work and work.utterances == set()
