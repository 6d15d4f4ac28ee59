"""The language of one speaker, as it was stated or as its texts show it.

Owns: which language a text is in. Must not know: how languages are detected.
"""

from __future__ import annotations

from gateway.core.base.model import Model
from gateway.core.base.validation import AUTO, Detect, speakable, usual
from gateway.text import languages


class SpokenLanguage:
    """The language that a member speaks.

    :param stated: its tag, several with commas, or `AUTO`
    """

    def __init__(self, stated: str, model: Model, detect: Detect | None) -> None:
        self.stated = stated
        self._model = model
        self._detect = detect
        self._before = usual(model)  # language of the text before

    def normalised(self, tag: str) -> str:
        """Return a language that can be spoken, normalised, or `AUTO`. Raises `ClientFault`."""
        return speakable(tag, self._model, self._detect)

    def of(self, text: str, tag: str | None = None) -> str:
        """Return the language of a text; of several that ``tag`` names, the likeliest.

        Raises `ClientFault` (``lang_unsupported``).
        """
        stated = self.stated if tag is None else self.normalised(tag)
        if stated != AUTO and "," not in stated:
            return stated
        among = [] if stated == AUTO else stated.split(",")
        lang = (self._detect(text, among) if self._detect is not None else None) or self._before
        if among and lang not in among:
            lang = among[0]
        # One that cannot be translated is not assumed of the next text.
        if languages.match(lang, self._model.sources) is not None:
            self._before = lang
        return lang
