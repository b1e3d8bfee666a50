"""Writes the OpenAPI document from which the web page's types are made."""

import sys
from pathlib import Path

from stoker import __version__
from stoker.rest.app import HANDLERS
from stoker.rest.openapi.document import openapi_document

if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(openapi_document(HANDLERS, __version__))
