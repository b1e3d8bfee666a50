"""A loaded job on its way to a master."""

from stoker.client.source import files_of
from stoker.client.transport_blocking import BlockingClient
from stoker.core.ids import JobId
from stoker.pipeline.building import LoadedJob


def submit(client: BlockingClient, loaded: LoadedJob) -> JobId:
    return client.submit(loaded.graph, files_of(loaded)).job_id
