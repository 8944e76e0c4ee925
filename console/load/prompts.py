"""Prompts of about so many tokens, out of words that most vocabularies know as one token each.

A generator without the model's tokenizer cannot count exactly; the summary reports what the server counted.
"""

from __future__ import annotations

from random import Random

_WORDS = """
time people way water day man world life hand part place week case point company number group problem fact house
area money story month right study book eye job word business issue side kind head service friend father power hour
game line end member law car city name team minute idea body information back parent face level office door health
person art war history party result change morning reason research moment air teacher
""".split()  # noqa: SIM905  # a list of so many literals would be a page


def words(count: int, random: Random) -> str:
    """So many words, about one token each."""
    return " ".join(random.choices(_WORDS, k=max(1, count)))


def shared_prefixes(count: int, tokens: int, seed: int) -> list[str]:
    """System prompts that calls share; the same for the same seed, each different from its first words on."""
    return [f"Context {number}: {words(tokens, Random(f'{seed}/prefix/{number}'))}" for number in range(count)]
