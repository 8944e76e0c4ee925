"""What the platform teaches, concept by concept; lessons name them by number, from 1."""

from __future__ import annotations

from typing import Final

CONCEPTS: Final = (
    "A different clock",
    "The API looks normal",
    "Two kinds of request, four stages",
    "Cancel when the client leaves",
    "The metrics that matter",
    "Two bottlenecks",
    "KV cache is working memory",
    "Gateway, router, workers",
    "Protect before a request enters",
    "One request is not one request",
    "Not every caller is the same",
    "Stateless router",
    "Model selection",
    "Worker selection",
    "Reuse the prefix",
    "Drop the sick worker",
    "Admission control",
    "Inside the worker",
    "More than one GPU",
    "Prefill against decode",
    "Continuous batching",
    "Paged attention",
    "Tokens go out as they are born",
    "HTTPS outside, gRPC inside",
    "What is durable",
    "Autoscaling",
    "Operate it",
    "The whole system",
)
