"""Several control planes, and gateways of each, on one PostgreSQL."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from control_plane.contracts.access import KeySpec
from control_plane.contracts.errors import Unavailable
from tests.integration.fleet.rig import CONFIG, Deck, alive
from tests.integration.fleet.test_access import comes_to, status
from tests.postgres import Postgres

PASSWORD = "SENTINEL4"


@pytest.fixture
def decks(tmp_path: Path, postgres: Postgres) -> Iterator[tuple[Deck, Deck]]:
    """Two homes with two gateways each, on a new database; not started."""
    url = postgres.new_database().replace("postgres@", f"postgres:{PASSWORD}@")
    config = CONFIG.replace("port = 0\n[api]", f'port = 0\nreplicas = 2\n[store]\nurl = "{url}"\n[api]')
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(Deck(tmp_path / name, 1, config))
    yield made[0], made[1]
    for deck in made:
        deck.clean_up()


def printed_settings(deck: Deck) -> str:
    arguments = ["settings", "--home", str(deck.home), "--config", str(deck.config)]
    command = [sys.executable, "-m", "control_plane", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def test_two_platforms_on_one_database_share_keys_and_policy_and_nothing_of_their_fleets(
    decks: tuple[Deck, Deck],
) -> None:
    """SE05: the password of the database is in no log, process argument, answer or print of the settings."""
    one, two = decks
    await asyncio.gather(one.start(), two.start())
    urls = [url for deck in decks for url in deck.state()["gateway_urls"]]
    assert len(urls) == 4
    first = (one.home / "api.key").read_text().strip()
    async with one.operator() as mine, two.operator() as theirs:
        assert len((await mine.access.keys()).keys) == 2, "each home has its own first key"
        made = await mine.access.create_key(KeySpec("shared", models=("tiny",)))
        for url in urls:
            await comes_to(200, url, made.key)
            assert await status(url, first) == 200
        await theirs.access.set_key("shared", ("models=other",))
        for url in urls:
            await comes_to(403, url, made.key)
        await theirs.access.revoke_key("shared")
        for url in urls:
            await comes_to(401, url, made.key)
        await mine.access.set_policy(("tenants.acme.tpm=5000",), version=0)
        assert (await theirs.access.policy()).version == 1

        await mine.cordon("tiny-1")
        assert not (await theirs.get_snapshot()).workers[0].cordoned
        shown = f"{await mine.access.audit()} {await theirs.access.keys()} {await mine.get_snapshot()}"
    assert await two.stop() == 0
    await two.start()
    async with two.operator() as theirs:
        again = await theirs.get_snapshot()
        assert not again.workers[0].cordoned
        assert len((await theirs.access.keys()).keys) == 3, "the first key was made once"
    async with one.operator() as mine:
        assert (await mine.get_snapshot()).workers[0].cordoned

    pids = [pid for deck in decks for pid in deck.seen_pids if alive(pid)]
    assert len(pids) > 6
    arguments = [" ".join(psutil.Process(pid).cmdline()) for pid in pids]
    settings = await asyncio.to_thread(printed_settings, one)
    assert "store.url" in settings
    logs = [path.read_text() for deck in decks for path in (deck.home / "logs").iterdir()]
    for text in (*arguments, *logs, one.said, two.said, settings, shown):
        assert PASSWORD not in text
    assert [await deck.stop() for deck in decks] == [0, 0]


async def test_keys_work_on_while_the_database_is_away_and_the_homes_operator_too(
    decks: tuple[Deck, Deck], postgres: Postgres
) -> None:
    deck = decks[0]
    await deck.start()
    key = (deck.home / "api.key").read_text().strip()
    assert await status(deck.url, key) == 200
    postgres.stop()
    try:
        assert await status(deck.url, key) == 200
        async with deck.operator() as home:
            assert (await home.get_snapshot()).workers
            with pytest.raises(Unavailable, match="the store does not answer"):
                await home.access.create_key(KeySpec("during"))
    finally:
        postgres.start()
    await comes_to(200, deck.url, key)
    async with deck.operator() as home:
        made = await home.access.create_key(KeySpec("after"))
        await comes_to(200, deck.url, made.key)
    assert await deck.stop() == 0
