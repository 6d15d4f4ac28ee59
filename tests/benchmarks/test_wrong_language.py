"""A test of the counts of outputs in another language."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.wrong_language import main


def test_references_of_another_language_are_counted_and_their_own_are_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "Where did you leave the keys of the car?"
    others = {"de": "Wo hast du die Schlüssel des Autos gelassen?", "ja": "車の鍵はどこですか？"}
    for lang, other in others.items():
        (tmp_path / f"few.en-{lang}.tsv").write_text(f"{text}\t{other}\n", encoding="utf-8")
    main([str(tmp_path)])
    out = capsys.readouterr().out
    assert "{'references': 4, 'refused': 0, 'partial, refused': 0}" in out
    assert "| another language | 0 of 0 | 0 of 0 | 4 of 4 | 0 of 0 |" in out
    assert "| the source itself | 0 of 0 | 0 of 0 | 4 of 4 | 0 of 0 |" in out
