"""Verification of drafts inside vLLM, as speculative decoding with the last translation.

Owns: a scheduler that adds a job's draft to the step that reads its prompt, and the bias in
vLLM's rejection sampler. Must not know: jobs, texts, the gateway's process.

vLLM imports this module in EngineCore and in its worker processes, by the names in `options`; it
cannot be imported without vLLM. It depends on vLLM's internals: the model runner V1 without
asynchronous scheduling, which ``custom_class`` selects. `why_unsupported` checks them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from vllm.platforms import current_platform
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.sample.rejection_sampler import MAX_SPEC_LEN, RejectionSampler
from vllm.v1.spec_decode.metrics import SpecDecodingStats

from gateway.engines.vllm.follower import DraftFollower

MOST_DRAFTED = 256
"""Tokens of drafts that one step checks at most. A step with more tokens than the largest CUDA
graph takes several times as long. Each token of a draft also takes a row of scores as wide as the
vocabulary, in float32, which vLLM has not counted into the memory that it reserves."""

GRAPH_TOKENS = 256
"""Tokens of the largest CUDA graph. vLLM would take twice ``max_num_seqs``, which is less than a
prompt and its draft."""

HOPPER = 9
"""Major compute capability of GPUs on which a whole step can be one CUDA graph, whatever it holds.
On others vLLM would have to give up the graphs of mixed steps."""


def draft_of(params: Any) -> tuple[Sequence[int], float]:
    """Return the draft in the sampling parameters of a request, and its bias."""
    extra = (params and params.extra_args) or {}
    return extra.get("draft", ()), extra.get("draft_bias", 0.0)


class DraftScheduler(Scheduler):  # type: ignore[misc]  # of type Any where vLLM is not installed
    """A scheduler of vLLM that lets the model check drafts.

    vLLM's own would begin to check after the prompt was read, one step later.
    """

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        left = MOST_DRAFTED
        scheduled = scheduler_output.num_scheduled_tokens
        for new in scheduler_output.scheduled_new_reqs:
            request = self.requests[new.req_id]
            # A prompt that is in the cache up to its last token may have been padded.
            padding = scheduler_output.scheduled_spec_decode_tokens.get(new.req_id, ())
            count = scheduled[new.req_id] - len(padding)
            whole = request.num_computed_tokens + count == request.num_tokens
            room = self.max_num_scheduled_tokens - scheduler_output.total_num_scheduled_tokens
            draft = draft_of(request.sampling_params)[0][: min(left, room, self._room(request))]
            if not whole or len(draft) <= len(padding):
                continue
            blocks = self.kv_cache_manager.allocate_slots(request, count + len(draft))
            if blocks is None:
                continue
            for ids, more in zip(new.block_ids, blocks.get_block_ids(), strict=True):
                ids.extend(more)
            left -= len(draft)
            scheduled[new.req_id] = count + len(draft)
            scheduler_output.total_num_scheduled_tokens += len(draft) - len(padding)
            scheduler_output.scheduled_spec_decode_tokens[new.req_id] = list(draft)
        super()._update_after_schedule(scheduler_output)

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """Give each request the rest of its draft, for its next step."""
        left = MOST_DRAFTED
        for id in draft_token_ids.req_ids:
            request = self.requests.get(id)
            if request is None or request.is_finished() or request.is_prefill_chunk:
                continue
            draft, _ = draft_of(request.sampling_params)
            if not draft:
                continue
            if (follower := getattr(request, "draft_follower", None)) is None:
                follower = request.draft_follower = DraftFollower(draft)
            rest = follower.follow(request.output_token_ids)
            request.spec_token_ids = list(rest[: min(left, self._room(request))])
            left -= len(request.spec_token_ids)

    def _room(self, request: Any) -> int:
        """Return the number of tokens of a draft that a request has room for in one step."""
        tokens = request.num_tokens
        limit = min(request.num_prompt_tokens + request.max_tokens, self.max_model_len)
        return int(max(0, min(limit - tokens - 1, MAX_SPEC_LEN)))

    def make_spec_decoding_stats(
        self,
        spec_decoding_stats: Any,
        num_draft_tokens: int,
        num_accepted_tokens: int,
        *_: Any,
        **__: Any,
    ) -> Any:
        """Add to vLLM's statistics, except those by position, which have one position only."""
        if not self.log_stats or not num_draft_tokens:
            return spec_decoding_stats
        stats = spec_decoding_stats or SpecDecodingStats.new(self.num_spec_tokens)
        stats.num_drafts += 1
        stats.num_draft_tokens += num_draft_tokens
        stats.num_accepted_tokens += num_accepted_tokens
        return stats


class NoProposer:
    """A proposer for vLLM's worker that proposes nothing, because the scheduler has the drafts."""

    def __init__(self, vllm_config: Any) -> None:
        pass

    def load_model(self, *_: Any, **__: Any) -> None:
        """Load nothing."""

    def propose(self, sampled_token_ids: Sequence[Any], *_: Any, **__: Any) -> list[list[int]]:
        """Return an empty draft for each request."""
        return [[] for _ in sampled_token_ids]


class DraftWorker:
    """Methods that are added to vLLM's worker."""

    model_runner: Any

    def use_draft_bias(self) -> None:
        """Have the rejection sampler accept the next tokens of a draft that are nearly as good."""
        sampler = self.model_runner.rejection_sampler
        plain = sampler.apply_logits_processors

        def biased(logits: Any, sampling_metadata: Any, metadata: Any) -> Any:
            logits = plain(logits, sampling_metadata, metadata)
            return lean(logits, self._biases(), metadata.num_draft_tokens, metadata.draft_token_ids)

        sampler.apply_logits_processors = biased

    def _biases(self) -> list[float]:
        """Return the bias of each request of the step: 0 after its output has left the draft."""
        runner = self.model_runner
        found = []
        for id in runner.input_batch.req_ids:
            request = runner.requests[id]
            found.append(0.0 if request.output_token_ids else draft_of(request.sampling_params)[1])
        return found


def lean(logits: Any, biases: Sequence[float], counts: Sequence[int], draft: Any) -> Any:
    """Raise the logit of each token of a draft that is nearly as probable as the best one.

    :param logits: of shape (tokens of all drafts, vocabulary); changed
    :param biases: of each request
    :param counts: number of tokens of each request's draft
    :param draft: ids of the tokens of all drafts
    """
    if not any(biases):
        return logits
    rows = [bias for bias, count in zip(biases, counts, strict=True) for _ in range(count)]
    bias = torch.tensor(rows, dtype=logits.dtype).to(logits.device)
    ids = draft.long().clamp(min=0).unsqueeze(1)  # -1 is padding, of requests without a bias
    probabilities = logits.softmax(dim=-1)
    near = probabilities.gather(1, ids).squeeze(1) + bias >= probabilities.amax(dim=-1)
    raised = logits.gather(1, ids).squeeze(1).masked_fill(near & (bias > 0), torch.inf)
    return logits.scatter_(1, ids, raised.unsqueeze(1))


def why_unsupported() -> str | None:
    """Return why this version of vLLM cannot check drafts, or None if it can."""
    used = {
        Scheduler: ("_update_after_schedule", "update_draft_token_ids", "make_spec_decoding_stats"),
        KVCacheManager: ("allocate_slots",),
        RejectionSampler: ("apply_logits_processors",),
    }
    for kind, names in used.items():
        for name in names:
            if not hasattr(kind, name):
                return f"its {kind.__name__} has no {name}"
    wanted = ["self", "logits", "sampling_metadata", "metadata"]
    if [*inspect.signature(RejectionSampler.apply_logits_processors).parameters] != wanted:
        return "its rejection sampler takes other arguments"
    return None


def pays() -> bool:
    """Tell whether this is a GPU on which checking drafts has measured best."""
    capability = current_platform.get_device_capability() if current_platform.is_cuda() else None
    return capability is not None and capability.major == HOPPER


def options() -> Mapping[str, Any]:
    """Return the arguments of ``AsyncEngineArgs`` with which vLLM checks drafts."""
    # One token counts for vLLM's buffers; drafts are longer.
    given: dict[str, Any] = {
        "scheduler_cls": f"{__name__}.DraftScheduler",
        "worker_extension_cls": f"{__name__}.DraftWorker",
        "speculative_config": {
            "method": "custom_class",
            "model": f"{__name__}.NoProposer",
            "num_speculative_tokens": 1,
        },
    }
    if pays():
        graphs = {"cudagraph_mode": "FULL", "max_cudagraph_capture_size": GRAPH_TOKENS}
        given["compilation_config"] = graphs
    return given
