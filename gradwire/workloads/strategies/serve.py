"""Serving a language model with prefill and decoding apart: the plan is that of workloads/engines/serving/serving_plan.py.

Sources: Zhong et al., DistServe, OSDI 2024 (instances that prefill and others that decode, with a transfer of caches between them); Patel
et al., Splitwise, ISCA 2024 (transfers layer by layer); Yu et al., Orca, OSDI 2022 (continuous batching); DeepSeek-V3 Technical Report,
2024, section 3.4 (experts divided among replicas that decode).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.serving.deployment import Deployment
from gradwire.workloads.engines.serving.model_work import EXPERTS, ModelWork
from gradwire.workloads.engines.serving.requests import (
    MOST_REQUESTS,
    MOST_TOKENS,
    Arrivals,
    Request,
    drawn_requests,
    recorded_requests,
)
from gradwire.workloads.engines.serving.serving_plan import Service, ServingPlan
from gradwire.workloads.fields import DurationS
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import Options, Strategy

Format = Literal["bf16", "fp16", "fp8"]
FORMAT_BYTES: Mapping[Format, int] = {"bf16": 2, "fp16": 2, "fp8": 1}


class ServingOptions(Options):
    """Options for who prefills and who decodes, and what is asked of them."""

    prefill: int = Field(1, ge=0, le=10_000)
    """Instances that prefill, on the first workers. 0: requests arrive with their caches where they are decoded."""
    prefill_tensor: int = Field(1, ge=1, le=10_000)
    """Workers of an instance that prefills; they share every product."""
    decode: int = Field(1, ge=1, le=10_000)
    """Instances that decode, on the workers behind those."""
    decode_tensor: int = Field(1, ge=1, le=10_000)
    """Workers of each replica that decodes; they share every product."""
    decode_experts: int = Field(1, ge=1, le=10_000)
    """Replicas of each instance that decodes, which have batches of their own and divide a mixture's experts among them."""
    requests: int = Field(32, ge=1, le=MOST_REQUESTS)
    """Requests of an iteration; of a trace, the first ones."""
    rate: float | None = Field(None, gt=0, le=1e9)
    """Requests that arrive per second, over all instances. Unset: all arrive at once."""
    arrivals: Arrivals = "poisson"
    """Times between arrivals: drawn from `run.seed` as a Poisson process has them, or "even"."""
    prompt_tokens: int = Field(512, ge=1, le=MOST_TOKENS)
    """Tokens of each prompt."""
    output_tokens: int = Field(16, ge=1, le=MOST_TOKENS)
    """Tokens of each answer. The first one is there with the end of the prefill."""
    request_trace: str | None = None
    """A CSV file of requests in place of `rate`, `prompt_tokens` and `output_tokens`, with columns arrival_s, prompt_tokens and
    output_tokens, or those of Azure's public traces: TIMESTAMP, ContextTokens and GeneratedTokens."""
    batch: int = Field(256, ge=1, le=1_000_000)
    """Most requests that a replica adds a token to in one step."""
    cache_transfer: Literal["by-layer", "whole"] = "by-layer"
    """Whether the keys and values of each layer are sent as soon as they are computed, or all of them behind the prefill."""
    weights: Format = "bf16"
    """Format of the weights, which a step reads from memory."""
    cache: Format = "bf16"
    """Format of keys and values."""
    dispatch: Format = "fp8"
    """Format in which tokens go to experts."""
    combine: Format = "bf16"
    """Format in which they come back."""
    route_shared: bool = False
    """Whether tokens also go over the network to an expert that all of them share, as in DeepSeek-V3's deployment."""
    step_time: DurationS | None = Field(None, ge=0)
    """Time that a worker computes in a step of decoding. Unset: the longer of computing it, and reading weights and caches from memory."""
    priorities: bool = False
    """Whether the network serves the messages of decoding, which computation waits for, before caches."""

    @model_validator(mode="after")
    def _one_source_of_requests(self) -> Self:
        given = self.model_fields_set & {"rate", "arrivals", "prompt_tokens", "output_tokens"}
        if self.request_trace is not None and given:
            raise ValueError(f"request_trace: has arrivals and lengths: leave out {', '.join(sorted(given))}")
        return self


def _requests(job: Job, options: ServingOptions) -> list[Request]:
    if options.request_trace is not None:
        return recorded_requests(Path(options.request_trace), options.requests)
    lengths = (options.prompt_tokens, options.output_tokens)
    return drawn_requests(options.requests, options.rate, options.arrivals, lengths, job.seed)


def _compile(job: Job, options: ServingOptions) -> Mapping[str, Plan]:
    if job.memory_bytes_per_s is None and options.step_time is None:
        raise InputFault(
            "strategy.options.step_time: missing: the rate of this device's memory is not known; take a device such as h100, or say how "
            "long a step of decoding computes"
        )
    service = Service(
        deployment=Deployment(
            options.prefill, options.prefill_tensor, options.decode, options.decode_tensor, options.decode_experts
        ),
        requests=_requests(job, options),
        batch=options.batch,
        by_layer=options.cache_transfer == "by-layer",
        dispatch_bytes=FORMAT_BYTES[options.dispatch],
        combine_bytes=FORMAT_BYTES[options.combine],
        route_shared=options.route_shared,
        step_s=options.step_time,
        memory_bytes_per_s=job.memory_bytes_per_s or float("inf"),
        cache_class=int(options.priorities),
    )
    return {"serve": ServingPlan(job, "serve", _work(job, options), service).compile()}


def _work(job: Job, options: ServingOptions) -> ModelWork:
    return ModelWork(job, weight_bytes=FORMAT_BYTES[options.weights], cache_bytes=FORMAT_BYTES[options.cache])


def serving_memory_bytes(job: Job, options: ServingOptions) -> tuple[float, float]:
    """Bytes of weights and of caches of the worker that needs most. Caches are those of whole requests, as many as a replica decodes at
    once if all of its requests meet; of a trace, whose lengths are not known before it is read, they are left out."""
    layers, size_bytes = job.profile.layers, FORMAT_BYTES[options.weights]
    of_experts = sum(layer.parameters for layer in layers if layer.name.endswith(EXPERTS))
    others = job.profile.parameters - of_experts
    decoding = (others + of_experts / options.decode_experts) / options.decode_tensor * size_bytes
    work = _work(job, options)
    together = min(options.batch, -(-options.requests // (options.decode * options.decode_experts)))
    tokens = 0 if options.request_trace else together * (options.prompt_tokens + options.output_tokens)
    cache = tokens * work.attention_layers * work.cache_bytes / (options.decode_tensor if work.divides_cache else 1)
    prefilling = job.profile.parameters / options.prefill_tensor * size_bytes if options.prefill else 0.0
    return (prefilling, 0.0) if prefilling > decoding + cache else (decoding, cache)


STRATEGIES = (
    Strategy(
        name="serve",
        summary="inference in place of training: prefill and decoding apart, with transfers of caches, tensor and expert parallelism",
        source="Zhong et al., DistServe, OSDI 2024; Patel et al., Splitwise, ISCA 2024; DeepSeek-V3 2024, section 3.4",
        options=ServingOptions,
        compile=_compile,
        classes=lambda options: 2 if options.priorities else 1,
        needs_servers=False,
        trains=False,
    ),
)
