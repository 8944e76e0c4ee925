"""What a simulated model says: sentences of common words, as long as an answer is, the same for the same seed."""

from __future__ import annotations

import math
import random

from control_plane.contracts.worker import Generate
from workers.engine.modelless.answer import Answers, Steps
from workers.engine.modelless.script import Script
from workers.engine.modelless.tokenizer import WORDS, ByteTokenizer

_SPREAD = 0.6  # of the logarithm of an answer's length: one in six is 1.8 times the median or more
_SENTENCE = (5, 14)


class SimAnswers(Answers):
    """``median_tokens``: of answers that end by themselves, their end token included."""

    def __init__(self, tokenizer: ByteTokenizer, median_tokens: int) -> None:
        super().__init__(tokenizer, median_tokens)
        self._median = median_tokens
        self._inner = [[(token,) for token in tokenizer.encode(" " + word)] for word in WORDS]
        self._first = [[(token,) for token in tokenizer.encode(word)] for word in WORDS]
        self._stop = [(token,) for token in tokenizer.encode(".")]

    def invented(self, generate: Generate, script: Script, choice: int) -> Steps:
        """Sampled calls differ by their seed, or else by their request id; greedy ones by their prompt alone."""
        sampling = generate.sampling
        source: int | str | None = sampling.seed
        if source is None:
            source = "" if sampling.temperature == 0 else generate.request_id
        dice = random.Random(f"{source}/{choice}/{hash(tuple(generate.prompt_token_ids))}")
        most = sampling.max_tokens
        if script.tokens is not None or sampling.ignore_eos:
            return self._sentences(dice, max(1, min(script.tokens or most, most)))
        natural = max(2, round(self._median * math.exp(dice.gauss(0.0, _SPREAD))), sampling.min_tokens + 1)
        if natural > most:
            return self._sentences(dice, most)
        return [*self._sentences(dice, natural - 1), (self.tokenizer.eos_id,)]

    def _sentences(self, dice: random.Random, tokens: int) -> Steps:
        steps: Steps = [*dice.choice(self._first)]
        left = dice.randint(*_SENTENCE)
        for word in dice.choices(self._inner, k=tokens):
            steps += word
            left -= 1
            if not left:
                steps += self._stop
                left = dice.randint(*_SENTENCE)
            if len(steps) >= tokens:
                break
        return steps[:tokens]
