"""A greeter and its client.

    python -m petasos.compile -I protos --out generated protos/greeter.proto
    PYTHONPATH=generated python greeter.py serve --listen 127.0.0.1:7000 --grpc 127.0.0.1:7001
    PYTHONPATH=generated python greeter.py call petasos://127.0.0.1:7000 Ada Grace

With `--join router://HOST:PORT` the greeter is a worker of a group as well, which is called by the
address of its router: `call router://HOST:PORT Ada Grace`.
"""

import argparse
import asyncio
import sys
from typing import Optional

import greeter_pb2 as pb
import greeter_petasos as hello

import petasos
import petasos.aio


class Greeter(hello.GreeterServicer):
    """Greets."""

    async def Greet(self, request, context):
        if not request.name:
            await context.abort(petasos.StatusCode.INVALID_ARGUMENT, "nobody is named")
        return pb.Greeting(text=f"Hello, {request.name}")

    async def GreetAll(self, requests, context):
        async for request in requests:
            yield pb.Greeting(text=f"Hello, {request.name}")


async def serve(listen: str, grpc: str, group: Optional[str]) -> None:
    """Serves until the standard input ends."""
    server = petasos.aio.Server()
    server.listen(listen)
    server.listen_grpc(grpc)
    if group is not None:
        server.join(group)
    hello.add_GreeterServicer_to_server(Greeter(), server)
    await server.start()
    print(server.port, server.grpc_port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(grace=1)


async def call(target: str, names: "list[str]") -> None:
    """Greets the first name with a unary call, then all names with a stream."""
    async with petasos.aio.Channel(target) as channel:
        stub = hello.GreeterStub(channel)
        # In a group, the same worker greets those who have the same name.
        routing = petasos.Routing.by_key(names[0].encode())
        greeting = await stub.Greet(pb.Name(name=names[0]), timeout=5, routing=routing)
        print(greeting.text)
        async for greeting in stub.GreetAll(pb.Name(name=name) for name in names):
            print(greeting.text)


def main() -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve")
    serving.add_argument("--listen", default="127.0.0.1:7000")
    serving.add_argument("--grpc", default="127.0.0.1:7001")
    serving.add_argument("--join", metavar="GROUP")
    calling = commands.add_parser("call")
    calling.add_argument("target")
    calling.add_argument("names", nargs="+")
    given = parser.parse_args()
    try:
        if given.command == "serve":
            asyncio.run(serve(given.listen, given.grpc, given.join))
        else:
            asyncio.run(call(given.target, given.names))
    except petasos.RpcError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
