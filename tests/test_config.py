"""The configuration: its settings, its defaults, and every error."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from quantide.config import Config, Step, StreamConfig, read_config
from quantide.config.stream_config import tail_settings
from quantide.errors import ConfigError
from quantide.summary.ranks import DEFAULT

FULL = """
store = "data"

[spark]
"spark.jars.packages" = "org.example:package:1.0"

[streams.latency]
source  = { format = "parquet", path = "incoming/latency", max_files = 10 }
value   = "latency_ms"
time    = "ts"
keys    = ["endpoint"]
filters = { errors = "status >= 500" }
eps     = 0.01
step    = "1 hour"
kappa   = 5
window  = "12 hours"
retention = "400 days"
nan = "skip"
late = "quarantine"
late_after = "10 min"
durable = true
tail = 0.05

[streams.clicks]
source.format = "kafka"
source.options = { subscribe = "clicks", kafka.bootstrap.servers = "k:9092", failOnDataLoss = false }
value  = "CAST(value AS DOUBLE)"
memory = "100 MB"
tail   = "none"
step   = { rows = 1_000_000 }
retention = { steps = 30 }
"""
SMALL = """
store = "data"
[streams.s]
source = { format = "parquet", path = "in" }
value = "v"
"""


def read(tmp_path: Path, text: str) -> Config:
    (tmp_path / "quantide.toml").write_text(text)
    return read_config(tmp_path / "quantide.toml")


def test_all_settings(tmp_path: Path) -> None:
    config = read(tmp_path, FULL)
    assert config.store == str(tmp_path / "data")
    assert config.spark == {"spark.jars.packages": "org.example:package:1.0"}
    latency, clicks = config.streams["latency"], config.streams["clicks"]
    assert latency.folder == str(tmp_path / "data" / "latency")
    assert (latency.value, latency.time, latency.keys) == ("latency_ms", "ts", ("endpoint",))
    assert latency.filters == {"errors": "status >= 500"}
    assert (latency.eps, latency.kappa, latency.memory) == (0.01, 5, None)
    assert (latency.tail, clicks.tail) == (0.05, None)
    assert (latency.step, latency.window, latency.retention) == (Step(Fraction(3600)), Fraction(43200), 9600)
    assert (latency.nan, latency.late, latency.late_after, latency.durable) == (
        "skip",
        "quarantine",
        Fraction(600),
        True,
    )
    assert latency.source.path == str(tmp_path / "incoming" / "latency")
    assert latency.source.max_files == 10
    assert latency.source.has_identity
    assert clicks.source.options == {
        "subscribe": "clicks",
        "kafka.bootstrap.servers": "k:9092",
    }
    assert clicks.source.on_data_loss == "continue"
    assert (clicks.memory, clicks.step, clicks.retention) == (100_000_000, Step(None, 1_000_000), 30)
    assert not clicks.source.is_files


def test_defaults(tmp_path: Path) -> None:
    stream = read(tmp_path, SMALL).streams["s"]
    assert (stream.time, stream.keys, stream.filters, stream.value_type) == (None, (), {}, None)
    assert (stream.step.seconds, stream.window) == (Fraction(3600), Fraction(86400))
    assert (stream.retention, stream.kappa) == (None, None)
    assert (stream.nan, stream.bad_records, stream.schema_change, stream.late) == (
        "refuse",
        "quarantine",
        "adapt",
        "keep",
    )


def test_the_tail_of_a_history(tmp_path: Path) -> None:
    """A tail that is not configured is left to the history, which knows that of its store."""
    default = read(tmp_path, SMALL).streams["s"].tail
    assert default is DEFAULT
    assert tail_settings(default) == {}
    assert [tail_settings(tail) for tail in (0.05, None)] == [{"tail": 0.05}, {"tail": None}]


def test_metrics_of_a_stream(tmp_path: Path) -> None:
    text = 'store = "d"\n[streams.s]\nsource = { format = "parquet", path = "in" }\nvalue = "v"\nkeys = ["a", "b"]\n'
    plain = read(tmp_path, text).streams["s"].metrics
    assert (plain.quantiles, plain.windows, plain.keys, plain.exported) == ((0.5, 0.9, 0.99), ("5m",), (), False)
    given = 'metrics = { quantiles = [0, 0.999], windows = ["90s", "24 h"], keys = [["eu", 7]] }'
    found = read(tmp_path, text + given).streams["s"].metrics
    assert (found.quantiles, found.windows, found.keys) == ((0.0, 0.999), ("90s", "24 h"), (("eu", 7),))
    assert found.exported
    many = f"metrics = {{ quantiles = {[i / 2000 for i in range(1001)]} }}"
    with pytest.raises(ConfigError, match=r"exports 1,001 quantiles"):
        read(tmp_path, text + many)


def test_the_unit_of_values(tmp_path: Path) -> None:
    plain = read(tmp_path, FULL).streams["latency"]
    assert plain.unit is None
    text = FULL.replace("[streams.latency]", '[streams.latency]\nunit = " ms "')
    assert read(tmp_path, text).streams["latency"].unit == "ms"
    for unit in ('""', "5", '"a unit that is much too long"', '"m\\ns"'):
        with pytest.raises(ConfigError, match="unit"):
            read(tmp_path, FULL.replace("[streams.latency]", f"[streams.latency]\nunit = {unit}"))


def test_absolute_paths_and_urls_stay_as_they_are(tmp_path: Path) -> None:
    text = SMALL.replace('"data"', '"/srv/data"').replace('"in"', '"s3a://bucket/in"')
    config = read(tmp_path, text)
    assert config.store == "/srv/data"
    assert config.streams["s"].source.path == "s3a://bucket/in"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("eps = 2", r"streams\.s\.eps is 2: eps must be in \(0, 1\).*Write it as eps = 0\.001"),
        ('eps = "small"', r"streams\.s\.eps is \"small\""),
        ("eps = 0.1\nmemory = '1 MB'", r"streams\.s\.memory and streams\.s\.eps both.*leave one out"),
        ("tail = 0.1\nmemory = '1 MB'", r"streams\.s\.memory chooses eps without a tail.*leave out tail"),
        ("tail = 1.5", r"streams\.s\.tail is 1\.5: tail must be a number in \(0, 1\).*tail = 0\.01, or \"none\""),
        ('tail = "off"', r"streams\.s\.tail is \"off\": tail must be"),
        ("tail = true", r"streams\.s\.tail is true: tail must be"),
        ('memory = "lots"', r"streams\.s\.memory is \"lots\".*250 MB"),
        ('memory = "1 KB"', r"streams\.s\.memory: .*too little"),
        ("kappa = 0", r"streams\.s\.kappa is 0; write a whole number from 1 on"),
        ("kappa = true", r"streams\.s\.kappa is true"),
        ('step = "soon"', r"streams\.s\.step is \"soon\".*1 hour"),
        ("step = -3", r"streams\.s\.step is -3: a length of time must be above zero"),
        ("step = {}", r"streams\.s\.step is empty; write \{ rows"),
        ("step = { rows = 0 }", r"streams\.s\.step\.rows is 0"),
        ("step = { row = 5 }", r"streams\.s\.step\.row is not a setting; did you mean rows\?"),
        ('window = "1 parsec"', r"streams\.s\.window is \"1 parsec\""),
        ('retention = "1 min"', r"streams\.s\.retention is shorter than a step of 1 h"),
        ('step = { rows = 5 }\nretention = "1 day"', r"streams\.s\.retention is a length of time.*steps = 400"),
        ("retention = { days = 3 }", r"streams\.s\.retention\.days is not a setting; known here are steps"),
        ("retention = {}", r"streams\.s\.retention is empty"),
        ("time = 5", r"streams\.s\.time is 5; write text"),
        ("keys = 5", r"streams\.s\.keys is 5; write a list of columns"),
        ('keys = ["value"]', r"streams\.s\.keys: keys are names of columns other than 'value'"),
        ('keys = ["a", "A"]', r"streams\.s\.keys: keys must differ"),
        ('filters = "status >= 500"', r"streams\.s\.filters is .*write filters = \{ errors"),
        ("filters = { errors = 5 }", r"streams\.s\.filters\.errors is 5; write a condition"),
        ('filters = { "5xx !" = "status > 5" }', r"streams\.s\.filters\.5xx !: a filter's name"),
        ('value_type = "complex"', r"streams\.s\.value_type is \"complex\": unknown value type"),
        ('nan = "drop"', r"streams\.s\.nan is \"drop\"; write one of \"refuse\", \"skip\""),
        ('bad_records = "ignore"', r"streams\.s\.bad_records is \"ignore\"; write one of \"quarantine\", \"fail\""),
        ('schema_change = "x"', r"streams\.s\.schema_change"),
        ('late = "quarantine"', r"streams\.s\.late is \"quarantine\" and no times are known; add time"),
        ('time = "t"\nlate_after = "1 h"', r"streams\.s\.late_after is of no use"),
        ("metrics = 5", r"streams\.s\.metrics is 5; write metrics"),
        ("metrics = { phi = [0.5] }", r"streams\.s\.metrics\.phi is not a setting"),
        ("metrics = { quantiles = 0.5 }", r"streams\.s\.metrics\.quantiles is 0\.5; write metrics"),
        ("metrics = { quantiles = [1.5] }", r"streams\.s\.metrics\.quantiles has 1\.5: phi must be in"),
        ("metrics = { quantiles = [true] }", r"streams\.s\.metrics\.quantiles has true"),
        ("metrics = { quantiles = [0.5, 0.50] }", r"streams\.s\.metrics\.quantiles has a value twice"),
        ('metrics = { windows = ["5m", "300 s"] }', r"streams\.s\.metrics\.windows has a value twice"),
        ('metrics = { keys = ["1", [1]] }', r"streams\.s\.metrics\.keys has a value twice"),
        (
            "filters = { " + ", ".join(f'f{i} = "a > {i}"' for i in range(17)) + " }",
            r"streams\.s\.filters: .*at most 16",
        ),
        ("kappa = 9223372036854775808", r"streams\.s\.kappa"),
        ('keys = ["a\\u0000"]', r"streams\.s\.keys"),
        ("metrics = { windows = [5] }", r"streams\.s\.metrics\.windows has 5: a window is text"),
        ('metrics = { windows = ["soon"] }', r"streams\.s\.metrics\.windows has \"soon\": .* not a length of time"),
        ('metrics = { windows = ["2 days"] }', r"streams\.s\.metrics\.windows has \"2 days\", longer than the window"),
        ('metrics = { keys = ["/pay"] }', r"streams\.s\.metrics\.keys has \"/pay\", and keys of the stream have 0"),
        ('keys = ["a", "b"]\nmetrics = { keys = ["x"] }', r"streams\.s\.metrics\.keys has \"x\".*have 2 columns"),
        ("metrics = { keys = [{ a = 1 }] }", r"streams\.s\.metrics\.keys has .*a key is text"),
        ("durable = 1.0", r"streams\.s\.durable is 1\.0; write durable = true"),
        ("durable = 1", r"streams\.s\.durable is 1; write durable = true"),
        ("durabel = true", r"streams\.s\.durabel is not a setting; did you mean durable\?"),
        ('late = "quarantin"\ntime = "t"', r"streams\.s\.late is .*; did you mean \"quarantine\"\?"),
        (
            'unit = "ms"\nvalue_type = "duration[us]"',
            r"streams\.s\.unit is of no use with values of type duration\[us\]",
        ),
        ('time_unit = "ms"', r"streams\.s\.time_unit is \"ms\" and no times are known; add time"),
        ('time = "t"\ntime_unit = "m"', r'streams\.s\.time_unit is "m"; write one of "s", "ms", "us", "ns"; did you'),
        ("entirely_other = 1", r"streams\.s\.entirely_other is not a setting; known here are bad_records, "),
    ],
)
def test_invalid_settings_of_a_stream(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"quantide\.toml: " + message):
        read(tmp_path, SMALL + line)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("5", r"streams\.s\.source is 5; write source = \{ format"),
        ("{}", r"streams\.s\.source\.format is missing; add format = \"parquet\""),
        ('{ format = "parquet" }', r"streams\.s\.source\.path is missing; add path"),
        ('{ format = "json", path = "in" }', r"streams\.s\.source\.schema is missing; add schema = \"ts TIMESTAMP"),
        ('{ format = "parquet", pth = "in", path = "in" }', r"source\.pth is not a setting; did you mean path\?"),
        ('{ format = "rate", rowsPerSecond = 5 }', r"source\.rowsPerSecond is not a setting; .*options = \{"),
        ('{ format = "parquet", path = "in", max_files = 0 }', r"source\.max_files is 0"),
        ('{ format = "parquet", path = "in", max_files = 1, max_bytes = 5 }', r"max_files and .*cannot both"),
        (
            '{ format = "parquet", path = "in", max_bytes = "big" }',
            r"max_bytes is \"big\": max_bytes='big' is not a size",
        ),
        ('{ format = "parquet", path = "in", max_rows = 5 }', r"max_rows is for sources that are not files"),
        ('{ format = "parquet", path = "in", settle = 0 }', r"source\.settle is 0"),
        ('{ format = "parqet", path = "in" }', r'source\.format is "parqet", which .*did you mean "parquet"\?'),
        ('{ format = "deltalake" }', r'did you mean "delta"\?.*spark\.jars\.packages'),
        (
            '{ format = "json", path = "in", schema = "a INT", options = { MODE = "DROPMALFORMED" } }',
            r"MODE: .*bad_rec",
        ),
        ('{ format = "parquet", path = "in", options = 1 }', r"source\.options is 1"),
        ('{ format = "rate", options = { x = [1] } }', r"source\.options\.x is \[1\]; write text"),
        (
            '{ format = "parquet", path = "in", options = { cleanSource = "delete" } }',
            r"source\.options\.cleanSource would take away",
        ),
        (
            '{ format = "parquet", path = "in", options = { maxFilesPerTrigger = 5 } }',
            r"options\.maxFilesPerTrigger is set by streams\.s\.source\.max_files",
        ),
    ],
)
def test_invalid_sources(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, SMALL.replace('{ format = "parquet", path = "in" }', source))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store = ", r"is not TOML"),
        ("store = pushed", r'is not TOML: Invalid value .*; write text in quotes: store = "pushed"$'),
        ("store = s3://bucket/x # all", r'; write text in quotes: store = "s3://bucket/x"$'),
        ('store = "data"\n[streams.s]\nstep = 1 hour', r'; write text in quotes: step = "1 hour"$'),
        ('store = "da\nta"', r"is not TOML: Illegal character[^;]*$"),
        ("", r"store is missing; add store = \"data\""),
        ("store = 5", r"store is 5; write text"),
        ('store = "data"', r"streams is missing"),
        ('store = "data"\nstreams = 5', r"streams is 5"),
        ('store = "data"\n[streams]', r"streams is missing"),
        ('store = "data"\n[streams]\ns = 1', r"streams\.s is 1; write its settings below"),
        (SMALL.replace("streams.s", 'streams."a/b"'), r"streams\.a/b: a stream's name"),
        (SMALL.replace("streams.s", "streams._s"), r"streams\._s: a stream's name"),
        (SMALL + SMALL.partition("\n[")[2].join(("[", "")).replace(".s]", ".S]"), r"only in upper and lower case"),
        (SMALL.replace('value = "v"', ""), r"streams\.s\.value is missing; add value = \"latency_ms\""),
        (SMALL.replace('source = { format = "parquet", path = "in" }', ""), r"streams\.s\.source is missing"),
        ('stor = "x"\n' + SMALL, r"stor is not a setting; did you mean store\?"),
        (
            SMALL.replace("value =", "values ="),
            r"streams\.s\.value is missing; streams\.s\.values is not a .*rename it",
        ),
        (
            SMALL.replace("source =", "sources ="),
            r"streams\.s\.source is missing; streams\.s\.sources is not a setting",
        ),
        (SMALL.replace("[streams.", "[stream."), r"stream is not a setting; did you mean streams\?"),
        (SMALL + '[spark]\n"spark.sql.session.timeZone" = "CET"', r"is \"CET\"; times without a zone are in UTC"),
        (SMALL + "[spark]\nx = [1]", r"spark\.x is \[1\]"),
        ("spark = 1\n" + SMALL, r"spark is 1; write settings of Spark"),
        (
            SMALL.replace('path = "in"', r'path = "in\u0000"'),
            r"streams\.s\.source\.path has the character \\u0000; write it",
        ),
        (SMALL + '[server]\nstate = "a\\u0000"', r"server\.state has the character \\u0000; write it without, such as"),
        (SMALL + "[server]\nx = " + "{ a = " * 3_000, r"a list or a table within hundreds of others; remove some"),
        (SMALL + "[server]\nport = " + "9" * 5_000, r"quantide\.toml has an integer of hundreds of digits; write"),
        (SMALL + "keys = [0x" + "f" * 5_000 + "]", r"quantide\.toml has an integer of hundreds of digits; write"),
        *(
            (f'{SMALL}[server.webhooks]\nallow = ["{origin}"]\nsecret_file = "s"', r"write where alarms may be sent as")
            for origin in (
                "https://x:99999",
                "https://x:0",
                "https://u:p@x",
                "https://@x",
                "https://[::1",
                "https://x/",
            )
        ),
    ],
)
def test_invalid_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_formats_of_packages_and_classes(tmp_path: Path) -> None:
    """A format that Spark does not have is accepted if a package or class may provide it."""
    other = SMALL.replace('"parquet", path = "in"', '"deltalake"')
    assert read(tmp_path, other + '[spark]\n"spark.jars.packages" = "a:b:1"').streams["s"].source.format == "deltalake"
    named = read(tmp_path, SMALL.replace('"parquet"', '"org.example.Source"')).streams["s"]
    assert named.source.format == "org.example.Source", "class names are case-sensitive"


def test_the_fingerprint_covers_settings_that_decide_which_files_can_be_read(tmp_path: Path) -> None:
    one = read(tmp_path, SMALL).streams["s"].fingerprint
    assert read(tmp_path, SMALL + 'step = "1 min"').streams["s"].fingerprint == one
    assert read(tmp_path, SMALL.replace('"v"', '"w"')).streams["s"].fingerprint != one
    assert read(tmp_path, SMALL + 'time = "t"\ntime_unit = "ms"').streams["s"].fingerprint != one


REMOTE = """
store = "s3://bucket/quantide/"
[storage_options]
region = "eu-central-1"
access_key_id = "env:STORE_KEY"
secret_access_key = "env:STORE_SECRET"
allow_http = true
cache_bytes = 1_000
"""
SECRET = "wJalrXUtnFEMI"


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_KEY", "AKIAIOSFODNN7")
    monkeypatch.setenv("STORE_SECRET", SECRET)


@pytest.mark.usefixtures("credentials")
def test_a_store_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTIDE_STATE", str(tmp_path / "state"))
    config = read(tmp_path, SMALL.replace('store = "data"', REMOTE))
    stream = config.streams["s"]
    assert (config.store, stream.folder) == ("s3://bucket/quantide", "s3://bucket/quantide/s")
    assert stream.storage_options == {
        "region": "eu-central-1",
        "access_key_id": "AKIAIOSFODNN7",
        "secret_access_key": SECRET,
        "allow_http": "true",
        "cache_bytes": "1000",
    }
    assert stream.open_storage().path == stream.folder
    assert Path(config.server.state).is_relative_to(tmp_path / "state"), "a bucket cannot have the server's registry"
    state = read(tmp_path, SMALL.replace('store = "data"', REMOTE) + '[server]\nstate = "own"').server.state
    assert state == str(tmp_path / "own")


@pytest.mark.usefixtures("credentials")
def test_credentials_are_not_shown(tmp_path: Path) -> None:
    config = read(tmp_path, SMALL.replace('store = "data"', REMOTE))
    shown = f"{config!r} {config.streams['s']!r} {config.streams['s'].open_storage()!r}"
    assert "AKIA" not in shown
    assert SECRET not in shown
    other = read(tmp_path, SMALL.replace('store = "data"', REMOTE.replace("STORE_KEY", "STORE_SECRET")))
    assert other.streams["s"].fingerprint == config.streams["s"].fingerprint, "it is written into the store"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'secret_access_key = "{SECRET}"', r'storage_options\.secret_access_key is a cred.*"env:SECRET_ACCESS_KEY"'),
        (f'account_key = "{SECRET}"', r"storage_options\.account_key is a credential in plain text"),
        (f'azure_storage_sas_token = "{SECRET}"', r"storage_options\.azure_storage_sas_token is a credential"),
        (f'sas = "{SECRET}"', r"storage_options\.sas is a credential"),
        (f'password = "{SECRET}"', r"storage_options\.password is a credential"),
        (f'proxy_url = "http://me:{SECRET}@proxy"', r"storage_options\.proxy_url is a credential in plain text"),
        ('secret_access_key = "env:NOT_SET_ANYWHERE"', r"secret_access_key .*environment variable NOT_SET_ANYWHERE is"),
        ('region = "env:"', r'storage_options\.region is not the name of an environment variable; write "env:NAME"'),
        (f'region = ["{SECRET}"]', r"storage_options\.region must be text"),
        (
            'regoin = "eu"',
            "store: the storage option 'regoin' of s3://bucket/quantide is unknown; did you mean 'region'",
        ),
    ],
)
def test_invalid_storage_options(tmp_path: Path, line: str, message: str) -> None:
    text = f'store = "s3://bucket/quantide"\n[storage_options]\n{line}'
    with pytest.raises(ConfigError, match=message) as error:
        read(tmp_path, SMALL.replace('store = "data"', text))
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("name", ["sse_kms_key_id", "web_identity_token_file", "sse_bucket_key_enabled"])
def test_options_that_name_a_credential_without_being_one(tmp_path: Path, name: str) -> None:
    text = f'store = "s3://bucket/quantide"\n[storage_options]\nregion = "eu"\n{name} = "true"'
    assert read(tmp_path, SMALL.replace('store = "data"', text)).storage_options[name] == "true"


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (f'"s3://AKIA:{SECRET}@bucket/x"', r"store is more than a location; write \"s3://bucket/prefix\""),
        (f'"s3://{SECRET}@bucket/x"', r"store is more than a location"),
        (f'"az://container/x?sv=1&sig={SECRET}"', r"store is more than a location"),
        ('"ftp://host/x"', r"store: ftp://host/x: a store lies in a folder, or at s3://"),
        (f'"s3://bucket/x"\nstorage_options = "{SECRET}"', r"storage_options is not a table; write its options below"),
        ('"data"\nstorage_options = { region = "eu" }', r"storage_options are for object storage, .*folder \"data\""),
    ],
)
def test_invalid_stores(tmp_path: Path, store: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        read(tmp_path, SMALL.replace('"data"', store))
    assert SECRET not in str(error.value)


def test_a_container_of_an_account(tmp_path: Path) -> None:
    uri = "abfss://container@account.dfs.core.windows.net/quantide"
    assert read(tmp_path, SMALL.replace('"data"', f'"{uri}"')).streams["s"].folder == f"{uri}/s"


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read: No such file.*; name a TOML file"):
        read_config(tmp_path / "missing.toml")


def read_hosts(tmp_path: Path, hosts: str) -> tuple[str, ...]:
    return read(tmp_path, SMALL.replace("[streams.s]", f"[server]\nhosts = {hosts}\n[streams.s]")).server.hosts


def test_hosts_of_a_server(tmp_path: Path) -> None:
    hosts = '["Q.example.com", "r.example:99", "[fd00::1]", "[fd00::1]:99", "localhost", "192.0.2.1"]'
    assert read_hosts(tmp_path, hosts) == (
        "q.example.com", "r.example:99", "[fd00::1]", "[fd00::1]:99", "localhost", "192.0.2.1",
    )  # fmt: skip


@pytest.mark.parametrize(
    "host",
    [
        "*",
        "*.example.com",
        "https://q.example.com",
        "q.example.com/",
        "q example",
        "q:x",
        "fd00::1",
        "a@b",
        "a:",
        "q,r",
    ],
)
def test_invalid_hosts(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.hosts has .*quantiles\.example\.com"):
        read_hosts(tmp_path, f'["{host}"]')


@pytest.mark.parametrize(
    ("settings", "for_this_machine", "secure"),
    [
        ("", True, False),
        ('tls_cert = "a"\ntls_key = "b"', True, True),
        ("behind_proxy = true", False, True),
        ('host = "0.0.0.0"', False, False),
        ('host = "::1"', True, False),
        ('host = "127.9.9.9"', True, False),
        ('host = "LOCALHOST"', False, False),
        ('host = "127.0.0.1.example.com"', False, False),
    ],
)
def test_who_can_reach_a_server(tmp_path: Path, settings: str, for_this_machine: bool, secure: bool) -> None:
    server = read(tmp_path, SMALL.replace("[streams.s]", f"[server]\n{settings}\n[streams.s]")).server
    assert (server.for_this_machine, server.secure) == (for_this_machine, secure)


# Push streams

PUSH = 'store = "data"\n[streams.s]\n'


def read_push(tmp_path: Path, text: str) -> StreamConfig:
    (tmp_path / "push.toml").write_text(PUSH + text)
    return read_config(tmp_path / "push.toml").streams["s"]


def test_a_push_stream_needs_nothing_else(tmp_path: Path) -> None:
    stream = read_push(tmp_path, 'source = "push"')
    assert (stream.value, stream.time, stream.time_unit, stream.durable) == ("value", "time", None, True)
    assert stream.source.format == "parquet"
    assert stream.source.path == str(tmp_path / "data" / "s" / "_quantide" / "landing")
    assert stream.source.push is not None
    assert not stream.source.push.own_time


def test_settings_of_a_push_stream(tmp_path: Path) -> None:
    settings = 'value = "ms"\ntime = "ts"\ntime_unit = "ms"\nkeys = ["k"]\ndurable = false\nlate = "quarantine"'
    source = 'source = { format = "push", landing_bytes = "10 MB", landing_files = 7, max_files = 5 }\n'
    stream = read_push(tmp_path, source + settings)
    push = stream.source.push
    assert push is not None
    assert (push.landing_bytes, push.landing_files, push.own_time, push.time_unit) == (10**7, 7, True, "ms")
    assert (stream.value, stream.time, stream.time_unit, stream.durable) == ("ms", "ts", None, False)
    assert stream.source.max_files == 5


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('source = "push"\nweight = "n * 2"', "a push stream needs the name of a column"),
        ('source = "push"\nweight = "Value"', "must be different columns"),
        ('source = "push"\nweight = 2', "streams.s.weight is 2; write text"),
        ('source = "pull"', "streams.s.source"),
        ('source = { format = "push", path = "in" }', "source.path"),
        ('source = { format = "push", landing_files = 0 }', "landing_files"),
        ('source = { format = "push", max_files = 1, max_bytes = "1 MB" }', "max_bytes"),
        ('source = "push"\nvalue = "a / 1000"', "not an expression"),
        ('source = "push"\ntime = "to_timestamp(t)"', "not an expression"),
        ('source = "push"\nkeys = ["time"]', "different columns"),
    ],
)
def test_wrong_settings_of_a_push_stream(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(part)):
        read_push(tmp_path, text)
