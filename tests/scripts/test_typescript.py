"""TypeScript types that follow from a JSON Schema."""

from __future__ import annotations

import pytest

from scripts.schema import json_schema
from scripts.schema_examples import Json
from scripts.typescript import declarations


def declared(node: Json) -> str:
    """Return the declaration of one definition."""
    return declarations({"$defs": {"One": node}}).partition("\n\n")[2]


def test_a_message_becomes_an_interface_with_its_comments() -> None:
    assert (
        declared(
            {
                "description": "A text.\n\nIts length is bounded.",
                "type": "object",
                "properties": {
                    "type": {"const": "say"},
                    "by": {"enum": ["human", "mt"]},
                    "ms": {"$ref": "#/$defs/Timing"},
                    "ref": {
                        "anyOf": [{"description": "Echoed.", "type": "string"}, {"type": "null"}]
                    },
                    "langs": {"type": "array", "items": {"type": "string"}},
                    "rates": {
                        "type": "array",
                        "prefixItems": [{"type": "integer"}, {"type": "number"}],
                    },
                    "terms": {"type": "object", "additionalProperties": {"type": "boolean"}},
                },
                "required": ["type", "by"],
            }
        )
        == """\
/**
 * A text.
 *
 * Its length is bounded.
 */
export interface One {
  type: "say";
  by: "human" | "mt";
  ms?: Timing;
  /** Echoed. */
  ref?: string | null;
  langs?: Array<string>;
  rates?: [number, number];
  terms?: Record<string, boolean>;
}
"""
    )


def test_a_choice_of_messages_becomes_a_union() -> None:
    choice = {"oneOf": [{"$ref": "#/$defs/Say"}, {"$ref": "#/$defs/Bye"}]}
    assert declared(choice) == "export type One = Say | Bye;\n"


def test_a_construct_without_a_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no TypeScript type"):
        declared({"type": "object", "properties": {"a": {"not": {}}}})


def test_every_message_of_the_protocol_has_a_type() -> None:
    text = declarations(json_schema())
    for name in json_schema()["$defs"]:
        assert f" {name} " in text
