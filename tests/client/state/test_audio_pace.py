"""The pace of audio that is there all at once."""

from __future__ import annotations

import pytest

from gateway.client.state.audio import AudioPace
from gateway.protocol.audio import AudioInfo

INFO = AudioInfo(
    codecs=("pcm_s16le",), rates=(8000, 48_000), recogniser="x", rate=8.0, burst=8.0, window=60.0
)


def test_a_file_is_sent_at_a_rate_below_that_of_the_gateway() -> None:
    pace, now, sent = AudioPace(INFO, 0.0), 0.0, 0.0
    while sent < 48.0:
        now += pace.wait(now)
        assert sent <= INFO.rate * now + INFO.burst
        pace.sent(0.5, now)
        sent += 0.5
    assert now == pytest.approx((48.0 - 2.0) / 6.0, abs=0.1)


def test_live_audio_never_waits() -> None:
    pace = AudioPace(INFO, 0.0)
    for second in range(100):
        assert pace.wait(float(second)) == 0.0
        pace.sent(1.0, float(second))
        pace.settled(float(second))
        assert not pace.full


def test_audio_that_was_dropped_is_not_waited_for() -> None:
    pace = AudioPace(INFO, 0.0)
    pace.sent(10.0, 0.0)
    pace.settled(5.0)
    pace.sent(50.0, 0.0)
    full = [pace.full]
    pace.dropped()
    full.append(pace.full)
    pace.sent(54.0, 0.0)
    full.append(pace.full)
    pace.sent(1.0, 0.0)
    full.append(pace.full)
    pace.settled(7.0)
    full.append(pace.full)
    assert full == [True, False, False, True, False], "what is sent later counts"


def test_a_full_window_waits_until_the_gateway_has_settled_some_of_it() -> None:
    pace = AudioPace(INFO, 0.0)
    pace.sent(55.0, 0.0)
    assert pace.full
    pace.settled(5.0)
    assert not pace.full
