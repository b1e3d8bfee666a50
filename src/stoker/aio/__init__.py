"""Tools for asyncio that all parts share: scopes, latest values, races, retries and more."""
