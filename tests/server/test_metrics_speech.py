"""The metrics of speech, as a scrape reads them."""

from __future__ import annotations

from gateway.engines.scripted import ScriptedRecogniser
from tests.server.runtime.test_recognition import begin, client, end, wait_for
from tests.support.hearing import hearing, pieces, tone
from tests.support.live import running


async def test_a_scrape_counts_audio_jobs_words_and_delays() -> None:
    async with running() as live, hearing(live, ScriptedRecogniser()) as runner:
        before = live.state.metrics.expose().decode()
        assert "gateway_recogniser_ready 1.0" in before
        assert "gateway_heard_delay_seconds_count 0.0" in before
        socket = await client(live)
        await begin(socket)
        for frame in pieces(tone(2.0)):
            await socket.send(frame)
        await end(socket)
        await wait_for(socket, "audio", codec="none")
        await socket.close()
        text = live.state.metrics.expose().decode()
        assert "gateway_heard_delay_seconds_count 1.0" in text
        assert f"gateway_heard_words_total {float(runner.words)}" in text
        assert 'gateway_recognition_jobs_total{outcome="done"}' in text
        assert "gateway_audio_streams 0.0" in text
        assert runner.recognised_s > 0


async def test_a_gateway_without_a_recogniser_has_no_metrics_of_speech() -> None:
    async with running() as live:
        text = live.state.metrics.expose().decode()
        assert "gateway_audio" not in text and "gateway_recogn" not in text
