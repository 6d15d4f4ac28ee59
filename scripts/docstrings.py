"""Docstrings in the form that mkdocstrings needs; `mkdocs.yml` names this file as an extension."""

from typing import Any

import griffe


class FieldsLast(griffe.Extension):
    """A change of every docstring: the list of parameters goes to its end.

    A parser takes any text after the list for a part of the last parameter.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fields_last(obj.docstring.value)


def fields_last(docstring: str) -> str:
    """Return a docstring whose fields, such as ``:param x:``, stand in its last paragraph."""
    paragraphs = docstring.replace("::\n\n", ":\n\n").split("\n\n")
    return "\n\n".join(sorted(paragraphs, key=lambda one: one.startswith(":")))
