"""A loaded job on its way to a master."""

from stoker.client.blocking import BlockingClient
from stoker.core.ids import JobId
from stoker.pipeline.building import LoadedJob


def submit(client: BlockingClient, loaded: LoadedJob) -> JobId:
    return client.submit(loaded.graph, loaded.files_by_hash).job_id
