"""The way to the workers and back: one stream per worker instance, and the tokenizer's files."""

from control_plane.router.forwarder.link import WorkerLink
from control_plane.router.forwarder.tokenizer import fetch_tokenizer

__all__ = ["WorkerLink", "fetch_tokenizer"]
