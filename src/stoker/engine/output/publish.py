"""Publish the files of a batch sink exactly once, whichever process dies in between.

Spark's own commit can leave half of an output, or a second copy of it when a task is repeated. So
an attempt writes into a staging directory of its own. A record, created once, decides that this
output counts; only then do its files move to the target.

The order matters: before the record nothing at the target changes, and a failure removes the
staged files. After it the staged files are the output, and every later attempt finishes moving
them and computes nothing.
"""

import asyncio
import hashlib
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

from stoker.core.failpoints import failpoint
from stoker.core.formats import known_format
from stoker.core.graph import FormatWrite, Sink
from stoker.core.manifests import Manifest, Publication
from stoker.engine.failures import CannotRun
from stoker.engine.output.files import OutputFiles, files_of
from stoker.engine.output.manifest import manifest_of
from stoker.engine.output.plan import MissingFile, Move, Remove, replaced_by, steps
from stoker.engine.protocol import RunTask
from stoker.ha.stores.storage_records import PublicationStore
from stoker.storage.open import open_storage

Write = Callable[[str], None]
"""Lets Spark write the output into a directory that does not exist yet."""

_STAGED = ".stoker-"


def publisher_for(task: RunTask, sink: Sink) -> "Publisher | None":
    """None if the output is not a directory of files that this machine can reach.

    Spark alone writes such an output, with the guarantees of its format.
    """
    write = sink.write
    if not isinstance(write, FormatWrite) or write.table is not None:
        return None
    target = target_of(write)
    known = known_format(write.format)
    if target is None or known is None or not known.files:
        return None
    files = files_of(target)
    if files is None or (files.exists(target) and not files.is_folder(target)):
        return None
    return Publisher(task, sink, files, target)


def target_of(write: FormatWrite) -> str | None:
    path = write.path or write.options.get("path")
    return path.rstrip("/") if path and path.strip("/") else None


class Publisher:
    def __init__(self, task: RunTask, sink: Sink, files: OutputFiles, target: str) -> None:
        self._task = task
        self._sink = sink
        self._files = files
        self._target = target
        self._mode = sink.mode or "errorifexists"
        self._decisions = PublicationStore(open_storage(task.materialized_root))
        region = hashlib.sha256(task.region.id.encode()).hexdigest()[:8]
        self._prefix = f"{_STAGED}{task.graph.job_id}-{region}-"

    def finish_earlier_attempt(self) -> Manifest | None:
        """Finish the publication that an earlier attempt decided; None if none got that far."""
        with _uninterrupted():
            decided = asyncio.run(self._decisions.read(self._task.region.id))
            if decided is None:
                return None
            self._publish(decided)
            return decided.manifest

    def publish(self, write: Write, *, by_partition: bool) -> Manifest | None:
        """Write and publish the output; None if the mode is `ignore` and the target exists.

        `by_partition` makes an overwrite replace only the partitions that are written.
        """
        if not self._may_write():
            return None
        self._remove_leftovers()
        staged = self._staging_directory()
        manifest = self._stage(write, staged)
        if manifest is None:
            return None
        with _uninterrupted():
            # From here on these files are the output: no failure may remove them.
            decided = self._decide_and_publish(manifest, by_partition=by_partition)
            self._files.remove_folder(staged)
        return decided

    def _stage(self, write: Write, staged: str) -> Manifest | None:
        """Write the staged files; None, without files, if the target must not be written."""
        failpoint("publishing.before-staging")
        try:
            write(staged)
            failpoint("publishing.after-staging")
            manifest = self._manifest_of_staged(staged)
            # Somebody else may have created the target meanwhile.
            may_write = self._may_write()
        except BaseException:
            self._files.remove_folder(staged)
            raise
        if not may_write:
            self._files.remove_folder(staged)
            return None
        return manifest

    def _decide_and_publish(self, manifest: Manifest, *, by_partition: bool) -> Manifest:
        publication = Publication(
            manifest=manifest,
            target=self._target,
            replaces=self._replaced(manifest, by_partition=by_partition),
        )
        failpoint("publishing.before-record")
        decided = asyncio.run(self._decisions.decide(self._task.region.id, publication))
        failpoint("publishing.after-record")
        self._publish(decided)
        return decided.manifest

    def _may_write(self) -> bool:
        if self._mode not in ("errorifexists", "ignore") or not self._files.exists(self._target):
            return True
        if self._mode == "ignore":
            return False
        raise CannotRun(
            "PathAlreadyExists",
            f"{self._sink.name} writes to {self._target}, which already exists; choose another "
            "path, or mode append, overwrite or ignore",
        )

    def _staging_directory(self) -> str:
        """A directory on the target's file system that readers of the target ignore.

        It lies inside a target that exists, because the parent may not be writable.
        """
        inside = self._files.exists(self._target)
        parent = self._target if inside else _parent(self._target)
        return f"{parent}/{self._prefix}{self._task.attempt}"

    def _manifest_of_staged(self, staged: str) -> Manifest:
        if not self._files.exists(staged):
            raise CannotRun(
                "OutputNotFound",
                f"Spark has written {self._sink.name} to {staged}, but this machine does not see "
                "it there; use a file system that Spark's executors and task executors share",
            )
        return manifest_of(self._files, staged, self._task.attempt, checksums=False)

    def _replaced(self, manifest: Manifest, *, by_partition: bool) -> tuple[str, ...]:
        if self._mode != "overwrite":
            return ()
        present = [path for path in self._files.sizes(self._target) if not path.startswith(_STAGED)]
        return replaced_by(manifest.files, present, whole=not by_partition)

    def _publish(self, publication: Publication) -> None:
        """Move the staged files; continues where a publication was cut off."""
        files = self._files
        staged = publication.manifest.directory
        target = publication.target
        if not files.exists(target) and files.exists(staged):
            failpoint("publishing.before-a-move")
            files.move_folder(staged, target)
            failpoint("publishing.after-a-move")
        try:
            todo = steps(publication, staged=files.sizes(staged), present=files.sizes(target))
        except MissingFile as error:
            raise CannotRun(
                "OutputIncomplete",
                f"the output of {self._sink.name} was complete at {staged}, but {error.path} was "
                f"removed before it was published at {target}; run the job again",
            ) from error
        for step in todo:
            match step:
                case Move(path):
                    failpoint("publishing.before-a-move")
                    files.move(f"{staged}/{path}", f"{target}/{path}")
                    failpoint("publishing.after-a-move")
                case Remove(path):
                    failpoint("publishing.before-removing-replaced")
                    files.remove(f"{target}/{path}")
                case _:
                    assert_never(step)
        failpoint("publishing.before-removing-staged")
        files.remove_folder(staged)
        failpoint("publishing.after-removing-staged")

    def _remove_leftovers(self) -> None:
        """Remove staging directories of dead attempts: attempts of one region never overlap."""
        for parent in (self._target, _parent(self._target)):
            for name in self._files.folders(parent):
                if name.startswith(self._prefix):
                    self._files.remove_folder(f"{parent}/{name}")


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back a cancellation until the output that was decided is published."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
