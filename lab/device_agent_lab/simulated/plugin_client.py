"""A connection to a plugin that behaves like grpc-go."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import grpclib.client
from grpclib import GRPCError
from grpclib.config import Configuration
from grpclib.const import Cardinality, Status
from grpclib.exceptions import StreamTerminatedError
from grpclib.metadata import Deadline
from grpclib.protocol import AbstractHandler, H2Protocol
from h2.config import H2Configuration
from h2.errors import ErrorCodes
from h2.events import RemoteSettingsChanged

from agent.kubelet.messages import v1beta1
from device_agent_lab.simulated.errors import RpcError

# grpc-go's default; the kubelet does not raise it.
RECEIVE_LIMIT = 4_194_304

# grpc-go starts with the window of HTTP/2 itself.
_WINDOW = 65_535

T = TypeVar("T")


def format_code(status: Status) -> str:
    """Return a status code as grpc-go prints it."""
    names = {Status.OK: "OK", Status.CANCELLED: "Canceled"}
    return names.get(status) or status.name.title().replace("_", "")


def format_timeout(seconds: float) -> str:
    """Return grpc-timeout as grpc-go writes it: the finest unit that fits eight digits."""
    nanoseconds = max(int(seconds * 1e9), 0)
    for unit, size in (("n", 1), ("u", 1_000), ("m", 1_000_000)):
        if (count := -(-nanoseconds // size)) < 100_000_000:
            return f"{count}{unit}"
    return f"{-(-nanoseconds // 1_000_000_000)}S"


class _Protocol(H2Protocol):
    """Waits for the first HTTP/2 frame of the peer. Before that, grpc-go does not use a connection."""

    def __init__(self, reader: AbstractHandler, config: Configuration, h2_config: H2Configuration) -> None:
        super().__init__(reader, config, h2_config)
        self.settings_received = asyncio.Event()
        self.connection_ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", transport)
        previous_handler = self.processor.processors[RemoteSettingsChanged]

        def handle_settings(event: Any) -> None:  # noqa: ANN401
            cast("Callable[[Any], None]", previous_handler)(event)
            self.settings_received.set()

        cast("dict[Any, Any]", self.processor.processors)[RemoteSettingsChanged] = handle_settings

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.connection_ended.set()
        self.settings_received.set()


class _Call(grpclib.client.Stream[Any, Any]):
    """One call with the headers, the receive limit and the cancellation of grpc-go."""

    _channel: "_Channel"
    size = 0

    async def send_request(self, *, end: bool = False) -> None:
        with self._wrapper:
            protocol = await self._channel.__connect__()
            stream = protocol.processor.connection.create_stream(wrapper=self._wrapper)
            headers = [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", self._method_name),
                (":authority", self._channel.authority),
                ("content-type", "application/grpc"),
                ("user-agent", self._channel.user_agent),
                ("te", "trailers"),
                ("grpc-accept-encoding", "gzip"),
            ]
            if self._deadline is not None:
                headers.append(("grpc-timeout", format_timeout(self._deadline.time_remaining())))
            self._release_stream = await stream.send_request(headers, end_stream=end, _processor=protocol.processor)
            self._stream = stream
            self._send_request_done = True

    async def recv_message(self) -> Any:  # noqa: ANN401
        if not self._recv_initial_metadata_done:
            await self.recv_initial_metadata()
        with self._wrapper:
            head = await self._stream.recv_data(5)
            if not head:
                return None
            if head[0]:
                raise GRPCError(Status.INTERNAL, "grpc: compressed flag set with identity or empty encoding")
            self.size = int.from_bytes(head[1:], "big")
            if self.size > RECEIVE_LIMIT:
                text = f"grpc: received message larger than max ({self.size} vs. {RECEIVE_LIMIT})"
                raise GRPCError(Status.RESOURCE_EXHAUSTED, text)
            raw = await self._stream.recv_data(self.size)
            return self._codec.decode(raw, self._recv_type)

    async def __aexit__(self, *exc: object) -> None:
        if exc[0] is not None and self._send_request_done and self._stream.closable:
            self._stream.reset_nowait(ErrorCodes.CANCEL)
        await super().__aexit__(*cast("Any", exc))


class _Channel(grpclib.client.Channel):
    """Connects only once. After the loss of its connection a client of the kubelet ends."""

    _protocol: "_Protocol | None"

    def __init__(self, path: str, authority: str, user_agent: str) -> None:
        config = Configuration(http2_connection_window_size=_WINDOW, http2_stream_window_size=_WINDOW)
        super().__init__(path=path, config=config)
        self.authority = authority
        self.user_agent = user_agent

    def _protocol_factory(self) -> H2Protocol:
        return _Protocol(grpclib.client.Handler(), self._config, self._h2_config)

    async def connect(self) -> None:
        self._protocol = cast("_Protocol", await self._create_connection())
        await self._protocol.settings_received.wait()
        if self._protocol.connection_ended.is_set():
            raise ConnectionResetError("connection closed before server preface received")

    async def __connect__(self) -> H2Protocol:
        if self._protocol is None or self._protocol.connection_ended.is_set():
            raise ConnectionResetError("connection closed")
        return self._protocol

    def request(self, name: str, cardinality: Cardinality, request_type: Any, reply_type: Any, **options: Any) -> _Call:  # noqa: ANN401
        seconds: float | None = options.get("timeout")
        return _Call(
            self,
            name,
            cast("Any", {}),
            cardinality,
            request_type,
            reply_type,
            codec=self._codec,
            status_details_codec=None,
            dispatch=self.__dispatch__,
            deadline=None if seconds is None else Deadline.from_timeout(seconds),
        )

    def drop(self) -> None:
        """Abort the connection, as the end of a process does."""
        if self._protocol is not None:
            self._protocol.transport.abort()


class Peer:
    """An open connection. Every call fails only with RpcError."""

    def __init__(self, channel: _Channel) -> None:
        self.channel = channel
        self.plugin = v1beta1.DevicePluginStub(channel)

    @classmethod
    async def dial(cls, path: str, *, authority: str, user_agent: str, limit: float, backoff: float) -> "Peer":
        """Connect as grpc.WithBlock: refused connections are retried after 1 s, and then times 1.6."""
        try:
            async with asyncio.timeout(limit):
                while True:
                    channel = _Channel(path, authority, user_agent)
                    try:
                        await channel.connect()
                        return cls(channel)
                    except OSError:
                        channel.close()
                        await asyncio.sleep(backoff)
                        backoff *= 1.6
                    except BaseException:
                        channel.close()
                        raise
        except TimeoutError:
            raise RpcError("DeadlineExceeded", "context deadline exceeded") from None

    async def receive_lists(
        self, receive: Callable[[v1beta1.ListAndWatchResponse, int], None], reading: asyncio.Event
    ) -> None:
        """Call ListAndWatch until it ends. Nothing is read while `reading` is clear.

        Raises:
            RpcError: the stream did not end with OK.
        """

        async def stream() -> None:
            call = self.channel.request(
                "/v1beta1.DevicePlugin/ListAndWatch",
                Cardinality.UNARY_STREAM,
                v1beta1.Empty,
                v1beta1.ListAndWatchResponse,
            )
            async with call:
                await call.send_message(v1beta1.Empty(), end=True)
                while True:
                    await reading.wait()
                    message = await call.recv_message()
                    if message is None:
                        return
                    try:
                        receive(message, call.size)
                    except Exception as error:
                        receive_errors.append(error)
                        raise

        receive_errors: list[Exception] = []
        try:
            await call_plugin(stream())
        except RpcError:
            # An error in `receive` is not an error of the plugin.
            if receive_errors:
                raise receive_errors[0] from None
            raise

    async def close(self) -> None:
        """Send the remaining data if the plugin reads, and return after the end of the connection."""
        protocol = self.channel._protocol  # noqa: SLF001
        self.channel.close()
        if protocol is None:
            return
        try:
            async with asyncio.timeout(1):
                await protocol.connection_ended.wait()
        except TimeoutError:
            protocol.transport.abort()
            await protocol.connection_ended.wait()

    def drop(self) -> None:
        self.channel.drop()


async def call_plugin(call: Awaitable[T]) -> T:
    """Return the answer to a call.

    Raises:
        RpcError: the call failed.
    """
    try:
        return await call
    except GRPCError as error:
        raise RpcError(format_code(error.status), error.message or "") from None
    except TimeoutError:
        raise RpcError("DeadlineExceeded", "context deadline exceeded") from None
    except (StreamTerminatedError, OSError) as error:
        raise RpcError("Unavailable", f"error reading from server: {error}") from None
    except RpcError:
        raise
    except Exception as error:  # invalid data of a plugin ends only its own call
        raise RpcError("Internal", f"{type(error).__name__}: {error}") from error
