"""One setting: its names, its allowed values, and its documentation.

Owns: how a value is read from text, and how a field of a struct becomes a setting. Must not know:
which settings there are (`gateway.settings.catalogue`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any

import msgspec
from msgspec import Meta

PREFIX = "GATEWAY_"
"""Prefix of the environment variables."""
UNBOUNDED = 2**31 - 1
"""Upper bound of numbers that need none: the largest that fits into 32 bits with a sign."""

# People write switches in many ways, and shells have no booleans.
_SWITCHES = {"on": True, "yes": True, "off": False, "no": False}
"""Spellings of a switch in addition to true, false, 1 and 0, which msgspec reads."""
ENGINES = ("ctranslate2", "openai", "scripted", "vllm")
"""Engines of this package."""
ENGINE_POINTS = "caption_gateway.engines"
"""Group of the entry points with which other packages offer engines. The name of an entry point is
a value of the setting ``engine``; `gateway.engines.registry` says what it refers to."""


class SettingsError(ValueError):
    """A setting cannot be used. The message says which one, where it was set and what to do."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Description of one setting: a field of `Settings` or of a `Group`."""

    name: str
    type: Any
    default: Any
    doc: str

    @property
    def flag(self) -> str:
        """Flag of the command line. A table is given entry by entry: ``--vllm-arg key=value``."""
        return "--" + self.name.replace("_", "-") + ("-arg" if self.table else "")

    @property
    def variable(self) -> str:
        """Environment variable."""
        return PREFIX + self.name.upper()

    @property
    def table(self) -> bool:
        """True if the value is a table of further keys and values."""
        return isinstance(self.default, dict)

    @property
    def secret(self) -> bool:
        """True if the value must not be shown."""
        return self.name.endswith("_key")

    @property
    def boolean(self) -> bool:
        """True if the value is a switch."""
        return self._may_be(msgspec.inspect.BoolType)

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values, if they are a fixed list; else empty."""
        return tuple(str(value) for kind in self._kinds for value in getattr(kind, "values", ()))

    @property
    def wanted(self) -> str:
        """Description of the allowed values."""
        if self.name in ("engine", "fallback"):
            own = ", ".join(f"`{engine}`" for engine in self._engines)
            return f"one of {own}, or the name of an engine of an installed package"
        return " or ".join(map(_words, self._kinds))

    def read(self, value: object, origin: str) -> Any:
        """Return ``value`` converted. Raises `SettingsError`, whose message names ``origin``."""
        given = value
        try:
            if isinstance(value, str):
                if self.table:
                    value = msgspec.json.decode(value)
                elif self.boolean:
                    value = _SWITCHES.get(value.lower(), value)
                elif value.startswith(".") and self._may_be(msgspec.inspect.FloatType):
                    value = f"0{value}"  # JSON's numbers, which msgspec reads, begin with a digit
            read = msgspec.convert(value, self.type, strict=False)
            if self.name in ("engine", "fallback") and read not in (None, *self._engines):
                # The entry points are read only for other names, because that takes milliseconds.
                metadata.entry_points(group=ENGINE_POINTS)[read]
            return read
        except (ValueError, KeyError) as exc:  # msgspec's errors are ValueErrors
            # A message may end up in a log, so it must not contain a secret.
            shown = "its present value" if self.secret else repr(given)[:80]
            raise SettingsError(f"{origin} cannot be {shown}: it is {self.wanted}.") from exc

    @property
    def _kinds(self) -> list[msgspec.inspect.Type]:
        """Types of the value, without None."""
        info = msgspec.inspect.type_info(self.type)
        kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
        return [kind for kind in kinds if not isinstance(kind, msgspec.inspect.NoneType)]

    def _may_be(self, kind: type[msgspec.inspect.Type]) -> bool:
        return any(isinstance(one, kind) for one in self._kinds)

    @property
    def _engines(self) -> Sequence[str]:
        """Engines of this package that the setting may name."""
        # vLLM as a fallback would need a GPU that does nothing.
        return [engine for engine in ENGINES if (self.name, engine) != ("fallback", "vllm")]


def rows(struct: type[msgspec.Struct], prefix: str = "", meta: Meta | None = None) -> list[Setting]:
    """Return the settings of a struct: its fields with a docstring."""
    docs = _docstrings(struct)
    rows = []
    for field in msgspec.structs.fields(struct):
        if (doc := docs.get(field.name)) is not None:
            default = {} if field.default_factory is not msgspec.NODEFAULT else field.default
            default = None if default is msgspec.NODEFAULT else default
            kind = field.type if meta is None else Annotated[field.type, meta]
            rows.append(Setting(name=prefix + field.name, type=kind, default=default, doc=doc))
    return rows


def _docstrings(struct: type) -> dict[str, str]:
    """Return the string below each field, from the source, since Python does not keep it."""
    # `inspect` finds the source in a wheel as well, but not in a frozen executable.
    body = ast.parse(inspect.getsource(struct)).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for node, below in zip(body.body, body.body[1:], strict=False):
        match node, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                docs[name] = " ".join(text.split())
    return docs


def _words(kind: msgspec.inspect.Type) -> str:
    """Return a description of the allowed values of a type."""
    match kind:
        case msgspec.inspect.BoolType():
            return "`true` or `false`"
        case msgspec.inspect.LiteralType(values=values):
            return "one of " + ", ".join(f"`{value}`" for value in values)
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            whole = "a whole number" if isinstance(kind, msgspec.inspect.IntType) else "a number"
            low = f"above {kind.gt:g}" if kind.gt is not None else f"from {kind.ge:g}"
            high = f" to {kind.le:g}" if kind.le is not None and kind.le < UNBOUNDED else ""
            return f"{whole} {low}{high}"
        case msgspec.inspect.StrType(pattern="^https?://"):
            return "a URL"
        case msgspec.inspect.StrType(min_length=int(least)) if least > 1:
            return f"text of at least {least} characters"
        case msgspec.inspect.DictType():
            return "a table"
        case msgspec.inspect.VarTupleType(item_type=msgspec.inspect.IntType()):
            return "a list of whole numbers"
        case msgspec.inspect.VarTupleType():
            return "a list of pairs of languages"
        case _:
            return "text"
