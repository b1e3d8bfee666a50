"""Which streams may write into an output while others are being submitted."""

import msgspec
import pytest

from builders import build_graph
from stoker.core.errors import OutputInUse
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, JobType, Sink, Source
from stoker.core.ids import JobId
from stoker.dispatcher.output_reservations import OutputReservations


def stream(number: int, path: str = "/out") -> JobGraph:
    return build_graph(
        Source(name="in", read=FormatRead(format="rate"), streaming=True),
        Sink(name="out", input="in", write=FormatWrite(format="parquet", path=path)),
        job_type=JobType.STREAMING,
        job_id=JobId(f"{number:032x}"),
    )


def test_an_output_is_reserved_from_the_check_until_the_end_of_the_submission() -> None:
    outputs = OutputReservations(list)
    with outputs.reserve(stream(1)):
        with pytest.raises(OutputInUse), outputs.reserve(stream(2)):
            pass
        with outputs.reserve(stream(3, "/other")):
            pass
    with outputs.reserve(stream(2)):
        pass


def test_a_failed_submission_gives_its_reservation_back() -> None:
    outputs = OutputReservations(list)
    with pytest.raises(ValueError, match="no"), outputs.reserve(stream(1)):
        raise ValueError("no")
    outputs.check(stream(2))


def test_the_outputs_of_live_streams_are_taken_by_them_alone() -> None:
    outputs = OutputReservations(lambda: [stream(1)])
    outputs.check(stream(1))
    with pytest.raises(OutputInUse, match="stoker stop 000000000000"):
        outputs.check(stream(2))


def test_a_batch_job_and_a_stream_are_kept_apart_in_both_orders() -> None:
    batch = msgspec.structs.replace(stream(2), job_type=JobType.BATCH)
    with pytest.raises(OutputInUse, match=r"a batch job would delete rows .*stoker stop 0000"):
        OutputReservations(lambda: [stream(1)]).check(batch)
    with pytest.raises(OutputInUse, match=r"a batch job would delete rows .*stoker cancel 0000"):
        OutputReservations(lambda: [batch]).check(stream(1))
