"""The authoring API: what a user imports to write a job."""

from stoker.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]
