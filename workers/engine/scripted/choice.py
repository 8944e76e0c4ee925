"""One choice of one call inside the scripted engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from control_plane.contracts.worker import Delta, Finish, FinishReason, Generate, TokenLogprob
from workers.engine.base import Sink
from workers.engine.scripted.answer import Steps, token_logprob
from workers.engine.scripted.blocks import Block
from workers.engine.scripted.script import Script
from workers.engine.scripted.text import TextStream
from workers.engine.scripted.tokenizer import ByteTokenizer


@dataclass(slots=True, eq=False)
class Call:
    """A call that was submitted, and what its choices have used so far. ``*_mono`` is ``time.monotonic()``."""

    generate: Generate
    script: Script
    sink: Sink
    received_unix: float
    received_mono: float
    choices: list[Choice] = field(default_factory=list)
    cached_tokens: int = 0
    preemptions: int = 0
    scheduled_mono: float = 0.0
    first_mono: float = 0.0

    @property
    def open(self) -> int:
        return sum(not choice.ended for choice in self.choices)

    @property
    def output_tokens(self) -> int:
        return sum(choice.count for choice in self.choices)


@dataclass(slots=True, eq=False)
class Choice:
    """Its tokens (prompt and output), its blocks, and how far its script has come.

    ``order`` sorts the waiting; ``ticket`` is the number of its next turn, so that older ones are known to be stale.
    With ``grow_at`` tokens a block is full, or one more is needed. ``plain`` is a choice whose every token goes out as
    it comes: it gets the short way through ``advance``.
    """

    call: Call
    index: int
    steps: Steps
    text: TextStream
    tokenizer: ByteTokenizer
    limit: int
    order: tuple[int, int]
    tokens: list[int]
    keys: list[int]
    blocks: list[Block] = field(default_factory=list)
    at: int = 0
    count: int = 0
    ticket: int = 0
    due: float = 0.0
    grow_at: int = 0
    begun: bool = False
    running: bool = False
    ended: bool = False
    stalled: bool = False
    held: Delta | None = None
    plain: bool = field(init=False)

    def __post_init__(self) -> None:
        generate = self.call.generate
        asked = generate.sampling
        self.plain = generate.stream and asked.logprobs is None and not (asked.stop or asked.stop_token_ids)

    def advance(self) -> Delta:
        """The delta of the next step; the last one has ``finish`` set."""
        generate = self.call.generate
        sampling, tokenizer = generate.sampling, self.tokenizer
        step = self.steps[self.at]
        self.at += 1
        if self.plain and len(step) == 1 and self.at < len(self.steps) and not self.text.waiting:
            token = step[0]
            text = tokenizer.text_of[token]
            if text and self.count + 1 < self.limit:
                self.count += 1
                self.tokens.append(token)
                return Delta(generate.call, step, text, self.index)
        taken: list[int] = []
        parts = ""
        finish: Finish | None = None
        for token in step:
            taken.append(token)
            count = self.count + len(taken)
            if token in sampling.stop_token_ids and count > sampling.min_tokens:
                finish = Finish(FinishReason.STOP, count, stop_token_id=token)
                break
            if token == tokenizer.eos_id and not sampling.ignore_eos and count > sampling.min_tokens:
                finish = Finish(FinishReason.STOP, count)
                break
            parts += self.text.push(tokenizer.bytes_of[token], tokenizer.text_of[token], count > sampling.min_tokens)
            if self.text.stopped is not None:
                finish = Finish(FinishReason.STOP, count, stop_text=self.text.stopped)
                break
            if count >= self.limit:
                finish = Finish(FinishReason.LENGTH, count)
                break
        self.count += len(taken)
        self.tokens.extend(taken)
        if finish is None and self.at == len(self.steps):
            reason = FinishReason.LENGTH if self.call.script.finish == "length" else FinishReason.STOP
            finish = Finish(reason, self.count)
        if finish is not None and self.text.stopped is None:
            parts += self.text.finish()
        logprobs: tuple[TokenLogprob, ...] = ()
        if sampling.logprobs is not None:
            logprobs = tuple(token_logprob(tokenizer, token, sampling.logprobs) for token in taken)
        return self._deliver(Delta(generate.call, taken, parts, self.index, logprobs, finish))

    def _deliver(self, delta: Delta) -> Delta:
        """For a call that does not stream, everything so far goes into the one delta of the end."""
        if self.call.generate.stream:
            return delta
        held = self.held
        if held is None:
            self.held = delta
            return delta
        assert isinstance(held.token_ids, list)
        held.token_ids.extend(delta.token_ids)
        held.text += delta.text
        held.logprobs += delta.logprobs
        held.finish = delta.finish
        return held
