"""Defaults, file, environment, command line: the last one wins; every fault is located."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from stoker.config.configuration import Configuration
from stoker.config.load import load
from stoker.config.options import ALL
from stoker.config.tree import OptionTree
from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize, option
from stoker.core.secrets import MASK
from stoker.heartbeat.options import HeartbeatOptions
from stoker.osproc import orphans


class Paint(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class House:
    kind: str | None = option("house", "What it is, beside keys that begin with its own.", None)
    doors: int = option("house.doors", "How many doors.", 2)
    paint: Paint = option("house.paint", "Its colour.", Paint.RED)
    warm_up: timedelta = option("house.warm-up", "Until it is warm.", timedelta(minutes=5))
    attic: ByteSize | None = option("house.attic", "Room for files.", None)
    labels: dict[str, str] = option("house.labels", "What is written on it.", {})
    rooms: tuple[str, ...] = option("house.rooms", "Their names.", ())
    alarm: str = option("house.alarm", "What opens it.", "", secret=True)
    password: str = option("house.password", "What opens the door.", "")

    def __post_init__(self) -> None:
        if self.doors < 1:
            raise InvalidOption(f"house.doors is {self.doors}; a house needs a door")


TREE = OptionTree([House])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


class Loader:
    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        self.path = folder / "stoker.yml"

    def __call__(
        self,
        text: str | None = None,
        environment: dict[str, str] | None = None,
        definitions: tuple[str, ...] = (),
        **more: Any,
    ) -> Configuration:
        if text is not None:
            self.path.write_text(text)
        return load(
            TREE,
            environment=environment or {},
            definitions=definitions,
            folder=self.folder,
            home=self.home,
            **more,
        )


@pytest.fixture
def loaded(folder: Path, home: Path) -> Loader:
    return Loader(folder, home)


def test_without_any_source_all_options_have_their_defaults(loaded: Loader) -> None:
    configuration = loaded()
    assert configuration.of(House) == House()
    assert configuration.origin("house.doors") == "default"


def test_the_command_line_wins_over_the_environment_and_both_over_the_file(loaded: Loader) -> None:
    """Of two settings of one key on the command line, the last wins (ENTRY-10)."""
    text = "house.doors: 3\nhouse.paint: blue\nhouse.rooms: [hall, attic]\n"
    environment = {"STOKER_HOUSE_DOORS": "4", "STOKER_HOUSE_WARM_UP": "1 h", "HOME": "/x"}
    house = loaded(text, environment, ("house.doors=5", "house.doors=6"))
    assert house.of(House) == House(
        doors=6, paint=Paint.BLUE, warm_up=timedelta(hours=1), rooms=("hall", "attic")
    )
    assert house.origin("house.doors") == "-D house.doors"
    assert house.origin("house.warm-up") == "environment variable STOKER_HOUSE_WARM_UP"
    assert house.origin("house.paint") == f"{loaded.path}:2"


def test_a_default_of_one_process_gives_way_to_every_source(loaded: Loader) -> None:
    defaults = {"house.doors": "7", "house.paint": "blue"}
    house = loaded("house.doors: 3\n", defaults=defaults)
    assert house.of(House) == House(doors=3, paint=Paint.BLUE)
    assert house.origin("house.paint") == "default of this command"


def test_keys_may_be_nested_dotted_or_both(loaded: Loader) -> None:
    text = """
house:
  doors: 3
  labels:
    street: north
    number: 010
house.warm-up: 1 min
"""
    house = loaded(text).of(House)
    assert house.doors == 3
    assert house.labels == {"street": "north", "number": "010"}
    assert house.warm_up == timedelta(minutes=1)


def test_a_key_may_be_a_prefix_of_other_keys(loaded: Loader) -> None:
    assert loaded("house: barn\nhouse.doors: 3").of(House) == House(kind="barn", doors=3)


def test_an_option_with_a_spark_key_is_not_passed_through(folder: Path, home: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Engine:
        master: str = option("spark.master", "Where Spark runs.", "local")

    configuration = load(
        OptionTree([Engine]),
        environment={"STOKER_SPARK_MASTER": "yarn"},
        definitions=["spark.x=1"],
        folder=folder,
        home=home,
    )
    assert configuration.of(Engine).master == "yarn"
    assert configuration.spark == {"spark.x": "1"}


def test_spark_settings_are_passed_through_unchanged(loaded: Loader) -> None:
    text = "spark:\n  sql.shuffle.partitions: 08\n  ui: {enabled: false}\n"
    configuration = loaded(text, definitions=("spark.executor.memory=2g",))
    assert configuration.spark == {
        "spark.sql.shuffle.partitions": "08",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "2g",
    }
    assert configuration.origin("spark.ui.enabled") == f"{loaded.path}:3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "house.door: 3",
            r"stoker\.yml:1: there is no option house\.door; did you mean 'house\.do",
        ),
        ("\nhouse:\n  dors: 1", r"stoker\.yml:3: there is no option house\.dors; did you mean"),
        ("zebra: 1", r"stoker\.yml:1: there is no option zebra; see stoker config"),
        (
            "house.doors: many",
            r"stoker\.yml:1: 'many' is not a value for house\.doors; write a whole",
        ),
        ("house.paint: green", r"'green' is not a value for house\.paint; write one of red, blue"),
        ("house.warm-up: 5", r"'5' is not a value.*a number with a unit, such as 100 ms"),
        ("house.doors: [1]", r"is not a value for house\.doors"),
        ("house.doors: 1\nhouse: {doors: 2}", r"yml:2: house\.doors was set before at .*yml:1"),
        ("house: [\n", r"stoker\.yml:2: not valid YAML"),
        ("- a", r"a mapping of keys to values is expected"),
        ("? [a]\n: b", r"yml:1: a key must be text"),
        ("house.labels: {a: {b: c}}", r"house\.labels holds something nested"),
        ("a: &a\n  b: *a", r"nested too deeply"),
        ("house.doors: 0", r"a house needs a door \(house\.doors is from .*stoker\.yml:1\)"),
    ],
)
def test_a_fault_in_the_file_is_named_with_its_line(
    loaded: Loader, text: str, message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        loaded(text)


def test_all_faults_are_reported_at_once(loaded: Loader) -> None:
    with pytest.raises(InvalidOption) as caught:
        loaded("house.door: 1", {"STOKER_HOUSE_PAINT": "pink"}, ("house.attic=full",))
    message = str(caught.value)
    assert message.startswith("3 settings are wrong:")
    assert "environment variable STOKER_HOUSE_PAINT: 'pink'" in message
    assert "-D house.attic: 'full'" in message


def test_an_unknown_variable_with_our_prefix_is_an_error(loaded: Loader) -> None:
    with pytest.raises(InvalidOption, match="did you mean 'STOKER_HOUSE_DOORS'"):
        loaded(environment={"STOKER_HOUSE_DOOR": "1"})
    loaded(environment={"STOKER_MASTER": "http://x", "STOKER_FAILPOINT": "x", "OTHER": "1"})


def test_the_marks_of_processes_that_a_job_starts_are_not_options(loaded: Loader) -> None:
    loaded(environment={orphans.OWNER: orphans.owner_mark(), orphans.SERVER: "1"})


@pytest.mark.parametrize("definition", ["house.doors", "=1", ""])
def test_a_definition_without_key_or_value_is_refused(loaded: Loader, definition: str) -> None:
    with pytest.raises(InvalidOption, match="write it as -D key=value"):
        loaded(definitions=(definition,))


def test_the_file_is_looked_for_in_four_places_in_order(loaded: Loader, tmp_path: Path) -> None:
    usual = loaded.home / ".config" / "stoker" / "stoker.yml"
    usual.parent.mkdir(parents=True)
    usual.write_text("house.doors: 11")
    assert loaded().of(House).doors == 11
    assert loaded("house.doors: 12").of(House).doors == 12
    variable, named = tmp_path / "v.yml", tmp_path / "n.yml"
    variable.write_text("house.doors: 13")
    named.write_text("house.doors: 14")
    environment = {"STOKER_CONFIG": str(variable)}
    assert loaded(environment=environment).of(House).doors == 13
    assert loaded(environment=environment, file=named).of(House).doors == 14


def test_a_named_file_must_exist(loaded: Loader, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"gone\.yml \(from --config\) does not exist"):
        loaded(file=tmp_path / "gone.yml")
    with pytest.raises(InvalidOption, match=r"gone\.yml \(from STOKER_CONFIG\) does not exist"):
        loaded(environment={"STOKER_CONFIG": str(tmp_path / "gone.yml")})


def test_an_empty_file_sets_nothing(loaded: Loader) -> None:
    assert loaded("# nothing\n").of(House) == House()


def test_secrets_are_never_shown(loaded: Loader) -> None:
    text = """
house.alarm: "1234"
house.password: open-sesame
house.labels: {street: north, api-token: abcdef}
house: https://ana:url-password@example.org
spark.hadoop.fs.s3a.secret.key: hidden
spark.x.url: jdbc:postgresql://h/d?user=u&password=query-password
spark.master: local
"""
    configuration = loaded(text)
    shown = configuration.redacted()
    assert shown["house.alarm"] == shown["house.password"] == MASK
    assert shown["spark.hadoop.fs.s3a.secret.key"] == MASK
    assert shown["house.labels"] == f"street:north, api-token:{MASK}"
    assert shown["spark.master"] == "local"
    assert shown["house.warm-up"] == "5 min"
    everything = f"{shown}{configuration!r}"
    assert shown["house"] == f"https://{MASK}@example.org"
    for secret in ("1234", "open-sesame", "abcdef", "hidden"):
        assert secret not in everything
    assert "-password" not in f"{shown}"


def test_what_a_process_finds_out_at_its_start_replaces_what_was_set(loaded: Loader) -> None:
    configuration = loaded("house.doors: 3").with_values({"house.doors": 4})
    assert configuration.of(House).doors == 4
    assert configuration.redacted()["house.doors"] == "4"
    assert configuration.origin("house.doors") == "the start of this process"


def test_a_wrong_secret_is_not_quoted_in_the_error(folder: Path, home: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Vault:
        pin: int = option("vault.pin", "Opens it.", 0, secret=True)

    with pytest.raises(InvalidOption) as caught:
        load(
            OptionTree([Vault]),
            environment={},
            definitions=["vault.pin=hunter2"],
            folder=folder,
            home=home,
        )
    assert "hunter2" not in str(caught.value)


def test_another_process_reads_the_same_configuration_from_the_file_text(loaded: Loader) -> None:
    text = "house: {doors: 3, alarm: '1', labels: {a: b}, rooms: 'x, y', attic: 1 gb}\nspark.a: b"
    first = loaded(text)
    second = loaded(first.as_file_text())
    assert second.of(House) == first.of(House)
    assert second.spark == first.spark


def test_the_options_of_stoker_can_be_set(folder: Path, home: Path) -> None:
    configuration = load(
        OptionTree(ALL),
        environment={"STOKER_HEARTBEAT_INTERVAL": "1 s"},
        definitions=["heartbeat.timeout=5 s"],
        folder=folder,
        home=home,
    )
    options = configuration.of(HeartbeatOptions)
    assert (options.interval, options.timeout) == (timedelta(seconds=1), timedelta(seconds=5))


def test_options_that_contradict_each_other_are_named_with_their_places(
    folder: Path, home: Path
) -> None:
    with pytest.raises(InvalidOption, match=r"must exceed.*heartbeat\.timeout is from -D"):
        load(
            OptionTree(ALL),
            environment={},
            definitions=["heartbeat.timeout=5 s"],
            folder=folder,
            home=home,
        )
