"""The place of an output in a draft.

Owns: the comparison of the tokens that were decoded with those of the draft. Must not know: vLLM,
jobs, texts.
"""

from __future__ import annotations

from collections.abc import Sequence

REACH = 8
"""Tokens of a draft among which the output is searched after it has left the draft. A translation
that changes a word mostly goes on with the next words of the last one, and a search over the whole
draft would find articles and commas far away."""


class DraftFollower:
    """The rest of a draft that the output is likely to go on with.

    :param ids: token ids of the draft
    """

    __slots__ = ("_at", "_ids", "_lost", "_seen")

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = ids
        self._at = 0  # the next token of the draft
        self._seen = 0  # number of tokens of the output that were compared
        self._lost = False

    def follow(self, output: Sequence[int]) -> Sequence[int]:
        """Return the tokens of the draft that may come next; none if the output has left the draft.

        :param output: all tokens of the output so far
        """
        ids = self._ids
        for token in output[self._seen :]:
            # After a token that differs, the output is found again at the next equal token near it.
            near = ids[self._at : self._at + REACH]
            self._lost = token not in near
            if not self._lost:
                self._at += near.index(token) + 1
        self._seen = len(output)
        return [] if self._lost else ids[self._at :]
