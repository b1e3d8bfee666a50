"""A frame that is a stream where the job says batch, or the reverse."""

from pyspark.errors import AnalysisException

from stoker.engine.failures import CannotRun
from stoker.engine.region.compile import DataFrame


class Mismatch:
    """Explains Spark's refusal when the frame is a stream and the region is not, or the reverse.

    Asking beforehand would cost every task a round trip.
    """

    def __init__(self, frame: DataFrame, name: str, *, streaming: bool) -> None:
        self._frame = frame
        self._name = name
        self._streaming = streaming

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, AnalysisException) or self._is_as_planned():
            return
        if self._streaming:
            message = (
                f"{self._name} has a trigger or a streaming source, but what it writes is a batch "
                "DataFrame; read with spark.readStream, or remove the trigger and streaming=True"
            )
        else:
            message = (
                f"{self._name} runs as batch, but what it writes is a stream; mark the source "
                "with streaming=True or give the sink a trigger"
            )
        raise CannotRun("StreamingMismatch", message) from error

    def _is_as_planned(self) -> bool:
        try:
            return bool(self._frame.isStreaming) == self._streaming
        except AnalysisException:
            return True
