from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.scheduling.since_sample import KEPT_S, SinceSample


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(-500, 500), st.integers(-3, 3)), max_size=40),
    st.floats(0, 40),
)
def test_it_is_what_happened_after_the_sample(steps: list[tuple[float, int, int]], sampled: float) -> None:
    since, at, changes = SinceSample(), 0.0, []
    for gap, tokens, sequences in steps:
        at += gap
        since.add(at, tokens, sequences)
        changes.append((at, tokens, sequences))
    since.forget(sampled)
    kept = [change for change in changes if change[0] > max(sampled, at - KEPT_S)]
    assert since.tokens == sum(tokens for _, tokens, _ in kept)
    assert since.sequences == sum(sequences for _, _, sequences in kept)


def test_without_samples_it_does_not_grow_for_ever() -> None:
    since = SinceSample()
    for number in range(10_000):
        since.add(number * 0.01, 1, 1)
    assert since.sequences <= KEPT_S / 0.01
