"""Calls of every kind, over datagrams and over gRPC, between servers and clients in Python."""

import asyncio
import importlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import petasos
import petasos.aio
from petasos import RpcError, StatusCode
from petasos import compile as compiler

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
#: A folder with files in PEM for several names, all of one authority, if there is one.
CERTIFICATES = os.environ.get("PETASOS_TEST_CERTIFICATES")
#: Routers of groups that serve `flow.Flow`, as targets, if there are some.
ROUTERS = os.environ.get("PETASOS_TEST_ROUTERS", "").split()

PROTO = """
syntax = "proto3";
package flow;
import "google/protobuf/timestamp.proto";
import "parts/part.proto";

// Streams of every "shape".
service Flow {
  // Returns what it gets.
  rpc Echo(Chunk) returns (Chunk);
  rpc Produce(Chunk) returns (stream Chunk);
  rpc Collect(stream Chunk) returns (Chunk);
  rpc Chat(stream Chunk) returns (stream Chunk);
}

message Chunk {
  enum Kind { PLAIN = 0; FANCY = 1; }
  int64 number = 1;
  string text = 2;
  bytes data = 3;
  Kind kind = 4;
  map<string, parts.Part> parts = 5;
  google.protobuf.Timestamp at = 6;
  repeated parts.Part list = 7;
}
"""

PART = 'syntax = "proto3"; package parts; message Part { double weight = 1; }'

_folder = tempfile.TemporaryDirectory()


def setUpModule():
    """Compiles the file and imports what was made of it."""
    global pb, flow
    root = Path(_folder.name)
    (root / "protos" / "parts").mkdir(parents=True)
    (root / "protos" / "flow.proto").write_text(PROTO)
    (root / "protos" / "parts" / "part.proto").write_text(PART)
    code = compiler.main(
        ["-I", str(root / "protos"), "--out", str(root / "made"), str(root / "protos/flow.proto")]
    )
    assert code == 0
    sys.path.insert(0, str(root / "made"))
    pb = importlib.import_module("flow_pb2")
    flow = importlib.import_module("flow_petasos")


def tearDownModule():
    _folder.cleanup()


def servicer():
    """Does what the text of chunks asks for."""

    class Flow(flow.FlowServicer):
        def __init__(self):
            self.cancelled = asyncio.Event()
            self.started = asyncio.Event()

        async def Echo(self, request, context):
            if request.text == "fail":
                trailers = (("why", "asked"), ("why-bin", b"\0\xff"))
                await context.abort(StatusCode.NOT_FOUND, "no such thing", trailers)
            if request.text == "break":
                raise ValueError("broken")
            if request.text == "wait":
                self.started.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled.set()
            if request.text == "time":
                return pb.Chunk(number=int(context.time_remaining() is not None))
            if request.text == "metadata":
                await context.send_initial_metadata(context.invocation_metadata())
                context.set_trailing_metadata((("end", "here"),))
            return request

        async def Produce(self, request, context):
            if request.text == "endless":
                try:
                    while True:
                        yield request
                finally:
                    self.cancelled.set()
            for number in range(request.number):
                yield pb.Chunk(number=number, data=request.data)
            if request.text == "fail":
                raise RpcError(StatusCode.ABORTED, "that was all")

        async def Collect(self, requests, context):
            numbers = [chunk.number async for chunk in requests]
            return pb.Chunk(number=sum(numbers), text=str(len(numbers)))

        async def Chat(self, requests, context):
            async for chunk in requests:
                yield chunk

    return Flow()


class Calls:
    """Cases for any transport."""

    async def asyncSetUp(self):
        self.servicer = servicer()
        self.server = await self.serve(self.servicer)
        self.channel = petasos.aio.Channel(self.target())
        self.stub = flow.FlowStub(self.channel)

    async def asyncTearDown(self):
        await self.channel.close()
        await self.server.stop()

    async def serve(self, its_servicer):
        """A server that takes calls."""
        server = petasos.aio.Server()
        server.listen("127.0.0.1:0")
        server.listen_grpc("127.0.0.1:0")
        flow.add_FlowServicer_to_server(its_servicer, server)
        await server.start()
        return server

    async def fails(self, awaitable):
        """The error of a call that fails."""
        with self.assertRaises(RpcError) as caught:
            await asyncio.wait_for(awaitable, 30)
        return caught.exception

    async def test_messages_arrive_as_they_were_sent(self):
        chunk = pb.Chunk(number=-5, text="ä", data=bytes(range(256)), kind=pb.Chunk.FANCY)
        chunk.parts["one"].weight = 1.5
        chunk.list.add(weight=2)
        chunk.at.seconds = 7
        self.assertEqual(await self.stub.Echo(chunk), chunk)
        self.assertEqual(await self.stub.Echo(pb.Chunk()), pb.Chunk())
        large = pb.Chunk(data=b"x" * 1_000_000)
        self.assertEqual(await self.stub.Echo(large), large)

    async def test_many_calls_at_once(self):
        calls = [self.stub.Echo(pb.Chunk(number=number)) for number in range(500)]
        answers = await asyncio.gather(*calls)
        self.assertEqual([answer.number for answer in answers], list(range(500)))

    async def test_failures_tell_code_details_and_metadata(self):
        error = await self.fails(self.stub.Echo(pb.Chunk(text="fail")))
        self.assertEqual((error.code(), error.details()), (StatusCode.NOT_FOUND, "no such thing"))
        self.assertEqual(error.trailing_metadata(), (("why", "asked"), ("why-bin", b"\0\xff")))
        with self.assertLogs("petasos", "ERROR"):
            error = await self.fails(self.stub.Echo(pb.Chunk(text="break")))
        self.assertEqual(error.code(), StatusCode.UNKNOWN)
        self.assertIn("broken", error.details())

    async def test_metadata_travel_both_ways(self):
        given = (("key", "value"), ("key", "again"), ("blob-bin", b"\x01\x00"))
        call = self.stub.Echo(pb.Chunk(text="metadata"), metadata=given)
        await call
        there = await call.initial_metadata()
        self.assertEqual([entry for entry in there if entry in given], list(given))
        self.assertIn(("end", "here"), call.trailing_metadata())
        error = await self.fails(self.refused((("Bad key", "value"),)))
        self.assertEqual(error.code(), StatusCode.INVALID_ARGUMENT)

    async def refused(self, metadata):
        return await self.stub.Echo(pb.Chunk(), metadata=metadata)

    async def test_deadlines_reach_the_handler_and_end_it(self):
        self.assertEqual((await self.stub.Echo(pb.Chunk(text="time"))).number, 0)
        self.assertEqual((await self.stub.Echo(pb.Chunk(text="time"), timeout=60)).number, 1)
        error = await self.fails(self.stub.Echo(pb.Chunk(text="wait"), timeout=0.2))
        self.assertEqual(error.code(), StatusCode.DEADLINE_EXCEEDED)
        await asyncio.wait_for(self.servicer.cancelled.wait(), 30)

    async def test_cancelling_a_task_cancels_its_handler(self):
        async def wait():
            await self.stub.Echo(pb.Chunk(text="wait"))

        task = asyncio.ensure_future(wait())
        await asyncio.wait_for(self.servicer.started.wait(), 30)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(self.servicer.cancelled.wait(), 30)

    async def test_a_call_that_is_cancelled_says_so(self):
        call = self.stub.Echo(pb.Chunk(text="wait"))
        reading = asyncio.ensure_future(call.read())
        await asyncio.wait_for(self.servicer.started.wait(), 30)
        call.cancel()
        self.assertEqual((await self.fails(reading)).code(), StatusCode.CANCELLED)
        await asyncio.wait_for(self.servicer.cancelled.wait(), 30)

    async def test_responses_are_a_stream(self):
        chunks = [chunk async for chunk in self.stub.Produce(pb.Chunk(number=100, data=b"ab"))]
        self.assertEqual([chunk.number for chunk in chunks], list(range(100)))
        self.assertEqual({chunk.data for chunk in chunks}, {b"ab"})
        self.assertEqual([chunk async for chunk in self.stub.Produce(pb.Chunk())], [])
        call, got = self.stub.Produce(pb.Chunk(number=2, text="fail")), []
        with self.assertRaises(RpcError) as caught:
            async for chunk in call:
                got.append(chunk.number)
        self.assertEqual((got, caught.exception.code()), ([0, 1], StatusCode.ABORTED))

    async def test_who_stops_reading_ends_the_handler(self):
        stream = self.stub.Produce(pb.Chunk(text="endless")).__aiter__()
        for _ in range(10):
            await stream.__anext__()
        await stream.aclose()
        await asyncio.wait_for(self.servicer.cancelled.wait(), 30)

    async def test_requests_are_a_stream(self):
        def numbers():
            for number in range(50):
                yield pb.Chunk(number=number)

        answer = await self.stub.Collect(numbers())
        self.assertEqual((answer.number, answer.text), (sum(range(50)), "50"))
        call = self.stub.Collect()
        await call.write(pb.Chunk(number=7))
        await call.done_writing()
        self.assertEqual((await call).number, 7)
        self.assertEqual((await self.stub.Collect([])).text, "0")

    async def test_both_sides_are_streams(self):
        call = self.stub.Chat(timeout=60)
        for number in range(20):
            await call.write(pb.Chunk(number=number))
            self.assertEqual((await call.read()).number, number)
        await call.done_writing()
        self.assertIsNone(await call.read())
        self.assertIsNone(await call.read(), "and again")

        async def numbers():
            for number in range(200):
                yield pb.Chunk(number=number)

        answers = [chunk.number async for chunk in self.stub.Chat(numbers())]
        self.assertEqual(answers, list(range(200)))

    async def test_handlers_that_are_missing_are_unimplemented(self):
        server = await self.serve(flow.FlowServicer())
        stub = flow.FlowStub(petasos.aio.Channel(self.target(server)))
        error = await self.fails(stub.Echo(pb.Chunk()))
        self.assertEqual(error.code(), StatusCode.UNIMPLEMENTED)
        error = await self.fails(stub.Produce(pb.Chunk()).read())
        self.assertEqual(error.code(), StatusCode.UNIMPLEMENTED)
        await server.stop()

    async def test_a_server_that_stops_lets_calls_finish(self):
        waiting = asyncio.ensure_future(self.stub.Echo(pb.Chunk(text="wait")).read())
        await asyncio.wait_for(self.servicer.started.wait(), 30)
        await self.server.stop(grace=0.1)
        self.assertEqual((await self.fails(waiting)).code(), StatusCode.UNAVAILABLE)
        self.assertTrue(self.servicer.cancelled.is_set())


class Datagrams(Calls, unittest.IsolatedAsyncioTestCase):
    """Over Petasos' own protocol."""

    def target(self, server=None):
        return f"petasos://127.0.0.1:{(server or self.server).port}"


class Grpc(Calls, unittest.IsolatedAsyncioTestCase):
    """Over gRPC."""

    def target(self, server=None):
        return f"grpc://127.0.0.1:{(server or self.server).grpc_port}"


@unittest.skipUnless(ROUTERS, "PETASOS_TEST_ROUTERS names no routers")
class Routed(Calls, unittest.IsolatedAsyncioTestCase):
    """To groups of workers; each server is one of its own."""

    async def asyncSetUp(self):
        self.routers = {}
        await super().asyncSetUp()

    async def serve(self, its_servicer, target=None, **options):
        target = target or next(it for it in ROUTERS if it not in self.routers.values())
        server = petasos.aio.Server()
        server.listen("127.0.0.1:0")
        # Calls wait for Python rather than in the router, which gives up after a second.
        server.join(target, **{"bound": 4095, **options})
        flow.add_FlowServicer_to_server(its_servicer, server)
        await server.start()
        self.routers[server] = target
        await self.until(lambda: server.joined() == [True])
        return server

    async def until(self, holds):
        async def wait():
            while not holds():
                await asyncio.sleep(0.005)

        await asyncio.wait_for(wait(), 60)

    def target(self, server=None):
        return self.routers[server or self.server]

    def named(self, name):
        """A servicer that answers with a name."""

        class Named(flow.FlowServicer):
            async def Echo(self, request, context):
                return pb.Chunk(text=name)

        return Named()

    async def who(self, routing=None):
        return (await self.stub.Echo(pb.Chunk(), timeout=60, routing=routing)).text

    async def test_calls_go_to_the_primary_by_a_key_or_to_anybody(self):
        target = self.target()
        await self.server.stop()
        servers = [
            await self.serve(self.named(name), target, **options)
            for name, options in [("a", {}), ("b", {"primary": True, "bound": 8}), ("c", {})]
        ]
        primary = petasos.Routing.to_primary()
        self.assertEqual({await self.who(primary) for _ in range(10)}, {"b"})
        keys = [petasos.Routing.by_key(b"%d" % key) for key in range(60)]
        first, again = [[await self.who(key) for key in keys] for _ in range(2)]
        # While a worker's feedback is late, its keys may go to others.
        stay = sum(one == other for one, other in zip(first, again))
        self.assertGreaterEqual(stay, 40, (first, again))
        self.assertEqual(set(first), {"a", "b", "c"})
        anybody = petasos.Routing(is_idempotent=True, priority=15)
        all_seen = set()
        while len(all_seen) < 3:
            all_seen.add(await self.who(anybody))
        for server in servers:
            await server.stop()

    async def test_a_router_whose_queue_is_full_says_so(self):
        target = os.environ["PETASOS_TEST_NARROW_ROUTER"]
        server = await self.serve(servicer(), target)
        async with petasos.aio.Channel(target) as channel:
            stub = flow.FlowStub(channel)
            held = [stub.Echo(pb.Chunk(text="wait")) for _ in range(5)]
            reading = [asyncio.ensure_future(call.read()) for call in held]
            # The worker has one, and one waits in the router: there is no place for three.
            done = set()
            while len(done) < 3:
                done, _ = await asyncio.wait(reading, timeout=60, return_when="FIRST_COMPLETED")
                self.assertTrue(done)
                await asyncio.sleep(0.005)
            for failed in (task.exception() for task in done):
                self.assertEqual(failed.code(), StatusCode.RESOURCE_EXHAUSTED)
                self.assertIn("the queue of the group's router is full", failed.details())
            for call, task in zip(held, reading):
                if task not in done:
                    call.cancel()
                    self.assertEqual((await self.fails(task)).code(), StatusCode.CANCELLED)
        await server.stop()

    async def test_what_is_wrong_with_groups_is_told(self):
        wrong = petasos.Routing(petasos.RoutePolicy.ANY, b"key")
        with self.assertRaises(RpcError) as caught:
            self.stub.Echo(pb.Chunk(), routing=wrong)
        self.assertEqual(caught.exception.code(), StatusCode.INVALID_ARGUMENT)
        with self.assertRaises(ValueError):
            self.stub.Echo(pb.Chunk(), routing=petasos.Routing(priority=-1))
        server = petasos.aio.Server()
        with self.assertRaises(ValueError):
            server.join(self.target(), bound=0)
        server.join("petasos://127.0.0.1:7000")
        server.listen("127.0.0.1:0")
        flow.add_FlowServicer_to_server(servicer(), server)
        with self.assertRaises(RpcError) as caught:
            await server.start()
        self.assertEqual(caught.exception.code(), StatusCode.INVALID_ARGUMENT)

    async def test_routers_that_refuse_are_told(self):
        server = petasos.aio.Server()
        server.listen("127.0.0.1:0")
        server.join(os.environ["PETASOS_TEST_OTHER_ROUTER"])
        flow.add_FlowServicer_to_server(servicer(), server)
        async with server:
            await self.until(lambda: isinstance(server.joined()[0], RpcError))
            self.assertIn("hello.Greeter", server.joined()[0].details())


class Compiler(unittest.TestCase):
    """What is wrong in files is told with its place."""

    def test_errors_say_where(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "bad.proto").write_text('syntax = "proto3";\nmessage A { Nope a = 1; }\n')
            with self.assertRaises(RpcError) as caught:
                compiler.generate(["bad.proto"], [folder])
        self.assertEqual(caught.exception.code(), StatusCode.INVALID_ARGUMENT)
        self.assertIn("bad.proto:2:", caught.exception.details())

    def test_comments_become_documentation(self):
        self.assertEqual(flow.FlowStub.__doc__, 'Streams of every "shape".')
        self.assertEqual(flow.FlowServicer.Echo.__doc__, "Returns what it gets.")


@unittest.skipUnless(CERTIFICATES, "PETASOS_TEST_CERTIFICATES names no folder")
class Secured(unittest.IsolatedAsyncioTestCase):
    """Both ends prove who they are, on both ports."""

    def tls(self, name, peer_name):
        part = lambda part: Path(CERTIFICATES, f"{name}-{part}.pem")
        return petasos.Tls(part("ca"), part("cert"), part("key"), peer_name)

    async def echo(self, target, tls):
        async with petasos.aio.Channel(target, tls=tls, connect_timeout=20) as channel:
            return await flow.FlowStub(channel).Echo(pb.Chunk(number=3), timeout=30)

    async def test_who_proves_to_be_the_right_one_is_let_in(self):
        server = petasos.aio.Server(tls=self.tls("server.test", "client.test"))
        server.listen("127.0.0.1:0")
        server.listen_grpc("127.0.0.1:0")
        flow.add_FlowServicer_to_server(servicer(), server)
        async with server:
            for target in f"petasos://127.0.0.1:{server.port}", f"grpcs://127.0.0.1:{server.grpc_port}":
                answer = await self.echo(target, self.tls("client.test", "server.test"))
                self.assertEqual(answer.number, 3)
                for name, peer in ("stranger.test", "server.test"), ("client.test", "other.test"):
                    with self.assertRaises(RpcError) as caught:
                        await self.echo(target, self.tls(name, peer))
                    self.assertEqual(caught.exception.code(), StatusCode.UNAVAILABLE, (target, name))

    async def test_what_does_not_fit_is_told(self):
        whole = self.tls("client.test", "server.test")
        for target, options in (
            ("petasos://127.0.0.1:9", {"tls": petasos.Tls(authorities=whole.authorities)}),
            ("petasos://127.0.0.1:9", {"tls": whole, "plaintext": True}),
            ("grpc://127.0.0.1:9", {"tls": whole}),
            ("grpcs://127.0.0.1:9", {"tls": petasos.Tls(authorities="/nowhere.pem")}),
            ("grpcs://127.0.0.1:9", {}),
        ):
            with self.assertRaises(RpcError) as caught:
                petasos.aio.Channel(target, **options)
            self.assertEqual(caught.exception.code(), StatusCode.INVALID_ARGUMENT, target)


class Examples(unittest.TestCase):
    """The examples do what they say."""

    def made(self, folder):
        protos = [str(path) for path in sorted((EXAMPLES / "protos").glob("*.proto"))]
        self.assertEqual(compiler.main(["--out", folder, *protos]), 0)
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        return {**os.environ, "PYTHONPATH": path}

    def run_example(self, environment, *arguments):
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, env=environment, cwd=EXAMPLES, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 0)
        return done.stdout

    def test_route_guide(self):
        with tempfile.TemporaryDirectory() as folder:
            out = self.run_example(self.made(folder), "route_guide.py")
        expected = [
            "here is a lighthouse",
            "elsewhere: NOT_FOUND: nothing is there",
            "in the area: a lighthouse",
            "in the area: a windmill",
            "a route of 3 points, 3 features",
            "was there before: first",
            "was there before: first",
            "was there before: second",
        ]
        self.assertEqual(out.splitlines(), expected)

    def test_greeter(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = self.made(folder)
            command = [sys.executable, "greeter.py", "serve"]
            command += ["--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
            with subprocess.Popen(
                command,
                env=environment,
                cwd=EXAMPLES,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as server:
                ports = server.stdout.readline().split()
                for scheme, port in zip(["petasos", "grpc"], ports):
                    target = f"{scheme}://127.0.0.1:{port}"
                    out = self.run_example(environment, "greeter.py", "call", target, "Ada", "Bo")
                    self.assertEqual(out, "Hello, Ada\nHello, Ada\nHello, Bo\n")
                server.stdin.close()
                self.assertEqual(server.wait(60), 0)

    @unittest.skipUnless(ROUTERS, "PETASOS_TEST_OTHER_ROUTER names no router")
    def test_greeters_of_a_group(self):
        target = os.environ["PETASOS_TEST_OTHER_ROUTER"]
        with tempfile.TemporaryDirectory() as folder:
            environment = self.made(folder)
            command = [sys.executable, "greeter.py", "serve", "--join", target]
            command += ["--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
            with subprocess.Popen(
                command,
                env=environment,
                cwd=EXAMPLES,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as server:
                server.stdout.readline()
                calling = [sys.executable, "greeter.py", "call", target, "Ada", "Bo"]
                # It joins once it has started.
                for _ in range(100):
                    called = subprocess.run(
                        calling, env=environment, cwd=EXAMPLES, capture_output=True, text=True
                    )
                    if "UNAVAILABLE" not in called.stderr:
                        break
                self.assertEqual(called.stderr, "")
                self.assertEqual(called.stdout, "Hello, Ada\nHello, Ada\nHello, Bo\n")
                server.stdin.close()
                self.assertEqual(server.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
