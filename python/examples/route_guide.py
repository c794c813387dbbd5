"""gRPC's route guide, all four kinds of calls, server and client in one process.

    python -m petasos.compile -I protos --out generated protos/route_guide.proto
    PYTHONPATH=generated python route_guide.py
"""

import asyncio
from typing import AsyncIterator, Dict, List, Tuple

import route_guide_pb2 as pb
import route_guide_petasos as guide

import petasos
import petasos.aio

FEATURES = [
    pb.Feature(name="a lighthouse", location=pb.Point(latitude=10, longitude=10)),
    pb.Feature(name="a windmill", location=pb.Point(latitude=20, longitude=30)),
    pb.Feature(name="a ford", location=pb.Point(latitude=90, longitude=5)),
]


def place(point: pb.Point) -> Tuple[int, int]:
    """A point as a tuple, for comparisons."""
    return point.latitude, point.longitude


class RouteGuide(guide.RouteGuideServicer):
    """Knows the features, and keeps notes."""

    def __init__(self) -> None:
        self.notes: Dict[Tuple[int, int], List[pb.RouteNote]] = {}

    async def GetFeature(self, request, context):
        for feature in FEATURES:
            if feature.location == request:
                return feature
        raise petasos.RpcError(petasos.StatusCode.NOT_FOUND, "nothing is there")

    async def ListFeatures(self, request, context):
        low, high = place(request.lo), place(request.hi)
        for feature in FEATURES:
            at = place(feature.location)
            if all(a <= b <= c for a, b, c in zip(low, at, high)):
                yield feature

    async def RecordRoute(self, requests, context):
        points = [place(point) async for point in requests]
        known = {place(feature.location) for feature in FEATURES}
        return pb.RouteSummary(
            point_count=len(points), feature_count=sum(point in known for point in points)
        )

    async def RouteChat(self, requests, context):
        async for note in requests:
            earlier = self.notes.setdefault(place(note.location), [])
            for known in earlier:
                yield known
            earlier.append(note)


async def travel(stub: guide.RouteGuideStub) -> None:
    """Makes a call of each kind."""
    feature = await stub.GetFeature(pb.Point(latitude=10, longitude=10), timeout=5)
    print("here is", feature.name)
    try:
        await stub.GetFeature(pb.Point(), timeout=5)
    except petasos.RpcError as error:
        print("elsewhere:", error)

    area = pb.Rectangle(lo=pb.Point(), hi=pb.Point(latitude=50, longitude=50))
    async for feature in stub.ListFeatures(area, timeout=5):
        print("in the area:", feature.name)

    summary = await stub.RecordRoute((feature.location for feature in FEATURES), timeout=5)
    print("a route of", summary.point_count, "points,", summary.feature_count, "features")

    async def notes() -> AsyncIterator[pb.RouteNote]:
        for text in ["first", "second", "third"]:
            yield pb.RouteNote(location=pb.Point(latitude=1), message=text)

    async for note in stub.RouteChat(notes(), timeout=5):
        print("was there before:", note.message)


async def main() -> None:
    server = petasos.aio.Server()
    server.listen("127.0.0.1:0")
    guide.add_RouteGuideServicer_to_server(RouteGuide(), server)
    async with server, petasos.aio.Channel(f"petasos://127.0.0.1:{server.port}") as channel:
        await travel(guide.RouteGuideStub(channel))


if __name__ == "__main__":
    asyncio.run(main())
