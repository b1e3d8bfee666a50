"""Mapping of keys to ZooKeeper nodes.

A key is a node without children; the parts before its last one are folders, whose names begin with
a plus: `jobs/3f` is `/root/+jobs/3f`. So a folder is never mistaken for a key with an empty value,
and no transaction can change a folder by mistake.
"""

from stoker.ha.transaction import ancestors

_FOLDER = "+"
_LITERAL = "-"
"""Prefix for a name that itself begins with one of the two characters."""


class Paths:
    def __init__(self, root: str) -> None:
        self.root = root

    def of_key(self, key: str) -> str:
        *folders, name = key.split("/")
        escaped = f"{_LITERAL}{name}" if name.startswith((_FOLDER, _LITERAL)) else name
        return "/".join([self.root, *(f"{_FOLDER}{part}" for part in folders), escaped])

    def of_folder(self, key: str) -> str:
        """Folder of the keys below this one."""
        return "/".join([self.root, *(f"{_FOLDER}{part}" for part in key.split("/"))])

    def folders_above(self, key: str) -> list[str]:
        """From the outermost to the innermost."""
        return [self.of_folder(ancestor) for ancestor in ancestors(key)]


def name_of(node: str) -> str:
    """The part of a key that a child node of a folder represents."""
    return node[1:] if node.startswith((_FOLDER, _LITERAL)) else node


def is_folder(node: str) -> bool:
    return node.startswith(_FOLDER)
