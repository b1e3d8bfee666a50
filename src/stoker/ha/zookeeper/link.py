"""One session with ZooKeeper, and the only place where kazoo's threads meet the event loop.

When a session expires, kazoo would begin another one. A link does not: a request that was meant
for one session must never be carried out by its successor, which owns no ephemeral keys.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, ConnectionLoss, KazooException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import _CONNECTION_DROP
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from stoker.aio.latest import Latest
from stoker.aio.threads import BlockingThread
from stoker.core.errors import CoordinatorUnavailable, InvalidOption
from stoker.ha.coordinator import ConnectionState
from stoker.ha.zookeeper.failures import is_loss_of_contact, session_over
from stoker.ha.zookeeper.location import Location
from stoker.ha.zookeeper.options import AccessControl, ZooKeeperOptions

log = logging.getLogger(__name__)

# kazoo warns at each attempt to reach each server, for as long as an outage lasts.
_kazoo_log = log.getChild("kazoo")
_kazoo_log.setLevel(logging.ERROR)

RECONNECT_SECONDS: Final = 0.1
LONGEST_RECONNECT_SECONDS: Final = 1.0
PATIENCE: Final = 2 / 3
"""Fraction of the session timeout to wait for an answer."""
_NEWS_SECONDS: Final = 1.0
"""How long to wait after a failure until kazoo reports the state of the connection."""
_END_SECONDS: Final = 2.0
"""How long a server may take to confirm the end of a session."""

Submit = Callable[[Any], Any]
"""Makes one of the `*_async` calls of a KazooClient."""
TellState = Callable[[ConnectionState], None]
"""Reports each change of the state of the session."""
TellEvent = Callable[[str], None]
"""Reports the path of a watched node that has changed."""

_STATES: Final = {
    KazooState.CONNECTED: ConnectionState.CONNECTED,
    KazooState.SUSPENDED: ConnectionState.SUSPENDED,
    KazooState.LOST: ConnectionState.LOST,
}


class Link:
    """Created by `open`.

    Only methods that begin with `_thread_`, and `connect_once`, run in kazoo's threads.
    """

    def __init__(
        self,
        location: Location,
        options: ZooKeeperOptions,
        *,
        report_state: TellState,
        report_event: TellEvent,
    ) -> None:
        self.session = ""
        self.session_timeout = options.session_timeout.total_seconds()
        self._location = location
        self._report_state = report_state
        self._report_event = report_event
        self._loop = asyncio.get_running_loop()
        self._state = Latest(ConnectionState.SUSPENDED)
        self._news = Latest(0)
        self._over = threading.Event()
        self._ended = False
        self._client = _client(location, options)
        self._client.add_listener(self._thread_report_state)
        self._keep_to_one_session(self._client._connection)

    @classmethod
    async def open(
        cls,
        location: Location,
        options: ZooKeeperOptions,
        *,
        report_state: TellState,
        report_event: TellEvent,
    ) -> "Link":
        link = cls(location, options, report_state=report_state, report_event=report_event)
        try:
            await link._connect(options.connection_timeout.total_seconds())
        except BaseException:
            await link.end()
            raise
        return link

    @property
    def state(self) -> ConnectionState:
        return self._state.value

    async def call(self, submit: Submit) -> Any:
        """Send a request and return its answer.

        Raises kazoo's errors; or, when nothing was sent, those of the coordinator contract; or
        TimeoutError when there is no answer. Then the connection is dropped, so that time is left
        to find another server before the session ends.
        """
        self._require_contact()
        news = self._news.value
        answer = self._loop.create_future()
        submit(self._client).rawlink(lambda result: self._thread_tell(_settle, answer, result))
        try:
            async with asyncio.timeout(self.session_timeout * PATIENCE):
                return await answer
        except TimeoutError:
            self._drop_connection()
            await self._wait_for_news(news)
            raise
        except KazooException as error:
            if is_loss_of_contact(error):
                await self._wait_for_news(news)
            raise

    def send(self, submit: Submit) -> None:
        """Send a request, if there is contact, and ignore its answer."""
        if self._client.connected and not self._over.is_set():
            submit(self._client)

    def watcher(self) -> Callable[[WatchedEvent], None]:
        """The same callback for all watches, so that kazoo keeps one for each node."""
        return self._thread_report_event

    async def end(self) -> None:
        """End the session; with contact, its ephemeral nodes are removed at once."""
        if self._ended:
            return
        self._ended = True
        self._change(ConnectionState.LOST, self.session)
        thread = BlockingThread("zookeeper-end")
        try:
            stopping = asyncio.ensure_future(thread.run(self._stop))
            done, _ = await asyncio.wait([stopping], timeout=_END_SECONDS)
            if not done:
                self._drop_connection()
                await asyncio.shield(stopping)
        finally:
            await thread.close()

    async def _connect(self, seconds: float) -> None:
        self._client.start_async()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._state.wait_for_change(ConnectionState.SUSPENDED)
        if self.state is ConnectionState.CONNECTED:
            return
        if self._client.client_state == KeeperState.AUTH_FAILED:
            raise InvalidOption(
                f"ZooKeeper at {self._location} refuses the credentials; check the options "
                "high-availability.zookeeper.client.auth and .sasl"
            )
        raise CoordinatorUnavailable(
            f"no ZooKeeper server at {self._location} accepted a session within {seconds:g} s; "
            "check that a majority of them runs, and the option high-availability",
            location=str(self._location),
        )

    def _require_contact(self) -> None:
        if self.state is ConnectionState.LOST or self._over.is_set():
            raise session_over()
        if self.state is not ConnectionState.CONNECTED or not self._client.connected:
            raise CoordinatorUnavailable(
                f"no contact with ZooKeeper at {self._location}; try again later"
            )

    def _drop_connection(self) -> None:
        # Kazoo itself notices a silent server only when nothing else is sent.
        self._client._call(_CONNECTION_DROP, self._client.handler.async_result())

    async def _wait_for_news(self, known: int) -> None:
        """Wait for the state that kazoo reports right after a failure, so that both agree."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NEWS_SECONDS):
                await self._news.wait_for_change(known)

    def _change(self, state: ConnectionState, session: str) -> None:
        self._news.set(self._news.value + 1)
        if self.state is ConnectionState.LOST or state is self.state:
            return
        if session:
            self.session = session
        log.info("session %s with %s is %s", self.session, self._location, state.value)
        self._state.set(state)
        self._report_state(state)

    def _event(self, path: str) -> None:
        if not self._ended:
            self._report_event(path)

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()

    def _keep_to_one_session(self, connection: Any) -> None:
        """Wrap the one place where kazoo begins sessions.

        kazoo has no setting that forbids a second session, and does not tell which session timeout
        the servers granted.
        """
        connect = connection._connect

        def connect_once(*address: Any) -> tuple[float, float]:
            if self._over.is_set():
                raise ConnectionDropped("the session is over")
            read_timeout, connect_timeout = connect(*address)
            self.session_timeout = connect_timeout * len(self._client.hosts) / 1000
            return read_timeout, connect_timeout

        connection._connect = connect_once

    def _thread_report_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self._over.set()
        identity = self._client.client_id
        session = owner_text(identity[0]) if identity else ""
        self._thread_tell(self._change, _STATES[state], session)

    def _thread_report_event(self, event: WatchedEvent) -> None:
        # Events without a path are about the session, whose state is told in another way.
        if event.type != EventType.NONE:
            self._thread_tell(self._event, event.path)

    def _thread_tell(self, call: Callable[..., None], *args: Any) -> None:
        # A closed loop has nobody left to inform.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *args)


def owner_text(session: int) -> str:
    """A session id as in `Versioned.owner`. Ids are signed, and negative ones occur."""
    return f"{session & 0xFFFF_FFFF_FFFF_FFFF:x}"


def _settle(answer: "asyncio.Future[Any]", result: Any) -> None:
    if answer.done():
        return
    error = result.exception
    if error is None:
        answer.set_result(result.value)
    elif isinstance(error, KazooException):
        answer.set_exception(error)
    else:
        # kazoo did not understand an answer, and drops the connection after it.
        answer.set_exception(ConnectionLoss(repr(error)))


def _client(location: Location, options: ZooKeeperOptions) -> Any:
    handler = SequentialThreadingHandler()
    return KazooClient(
        hosts=",".join(location.hosts),
        timeout=options.session_timeout.total_seconds(),
        handler=handler,
        default_acl=(CREATOR_ALL_ACL if options.acl is AccessControl.CREATOR else OPEN_ACL_UNSAFE),
        auth_data=options.credentials,
        sasl_options=_sasl(options),
        connection_retry=KazooRetry(
            max_tries=-1,
            delay=RECONNECT_SECONDS,
            max_delay=LONGEST_RECONNECT_SECONDS,
            sleep_func=handler.sleep_func,
        ),
        logger=_kazoo_log,
        use_ssl=options.tls,
        ca=options.tls_authorities,
        certfile=options.tls_certificate,
        keyfile=options.tls_key,
        keyfile_password=options.tls_key_password,
        verify_certs=options.tls_verify,
        check_hostname=options.tls_verify and options.tls_check_hostname,
    )


def _sasl(options: ZooKeeperOptions) -> dict[str, str] | None:
    if options.sasl_mechanism is None:
        return None
    settings = {
        "mechanism": options.sasl_mechanism,
        "service": options.sasl_service,
        "username": options.sasl_username,
        "password": options.sasl_password,
        "principal": options.sasl_principal,
    }
    return {name: value for name, value in settings.items() if value is not None}
