r"""Hit rate of vLLM's prefix cache for the prompts of a meeting.

    .venv-vllm/bin/python -m benchmarks.prefix tests/quality/meeting100.tsv \
        [--profiles qwen3-instruct,eurollm] [--to de,fr,zh] [--block 32] [--json FILE]

A meeting goes through one real room, with a topic, a glossary of five terms and earlier utterances
as context. Every job of the room is a request to a real `VllmEngine`, which counts the tokens of
the prompts and those that were in its cache. Each row begins with an empty cache. `make test-vllm`
makes the environment.

The model has no trained weights, since the cache does not depend on them, and makes one token of
noise for each job. The captions, which later prompts have as context and as forced prefix, are
those of the embedded model and its guards. vLLM gets its tokenizer too, and with it the control
tokens of the profiles. The clock is that of `benchmarks.simulated_meeting`, so that jobs follow
each other alike on every machine.

vLLM's CPU build has no blocks below 32 tokens, a GPU has 16. So `Blocks` repeats vLLM's count: a
run in which the two differ with blocks of 32 ends with an error, and the count of `Blocks` with 16
is printed beside it.

Prints a line for each arm: jobs, prompt tokens, those taken from the cache with their share (the
hit rate) for both sizes of block, and those computed for each caption with blocks of 16.
``reversed`` has the prompt begin with what changes most, ``terms last`` has the glossary behind the
context.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace
from tokenizers import Tokenizer

from benchmarks import gpu
from benchmarks.simulated_meeting import Clock, Costs, Output, Translator
from gateway.auth.permissions import Role
from gateway.cli.replay.meeting.script import ScriptUtterance
from gateway.cli.replay.play import load
from gateway.core.captions.captioner import CaptionSink
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import EventLog
from gateway.core.members.member import Member
from gateway.core.room.room import Room
from gateway.core.scheduling.scheduler import Scheduler, StartJob, StopJob
from gateway.engines import profiles
from gateway.engines.base.tokenizer import FILE
from gateway.engines.profiles import Output as Length
from gateway.engines.profiles import Profile, TemplateBlock
from gateway.engines.registry import EMBEDDED, build
from gateway.engines.vllm.compat import VllmApi
from gateway.engines.vllm.engine import VllmEngine, VllmOptions
from gateway.errors import ErrorCode
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Final, Say, ServerMessage, Set
from gateway.settings.catalogue import Settings

TOPIC = "Weekly meeting of the team: the budget for next year and the launch of the new app"
GLOSSARY = {
    "budget": "Budget",
    "launch": "Launch",
    "cache": "Cache",
    "action item": "Action Item",
    "support team": "Support Team",
}
"""Terms that stay, since a room has one glossary for all its languages."""

COSTS = Costs(first=0.04, token=0.008)
"""The defaults of `benchmarks.captions`."""

ONE = Length(factor=0.0, extra=1, cap=1)
"""Output of a job, in tokens."""

GPU = 16
"""Tokens of a block on a GPU. The CPU build has none below 32."""

SLOTS = 16
"""Jobs at once, as by default."""

CACHE_BYTES = 256 * 2**20
"""Enough for a million tokens of so small a model, so that nothing is evicted."""


# --- prompts --------------------------------------------------------------------------------------


def stated(profile: Profile) -> Profile:
    """Return the prompt unchanged."""
    return profile


def backwards(profile: Profile) -> Profile:
    """Return the prompt with what changes most first: source, context, instructions."""
    blocks = profile.template[::-1] + tuple(
        TemplateBlock("\n" + block.text, block.when) for block in profile.system
    )
    turns = profile.turns
    if turns is not None and profile.system:
        turns = replace(turns, system="")
    return replace(profile, system=(), template=blocks, turns=turns)


def terms_last(profile: Profile) -> Profile:
    """Return the prompt with the glossary behind the context."""
    terms = [block for block in profile.template if "{glossary}" in block.text]
    others = [block for block in profile.template if block not in terms]
    place = max((n for n, block in enumerate(others, 1) if "{context}" in block.text), default=0)
    return replace(profile, template=(*others[:place], *terms, *others[place:]))


class Arm(NamedTuple):
    """One way to caption the meeting."""

    name: str
    growing: bool = True
    context: bool = True
    order: Callable[[Profile], Profile] = stated


ARMS = (
    Arm("final only", growing=False),
    Arm("growing"),
    Arm("growing, reversed", order=backwards),
    Arm("growing, terms last", order=terms_last),
    Arm("growing, no context", context=False),
)


# --- engines --------------------------------------------------------------------------------------


def model(path: Path, controls: Iterable[str]) -> Path:
    """Write a tiny model without weights, with the embedded tokenizer extended by ``controls``."""
    gpu.model(path, layers=1, hidden=64, inner=128)
    words = Tokenizer.from_file(str(EMBEDDED / FILE))
    words.add_special_tokens(sorted(set(controls)))
    words.save(str(path / FILE))
    config = json.loads((path / "config.json").read_bytes())
    config |= {"vocab_size": words.get_vocab_size(), "head_dim": 32}
    config |= {"num_attention_heads": 2, "num_key_value_heads": 1}
    (path / "config.json").write_text(json.dumps(config), "utf-8")
    return path


def controls(profile: Profile) -> set[str]:
    return {profile.bos, *profile.control, *profile.stop} - {""}


class Counts(NamedTuple):
    """Tokens of prompts: all, those that vLLM had in its cache, those a GPU would have had."""

    prompt: int
    cached: int
    sixteen: int


class Blocks:
    """A prefix cache like vLLM's that is never full: whole blocks, found from the front.

    :param size: tokens of a block
    """

    def __init__(self, size: int) -> None:
        self.hits = 0
        self._size = size
        self._known: set[tuple[int, ...]] = set()

    def read(self, ids: Sequence[int]) -> None:
        """Count a prompt. Its last token is always computed, since the answer follows from it."""
        ends = range(self._size, len(ids) + 1, self._size)
        heads = [tuple(ids[:end]) for end in ends]
        found = sum(1 for _ in itertools.takewhile(self._known.__contains__, heads))
        self.hits += min(found, (len(ids) - 1) // self._size) * self._size
        self._known.update(heads)


class Prefilling(VllmEngine):
    """An engine that reads prompts and counts."""

    def __init__(self, path: Path, profile: Profile, block: int) -> None:
        super().__init__(
            path,
            profile,
            VllmOptions(
                dtype="float32",
                max_num_seqs=SLOTS,
                max_model_len=2048,
                enforce_eager=True,
                load_format="dummy",
                extra={"block_size": block, "kv_cache_memory_bytes": CACHE_BYTES},
            ),
        )
        self._block = block

    def _configure(self, api: VllmApi) -> Any:
        config = super()._configure(api)
        # Making the configuration has reset it. What is forked need not import torch again.
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
        return config

    async def begin(self, profile: Profile) -> None:
        """Empty the cache; the next prompts are those of ``profile``."""
        assert self._loaded is not None, "it has been started"
        await self._loaded.engine.reset_prefix_cache()
        self._profile = self._loaded.profile = replace(profile, output=ONE)
        self._before = dict(self.stats())
        self._blocks = {size: Blocks(size) for size in {self._block, GPU}}

    async def read(self, job: Job) -> None:
        assert self._loaded is not None, "it has been started"
        ids, _, _ = self._loaded._tokenise(job, self._loaded.profile.prompt(job))
        for blocks in self._blocks.values():
            blocks.read(ids)
        async with aclosing(self.translate(job)) as chunks:
            async for _ in chunks:
                pass

    def counts(self) -> Counts:
        """Return the counts since `begin`. Raises `RuntimeError` if vLLM and `Blocks` differ."""
        prompt, cached = (
            int(self.stats()[key] - self._before[key]) for key in ("prefix_queries", "prefix_hits")
        )
        if cached != self._blocks[self._block].hits:
            raise RuntimeError(f"vLLM found {cached} tokens, not {self._blocks[self._block].hits}.")
        return Counts(prompt, cached, self._blocks[GPU].hits)


# --- the meeting ----------------------------------------------------------------------------------


class Meeting:
    """The whole meeting in one room, with a reader of each language."""

    def __init__(
        self,
        said: Sequence[ScriptUtterance],
        to: Sequence[str],
        profile: Profile,
        arm: Arm,
        clock: Clock,
    ) -> None:
        limits = Limits()
        if not arm.context:
            limits = replace(limits, context=0)
        self.jobs = self.captions = 0
        self._clock = clock
        self._stopped: set[str] = set()
        self._lines: dict[str, CaptionSink | None] = {}
        self._dispatch = Scheduler(capacity=SLOTS, depth=limits.queue)
        self._room = Room(
            "room",
            log=EventLog("epoch", limits),
            scheduler=self._dispatch,
            model=profile,
            limits=limits,
            observe=self._observe,
            set_timer=lambda when: clock.at(when, lambda: self._room.on_timer(clock.now)),
        )
        self._speaker = Member("speaker", Role.MODERATE, Outbox(Codec.JSON, limits))
        self._reader = Member("reader", Role.VIEW, Outbox(Codec.JSON, limits))
        for member in (self._speaker, self._reader):
            self._room.join(member, 0.0)
        self._room.change_settings(self._speaker, Set(context=TOPIC, glossary=GLOSSARY), 0.0)
        self._room.want(self._reader, tuple(to), None, 0.0)
        for one in said:
            for update in one.updates if arm.growing else ():
                clock.at(update.at, partial(self._say, one, update.text, final=False))
            clock.at(one.t1, partial(self._say, one, one.text, final=True))

    def _say(self, said: ScriptUtterance, text: str, *, final: bool) -> None:
        now = self._clock.now
        say = Say(text=text, id=said.id, final=final, t0=said.t0, t1=now)
        self._room.say(self._speaker, say, text, said.lang, now)

    def _observe(self, event: ServerMessage, now: float) -> None:
        self.captions += isinstance(event, Final)

    def begun(self) -> Iterator[Job]:
        """Return the jobs that begin now."""
        while actions := self._dispatch.actions():
            for action in actions:
                match action:
                    case StartJob(job):
                        self.jobs += 1
                        self._lines[job.id] = self._room.captioner.started(job.id, self._clock.now)
                        yield job
                    case StopJob(job_id):
                        self._stopped.add(job_id)
                        self._dispatch.done(job_id)
        for member in (self._speaker, self._reader):
            member.outbox.take()

    def schedule(self, job: Job, output: Output) -> None:
        """Schedule the output, in one piece, for the time of its last token."""
        chunk = whole(output.chunks)
        when = self._clock.now + COSTS.first + chunk.tokens * COSTS.token
        self._clock.at(when, partial(self._end, job.id, chunk, output.fault))

    def _end(self, job_id: str, chunk: Chunk, fault: ErrorCode | None) -> None:
        if job_id in self._stopped:
            return
        if fault is None:
            line = self._lines[job_id]
            if line is not None:
                line.feed(chunk, self._clock.now)
            # Ignored if `feed` asked for another job.
            self._room.captioner.finished(job_id, self._clock.now)
        else:
            self._room.captioner.failed(job_id, fault, self._clock.now)
        self._dispatch.done(job_id)


def whole(chunks: Iterable[Chunk]) -> Chunk:
    """Return an output as one chunk, without the first attempt if there were two."""
    text, tokens = "", 0
    ids: tuple[int, ...] = ()
    for chunk in chunks:
        if chunk.reset:
            text, ids = "", ()
        text, ids, tokens = text + chunk.text, ids + chunk.ids, tokens + chunk.tokens
    return Chunk(text, tokens, ids=ids)


def bare(job: Job) -> Job:
    """Return the job as the embedded model gets it, so that it is the same in every row."""
    return replace(job, topic="", context=(), glossary=(), style=None)


class Row(NamedTuple):
    """The results of one arm."""

    profile: str
    languages: int
    arm: str
    captions: int
    jobs: int
    counts: Counts

    def __str__(self) -> str:
        prompt, cached, sixteen = self.counts
        left = (prompt - sixteen) / self.captions
        rates = f"{cached:8} {cached / prompt:6.1%} {sixteen:8} {sixteen / prompt:6.1%}"
        head = f"{self.profile:15} {self.languages} {self.arm:19}"
        return f"{head} {self.jobs:5} {prompt:8} {rates} {left:8.1f}"


async def held(
    said: Sequence[ScriptUtterance],
    to: Sequence[str],
    profile: Profile,
    arm: Arm,
    translator: Translator,
    vllm: Prefilling,
) -> Row:
    """Run the meeting from its first word to its last caption."""
    await vllm.begin(arm.order(profile))
    clock = Clock()
    meeting = Meeting(said, to, profile, arm, clock)
    while clock.turn():
        jobs = list(meeting.begun())
        outputs = await translator([bare(job) for job in jobs])
        for job, output in zip(jobs, outputs, strict=True):
            await vllm.read(job)  # one by one, so that the order is the same every time
            meeting.schedule(job, output)
    made = meeting.captions, meeting.jobs
    return Row(profile.name, len(to), arm.name, *made, vllm.counts())


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path, help="as for gateway replay")
    parser.add_argument("--profiles", default="qwen3-instruct,eurollm", help="default: %(default)s")
    parser.add_argument(
        "--to", default="de,fr,zh", help="the first, then all; default: %(default)s"
    )
    parser.add_argument("--block", type=int, default=32, help="tokens; default: %(default)s")
    parser.add_argument("--limit", type=int, help="only the first utterances")
    parser.add_argument("--json", type=Path, help="write all figures")
    args = parser.parse_args()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    said = load(args.file)[: args.limit]
    to = args.to.split(",")
    asked = [profiles.load(name) for name in args.profiles.split(",")]
    embedded = build(Settings())
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        path = model(Path(place) / "model", set().union(*map(controls, asked)))
        vllm = Prefilling(path, asked[0], args.block)
        try:
            await vllm.start()  # it forks, so before anything has threads
            await embedded.start()
            translator = Translator(embedded)
            print(f"{len(said)} utterances; cached: blocks of {args.block} tokens, then of {GPU}")
            print(
                f"{'':37} {'jobs':>5} {'prompt':>8} {'cached':>15} {'cached':>15} {'computed':>8}"
            )
            for profile in asked:
                for langs, arm in itertools.product([to[:1], to][: len(to)], ARMS):
                    rows.append(await held(said, langs, profile, arm, translator, vllm))
                    print(rows[-1], flush=True)
        finally:
            await vllm.aclose()
            await embedded.aclose()
    if args.json:
        args.json.write_text(
            json.dumps(
                [row._asdict() | {"counts": row.counts._asdict()} for row in rows], indent=1
            ),
            "utf-8",
        )


if __name__ == "__main__":
    asyncio.run(main())
