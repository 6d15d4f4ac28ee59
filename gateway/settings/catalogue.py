"""Every setting of the gateway: what it means, where it came from, whether it can be used.

Owns: the `Settings` struct, whose docstrings are also ``--help`` and ``docs/settings.md``, and the
order flag > environment > file > default. Must not know: what a setting is used for.

A setting ``max_num_seqs`` is the flag ``--max-num-seqs``, the variable ``GATEWAY_MAX_NUM_SEQS`` and
the key ``max_num_seqs`` of a TOML file. There a prefix may be a table: ``[limit]`` with
``text = 500`` is ``limit_text = 500``.
"""

from __future__ import annotations

import ast
import inspect
import ipaddress
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.streaming.source import PartialTiming
from gateway.core.streaming.target import StabilityRules
from gateway.limits import Limits

PREFIX = "GATEWAY_"
CONFIG = "GATEWAY_CONFIG"
"""Names the TOML file, as ``--config`` does."""
KEY = "GATEWAY_KEY"
"""What clients of a gateway show it, of the command line too. Not a setting of a gateway."""

_UNBOUNDED = 2**31 - 1
"""A bound that only says that there is one: what fits everywhere."""

Count = Annotated[int, Meta(ge=1, le=_UNBOUNDED)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]


_SWITCHES = {"on": True, "yes": True, "off": False, "no": False}
"""Beside true, false, 1 and 0, which msgspec reads."""


class SettingsError(ValueError):
    """A setting cannot be used. The message says which, where it came from and what to do."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one gateway process runs. The string below a field is its documentation."""

    host: str = "127.0.0.1"
    """Address to listen on. The default lets in this machine alone; any other needs ``keys``."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8000
    """Port to listen on; 0 takes a free one. ``PORT`` is read where ``GATEWAY_PORT`` is not set."""
    lan: bool = False
    """A meeting in the local network: listen on all interfaces (or on ``host``, where that is not
    this machine alone), make keys for this start unless ``keys`` is set, show links and QR code."""
    certfile: str | None = None
    """Certificate chain (PEM): the gateway speaks TLS itself. Browsers grant the microphone to
    ``https`` only. It is read at the start."""
    keyfile: str | None = None
    """Private key of ``certfile`` (PEM, not encrypted). Default: it is in the same file."""
    keys: str | None = None
    """File of API keys, which ``gateway key`` makes. It is read again when it changes."""
    jwt_key: str | None = None
    """Secret, of 32 bytes or more, that signs JWTs with HS256. Prefer the variable to the flag."""
    jwks_url: str | None = None
    """Where an identity provider publishes the public keys (JWKS) of its RS256 and ES256 JWTs."""
    jwks_file: str | None = None
    """The same as a file, read at the start."""
    jwt_issuer: str | None = None
    """``iss`` that JWTs have to have. Default: any."""
    jwt_audience: str | None = None
    """``aud`` that JWTs have to have; needed with public keys. Default: they have none."""
    origins: str | None = None
    """Origins, separated by commas, whose pages may use the gateway beside its own:
    ``https://meet.example``. ``*`` lets in every page."""
    hosts: str | None = None
    """Names, separated by commas, that a gateway without keys answers to beside addresses and
    localhost; ``*`` for all. Pages could reach it by a name of theirs otherwise."""
    trusted_proxies: str | None = None
    """Networks, separated by commas, whose ``X-Forwarded-For`` tells who asks: ``127.0.0.1``."""
    insecure: bool = False
    """Listen on other addresses than loopback although everybody who reaches them is let in."""
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    """Processes that serve the port together, on one ``openai`` engine: for more sockets than a
    core serves. Each room is in one of them; limits and quotas are those of each."""
    reuse_port: bool = False
    """Share the port: start the next process, end this one when that is ready, and nobody is turned
    away. It listens only once its engine is ready."""
    drain_s: Seconds = 10.0
    """Seconds that captions in flight have to finish after SIGTERM; a sentence takes one or two."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe log lines written. Texts are never logged, at any level."""
    ping_s: Seconds = 20.0
    """Seconds between two WebSocket pings: less than the idle limits of proxies. 0 sends none, and
    a client that vanishes without a word is then never noticed."""
    ping_timeout_s: Annotated[float, Meta(gt=0, le=86_400)] = 20.0
    """Seconds that a client has to answer a ping; then its connection is reset."""
    coalesce_ms: Annotated[float, Meta(ge=0, le=1_000)] = 50.0
    """Longest time that text waits for more of itself, while the process has little time left: one
    write carries both then. 0 never waits; otherwise it begins with 20 ms, at half of a core."""
    loop: Literal["auto", "uvloop", "asyncio"] = "auto"
    """Event loop; ``auto`` is uvloop where it is installed, which halves the cost of a socket."""

    store: str | None = None
    """Where rooms outlive the process: ``sqlite:PATH``, a file. Default: nothing is written."""
    keep_s: Annotated[float, Meta(ge=0, le=_UNBOUNDED)] = 0.0
    """Seconds that the store keeps a room after it has ended. The default deletes it at once."""

    signing_key: Annotated[str, Meta(min_length=32)] | None = None
    """What resume tokens and tickets are signed with: the same for all processes that are to
    believe them. Default: kept in the store; where there is none, made anew at every start."""

    engine: Literal["ctranslate2", "vllm", "openai", "scripted"] = "ctranslate2"
    """What translates: on the CPU, on a GPU in this process, on another server, or not at all."""
    model: str | None = None
    """Directory or hub id of the model, or its name on the ``openai`` server. Default: the model
    inside the package (``openai``: the only one the server has)."""
    profile: str | None = None
    """How the model is prompted: a bundled profile or a ``.toml`` file. Default: by its name."""
    lang: str | None = None
    """Language of a speaker who names none. Default: each text is detected."""
    fallback: Literal["ctranslate2", "openai", "scripted"] | None = None
    """What translates while the engine does not: it is loaded beside it, and readers are told by
    ``degraded``. Default: nothing, captions fail until the engine is back."""
    fallback_model: str | None = None
    """Model of ``fallback``, as ``model`` is of the engine. Default: the one inside the package."""
    hang_s: Annotated[float, Meta(gt=0, le=86_400)] = 20.0
    """Seconds in which jobs run and none says a word, after which the engine counts as dead. So it
    does after three failures in a row over a quarter of it. Holds for every engine; a model server
    must send something of each job within it, too."""
    guards: bool = True
    """Try again, then fail, where an output is no translation. Off only to measure a bare model."""

    compute_type: str = "int8"
    """``ctranslate2``: arithmetic. int8 is the fastest on CPUs and costs next to no quality."""
    inter_threads: Count | None = None
    """``ctranslate2``: decoding threads, each of ``batch`` translations. Default: the CPUs."""
    batch: Count = 16
    """``ctranslate2``: translations that one thread decodes together. More serve more people, and
    hold up a sentence that comes meanwhile for longer."""
    intra_threads: Count = 1
    """``ctranslate2``: threads of one translation; 1 is fastest for small models."""
    cache_dir: str | None = None
    """``ctranslate2``, ``vllm``: where converted models are kept. Default: in the user's cache."""

    max_num_seqs: Count = 16
    """``vllm``, ``openai``, ``scripted``: translations at once. Each one more slows the others; 16
    is what a few busy meetings need."""
    max_num_batched_tokens: Count = 8192
    """``vllm``: tokens of one step, which delays every stream. Sentences are short."""
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.85
    """``vllm``: share of the GPU's memory for weights and cache. The rest is for its neighbours."""
    dtype: str = "auto"
    """``vllm``: type of the weights; ``auto`` is the checkpoint's own."""
    max_model_len: Count | None = None
    """``vllm``: most tokens of prompt and output. Default: what the profile needs, which is a few
    hundred; a cache for all that a model allows may not fit."""
    enforce_eager: bool = False
    """``vllm``: no CUDA graphs: starts sooner, translates slower."""
    load_format: str = "auto"
    """``vllm``: how weights are read; ``dummy`` invents them, to measure speed without a model."""
    feed: bool = True
    """``vllm``: take its text where it arrives, with a fraction of the CPU, instead of asking for
    it. Off to compare; where vLLM's inside has changed it is off by itself, and the log says so."""
    vllm: dict[str, Any] = {}
    """``vllm``: further engine arguments by vLLM's own names, over all of the above."""

    openai_url: str | None = None
    """``openai``: the server, e.g. ``http://127.0.0.1:8001/v1``."""
    openai_api_key: str | None = None
    """``openai``: its key. Other users of the machine can read flags: prefer the variable."""
    openai_api: Literal["auto", "chat", "completions"] = "auto"
    """``openai``: which API; ``auto`` is ``chat`` for models that have a chat template."""
    openai_extras: bool | None = None
    """``openai``: send the fields only vLLM has. Default: where the server says that it is vLLM."""

    scripted_delay: Seconds = 0.0
    """``scripted``: seconds before the first word."""
    scripted_pace: Seconds = 0.05
    """``scripted``: seconds between words: slow enough to be seen."""
    scripted_faults: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """``scripted``: the share of translations that fail; every tenth of them ends the engine."""

    limits: Limits = field(default_factory=Limits)
    flow: StreamingOptions = field(default_factory=StreamingOptions)

    def __repr__(self) -> str:
        return f"<Settings {self.engine} on {self.host}:{self.port}>"  # there are secrets in it


class Group(msgspec.Struct, frozen=True):
    """Numbers of the core that are settings too, under a prefix of their own."""

    prefix: str
    struct: type[msgspec.Struct]
    meta: Meta


_GROUPS = (
    Group("limit_", Limits, Meta(gt=0, le=_UNBOUNDED)),
    Group("pace_", PartialTiming, Meta(ge=0, le=1000)),
    Group("cut_", SegmentLengths, Meta(ge=0, le=1000)),
    Group("stable_", StabilityRules, Meta(ge=0, le=1000)),
)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: a field of `Settings` or, as ``limit_...``, of a `Group`."""

    name: str
    type: Any
    default: Any
    doc: str

    @property
    def flag(self) -> str:
        """A table is given entry by entry: ``--vllm-arg key=value``."""
        return "--" + self.name.replace("_", "-") + ("-arg" if self.table else "")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def table(self) -> bool:
        return isinstance(self.default, dict)

    @property
    def secret(self) -> bool:
        return self.name.endswith("_key")

    @property
    def boolean(self) -> bool:
        return any(isinstance(one, msgspec.inspect.BoolType) for one in _alternatives(self.type))

    @property
    def wanted(self) -> str:
        """What values it takes, in words."""
        return " or ".join(_words(kind) for kind in _alternatives(self.type))

    def read(self, value: object, origin: str) -> Any:
        """``value`` as its type has it. Raises `SettingsError`, naming ``origin``."""
        given = value
        try:
            if isinstance(value, str):
                if self.table:
                    value = msgspec.json.decode(value)
                elif self.boolean:
                    value = _SWITCHES.get(value.lower(), value)
            return msgspec.convert(value, self.type, strict=False)
        except ValueError as exc:  # msgspec's errors are ValueErrors
            shown = "what it is set to" if self.secret else repr(given)[:80]
            raise SettingsError(f"{origin} cannot be {shown}: it is {self.wanted}.") from exc


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, and the ``origins`` of those that are not defaults: a flag, a variable, a file."""

    settings: Settings
    origins: dict[str, str]
    warnings: tuple[str, ...] = ()


@cache
def table() -> Mapping[str, Setting]:
    """All settings by name, in the order of the documentation."""
    rows = [*_rows(Settings)]
    for group in _GROUPS:
        rows += _rows(group.struct, group.prefix, group.meta)
    return {row.name: row for row in rows if row.name not in ("limits", "flow")}


def load(flags: Mapping[str, object], environ: Mapping[str, str]) -> LoadedSettings:
    """Put the settings together; ``flags`` are by setting, and ``config`` names the file.

    Raises `SettingsError`. A variable that is no setting is only a warning: other programs may own
    it.
    """
    settings = table()
    given: dict[str, tuple[object, str]] = {}
    path = flags.get("config") or environ.get(CONFIG)
    if path:
        file = _flat(_toml(Path(str(path)).expanduser()))
        for key in file:
            if key not in settings:
                raise SettingsError(f"{path}: there is no setting {key!r}.{near(key, settings)}")
        given |= {key: (value, f"{key} in {path}") for key, value in file.items()}
    if environ.get("PORT"):
        given["port"] = (environ["PORT"], "PORT")
    variables = {row.variable: row.name for row in settings.values()}
    warnings = []
    for name in sorted(environ):
        if name in variables and environ[name]:
            given[variables[name]] = (environ[name], name)
        elif name.startswith(PREFIX) and name not in variables and name not in (CONFIG, KEY):
            warnings.append(f"{name} is set, but is no setting.{near(name, variables)}")
    given |= {
        name: (value, settings[name].flag) for name, value in flags.items() if name in settings
    }
    values = {name: settings[name].read(value, origin) for name, (value, origin) in given.items()}
    grouped: dict[type[msgspec.Struct], dict[str, Any]] = {}
    for group in _GROUPS:
        grouped[group.struct] = {
            name.removeprefix(group.prefix): values.pop(name)
            for name in list(values)
            if name.startswith(group.prefix)
        }
    return LoadedSettings(
        settings=Settings(
            **values,
            limits=Limits(**grouped[Limits]),
            flow=StreamingOptions(
                pace=PartialTiming(**grouped[PartialTiming]),
                lengths=SegmentLengths(**grouped[SegmentLengths]),
                stability=StabilityRules(**grouped[StabilityRules]),
            ),
        ),
        origins={name: origin for name, (_, origin) in given.items()},
        warnings=tuple(warnings),
    )


def value(settings: Settings, name: str) -> Any:
    """The value of a setting by its name, one of a group included."""
    flow = settings.flow
    parts = (settings.limits, flow.pace, flow.lengths, flow.stability)
    for group, part in zip(_GROUPS, parts, strict=True):
        if name.startswith(group.prefix):
            return getattr(part, name.removeprefix(group.prefix))
    return getattr(settings, name)


def loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def asks(settings: Settings) -> bool:
    """Whether anybody has to show a key or a token."""
    return any((settings.keys, settings.jwt_key, settings.jwks_url, settings.jwks_file))


def refuse_exposure(settings: Settings) -> None:
    """Raise `SettingsError` where strangers could reach a gateway that asks nobody for a key."""
    kept = settings.insecure or settings.lan or asks(settings)
    if not kept and not loopback(settings.host):
        raise SettingsError(
            f"{settings.host} can be reached from other machines, and this gateway lets everybody"
            " in. Say --lan for a meeting in the local network, or make a key with `gateway key`"
            " and name the file with --keys, or say --insecure."
        )


def listing(loaded: LoadedSettings) -> str:
    """Every setting with its value and origin, one a line; secrets are masked."""
    return "\n".join(f"{name:24}{shown:24}  {origin}" for name, shown, origin in _in_force(loaded))


def as_json(loaded: LoadedSettings) -> dict[str, dict[str, Any]]:
    """Return ``value`` and ``origin`` of every setting by its name; secrets are masked."""
    return {
        name: {
            "value": shown if shown == _MASK else msgspec.json.decode(shown or "null"),
            "origin": origin,
        }
        for name, shown, origin in _in_force(loaded)
    }


def _in_force(loaded: LoadedSettings) -> Iterator[tuple[str, str, str]]:
    """Yield name, value as JSON (empty for none, masked for a secret) and origin of each."""
    for row in table().values():
        now = value(loaded.settings, row.name)
        shown = _MASK if row.secret and now else _shown(now)
        yield row.name, shown, loaded.origins.get(row.name, "default")


def markdown() -> str:
    """The text of ``docs/settings.md``."""
    lines = [_HEAD]
    for row in table().values():
        flag = row.flag + (" KEY=VALUE" if row.table else "")
        cells = (f"`{row.name}`", f"`{flag}`", f"`{row.variable}`", f"`{_shown(row.default)}`")
        meaning = row.doc.replace("``", "`").replace("|", "\\|")
        lines.append(f"| {' | '.join(cells)} | {row.wanted} | {meaning} |")
    return "\n".join(lines) + "\n"


_HEAD = f"""\
# Settings

Generated by `gateway settings --markdown`; do not edit.

Every setting is a flag, an environment variable and a key of a TOML file (`--config FILE` or
`{CONFIG}`). A flag wins over a variable, a variable over the file, the file over the default.
In the file a prefix may be a table: `[limit]` with `text = 500` is `limit_text = 500`.
`gateway settings` prints what is in force, and where each value came from.

| key | flag | variable | default | value | meaning |
|---|---|---|---|---|---|"""


def near(name: str, names: Iterable[str]) -> str:
    """Return a sentence that suggests the name that was meant, or nothing.

    Names are compared without what they all begin with, which would make any two of them alike.
    """
    bare = {_COMMON.sub("", one): one for one in names}
    found = get_close_matches(_COMMON.sub("", name), bare, n=1, cutoff=_ALIKE)
    return f" Did you mean {bare[found[0]]}?" if found else ""


_MASK = "****"

_COMMON = re.compile(rf"^(-+|/|{PREFIX})")

_ALIKE = 0.75
"""Least similarity of a name that is suggested (`difflib`): two letters of ``port`` may be swapped,
and ``json`` is not taken for ``store``."""


def _rows(
    struct: type[msgspec.Struct], prefix: str = "", meta: Meta | None = None
) -> list[Setting]:
    docs = _docstrings(struct)
    rows = []
    for one in msgspec.structs.fields(struct):
        default = one.default if one.default is not msgspec.NODEFAULT else {}
        kind = one.type if meta is None else Annotated[one.type, meta]
        doc = docs.get(one.name, "")
        rows.append(Setting(name=prefix + one.name, type=kind, default=default, doc=doc))
    return rows


def _docstrings(struct: type) -> dict[str, str]:
    """The string below each field. Python does not keep them, so they are read from the source."""
    body = ast.parse(inspect.getsource(struct)).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for one, below in zip(body.body, body.body[1:], strict=False):
        match one, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                docs[name] = " ".join(text.split())
    return docs


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise SettingsError(f"{path} cannot be read: {exc.strerror}. Check --config.") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path} is not TOML: {exc}.") from exc


def _flat(file: Mapping[str, Any]) -> dict[str, Any]:
    """Tables that are no settings themselves, as prefixes."""
    flat: dict[str, Any] = {}
    for key, value in file.items():
        if isinstance(value, dict) and key not in table():
            flat |= {f"{key}_{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return flat


def _alternatives(kind: Any) -> list[Any]:
    """The types of a union, or the one type, without None."""
    info = msgspec.inspect.type_info(kind)
    kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    return [one for one in kinds if not isinstance(one, msgspec.inspect.NoneType)]


def _words(kind: msgspec.inspect.Type) -> str:
    match kind:
        case msgspec.inspect.BoolType():
            return "`true` or `false`"
        case msgspec.inspect.LiteralType(values=values):
            return "one of " + ", ".join(f"`{one}`" for one in values)
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            whole = "a whole number" if isinstance(kind, msgspec.inspect.IntType) else "a number"
            low = f"above {kind.gt:g}" if kind.gt is not None else f"from {kind.ge:g}"
            high = f" to {kind.le:g}" if kind.le is not None and kind.le < _UNBOUNDED else ""
            return f"{whole} {low}{high}"
        case msgspec.inspect.StrType(min_length=int(least)):
            return f"text of at least {least} characters"
        case msgspec.inspect.DictType():
            return "a table"
        case _:
            return "text"


def _shown(value: object) -> str:
    """As TOML would have it, without the login that an address may carry."""
    text = "" if value is None else msgspec.json.encode(value).decode()
    return re.sub(r"//[^/@]*@", f"//{_MASK}@", text)
