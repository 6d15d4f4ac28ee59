"""TypeScript types of the protocol, for the JavaScript client.

Owns: how the JSON Schema of `scripts.schema` is written as interfaces. Must not know: the messages.
"""

from __future__ import annotations

import json
from textwrap import indent

from scripts.schema_examples import Json

PRIMITIVES = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def declarations(schema: Json) -> str:
    """Return a declaration file with a type for each definition of a JSON Schema.

    Raises `ValueError` if the schema has a construct without a counterpart here.
    """
    lines = ["// Generated from docs/schema/gateway.v1.schema.json by `make docs-pages`."]
    for name, definition in schema["$defs"].items():
        lines += ["", *_comment(definition)]
        if "oneOf" in definition:
            lines.append(f"export type {name} = {_type(definition)};")
        else:
            lines.append(f"export interface {name} {_type(definition)}")
    return "\n".join(lines) + "\n"


def _comment(node: Json) -> list[str]:
    text = node.get("description", "").splitlines()
    if len(text) <= 1:
        return [f"/** {line} */" for line in text]
    return ["/**", *(f" * {line}".rstrip() for line in text), " */"]


def _type(node: Json) -> str:
    match node:
        case {"$ref": path}:
            return str(path).rpartition("/")[2]
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"oneOf": choices} | {"anyOf": choices}:
            return " | ".join(map(_type, choices))
        case {"type": "array", "prefixItems": items}:
            return f"[{', '.join(map(_type, items))}]"
        case {"type": "array", "items": item}:
            return f"Array<{_type(item)}>"
        case {"type": "object", "properties": properties}:
            required = node.get("required", ())
            fields = (_field(name, one, name in required) for name, one in properties.items())
            return "{\n" + "".join(indent(field, "  ") for field in fields) + "}"
        case {"type": "object", "additionalProperties": value}:
            return f"Record<string, {_type(value)}>"
        case {"type": kind} if kind in PRIMITIVES:
            return PRIMITIVES[kind]
    raise ValueError(f"This schema has no TypeScript type: {node}.")


def _field(name: str, node: Json, required: bool) -> str:
    described = next((one for one in node.get("anyOf", ()) if "description" in one), node)
    mark = "" if required else "?"
    return "\n".join([*_comment(described), f"{name}{mark}: {_type(node)};", ""])
