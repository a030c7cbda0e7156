"""Sockets of a running test: wait for them, and send requests."""

import asyncio


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  a file says nothing when it comes
            await asyncio.sleep(0.01)


async def send_request(path, data, *, close=False):
    """Return the response to these bytes; empty if the connection is broken. `close`: no more is sent."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    if close:
        writer.write_eof()
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
