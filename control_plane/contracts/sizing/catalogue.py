"""Models whose published ``config.json`` ships with the package, one TOML file each under ``models/``.

Every file names the page that its figures were read from. Only the fields that sizes follow from are kept.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from control_plane.contracts.errors import NotFound
from control_plane.contracts.sizing.config_fields import Config
from control_plane.contracts.sizing.config_json import shape_from_config
from control_plane.contracts.sizing.model_shape import ModelShape
from control_plane.contracts.sizing.nearest import nearest
from control_plane.contracts.sizing.number_format import NumberFormat


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """``repo`` is its id on the Hugging Face hub, ``source`` the page with the config.

    ``also`` are its makers' other models of the same shape.
    """

    name: str
    repo: str
    also: tuple[str, ...]
    source: str
    config: Config

    def shape(self, weights: NumberFormat | None = None) -> ModelShape:
        return shape_from_config(self.config, self.name, weights)


@cache
def published_models() -> tuple[PublishedModel, ...]:
    """All of them, by name."""
    found = []
    for entry in files("control_plane.contracts.sizing.models").iterdir():
        if entry.name.endswith(".toml"):
            values = tomllib.loads(entry.read_text(encoding="utf-8"))
            also = tuple(values.get("also", ()))
            found.append(PublishedModel(values["name"], values["repo"], also, values["source"], values["config"]))
    return tuple(sorted(found, key=lambda model: model.name.lower()))


def published_model(name: str) -> PublishedModel:
    """By name or its makers' hub id, in any case, or by a beginning that only one has.

    Raises NotFound with the nearest names.
    """
    owner, _, wanted = name.strip().lower().rpartition("/")
    models = published_models()
    theirs = [model for model in models if not owner or owner == model.repo.split("/")[0].lower()]
    found = [model for model in theirs if wanted in _names(model)]
    if not found and wanted and not owner:
        found = [model for model in theirs if any(each.startswith(wanted) for each in _names(model))]
    if len(found) == 1:
        return found[0]
    close = nearest(name, [model.name for model in models])
    raise NotFound(
        f"model {name!r} is neither known here nor on this machine; nearest: {', '.join(close)}",
        param="model",
        hint="inferdeck plan --list",
    )


def _names(model: PublishedModel) -> set[str]:
    return {known.rsplit("/", 1)[-1].lower() for known in (model.name, model.repo, *model.also)}
