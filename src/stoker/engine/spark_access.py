"""Refuses settings by which strangers could use the engine's Spark.

A Spark that is its own only executor makes a secret by itself, and all its ports are on loopback.
With other masters it has to be told both, and Spark's defaults let everybody in.
"""

from stoker.core.errors import InvalidOption
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import is_local, is_on_this_machine
from stoker.security.binding import check_binding

_AUTHENTICATE = "spark.authenticate"
_CONNECT_ADDRESS = "spark.connect.grpc.binding.address"
_DRIVER_HOST = "spark.driver.host"
_DRIVER_ADDRESSES = ("spark.driver.bindAddress", _DRIVER_HOST)
_LOOPBACK = "127.0.0.1"


def check_spark_access(options: EngineOptions) -> None:
    """Raises InvalidOption."""
    settings = options.spark_properties
    # Spark Connect has a token and no TLS.
    check_binding(settings.get(_CONNECT_ADDRESS, _LOOPBACK), _CONNECT_ADDRESS, authenticated=False)
    default = "true" if is_local(options.master) else ""
    authenticates = settings.get(_AUTHENTICATE, default)
    if not authenticates:
        raise InvalidOption(
            f"spark.master is {options.master}, and {_AUTHENTICATE} is not set: whoever reaches "
            f"the ports of Spark could run code there; set {_AUTHENTICATE}: true with a secret in "
            "spark.authenticate.secret, or false if only people whom you trust can reach them"
        )
    if not is_on_this_machine(options.master) and _DRIVER_HOST not in settings:
        raise InvalidOption(
            f"spark.master is {options.master}, and {_DRIVER_HOST} is not set: name the address of "
            "this machine at which executors reach the driver; nothing else of Spark listens there"
        )
    for key in _DRIVER_ADDRESSES:
        check_binding(settings.get(key, _LOOPBACK), key, authenticated=authenticates == "true")
