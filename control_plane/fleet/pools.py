"""What is wanted: the pools of the settings, and what operators made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from control_plane.contracts.addresses import MutualTls, wants_mutual_tls
from control_plane.contracts.errors import Conflict, NotFound, SettingsError
from control_plane.contracts.identity import Peer
from control_plane.contracts.worker_spec import WorkerSpec
from control_plane.fleet.launcher.devices import visible_gpus
from control_plane.fleet.state import PoolTarget
from control_plane.settings import Home, PoolSettings
from control_plane.store import DesiredState
from control_plane.trust.keyring import Keyring

MOST_REPLICAS = 1000


class Pools:
    """Replicas that an operator asked for outlive every process; the rest is the settings'.

    ``written``: where each pool's settings stand; see ``Settings``.

    Raises SettingsError where pools whose ``gpus`` are "auto" want more GPUs than can be seen.
    """

    def __init__(
        self,
        settings: tuple[PoolSettings, ...],
        home: Home,
        store: DesiredState,
        mutual_tls: MutualTls = "auto",
        written: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.settings = {pool.name: pool for pool in settings}
        self._home = home
        self._mutual_tls: MutualTls = mutual_tls
        self._store = store
        self._written = written or {}
        self._configured = {pool.name: pool.replicas for pool in settings}
        self._replicas = store.replicas(self._configured)
        visible = visible_gpus()
        _check_auto([pool for pool in settings if pool.gpus == "auto"], len(visible))
        self._gpus = {pool.name: visible if pool.gpus == "auto" else tuple(pool.gpus) for pool in settings if pool.gpus}

    def models(self) -> frozenset[str]:
        """What is served, by the names that callers use."""
        return frozenset(pool.model for pool in self.settings.values())

    def stall_timeout_s(self, pool: str) -> float:
        """Of a pool that is no more: the default, or a worker that hangs while it retires would keep its device."""
        wanted = self.settings.get(pool)
        return wanted.stall_timeout_s if wanted is not None else PoolSettings().stall_timeout_s

    def replicas(self, pool: str) -> int:
        return self._replicas[pool]

    def scaled(self) -> dict[str, tuple[int, int]]:
        """Pools that an operator gave another number of replicas than the settings: that number, and theirs."""
        numbers = {name: (self._replicas[name], configured) for name, configured in self._configured.items()}
        return {name: (now, configured) for name, (now, configured) in numbers.items() if now != configured}

    def targets(self) -> tuple[PoolTarget, ...]:
        return tuple(
            PoolTarget(
                name,
                self._replicas[name],
                pool.tensor_parallel if pool.gpus else 0,
                self._gpus.get(name, ()),
            )
            for name, pool in self.settings.items()
        )

    def check(self, pool: str, replicas: int) -> None:
        """Raise NotFound for a pool that does not exist, Conflict for a number that it cannot have."""
        if pool not in self.settings:
            there = ", ".join(self.settings) or "none"
            raise NotFound(f"there is no pool {pool!r}; there are: {there}", param="pool", hint="inferdeck get pools")
        if not 0 <= replicas <= MOST_REPLICAS:
            raise Conflict(f"a pool has 0 to {MOST_REPLICAS} replicas, not {replicas}", param="replicas")
        each, gpus = self.settings[pool].tensor_parallel, self._gpus.get(pool)
        if gpus is not None and replicas * each > len(gpus):
            most = len(gpus) // each
            raise Conflict(
                f"{replicas} replicas of {each} GPUs each need {replicas * each}, pool {pool} has {len(gpus)}",
                param="replicas",
                hint=f"inferdeck scale {pool}={most}",
            )

    async def scale(self, pool: str, replicas: int) -> None:
        """Remember what an operator asked for; see ``check``."""
        self.check(pool, replicas)
        await asyncio.to_thread(self._store.set_replicas, pool, replicas, self._configured[pool])
        self._replicas[pool] = replicas

    async def cordon(self, worker_id: str) -> None:
        await asyncio.to_thread(self._store.set_cordon, worker_id, True)

    async def uncordon(self, worker_id: str) -> None:
        await asyncio.to_thread(self._store.set_cordon, worker_id, False)

    def spec(self, pool: str, worker_id: str, gpus: tuple[int, ...] = ()) -> WorkerSpec:
        """How a worker of this pool is run."""
        written = self._written.get(pool, {})
        return worker_spec(self.settings[pool], worker_id, gpus, self._home, self._mutual_tls, written)

    def wants(self, spec: WorkerSpec | None, same: Callable[[WorkerSpec, WorkerSpec], bool]) -> bool:
        """Whether a worker that was started with this spec is what its pool would start today."""
        if spec is None or spec.pool not in self.settings:
            return False
        return same(replace(self.spec(spec.pool, spec.worker_id), gpus=spec.gpus), spec)


def worker_spec(
    wanted: PoolSettings,
    worker_id: str,
    gpus: tuple[int, ...],
    home: Home,
    mutual_tls: MutualTls,
    written: Mapping[str, str],
) -> WorkerSpec:
    """How a worker of a pool is run; ``written`` says where that pool's settings stand."""
    spec = WorkerSpec(
        worker_id=worker_id,
        pool=wanted.name,
        engine=wanted.engine,
        model=wanted.model,
        source=wanted.source,
        announce_path=str(home.announcement(worker_id)),
        log_path=str(home.log(f"worker-{worker_id}")),
        cache_dir=str(home.cache),
        dtype=wanted.dtype,
        max_context=wanted.max_context,
        kv_bytes=wanted.kv_memory,
        tensor_parallel=wanted.tensor_parallel,
        gpus=list(gpus),
        threads=wanted.threads,
        offline=wanted.offline,
        engine_args=dict(wanted.engine_args),
        kv_events=wanted.kv_events,
        written=dict(written),
    )
    if not wants_mutual_tls(mutual_tls, spec.host):
        return spec
    return replace(spec, credentials=str(Keyring(home.tls).peer(Peer.WORKER, worker_id)))


def _check_auto(pools: list[PoolSettings], there: int) -> None:
    """Raise SettingsError where these pools together want more GPUs than there are."""
    names = ", ".join(pool.name for pool in pools)
    needed = sum(pool.replicas * pool.tensor_parallel for pool in pools)
    if pools and not there:
        raise SettingsError(
            f'gpus = "auto" of pool {names}: this machine shows no GPU',
            param="pool.gpus",
            hint="set gpus = [] to run on the CPU; see nvidia-smi and CUDA_VISIBLE_DEVICES",
        )
    if needed > there:
        raise SettingsError(
            f'gpus = "auto" of pool {names}: replicas x tensor_parallel need {needed} GPUs, this machine shows {there}',
            param="pool.gpus",
            hint=f"lower replicas or tensor_parallel until they need at most {there}; see CUDA_VISIBLE_DEVICES",
        )
