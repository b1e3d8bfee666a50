"""What whoever takes or restores savepoints is given."""

from dataclasses import dataclass, field

from stoker.savepoints.locations import OpenStorage
from stoker.savepoints.options import SavepointOptions
from stoker.storage.open import open_place


@dataclass(frozen=True, kw_only=True)
class SavepointServices:
    options: SavepointOptions = field(default_factory=SavepointOptions)
    open_storage: OpenStorage = open_place
