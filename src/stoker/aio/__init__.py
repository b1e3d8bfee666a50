"""Tools for asyncio that all parts share: scopes, the latest value, retry, clock, threads."""
