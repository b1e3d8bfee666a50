"""Changes of the tokens and of the leader's configuration, as events.

Masters read both from files, which people change while a cluster runs, and between two leaders. So
the settings that were told last are on record, and each leader compares them with its own.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stoker.core.errors import CorruptContent, Fenced, SessionExpired, StokerError
from stoker.core.failpoints import failpoint
from stoker.events.event import EventKind
from stoker.events.intake import EventRecorder
from stoker.ha import keys
from stoker.ha.coordinator import Create, Op, Put
from stoker.ha.leadership import Leadership
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 5.0
MAX_NOTED: Final = 1000
"""Most tokens, and most options, whose changes are told."""


class NotedSettings(StoredRecord, frozen=True, kw_only=True):
    """Value of `events/settings`."""

    tokens: dict[str, str] = {}
    configuration: dict[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Settings:
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Name and role of each token, by its id; never the token itself."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """The options that are set, without secrets."""


ReadSettings = Callable[[], Settings]


def no_settings() -> Settings:
    return Settings()


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Pure. What was added, removed or changed, by its name."""
    found = {name: f"added: {now[name]}" for name in now if name not in before}
    found |= {name: f"removed: {before[name]}" for name in before if name not in now}
    found |= {
        name: f"changed: {before[name]} → {value}"
        for name, value in now.items()
        if name in before and before[name] != value
    }
    return dict(sorted(found.items()))


class SettingsWatch:
    """Lives as long as one leadership."""

    def __init__(
        self, leadership: Leadership, record: EventRecorder, read_settings: ReadSettings
    ) -> None:
        self._leadership = leadership
        self._record = record
        self._read_settings = read_settings

    async def run(self) -> None:
        """Compare from time to time; returns when the leadership is over."""
        told: NotedSettings | None = None
        while True:
            try:
                now = _noted(self._read_settings())
                if now != told:
                    await self._tell(now)
                    told = now
            except (Fenced, SessionExpired):
                return
            except StokerError as error:
                log.info("the settings are compared later: %s", error)
            await asyncio.sleep(CHECK_SECONDS)

    async def _tell(self, now: NotedSettings) -> None:
        """Record the difference, then what was told; a leader that dies in between tells again."""
        found = await self._leadership.coordinator.read(keys.NOTED_SETTINGS)
        before = None
        if found is not None:
            try:
                before = decode_record(found.value, NotedSettings, keys.NOTED_SETTINGS)
            except CorruptContent as error:
                log.warning("the settings that were told last are not known: %s", error)
        if before == now:
            return
        if before is not None:
            self._record_differences(before, now)
        value = encode(now)
        op: Op = (
            Create(keys.NOTED_SETTINGS, value)
            if found is None
            else Put(keys.NOTED_SETTINGS, value, found.version)
        )
        failpoint("events.before-settings")
        await commit_or_read_back(
            self._leadership,
            [op],
            key=keys.NOTED_SETTINGS,
            is_ours=lambda there: there == value,
        )
        failpoint("events.after-settings")

    def _record_differences(self, before: NotedSettings, now: NotedSettings) -> None:
        tokens = differences(before.tokens, now.tokens)
        if tokens:
            names = ", ".join(tokens.values())
            self._record(EventKind.TOKENS_CHANGED, f"the tokens changed: {names}", data=tokens)
        options = differences(before.configuration, now.configuration)
        if options:
            self._record(
                EventKind.CONFIGURATION_CHANGED,
                f"the configuration of the leading master changed: {', '.join(options)}",
                data=options,
            )


def _noted(settings: Settings) -> NotedSettings:
    return NotedSettings(
        tokens=dict(sorted(settings.tokens.items())[:MAX_NOTED]),
        configuration=dict(sorted(settings.configuration.items())[:MAX_NOTED]),
    )
