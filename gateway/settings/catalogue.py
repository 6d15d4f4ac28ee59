"""Catalogue of all settings of the gateway.

Owns: the `Settings` struct, whose docstrings are also the texts of ``--help`` and of
``docs/reference/settings.md``, and their types. Must not know: where values come from, what a
setting is used for.

The setting ``max_num_seqs`` is the flag ``--max-num-seqs``, the variable ``GATEWAY_MAX_NUM_SEQS``
and the key ``max_num_seqs`` of a TOML file.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from gateway.auth import webhook_signatures
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.stability import StabilityRules
from gateway.errors import ClientFault
from gateway.limits import Limits
from gateway.settings.setting import UNBOUNDED, Setting, rows
from gateway.settings.setting import SettingsError as SettingsError
from gateway.text import languages

CONFIG = "GATEWAY_CONFIG"
"""Variable with the path of the TOML file, like ``--config``."""

KEY = "GATEWAY_KEY"
"""Variable with the API key that the clients of the command line send. It is no setting of the
gateway."""

Count = Annotated[int, Meta(ge=1, le=UNBOUNDED)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]


class EngineTable(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one of several engines: an ``[[engine]]`` table of the TOML file, which may also
    have the keys of `Settings` in `OF_AN_ENGINE`.
    """

    name: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    """Unique name, which metrics and ``/readyz`` use. Default: the key ``engine``, with a number if
    several tables have the same."""
    pairs: tuple[tuple[str, str], ...] | None = None
    """Language pairs that this engine is given, such as ``[["en", "ja"], ["*", "de"]]``; ``*`` is
    any language. Default: all that its model has."""
    weight: Annotated[float, Meta(gt=0, le=1_000)] = 1.0
    """Share of the jobs, compared with another engine for the same pair that has as many slots."""
    gpus: tuple[Annotated[int, Meta(ge=0, le=1_000)], ...] | None = None
    """``vllm``: numbers of the GPUs of this engine, such as ``[0]``, among those that the process
    sees. A model is split over several. Default: the first GPU. Engines without a GPU in common
    start side by side."""
    settings: Settings
    """All settings, with the keys of the table in place of those outside of the tables."""


class OutputTable(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one output: an ``[[output]]`` table of the TOML file."""

    kind: Literal["webhook", "youtube", "zoom"]
    """Receiver: ``webhook`` is sent every durable event in signed requests, ``youtube`` and
    ``zoom`` the captions of one language."""
    url: Annotated[str, Meta(pattern="^https?://")]
    """Address of the receiver. For ``youtube`` the captions ingestion URL of the stream, for
    ``zoom`` the caption URL (API token) of the meeting."""
    room: Annotated[str, Meta(min_length=1, max_length=64)]
    """Name of the room. For ``webhook`` it may have ``*`` and ``?``; ``*`` means all rooms. Private
    rooms have no outputs."""
    to: str | None = None
    """Language that the output reads, as a BCP 47 tag, so that it is translated even if nobody else
    reads it. Default: ``youtube`` and ``zoom`` show what was said, and ``webhook`` is sent the
    languages that others read."""
    secret_key: str | None = None
    """``webhook``: secret that signs the requests, ``whsec_`` and 24 to 64 bytes in base64.
    Required."""
    name: Annotated[str, Meta(max_length=64)] = ""
    """Name in logs and metrics. Default: the kind."""

    @property
    def label(self) -> str:
        """Name of the output."""
        return self.name or self.kind

    def __repr__(self) -> str:
        return f"<OutputTable {self.label} of {self.room}>"  # the address contains a secret


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one gateway process. The string below a field is its documentation."""

    host: str = "127.0.0.1"
    """Address to listen on. The default accepts connections from this machine only. Any other
    address requires ``keys``, ``lan`` or ``insecure``."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8000
    """Port to listen on. 0 chooses a free port. The variable ``PORT`` is used if ``GATEWAY_PORT``
    is not set."""
    lan: bool = False
    """Serve a meeting in the local network: listen on all interfaces (or on ``host``, if that is
    not a loopback address), create keys for this start unless ``keys`` is set, and print links and
    a QR code."""
    certfile: str | None = None
    """File with the certificate chain (PEM). With it the gateway serves TLS itself. Browsers allow
    the microphone on ``https`` pages only. The file is read once, at the start."""
    keyfile: str | None = None
    """File with the private key of ``certfile`` (PEM, not encrypted). Default: the key is in
    ``certfile``."""
    keys: str | None = None
    """File of API keys, created by ``gateway key``. The gateway reads it again when it changes."""
    jwt_key: str | None = None
    """Secret of at least 32 bytes that signs JWTs with HS256. Prefer the variable: other users of
    the machine can read flags."""
    jwks_url: str | None = None
    """URL at which an identity provider publishes the public keys (JWKS) of its RS256 and ES256
    JWTs."""
    jwks_file: str | None = None
    """File with such public keys (JWKS), read once, at the start."""
    jwt_issuer: str | None = None
    """Required value of the claim ``iss`` of JWTs. Default: any issuer is accepted."""
    jwt_audience: str | None = None
    """Required value of the claim ``aud`` of JWTs. It must be set with public keys. Default: JWTs
    must not have the claim."""
    origins: str | None = None
    """Comma-separated origins whose web pages may use the gateway, such as
    ``https://meet.example``. Its own pages always may. ``*`` allows all pages."""
    hosts: str | None = None
    """Comma-separated host names that a gateway without keys answers to, in addition to IP
    addresses and localhost. ``*`` allows all names. The check stops web pages that reach the
    gateway through a domain of their own (DNS rebinding)."""
    trusted_proxies: str | None = None
    """Comma-separated addresses or networks of reverse proxies, such as ``127.0.0.1``. Only their
    ``X-Forwarded-For`` is trusted to name the client."""
    insecure: bool = False
    """Listen on addresses other than loopback without keys. Everybody who can reach the address can
    then use the gateway."""
    reuse_port: bool = False
    """Share the port with other gateways, each with this setting. With ``redis`` all of them serve
    the same rooms. Without it, replace a gateway and refuse nobody: start the new one, and stop the
    old one when the new one is ready. The port is opened only once the engine is ready."""
    drain_s: Seconds = 10.0
    """Seconds that captions in flight have to finish after SIGTERM. A sentence takes one or two."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest severity of log lines that are written. Spoken and translated text is never logged."""
    log_format: Literal["text", "json"] = "text"
    """Format of log lines. ``json`` writes one object per line, with the ids of session, room,
    utterance and job as fields."""
    ping_s: Seconds = 20.0
    """Seconds between two WebSocket pings, and seconds that a client has to answer one before its
    connection is reset. The default is shorter than the usual idle timeouts of proxies. With 0 no
    pings are sent, and a client that disappears silently is never noticed."""
    loop: Literal["auto", "uvloop", "asyncio"] = "auto"
    """Event loop. ``auto`` uses uvloop if it is installed, which halves the cost of a socket."""

    store: str | None = None
    """Storage that keeps rooms over a restart: ``sqlite:PATH`` for a database file. Default:
    nothing is written to disk."""
    keep_s: Annotated[float, Meta(ge=0, le=UNBOUNDED)] = 0.0
    """Seconds for which the store keeps a room after it has ended. By default it is deleted at
    once."""

    redis: str | None = None
    """URL of the Redis or Valkey server that joins several gateways to one service, such as
    ``redis://localhost:6379/0``. Clients of one room may then be in any of the gateways. It needs
    the extra ``redis``, and excludes ``store``: the rooms are kept in Redis.
    Default: every gateway has its own rooms."""

    signing_key: Annotated[str, Meta(min_length=32)] | None = None
    """Secret of at least 32 characters that signs resume tokens and tickets. Processes that should
    accept each other's tokens need the same one. Default: a key kept in the store or in Redis,
    or without them a new key at every start."""

    engine: str = "ctranslate2"
    """Translation engine: ``ctranslate2`` runs on the CPU, ``vllm`` on a GPU in this process,
    ``openai`` uses another server, and ``scripted`` returns the source text with a mark,
    for tests. Installed packages can offer others."""
    model: str | None = None
    """Directory or hub id of the model, a name that ``gateway models`` lists, such as ``opus-mt``
    or ``nllb-200``, or its name on the ``openai`` server. Default: the model in the package, and
    with ``openai`` the only model of the server."""
    download: bool = False
    """Download a named model of ``ctranslate2`` or ``whisper`` that is not on this machine. Without
    it nothing is downloaded, except by vLLM."""
    profile: str | None = None
    """Prompt profile of the model: the name of a bundled profile or a ``.toml`` file. Default: the
    bundled profile that matches the name of the model."""
    pivot: str = "en"
    """Language through which pairs are translated that no engine has, as a BCP 47 tag. Such
    captions have the flag ``pivot:`` and this tag. ``off`` makes these pairs impossible."""
    lang: str | None = None
    """Language of speakers who name none, as a BCP 47 tag. Default: the language of each text is
    detected."""
    stability: Literal["auto", "checked", "forced"] = "auto"
    """Rules by which the beginning of a growing caption becomes stable, so that it is calm and not
    late: ``checked`` for engines that check their last translation, ``forced`` for others. ``auto``
    is ``checked`` with ``ctranslate2``."""
    fallback: str | None = None
    """Second engine that translates while the first one is not available. It is loaded at the
    start, and readers are told by ``degraded``. Default: the model in the package for ``opus-mt``
    and ``nllb-200``, otherwise none, so captions fail until the engine is back."""
    fallback_model: str | None = None
    """Model of the engine ``fallback``. Default: the model in the package."""
    hang_s: Annotated[float, Meta(gt=0, le=86_400)] = 20.0
    """Seconds after which the engine counts as dead if jobs are running and none of them returns
    text. It also counts as dead after three failures in a row over at least a quarter of this time.
    A model server must send something for each job within this time, too."""
    guards: bool = True
    """Check every output, try again if it is not a translation, and fail if the second attempt is
    none either. Switch it off only to measure a model by itself."""

    compute_type: str = "int8"
    """``ctranslate2``: numeric type of the computation. int8 is the fastest on CPUs, with almost
    the same quality."""
    inter_threads: Count | None = None
    """``ctranslate2``: number of decoding threads. Each decodes ``batch`` translations at a time.
    Default: the number of CPUs."""
    batch: Count = 16
    """``ctranslate2``: number of translations that one thread decodes together. A larger number
    serves more people, but new sentences wait longer."""
    intra_threads: Count = 1
    """``ctranslate2``: number of threads for one translation. 1 is the fastest for small models."""
    cache_dir: str | None = None
    """``ctranslate2``, ``vllm``: directory for converted models. Default: a directory in the user's
    cache."""

    max_num_seqs: Count = 16
    """``vllm``, ``openai``, ``scripted``: number of simultaneous translations. Each additional one
    slows down the others. 16 are enough for a few busy meetings."""
    max_num_batched_tokens: Count = 8192
    """``vllm``: maximum number of tokens in one step of the model. A long step delays all
    translations, and sentences are short."""
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.85
    """``vllm``: share of the GPU's memory for weights and cache. The rest is for other
    processes."""
    max_model_len: Count | None = None
    """``vllm``: maximum number of tokens of prompt and output together. Default: the few hundred
    that the profile needs. A cache for the full length of a model may not fit into memory."""
    vllm: dict[str, Any] = {}
    """``vllm``: further engine arguments by vLLM's own names, such as ``dtype`` or
    ``enforce_eager``. They override the settings above."""

    openai_url: str | None = None
    """``openai``: base URL of the server, such as ``http://127.0.0.1:8001/v1``."""
    openai_api_key: str | None = None
    """``openai``: API key of the server. Prefer the variable: other users of the machine can read
    flags."""
    openai_api: Literal["auto", "chat", "completions"] = "auto"
    """``openai``: API to use. ``auto`` uses ``chat`` for models that have a chat template."""
    openai_extras: bool | None = None
    """``openai``: send request fields that only vLLM supports. Default: only if the server says
    that it is vLLM."""

    scripted_delay: Seconds = 0.0
    """``scripted``: seconds before the first word."""
    scripted_pace: Seconds = 0.05
    """``scripted``: seconds between two words. The default is slow enough to be seen."""
    scripted_faults: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """``scripted``: share of translations that fail, from 0 to 1. Every tenth failure stops the
    engine."""

    recogniser: Literal["whisper", "openai", "scripted"] | None = None
    """Recogniser of speech: ``whisper`` runs in this process, ``openai`` uses a server with
    ``/v1/audio/transcriptions``, and ``scripted`` hears the same words in any sound, for tests. It
    needs the extra ``speech``. Default: none, so clients send text."""
    recogniser_model: str | None = None
    """``whisper``: directory of a Whisper model in CTranslate2's form, or its name, such as
    ``small``. ``openai``: its name on the server."""
    recogniser_workers: Count | None = None
    """Recognitions at once. ``whisper`` takes a thread for each; more serve more speakers if there
    are CPU cores for them. Default: 1 with ``whisper``, 8 with ``openai``."""
    recogniser_device: Literal["auto", "cpu", "cuda"] = "auto"
    """``whisper``: device of the model. ``auto`` takes a GPU if there is one that CTranslate2 can
    use."""
    recogniser_compute_type: str | None = None
    """``whisper``: number format of CTranslate2, such as ``int8``, ``float16`` or ``float32``.
    Default: ``int8`` on a CPU, which takes half the time for the same text, and ``float16`` on a
    GPU."""
    recogniser_fallback: Literal["whisper", "openai", "scripted"] | None = None
    """Recogniser that takes over while the first one cannot recognise. Default: none."""
    recogniser_fallback_model: str | None = None
    """Value of ``recogniser_model`` for the fallback."""
    recogniser_url: str | None = None
    """``openai``: base URL of the server of the recogniser, such as
    ``http://127.0.0.1:8002/v1``."""
    recogniser_api_key: str | None = None
    """``openai``: API key of that server. Prefer the variable: other users of the machine can read
    flags."""

    engines: tuple[EngineTable, ...] = ()
    outputs: tuple[OutputTable, ...] = ()
    limits: Limits = field(default_factory=Limits)
    flow: StreamingOptions = field(default_factory=StreamingOptions)

    def __repr__(self) -> str:
        return f"<Settings {self.engine} on {self.host}:{self.port}>"  # the fields contain secrets


OF_AN_ENGINE = (
    *("engine", "model", "profile", "fallback", "fallback_model", "hang_s", "guards"),
    *("compute_type", "inter_threads", "batch", "intra_threads", "cache_dir"),
    *("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "max_model_len", "vllm"),
    *("openai_url", "openai_api_key", "openai_api", "openai_extras"),
    *("scripted_delay", "scripted_pace", "scripted_faults"),
)
"""Settings that each ``[[engine]]`` table may have for itself."""


# The core does not depend on settings, so its options are structs of their own.
class Group(msgspec.Struct, frozen=True):
    """Options of the core whose fields are settings, with a prefix of their own."""

    prefix: str
    struct: type[msgspec.Struct]
    meta: Meta


GROUPS = (
    Group("limit_", Limits, Meta(gt=0, le=UNBOUNDED)),
    Group("pace_", PartialTiming, Meta(ge=0, le=1000)),
    Group("stable_", StabilityRules, Meta(ge=0, le=1000)),
)


@cache
def table() -> Mapping[str, Setting]:
    """Return all settings by name, in the order of the documentation."""
    settings = rows(Settings)
    for group in GROUPS:
        settings += rows(group.struct, group.prefix, group.meta)
    return {row.name: row for row in settings}


TOPICS = {
    "host": "Where it listens",
    "keys": "Who may use it",
    "reuse_port": "Starting, stopping, logs",
    "ping_s": "Connections",
    "store": "Rooms that outlast a process, several gateways",
    "engine": "Translation",
    "compute_type": "Engine ctranslate2",
    "max_num_seqs": "Engine vllm",
    "openai_url": "Engine openai",
    "scripted_delay": "Engine scripted",
    "recogniser": "Speech",
    "limit_frame": "Limits",
    "pace_interval": "Growing text",
}
"""Titles for lists of settings, by the first setting of each topic in `table`."""


def by_topic() -> Mapping[str, list[Setting]]:
    """Return the settings by the title of their topic."""
    topics: dict[str, list[Setting]] = {}
    for name, row in table().items():
        if name in TOPICS:
            rows_of_topic = topics[TOPICS[name]] = []
        rows_of_topic.append(row)
    return topics


@cache
def engine_table() -> Mapping[str, Setting]:
    """Return the keys of an ``[[engine]]`` table by name."""
    own = {row.name: row for row in rows(EngineTable) if row.name != "settings"}
    return own | {name: table()[name] for name in OF_AN_ENGINE}


@cache
def output_table() -> Mapping[str, Setting]:
    """Return the keys of an ``[[output]]`` table by name."""
    return {row.name: row for row in rows(OutputTable)}


def check_output(output: OutputTable) -> None:
    """Raise `SettingsError` if an output cannot work."""
    # Only here: the HTTP client takes a tenth of a second to import.
    from gateway.io import http

    try:
        http.address(output.url)
    except ValueError as fault:
        raise SettingsError(f"url cannot be used: {fault}.") from fault
    try:
        if output.to is not None:
            languages.normalise(output.to)
        if output.kind == "webhook":
            webhook_signatures.key(output.secret_key or "")
    except (ClientFault, ValueError) as fault:
        raise SettingsError(str(fault)) from fault
    if output.kind != "webhook" and set(output.room) & set("*?["):
        raise SettingsError(f"{output.kind} shows one meeting, so room has to be a whole name.")


def engines(settings: Settings) -> tuple[EngineTable, ...]:
    """Return the engines; without tables the one that the other settings describe."""
    return settings.engines or (EngineTable(name=settings.engine, settings=settings),)


def value(settings: Settings, name: str) -> Any:
    """Return the value of a setting, also of one in a group, by its name."""
    values = (settings.limits, settings.flow.pace, settings.flow.stability)
    for group, options in zip(GROUPS, values, strict=True):
        if name.startswith(group.prefix):
            return getattr(options, name.removeprefix(group.prefix))
    return getattr(settings, name)


def loopback(host: str) -> bool:
    """Tell whether only this machine can reach the address ``host``."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def asks(settings: Settings) -> bool:
    """Tell whether the gateway requires a key or a token."""
    return any((settings.keys, settings.jwt_key, settings.jwks_url, settings.jwks_file))


def check(settings: Settings) -> None:
    """Raise `SettingsError` if other machines could reach a gateway that requires no key, or if
    rooms would be kept in two places.
    """
    # `lan` creates keys at the start, so such a gateway requires keys as well.
    protected = settings.insecure or settings.lan or asks(settings)
    if not protected and not loopback(settings.host):
        raise SettingsError(
            f"Other machines can reach {settings.host}, and this gateway requires no key. Use --lan"
            " for a meeting in the local network, or create a key with `gateway key` and pass the"
            " file with --keys, or use --insecure."
        )
    if settings.redis is not None and settings.store is not None:
        raise SettingsError("--redis cannot be combined with --store: rooms are kept in Redis.")
