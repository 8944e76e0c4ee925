from __future__ import annotations

import re

from prometheus_client import CollectorRegistry, Gauge

from control_plane.contracts.grant import Grant
from control_plane.gateway.figures import Figures
from control_plane.gateway.metrics_api import metrics_text


def seen(registry: CollectorRegistry, grant: Grant) -> tuple[set[str], str]:
    """The models that are told of, and all of it."""
    text = metrics_text(registry, grant).decode()
    return set(re.findall(r'model="([^"]*)"', text)), text


def test_a_key_sees_the_figures_of_the_models_that_it_may_call() -> None:
    registry, figures = CollectorRegistry(), Figures()
    registry.register(figures)
    for name in ("a", "b", "c"):
        figures.model(name).prompt_tokens += 7
        figures.model(name).ttft.add(0.1)
    figures.responses["chat", 200] += 3
    Gauge("others_of_models", "Of some other part.", ["model"], registry=registry).labels("b").set(1)
    models, text = seen(registry, Grant("k", models=("a", "c", "nope")))
    assert models == {"a", "c"}
    assert 'inferdeck_gateway_responses_total{route="chat",status="200"} 3.0' in text
    assert 'inferdeck_gateway_prompt_tokens_total{model="a"} 7.0' in text
    models, text = seen(registry, Grant("scraper"))
    assert models == {"a", "b", "c"}
    assert 'others_of_models{model="b"} 1.0' in text


def test_what_one_key_does_not_see_the_next_one_does() -> None:
    registry, figures = CollectorRegistry(), Figures()
    registry.register(figures)
    figures.model("a").prompt_tokens += 1
    assert seen(registry, Grant("k", models=("b",)))[0] == set()
    assert seen(registry, Grant("k", models=("a",)))[0] == {"a"}
