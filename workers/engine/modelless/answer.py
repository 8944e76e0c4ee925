"""The tokens of an answer, step by step, and the log-probabilities that go with them."""

from __future__ import annotations

import itertools
import random
from functools import partial

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.worker import Generate, TokenLogprob
from workers.engine.modelless.json_value import any_object, value_of
from workers.engine.modelless.script import Script
from workers.engine.modelless.tokenizer import WORDS, ByteTokenizer

Steps = list[tuple[int, ...]]


class Answers:
    """Makes the tokens of every answer. ``default_tokens`` is the length where neither script nor request says one."""

    def __init__(self, tokenizer: ByteTokenizer, default_tokens: int) -> None:
        self.tokenizer = tokenizer
        self._default_tokens = default_tokens
        words = [tokenizer.encode(" " + word) for word in WORDS]
        self._words: list[Steps] = [[(token,) for token in word] for word in words]

    def steps(self, generate: Generate, script: Script, choice: int) -> Steps:
        """The token ids of each step. At least one step with one token: a model always says something. What a script
        says is said; what is invented is held to the call's response format. Raises InvalidRequest for one that cannot
        be followed."""
        tokenizer, sampling = self.tokenizer, generate.sampling
        if script.bytes is not None:
            steps = [tuple(tokenizer.encode_bytes(_unhex(piece))) for piece in script.bytes]
        elif script.pieces is not None:
            steps = [tuple(tokenizer.encode(piece)) for piece in script.pieces]
        elif script.text is not None:
            steps = [(token,) for token in tokenizer.encode(script.text)]
        elif sampling.json_object or sampling.json_schema is not None:
            return self._held(generate, script, choice)
        elif sampling.regex is not None:
            raise InvalidRequest("this engine has no model, and cannot follow a regular expression", param="regex")
        else:
            return self.invented(generate, script, choice)
        steps = [step for step in steps if step] or [(tokenizer.eos_id,)]
        return steps if script.tokens is None else _exactly(steps, script.tokens)

    def _held(self, generate: Generate, script: Script, choice: int) -> Steps:
        """JSON, and then spaces until it is long enough; the same for the same prompt, seed and choice."""
        sampling, tokenizer = generate.sampling, self.tokenizer
        dice = random.Random(hash((tuple(generate.prompt_token_ids), sampling.seed or 0, choice)))
        word = partial(dice.choice, WORDS)
        text = any_object(word) if sampling.json_schema is None else value_of(sampling.json_schema, word)
        tokens = tokenizer.encode(text)
        wanted = script.tokens if script.tokens is not None else sampling.min_tokens
        tokens += tokenizer.encode_bytes(b" " * (min(wanted, sampling.max_tokens) - len(tokens)))
        steps: Steps = [(token,) for token in tokens]
        return [*steps, (tokenizer.eos_id,)] if script.tokens is None else steps[: max(1, script.tokens)]

    def invented(self, generate: Generate, script: Script, choice: int) -> Steps:
        """Common words: the same for the same prompt, seed and choice."""
        sampling = generate.sampling
        wanted = self._default_tokens if script.tokens is None else script.tokens
        if sampling.ignore_eos and script.tokens is None:
            wanted = sampling.max_tokens
        wanted = max(1, min(max(wanted, sampling.min_tokens), sampling.max_tokens))
        dice = random.Random(hash((tuple(generate.prompt_token_ids), sampling.seed or 0, choice)))
        return list(itertools.chain.from_iterable(dice.choices(self._words, k=wanted)))[:wanted]


def token_logprob(tokenizer: ByteTokenizer, token_id: int, alternatives: int) -> TokenLogprob:
    """A plausible entry: the chosen token has half of the probability, each alternative half of the one before."""
    ids = [(token_id + step) % tokenizer.vocab_size for step in range(alternatives)]
    top = tuple(
        TokenLogprob(other, tokenizer.bytes_of[other], -_LOG_2 * (rank + 1), rank + 1) for rank, other in enumerate(ids)
    )
    return TokenLogprob(token_id, tokenizer.bytes_of[token_id], -_LOG_2, 1, top)


_LOG_2 = 0.6931471805599453


def _exactly(steps: Steps, tokens: int) -> Steps:
    """The steps over and over, cut after ``tokens`` tokens."""
    result: Steps = []
    count = 0
    while count < tokens:
        step = steps[len(result) % len(steps)][: tokens - count]
        result.append(step)
        count += len(step)
    return result or [steps[0][:1]]


def _unhex(piece: str) -> bytes:
    try:
        return bytes.fromhex(piece)
    except ValueError as error:
        raise InvalidRequest(f"bytes of a script are hexadecimal, not {piece!r}", param="script") from error
