"""What a config file may say, and how a wrong one is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from control_plane.contracts.errors import SettingsError
from control_plane.settings import Home, PoolSettings, Settings, load_settings, load_with_sources, parse_size


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", cache=tmp_path / "cache")


def read(tmp_path: Path, home: Home, text: str) -> Settings:
    path = tmp_path / "deck.toml"
    path.write_text(text)
    return load_settings(path, home)


def problems(tmp_path: Path, home: Home, text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, home, text)
    return [line.removeprefix(f"{tmp_path}/deck.toml:") for line in str(caught.value).splitlines()]


def test_without_a_file_everything_has_its_default(home: Home) -> None:
    settings = load_settings(None, home)
    assert settings == Settings()
    assert (settings.gateway.host, settings.gateway.port, settings.gateway.replicas) == ("127.0.0.1", 8080, 1)
    assert settings.api.port == 8090
    assert (settings.router.profile, settings.router.retries, settings.router.queue_timeout_s) == (
        "prefix_aware",
        2,
        30,
    )
    (pool,) = settings.pools
    assert (pool.name, pool.model, pool.source) == ("smollm2", "smollm2-135m", "builtin:smollm2-135m")
    assert (pool.engine, pool.replicas, pool.dtype) == ("vllm", 2, "auto")
    assert (pool.max_context, pool.kv_memory, pool.threads) == (2048, 512 << 20, 1)
    assert pool.engine_args == {"max_num_seqs": 16, "max_num_batched_tokens": 512}


def test_the_home_has_a_config_of_its_own_and_config_wins(tmp_path: Path, home: Home) -> None:
    home.create()
    home.config.write_text("[gateway]\nport = 1234\n")
    assert load_settings(None, home).gateway.port == 1234
    assert read(tmp_path, home, "[gateway]\nport = 4321\n").gateway.port == 4321


def test_every_key_is_read(tmp_path: Path, home: Home) -> None:
    settings = read(
        tmp_path,
        home,
        """
        [gateway]
        host = "0.0.0.0"
        port = 0
        replicas = 2
        tls = "local"
        insecure = false
        cors_origins = ["https://app.example.com"]
        [security]
        mutual_tls = true
        [api]
        host = "127.0.0.2"
        port = 0
        [store]
        url = "sqlite:////tmp/x.db"
        [limits]
        url = "valkey://:secret@127.0.0.1:6379/0"
        [router]
        profile = "least_load"
        retries = 0
        queue_timeout_s = 5
        replicas = 3
        host = "127.0.0.3"
        port = 9000
        [[pool]]
        name = "big"
        model = "llama"
        source = "meta-llama/Llama-3.3-70B-Instruct"
        engine = "vllm"
        replicas = 2
        dtype = "auto"
        max_context = 8192
        kv_memory = "1.5GB"
        tensor_parallel = 2
        gpus = [0, 1, 2, 3]
        threads = 4
        offline = true
        price_per_hour = 12
        stall_timeout_s = 30
        [pool.engine_args]
        enable_chunked_prefill = true
        """,
    )
    assert settings.gateway.replicas == 2
    assert (settings.gateway.tls, settings.gateway.https, settings.gateway.insecure) == ("local", True, False)
    assert settings.gateway.cors_origins == ("https://app.example.com",)
    assert settings.security.mutual_tls is True
    assert settings.store.url == "sqlite:////tmp/x.db"
    assert settings.limits.url == "valkey://:secret@127.0.0.1:6379/0"
    assert settings.router.queue_timeout_s == 5.0
    assert (settings.router.replicas, settings.router.host, settings.router.port) == (3, "127.0.0.3", 9000)
    assert settings.pools == (
        PoolSettings(
            name="big",
            model="llama",
            source="meta-llama/Llama-3.3-70B-Instruct",
            engine="vllm",
            replicas=2,
            dtype="auto",
            max_context=8192,
            kv_memory=1_500_000_000,
            tensor_parallel=2,
            gpus=(0, 1, 2, 3),
            threads=4,
            offline=True,
            price_per_hour=12.0,
            stall_timeout_s=30.0,
            engine_args={"enable_chunked_prefill": True},
        ),
    )


def test_a_pool_of_another_source_is_named_after_it(tmp_path: Path, home: Home) -> None:
    (pool,) = read(tmp_path, home, '[[pool]]\nsource = "Qwen/Qwen3-0.6B"\n').pools
    assert (pool.model, pool.name) == ("Qwen3-0.6B", "qwen3-0-6b")


def test_cpu_defaults_of_the_engine_stay_under_the_callers_own(tmp_path: Path, home: Home) -> None:
    (pool,) = read(tmp_path, home, "[[pool]]\n[pool.engine_args]\nmax_num_seqs = 4\n").pools
    assert pool.engine_args == {"max_num_seqs": 4, "max_num_batched_tokens": 512}


def test_on_a_gpu_the_engine_decides_about_memory_and_batch(tmp_path: Path, home: Home) -> None:
    (pool,) = read(tmp_path, home, '[[pool]]\nreplicas = 1\ngpus = "auto"\n').pools
    assert (pool.kv_memory, pool.max_context, pool.engine_args) == (0, 0, {})


def test_an_unknown_key_names_file_line_and_the_nearest_known(tmp_path: Path, home: Home) -> None:
    text = '[gateway]\nprot = 1\n\n[[pool]]\nname = "a"\nrepicas = 2\n[routr]\n'
    assert problems(tmp_path, home, text) == [
        "2: gateway.prot: unknown key; did you mean port?",
        "6: pool[0].repicas: unknown key; did you mean replicas?",
        "7: routr: unknown key; did you mean router?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[gateway]\nport = "80"', "2: gateway.port: a whole number is needed"),
        ("[gateway]\nport = true", "2: gateway.port: a whole number is needed"),
        ("[gateway]\nport = 70000", "2: gateway.port: 70000 is not a port; 1 to 65535, or 0 for any free one"),
        ("[gateway]\nreplicas = 0", "2: gateway.replicas: at least one gateway is needed"),
        ("[api]\nport = 8080", "2: api.port: 8080 is a gateway's port already (gateway.port 8080)"),
        ("[gateway]\nreplicas = 11\n[api]", "3: api.port: 8090 is a gateway's port already (gateway.port 8080)"),
        ("[router]\nprofile = 'x'", "2: router.profile: unknown profile 'x'; known are prefix_aware"),
        ("[router]\nreplicas = 65", "2: router.replicas: 0 (each gateway has its router inside) to 64"),
        ("[router]\nport = -1", "2: router.port: -1 is not a port; 1 to 65535, or 0 for any free one"),
        (
            "[router]\nreplicas = 2\nport = 65535",
            "2: router.replicas: 2 routers from port 65535 on go beyond port 65535",
        ),
        ("[router]\nmetrics_port = -1", "2: router.metrics_port: -1 is not a port; 1 to 65535, or 0 for any free one"),
        (
            "[router]\nreplicas = 3\nport = 9000\nmetrics_port = 9002",
            "4: router.metrics_port: routers listen there already (router.port 9000)",
        ),
        ("[router]\nreplicas = 3\nport = 8088", "3: router.port: 8090 is the operators' API's port already (api.port)"),
        ("[router]\nreplicas = 3\nport = 8079", "3: router.port: gateways listen there already (gateway.port 8080)"),
        ("[limits]\nurl = '127.0.0.1'", "2: limits.url: an URL is needed, like valkey://HOST:6379/0"),
        ("[limits]\nurl = 'http://x'", "2: limits.url: an URL is needed, like valkey://HOST:6379/0"),
        (
            "[[pool]]\nprice_per_hour = -1",
            "2: pool[0].price_per_hour: what one worker costs an hour, or 0 where that is unknown",
        ),
        ("[[pool]]\nstall_timeout_s = 1", "2: pool[0].stall_timeout_s: 2 to 86400 seconds, or 0 for never"),
        ("[[pool]]\nstall_timeout_s = nan", "2: pool[0].stall_timeout_s: 2 to 86400 seconds, or 0 for never"),
        ("[[pool]]\nprice_per_hour = nan", "2: pool[0].price_per_hour: what one worker costs an hour, or 0"),
        ("[[pool]]\n\nreplicas = -1", "3: pool[0].replicas: 0 to 1000"),
        ("[[pool]]\nname = 'A b'", "2: pool[0].name: 'A b' is not a name: "),
        ("[[pool]]\nengine = 'simm'", "2: pool[0].engine: unknown engine 'simm'; known are vllm, sim, scripted"),
        ("[[pool]]\nkv_memory = 'lots'", "2: pool[0].kv_memory: 'lots' is not a size; "),
        ("[[pool]]\ngpus = [0, 0]\nreplicas = 1", "2: pool[0].gpus: a device is listed twice"),
        (
            "[[pool]]\nreplicas = 2\ntensor_parallel = 2\ngpus = [0, 1, 2]",
            "4: pool[0].gpus: 2 replicas of 2 GPUs each (tensor_parallel) need 4, 3 are listed",
        ),
        ("pool = 3", "1: pool: pools are written as [[pool]]"),
        ("gateway = 3", "1: gateway: a table is needed: [gateway]"),
        ("gateway = {port = 1, hots = 'x'}", "1: gateway.hots: unknown key; did you mean host?"),
    ],
)
def test_a_wrong_value_is_told_with_its_line(tmp_path: Path, home: Home, text: str, expected: str) -> None:
    (problem,) = problems(tmp_path, home, text)
    assert problem.startswith(expected)


def test_pools_may_share_neither_name_nor_model_nor_device(tmp_path: Path, home: Home) -> None:
    text = """[[pool]]
name = "a"
model = "m"
replicas = 1
gpus = [1]
[[pool]]
name = "a"
model = "m"
replicas = 1
gpus = [1]
"""
    assert problems(tmp_path, home, text) == [
        "7: pool[1].name: pool 'a' is there twice (also pool[0])",
        "8: pool[1].model: model 'm' is served by pool[0] already",
        "10: pool[1].gpus: GPU 1 belongs to pool[0] already",
    ]


@pytest.mark.timeout(10)
def test_a_pipe_is_not_waited_for(home: Home) -> None:
    home.create()
    os.mkfifo(home.config)
    with pytest.raises(SettingsError, match="cannot read the settings: not a file"):
        load_settings(None, home)


def test_a_link_of_the_home_that_leads_nowhere_is_told(home: Home) -> None:
    home.create()
    home.config.symlink_to("gone.toml")
    with pytest.raises(SettingsError, match="cannot read the settings: No such file"):
        load_settings(None, home)
    home.config.unlink()
    home.config.symlink_to(home.config.name)
    with pytest.raises(SettingsError, match="cannot read the settings: Too many levels of symbolic links"):
        load_settings(None, home)


def test_broken_toml_and_missing_files_are_told(tmp_path: Path, home: Home) -> None:
    with pytest.raises(SettingsError, match=r":2: not valid TOML: "):
        read(tmp_path, home, "[gateway]\nport == 1\n")
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(tmp_path / "nope.toml", home)


def test_sources_say_who_chose_each_value(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "deck.toml"
    path.write_text('[gateway]\n# a comment\nport = 1\n[[pool]]\nname = "x"\n')
    _, sources = load_with_sources(path, home)
    found = {source.key: (source.value, source.source) for source in sources}
    assert found["gateway.port"] == (1, f"{path}:3")
    assert found["gateway.host"] == ("127.0.0.1", "default")
    assert found["pool[0].name"] == ("x", f"{path}:5")
    assert found["pool[0].replicas"] == (2, "default")
    assert found["home"] == (str(home.root), "default")


def test_where_a_pools_settings_stand_is_known(tmp_path: Path, home: Home) -> None:
    text = '[[pool]]\nname = "x"\nmodel = "a"\nengine = "sim"\n[pool.engine_args]\nspeed = 2.0\n'
    text += '[[pool]]\nname = "y"\nmodel = "b"\nengine_args = {max_num_seqs = 4}\n'
    written, at = read(tmp_path, home, text).written, f"{tmp_path / 'deck.toml'}:"
    assert (written["x"][""], written["x"]["engine_args"], written["x"]["engine_args.speed"]) == (
        f"{at}1",
        f"{at}5",
        f"{at}6",
    )
    assert (written["y"]["model"], written["y"]["engine_args.max_num_seqs"]) == (f"{at}9", f"{at}10")
    assert not load_settings(None, home).written


def test_home_comes_from_the_option_then_the_variable_then_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("INFERDECK_HOME", raising=False)
    monkeypatch.delenv("INFERDECK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Home.resolve().root == tmp_path / ".inferdeck"
    assert Home.resolve().cache == tmp_path / ".cache" / "inferdeck"
    monkeypatch.setenv("INFERDECK_HOME", "/some/home")
    monkeypatch.setenv("INFERDECK_CACHE", "/some/cache")
    assert (Home.resolve().root, Home.resolve().source) == (Path("/some/home"), "INFERDECK_HOME")
    assert (Home.resolve().cache, Home.resolve().cache_source) == (Path("/some/cache"), "INFERDECK_CACHE")
    assert (Home.resolve("/other").root, Home.resolve("/other").source) == (Path("/other"), "--home")


def test_a_home_is_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    home.create()
    assert home.root.stat().st_mode & 0o777 == 0o700
    assert home.workers.is_dir()


def test_the_mode_of_a_folder_that_is_there_is_its_owners_business(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Home(tmp_path).create()
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MiB", 512 << 20), ("1.5 GB", 1_500_000_000), ("7", 7), (7, 7), ("2gib", 2 << 30), ("10 kB", 10_000)],
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 zb", -1, True, 1.5])
def test_wrong_sizes(text: str | int) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


def test_wrong_types_and_broken_rules_are_told_together(tmp_path: Path) -> None:
    file = tmp_path / "deck.toml"
    file.write_text(
        '[[pool]]\nreplicas = -1\ndtype = "int3"\nkv_memory = "512 bananas"\n[[pool]]\nname = "other"\nmodel = "m"\n'
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(file, Home.resolve(tmp_path))
    keys = [line.split(": ")[1] for line in caught.value.message.splitlines()]
    assert keys == ["pool[0].replicas", "pool[0].dtype", "pool[0].kv_memory"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("/nonexistent", "/nonexistent: there is no such folder; give builtin:"),
        ("./here", "here: there is no such folder"),
        ("~/there", "/there: there is no such folder"),
        ("builtin:smolm2", "there is no built-in model 'smolm2'; built in: smollm2-135m"),
        ("{folder}/empty", "/empty holds no Hugging Face checkpoint: it has no config.json"),
        ("{folder}/light", "/light holds no weights"),
    ],
)
def test_a_source_that_can_never_work_is_refused_where_it_is_named(tmp_path: Path, source: str, told: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "light").mkdir()
    (tmp_path / "light" / "config.json").write_text("{}")
    file = tmp_path / "deck.toml"
    file.write_text(f'[[pool]]\nname = "m"\nsource = "{source.format(folder=tmp_path)}"\n')
    with pytest.raises(SettingsError) as caught:
        load_settings(file, Home.resolve(tmp_path))
    assert caught.value.message.startswith(f"{file}:3: pool[0].source: ")
    assert told in caught.value.message


def test_a_folder_with_a_checkpoint_is_taken(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("")
    file = tmp_path / "deck.toml"
    file.write_text(f'[[pool]]\nname = "m"\nsource = "{tmp_path}"\n')
    assert load_settings(file, Home.resolve(tmp_path)).pools[0].source == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = " + "[" * 5000 + "]" * 5000, "1: not valid TOML: it is nested too deeply"),
        ("[gateway]\nx = " + "{a = " * 3000 + "1" + "}" * 3000, "2: not valid TOML: it is nested too deeply"),
        (f"[gateway]\nport = {'9' * 5000}\nreplicas = 1", "2: not valid TOML: it holds a number with too many digits"),
        ("[gateway]\nport = 0\nport = 1", "3: not valid TOML: cannot overwrite a value"),
        (f"[router]\nqueue_timeout_s = {'9' * 400}", "2: router.queue_timeout_s: a number that is not that large"),
        ("[router]\nretries = 99999999999999999999", "2: router.retries: 0 to 100"),
        (f"[[pool]]\nkv_memory = '{'9' * 5000}GiB'", "2: pool[0].kv_memory: 1 PiB is the most"),
        ("[[pool]]\nmax_context = 99999999999999999999", "2: pool[0].max_context: tokens, at most 2,147,483,647"),
        ("[[pool]]\nthreads = 99999999999999999999", "2: pool[0].threads: 0 to 4096"),
        ("[[pool]]\ntensor_parallel = 99999999999999999999", "2: pool[0].tensor_parallel: 1 to 1024"),
        (f"[[pool]]\nmodel = 'm'\nsource = '/{'a' * 5000}'", "3: pool[0].source: /aaa"),
        (
            "[[pool]]\nmodel = 'm'\nsource = '~nobody-of-this-name/x'",
            "3: pool[0].source: ~nobody-of-this-name/x: there is no such",
        ),
        ("[[pool]]\nname = 'p'\nmodel = '  '", "3: pool[0].model: a model name of 1 to 200 characters"),
        (f"[[pool]]\nname = 'p'\nmodel = '{'m' * 201}'", "3: pool[0].model: a model name of 1 to 200 characters"),
        ('[gateway]\ninsecure = true\nhost = "a\\u0000b"', "3: gateway.host: an address to listen on is needed"),
        ("[api]\nhost = 'a..b'", "2: api.host: an address to listen on is needed"),
        (f"[router]\nhost = '{'a' * 64}'", "2: router.host: an address to listen on is needed"),
        ("[store]\nurl = 'mysql://x'", "2: store.url: an URL is needed"),
        ("[store]\nurl = 'postgresql://u:hidden@[::1/d'", "2: store.url: an URL is needed"),
        ("[store]\nurl = 'postgresql://u:hidden@h:port/d'", "2: store.url: an URL is needed"),
        ("[limits]\nurl = 'valkey://h:99999/0'", "2: limits.url: an URL is needed"),
        ("[telemetry]\notlp_endpoint = 'http://h:port/'", "2: telemetry.otlp_endpoint: an URL is needed"),
    ],
)
def test_what_no_type_says_is_told_with_its_line_too(tmp_path: Path, home: Home, text: str, expected: str) -> None:
    (problem,) = problems(tmp_path, home, text)
    assert problem.startswith(expected)
    assert "hidden" not in problem


def test_a_text_that_is_not_utf_8_is_told_with_its_line(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "deck.toml"
    path.write_bytes(b"[gateway]\nhost = '\xff'\n")
    with pytest.raises(SettingsError, match=r"deck.toml:2: not a UTF-8 text"):
        load_settings(path, home)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "deck.toml"
    path.write_bytes("\ufeff[gateway]\nport = 0\nprot = 1\n".encode())
    with pytest.raises(SettingsError, match=r"deck.toml:3: gateway.prot: unknown key"):
        load_settings(path, home)
