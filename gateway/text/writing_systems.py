"""Scripts that put no space between words.

Owns: which scripts these are, and their letters. Must not know: languages, words, lengths.

Only these scripts need rules of their own here. Lao, Khmer, Burmese and Tibetan put no space
between words either, but they are treated as if they did: their text is cut at the spaces between
phrases.
"""

from __future__ import annotations

UNSPACED = frozenset(("Jpan", "Hans", "Hant", "Thai"))
"""ISO 15924 codes of scripts that put no space between words."""

CJK = (
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Kana, Bopomofo and Han, for a character class of a regular expression. One such character says
about as much as 2.5 Latin letters."""

THAI = "\u0e00-\u0e7f"
"""Thai, for a character class of a regular expression. A character says about as much as a Latin
letter."""
