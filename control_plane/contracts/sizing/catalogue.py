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
    """``repo`` is its id on the Hugging Face hub, ``source`` the page with the config."""

    name: str
    repo: str
    source: str
    config: Config

    def shape(self, weights: NumberFormat | None = None) -> ModelShape:
        return shape_from_config(self.config, self.name, weights)


@cache
def published_models() -> tuple[PublishedModel, ...]:
    """All of them, by name."""
    folder = files("control_plane.contracts.sizing") / "models"
    found = []
    for entry in folder.iterdir():
        if entry.name.endswith(".toml"):
            values = tomllib.loads(entry.read_text(encoding="utf-8"))
            found.append(PublishedModel(values["name"], values["repo"], values["source"], values["config"]))
    return tuple(sorted(found, key=lambda model: model.name.lower()))


def published_model(name: str) -> PublishedModel:
    """By name or hub id, in any case. Raises NotFound with the nearest names."""
    wanted = name.strip().lower()
    for model in published_models():
        if wanted in (model.name.lower(), model.repo.lower(), model.repo.split("/")[-1].lower()):
            return model
    close = nearest(name, [model.name for model in published_models()])
    raise NotFound(
        f"model {name!r} is neither known here nor on this machine; nearest: {', '.join(close)}",
        param="model",
        hint="inferdeck plan --list",
    )
