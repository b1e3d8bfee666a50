"""A loaded job on its way to a master."""

from stoker.client.blocking import BlockingClient
from stoker.core.ids import JobId
from stoker.pipeline.building import LoadedJob


def submit(client: BlockingClient, loaded: LoadedJob) -> JobId:
    contents = {artifact.name: artifact.sha256 for artifact in loaded.graph.artifacts}
    files = {contents[name]: path for name, path in loaded.files.items()}
    return client.submit(loaded.graph, files).job_id
