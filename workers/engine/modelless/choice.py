"""One choice of a call as its deltas: where it stops, what text may go out, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from control_plane.contracts.errors import DropReason, InvalidRequest
from control_plane.contracts.worker import Delta, Finish, FinishReason, Generate, TokenLogprob
from workers.engine.modelless.answer import Steps, token_logprob
from workers.engine.modelless.script import Script
from workers.engine.modelless.text import TextStream
from workers.engine.modelless.tokenizer import ByteTokenizer


def output_room(call: Generate, max_context: int, vocab_size: int) -> int:
    """How many tokens a choice may get: what it asked for, or what the context leaves. Raises InvalidRequest."""
    prompt = call.prompt_token_ids
    room = max_context - len(prompt) + call.resumed
    if room < 1:
        raise InvalidRequest(
            f"the prompt has {len(prompt)} tokens, the model's context is {max_context}",
            reason=DropReason.CONTEXT_LENGTH_EXCEEDED,
            param="prompt",
        )
    if not prompt or max(prompt) >= vocab_size:
        raise InvalidRequest("the prompt has no tokens, or one that the model does not know", param="prompt")
    return min(call.sampling.max_tokens, room)


def asked(call: Generate) -> Generate:
    """The call as it was before any of its answer: what the answer is made from."""
    if not call.resumed:
        return call
    return replace(call, prompt_token_ids=list(call.prompt_token_ids)[: -call.resumed], resumed=0)


@dataclass(slots=True, eq=False)
class AnsweredChoice:
    """``steps`` are its tokens step by step, ``limit`` the most of them, ``count`` those that have come.

    ``tokens`` gets every token that comes. ``plain`` is a choice whose every token goes out as it comes: it gets the
    short way through ``advance``.
    """

    generate: Generate
    script: Script
    index: int
    steps: Steps
    text: TextStream
    tokenizer: ByteTokenizer
    limit: int
    tokens: list[int]
    at: int = 0
    count: int = 0
    ended: bool = False
    held: Delta | None = None
    plain: bool = field(init=False)

    def __post_init__(self) -> None:
        asked = self.generate.sampling
        self.plain = self.generate.stream and asked.logprobs is None and not (asked.stop or asked.stop_token_ids)

    @property
    def deadly(self) -> bool:
        """Whether its script kills here: where the answer began, unless it says again and again."""
        return self.script.deadly and (not self.generate.resumed or self.script.die_again)

    def resume(self) -> None:
        """Go on after what was said elsewhere: take its steps, and say nothing."""
        while self.count < self.generate.resumed and self.at < len(self.steps) - 1:
            self.advance()

    def advance(self) -> Delta:
        """The delta of the next step; the last one has ``finish`` set."""
        generate = self.generate
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
            reason = FinishReason.LENGTH if self.script.finish == "length" else FinishReason.STOP
            finish = Finish(reason, self.count)
        if finish is not None and self.text.stopped is None:
            parts += self.text.finish()
        logprobs: tuple[TokenLogprob, ...] = ()
        if sampling.logprobs is not None:
            logprobs = tuple(token_logprob(tokenizer, token, sampling.logprobs) for token in taken)
        return self._deliver(Delta(generate.call, taken, parts, self.index, logprobs, finish))

    def _deliver(self, delta: Delta) -> Delta:
        """For a call that does not stream, everything so far goes into the one delta of the end."""
        if self.generate.stream:
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
