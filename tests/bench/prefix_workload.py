"""The chats that ``prefix_routing`` replays, word for word those that peers were measured on.

60 conversations of 5 turns in a seeded order; 12 system prompts of 1,500 words, which begin alike; each turn's prompt
is all that was said before, and a new message. A word is a token here.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from control_plane.contracts.block_hash import block_hashes

PREAMBLE = 24


def _vocabulary() -> list[str]:
    dice = random.Random(1234)
    consonants, vowels = "bcdfghklmnprstvz", "aeiou"
    return sorted(
        {
            "".join(dice.choice(consonants) + dice.choice(vowels) for _ in range(dice.choice((1, 2, 2, 3))))
            for _ in range(6000)
        }
    )


_WORDS = _vocabulary()
_MARKS = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
_IDS = {word: number for number, word in enumerate((*_MARKS, *_WORDS), 100)}


@dataclass(slots=True)
class Conversation:
    """``turns``: (what the user says, how long the answer is in tokens)."""

    system: list[str]
    turns: list[tuple[list[str], int]]
    said: list[str] = field(default_factory=list)
    next: int = 0

    def prompt(self) -> tuple[list[int], list[int]]:
        """The next turn: its prompt and its answer, as token ids. The conversation goes on from there."""
        if not self.said:
            self.said = ["<|system|>", *self.system, "<|end|>"]
        user, length = self.turns[self.next]
        self.next += 1
        self.said += ["<|user|>", *user, "<|end|>"]
        words = [*self.said, "<|assistant|>"]
        answer = _answer(words, length)
        self.said += ["<|assistant|>", *answer, "<|end|>"]
        return ids_of(words), ids_of(answer)


def ids_of(words: Sequence[str]) -> list[int]:
    """Token ids: any, but the same for the same word."""
    return [_IDS[word] for word in words]


def _answer(words: Sequence[str], length: int) -> list[str]:
    """The same for the same prompt."""
    dice = random.Random(hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest())
    return [_WORDS[dice.randrange(len(_WORDS))] for _ in range(length)]


def workload(
    seed: int = 7,
    conversations: int = 60,
    turns: int = 5,
    systems: int = 12,
    system_tokens: int = 1500,
    user_tokens: tuple[int, int] = (40, 140),
    answer_tokens: tuple[int, int] = (40, 120),
) -> tuple[list[Conversation], list[int]]:
    """The conversations, and whose turn it is when."""
    dice = random.Random(seed)

    def pick(count: int) -> list[str]:
        return [dice.choice(_WORDS) for _ in range(count)]

    preamble = pick(PREAMBLE)
    prompts = [[*preamble, *pick(system_tokens - PREAMBLE)] for _ in range(systems)]
    made = [
        Conversation(
            prompts[number % systems],
            [(pick(dice.randint(*user_tokens)), dice.randint(*answer_tokens)) for _ in range(turns)],
        )
        for number in range(conversations)
    ]
    dice.shuffle(made)
    order = [number for number in range(conversations) for _ in range(turns)]
    dice.shuffle(order)
    return made, order


def working_set(block_size: int, **sizes: object) -> int:
    """How many different blocks the whole workload fills."""
    made, order = workload(**sizes)  # type: ignore[arg-type]
    seen: set[int] = set()
    for number in order:
        prompt, answer = made[number].prompt()
        seen.update(block_hashes([*prompt, *answer], block_size))
    return len(seen)


def best_hits(turns: Sequence[tuple[Sequence[int], Sequence[int]]], block_size: int) -> float:
    """The share of prompt tokens that one cache without bounds would have, if the turns (prompt, answer) came one after
    the other: no routing over any number of workers can do better."""
    seen: set[int] = set()
    hits = tokens = 0
    for prompt, answer in turns:
        names = block_hashes(prompt, block_size)
        found = next((at for at, name in enumerate(names) if name not in seen), len(names))
        hits += min(found, (len(prompt) - 1) // block_size) * block_size
        tokens += len(prompt)
        seen.update(block_hashes([*prompt, *answer], block_size))
    return hits / tokens
