"""Options of calls and registrations."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class RpcOptions:
    ask_timeout: timedelta = option(
        "rpc.ask-timeout", "How long a call waits for its answer.", timedelta(seconds=10)
    )
    frame_size: ByteSize = option(
        "rpc.framesize",
        "The largest request or answer that may cross the network.",
        ByteSize(10 * 1024 * 1024),
    )


@dataclass(frozen=True, kw_only=True)
class RegistrationOptions:
    initial_timeout: timedelta = option(
        "cluster.registration.initial-timeout",
        "How long the first attempt to register waits; doubled whenever an attempt times out.",
        timedelta(milliseconds=100),
    )
    max_timeout: timedelta = option(
        "cluster.registration.max-timeout",
        "The longest that an attempt to register waits.",
        timedelta(seconds=30),
    )
    error_delay: timedelta = option(
        "cluster.registration.error-delay",
        "The pause after an attempt to register that ended in an error.",
        timedelta(seconds=10),
    )
    refused_delay: timedelta = option(
        "cluster.registration.refused-registration-delay",
        "The pause after an attempt to register that was refused for now.",
        timedelta(seconds=30),
    )
